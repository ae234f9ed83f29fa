"""Real 2x2 maps of (re, im), one for each channel, and the moments that are their gradients.

Numbers come as real tensors (..., channels, 2), contiguous: complex ones with the channels innermost.
"""

from typing import Any

import torch
from torch import Tensor


class _Map(torch.autograd.Function):
    """M·x + shift."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
        output = torch.addcmul(shift, x, matrix.diagonal(dim1=-2, dim2=-1))
        output[..., 0].addcmul_(x[..., 1], matrix[..., 0, 1])
        output[..., 1].addcmul_(x[..., 0], matrix[..., 1, 0])
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
            grad.sum(list(range(grad.dim() - 2))) if to_shift else None,
        )


class _Moments(torch.autograd.Function):
    """Σ x yᵀ over all but the channels, or Σ x xᵀ."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor | None) -> Tensor:
        axes, other = list(range(x.dim() - 2)), x if y is None else y
        rr, ii = (x * other).sum(axes).unbind(-1)  # whole numbers are read twice as fast as parts
        ri = (x[..., 0] * other[..., 1]).sum(axes)
        ir = ri if y is None else (x[..., 1] * other[..., 0]).sum(axes)
        return torch.stack([torch.stack([rr, ri], -1), torch.stack([ir, ii], -1)], -2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, y), grad = ctx.saved_tensors, grads[0]
        if y is None:
            return mapped(x, grad + grad.mT), None
        to_x, to_y = ctx.needs_input_grad
        return mapped(y, grad) if to_x else None, mapped(x, grad.mT) if to_y else None


def mapped(x: Tensor, matrix: Tensor, shift: Tensor | None = None) -> Tensor:
    """M·(re, im) + shift, with a matrix (2, 2) and a shift (2) for each channel.

    >>> mapped(torch.tensor([[1.0, 2.0]]), torch.tensor([[[0.0, -1.0], [1.0, 0.0]]]))
    tensor([[-2.,  1.]])
    """
    zeros = torch.zeros_like(matrix[..., 0])
    output: Tensor = _Map.apply(x, matrix, zeros if shift is None else shift)  # type: ignore[no-untyped-call]
    return output


def moments(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Σ x yᵀ: for each channel the sums of re·re, re·im; im·re, im·im over everything else. y is x unless given.

    >>> moments(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]))
    tensor([[[3., 4.],
             [6., 8.]]])
    """
    sums: Tensor = _Moments.apply(x, y)  # type: ignore[no-untyped-call]
    return sums
