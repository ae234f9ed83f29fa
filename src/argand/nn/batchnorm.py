"""Complex batch normalisation: 2x2 whitening of (re, im), then a learnt 2x2 map and a shift."""

from typing import Any

import torch
from torch import Tensor, nn

from argand.field import complex_dtype, parts, real_view
from argand.nn.kernels import channels_last
from argand.nn.layers import apply_keeping_field, check_complex
from argand.nn.maps import mapped, statistics


def _init(
    self: Any,
    num_features: int,
    eps: float = 1e-5,
    momentum: float | None = 0.1,
    affine: bool = True,
    track_running_stats: bool = True,
    device: Any = None,
    dtype: Any = None,
    *,
    bias: bool = True,
) -> None:
    """Arguments as torch's; `dtype` is complex (by default of torch's default precision), statistics likewise."""
    complex_type = complex_dtype(dtype)
    real_type = complex_type.to_real()
    parent: Any = _TORCH[type(self)]
    parent.__init__(self, num_features, eps, momentum, False, False, device, real_type)
    self.affine, self.track_running_stats = affine, track_running_stats
    if affine:
        self.weight = nn.Parameter(torch.empty(num_features, 2, 2, device=device, dtype=real_type))
    if affine and bias:
        self.bias = nn.Parameter(torch.empty(num_features, device=device, dtype=complex_type))
    if track_running_stats:
        del self.running_mean, self.running_var, self.num_batches_tracked
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=complex_type))
        self.register_buffer("running_var", torch.empty(num_features, 2, 2, device=device, dtype=real_type))
        self.register_buffer("num_batches_tracked", torch.tensor(0, device=device, dtype=torch.long))
    self.reset_parameters()


def _reset_running_stats(self: Any) -> None:
    """Mean 0 and covariance I/2, that of the standard complex normal distribution."""
    if self.track_running_stats:
        self.running_mean.zero_()
        self.running_var.copy_(0.5 * torch.eye(2))
        self.num_batches_tracked.zero_()


def _reset_parameters(self: Any) -> None:
    """The identity map and no shift."""
    self.reset_running_stats()
    if self.affine:
        with torch.no_grad():
            self.weight.copy_(torch.eye(2))
            if self.bias is not None:
                self.bias.zero_()


def _normalise(self: Any, input: Tensor) -> Tensor:
    """Whiten with the batch's statistics in training, with the running ones in evaluation."""
    check_complex(self, input)
    self._check_input_dim(input)
    numbers = torch.view_as_real(input.movedim(1, -1).contiguous())
    output = torch.view_as_complex(normalised(self, numbers)).movedim(-1, 1)
    return output if channels_last(input) else output.contiguous()


def normalised(norm: nn.Module, x: Tensor) -> Tensor:
    """What a complex batch norm does to numbers (..., channels, 2); in training it moves the running statistics."""
    layer: Any = norm
    if not layer.training and layer.track_running_stats:
        return mapped(x, *_map_and_shift(layer, real_view(layer.running_mean), layer.running_var))
    mean, covariance = statistics(x)
    if layer.training and layer.track_running_stats:
        _track(layer, mean, covariance, x.numel() // (2 * x.shape[-2]))
    return mapped(x, *_map_and_shift(layer, mean, covariance))


def _map_and_shift(self: Any, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """The 2x2 matrices and shifts (re, im) that normalisation with these statistics amounts to."""
    whitening = inverse_root(covariance, self.eps)
    matrix = self.weight @ whitening if self.affine else whitening
    shift = -(matrix @ mean.unsqueeze(-1)).squeeze(-1)
    return matrix, shift if self.bias is None else shift + real_view(self.bias)


def evaluation_map(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """What a batch norm does in evaluation: a 2x2 matrix and a complex shift for each channel."""
    running: Any = norm
    matrix, shift = _map_and_shift(running, real_view(running.running_mean), running.running_var)
    return matrix, torch.view_as_complex(shift)


def affine(x: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """M·(re, im) + shift, channel by channel (axis 1)."""
    return torch.complex(*affine_parts(*parts(x), matrix, real_view(shift)))


def affine_parts(re: Tensor, im: Tensor, matrix: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """`affine` on the parts, with the shift as (re, im) along the last axis."""
    shape = (1, -1) + (1,) * (re.dim() - 2)
    (a, b), (c, d) = ((entry.view(shape) for entry in row.unbind(-1)) for row in matrix.unbind(-2))
    p, q = (part.view(shape) for part in shift.unbind(-1))
    return p + a * re + b * im, q + c * re + d * im


def _track(self: Any, mean: Tensor, covariance: Tensor, count: int) -> None:
    """Move the running statistics; the covariance enters without bias, as in torch."""
    with torch.no_grad():
        self.num_batches_tracked.add_(1)
        step = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        unbiased = covariance * (count / max(count - 1, 1))
        for running, new in ((real_view(self.running_mean), mean), (self.running_var, unbiased)):
            running.lerp_(new, torch.as_tensor(step, dtype=new.dtype, device=new.device))


def inverse_root(covariance: Tensor, eps: float) -> Tensor:
    """(V + eps·I)^(-1/2) of symmetric 2x2 matrices, in closed form.

    With s² = det and t² = trace + 2s the root is (V + s·I)/t. det(V + eps·I) = det V + eps·tr V + eps² is summed from
    non-negative terms, so it stays positive where the two variances differ a millionfold or one is 0.
    """
    rr, ri, ii = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
    determinant = (rr * ii - ri * ri).clamp_min(0) + eps * (rr + ii) + eps * eps
    s = determinant.sqrt()
    t = (rr + ii + 2 * eps + 2 * s).sqrt()
    rows = torch.stack([ii + eps + s, -ri], -1), torch.stack([-ri, rr + eps + s], -1)
    return torch.stack(rows, -2) / (s * t)[..., None, None]


class BatchNorm1d(nn.BatchNorm1d):
    """Whitening of (batch, channels) or (batch, channels, length); arguments as `torch.nn.BatchNorm1d`.

    `weight` is (channels, 2, 2) and real, `bias` complex: 6 floats a channel. `running_var` is the covariance of
    (re, im). A channel with a single value in a training batch comes out as its bias.

    >>> BatchNorm1d(3)(torch.randn(8, 3, dtype=torch.complex64)).shape
    torch.Size([8, 3])
    """

    __init__, forward, _apply = _init, _normalise, apply_keeping_field
    reset_parameters, reset_running_stats = _reset_parameters, _reset_running_stats


class BatchNorm2d(nn.BatchNorm2d):
    """Whitening of (batch, channels, height, width); as `BatchNorm1d` here."""

    __init__, forward, _apply = _init, _normalise, apply_keeping_field
    reset_parameters, reset_running_stats = _reset_parameters, _reset_running_stats


class BatchNorm3d(nn.BatchNorm3d):
    """Whitening of (batch, channels, depth, height, width); as `BatchNorm1d` here."""

    __init__, forward, _apply = _init, _normalise, apply_keeping_field
    reset_parameters, reset_running_stats = _reset_parameters, _reset_running_stats


_TORCH = {BatchNorm1d: nn.BatchNorm1d, BatchNorm2d: nn.BatchNorm2d, BatchNorm3d: nn.BatchNorm3d}


class Affine(nn.Module):
    """M·(re, im) + bias with a real 2x2 matrix for each channel (axis 1): what a batch norm is in evaluation.

    `weight` is (channels, 2, 2) and real, `bias` complex.

    >>> Affine(1)(torch.tensor([[1 + 2j]])).detach()
    tensor([[1.+2.j]])
    """

    def __init__(
        self, num_features: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.num_features = num_features
        complex_type = complex_dtype(dtype)
        eye = torch.eye(2, device=device, dtype=complex_type.to_real())
        self.weight = nn.Parameter(eye.repeat(num_features, 1, 1))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=complex_type))

    _apply = apply_keeping_field

    def forward(self, input: Tensor) -> Tensor:
        """Map each channel."""
        check_complex(self, input)
        return affine(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The argument."""
        return f"{self.num_features}"
