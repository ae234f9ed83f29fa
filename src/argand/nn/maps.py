"""Real 2x2 maps of (re, im), one for each channel, and the moments that are their gradients.

Numbers come as real tensors (..., channels, 2), contiguous: complex ones with the channels innermost. Every function
goes through them in pieces that stay in the cache.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from argand.chunks import CHUNK, is_batched


def _rows(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Matching pieces (rows, channels, 2)."""
    width = tensors[0].shape[-2]
    size = max(1, CHUNK // (2 * width)) if tensors[0].device.type == "cpu" else max(1, tensors[0].numel())
    return zip(*(torch.split(t.reshape(-1, width, 2), size) for t in tensors), strict=True)


class _Map(torch.autograd.Function):
    """M·x + shift."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        if any(map(is_batched, (x, matrix, shift))):
            crossed = x.flip(-1) * torch.stack([matrix[..., 0, 1], matrix[..., 1, 0]], -1)
            return torch.addcmul(shift, x, diagonal) + crossed
        output = torch.empty_like(x)
        for piece, out in _rows(x, output):
            torch.addcmul(shift, piece, diagonal, out=out)
            out[..., 0].addcmul_(piece[..., 1], matrix[..., 0, 1])
            out[..., 1].addcmul_(piece[..., 0], matrix[..., 1, 0])
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, matrix = ctx.saved_tensors
        grad, (to_x, to_matrix, to_shift) = grads[0].contiguous(), ctx.needs_input_grad
        return (
            mapped(grad, matrix.mT) if to_x else None,
            moments(grad, x) if to_matrix else None,
            grad.reshape(-1, *grad.shape[-2:]).sum(0) if to_shift else None,
        )


class _Moments(torch.autograd.Function):
    """Σ x yᵀ over all but the channels."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return sum(_products(*pieces) for pieces in _rows(x, y))  # type: ignore[return-value]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, y), grad = ctx.saved_tensors, grads[0]
        to_x, to_y = ctx.needs_input_grad
        return mapped(y, grad) if to_x else None, mapped(x, grad.mT) if to_y else None


def _products(x: Tensor, y: Tensor) -> Tensor:
    """Σ x yᵀ of pieces."""
    rr, ii = (x * y).sum(0).unbind(-1)  # whole numbers are read twice as fast as parts
    ri, ir = (x[..., 0] * y[..., 1]).sum(0), (x[..., 1] * y[..., 0]).sum(0)
    return torch.stack([torch.stack([rr, ri], -1), torch.stack([ir, ii], -1)], -2)


class _Statistics(torch.autograd.Function):
    """Mean and biased covariance over all but the channels."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        count = x.numel() // (2 * x.shape[-2])
        mean = sum(piece.sum(0) for (piece,) in _rows(x)) / count
        centred = (piece - mean for (piece,) in _rows(x))
        return mean, sum(_products(piece, piece) for piece in centred) / count  # type: ignore[return-value]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, output[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x, mean), (to_mean, to_covariance) = ctx.saved_tensors, grads
        count = x.numel() // (2 * x.shape[-2])
        matrix = (to_covariance + to_covariance.mT) / count
        return mapped(x, matrix, to_mean / count - (matrix @ mean.unsqueeze(-1)).squeeze(-1))


def mapped(x: Tensor, matrix: Tensor, shift: Tensor | None = None) -> Tensor:
    """M·(re, im) + shift, with a matrix (2, 2) and a shift (2) for each channel.

    >>> mapped(torch.tensor([[1.0, 2.0]]), torch.tensor([[[0.0, -1.0], [1.0, 0.0]]]))
    tensor([[-2.,  1.]])
    """
    zeros = torch.zeros_like(matrix[..., 0])
    output: Tensor = _Map.apply(x, matrix, zeros if shift is None else shift)  # type: ignore[no-untyped-call]
    return output


def moments(x: Tensor, y: Tensor) -> Tensor:
    """Σ x yᵀ: for each channel the sums of re·re, re·im; im·re, im·im over everything else.

    >>> moments(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]))
    tensor([[[3., 4.],
             [6., 8.]]])
    """
    sums: Tensor = _Moments.apply(x, y)  # type: ignore[no-untyped-call]
    return sums


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (channels, 2) and the biased covariance (channels, 2, 2) of (re, im) over everything else.

    >>> statistics(torch.tensor([[[1.0, 2.0]], [[3.0, 2.0]]]))
    (tensor([[2., 2.]]), tensor([[[1., 0.],
             [0., 0.]]]))
    """
    mean, covariance = _Statistics.apply(x)  # type: ignore[no-untyped-call]
    return mean, covariance
