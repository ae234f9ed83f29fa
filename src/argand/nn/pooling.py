"""Pooling: of each part (averages, and maxima as the paper takes them), or the entry of largest modulus."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.field import abs2
from argand.nn.kernels import on_channels
from argand.nn.layers import check_complex


def _pool_parts(self: nn.Module, input: Tensor) -> Tensor:
    """Pool the real and the imaginary parts separately."""
    check_complex(self, input)
    if getattr(self, "return_indices", False):
        raise ArgandError(
            f"{type(self).__name__} pools the real and imaginary parts separately, so there are no common indices to "
            "return. Use ModMaxPool, or return_indices=False."
        )
    if input.dim() < int(_torch_parent(type(self)).__name__[-2]) + 2:  # of AvgPool2d: there is no batch axis
        return torch.complex(pool_part(self, input.real), pool_part(self, input.imag))
    return on_channels(lambda both: pool_part(self, both), input)


def pool_part(layer: nn.Module, part: Tensor) -> Tensor:
    """What a layer that pools the parts separately does to one of them."""
    pooled: Tensor = _torch_parent(type(layer)).forward(layer, part)
    return pooled


def _torch_parent(cls: type) -> Any:
    """The torch.nn class whose behaviour a layer of this module has on real tensors."""
    return next(c for c in cls.__mro__ if c.__module__.startswith("torch."))


class AvgPool1d(nn.AvgPool1d):
    """The average of each part over windows; arguments as `torch.nn.AvgPool1d`."""

    forward = _pool_parts


class AvgPool2d(nn.AvgPool2d):
    """The average of each part over windows; arguments as `torch.nn.AvgPool2d`.

    >>> AvgPool2d(2)(torch.ones(1, 1, 4, 4, dtype=torch.complex64)).shape
    torch.Size([1, 1, 2, 2])
    """

    forward = _pool_parts


class AvgPool3d(nn.AvgPool3d):
    """The average of each part over windows; arguments as `torch.nn.AvgPool3d`."""

    forward = _pool_parts


class MaxPool1d(nn.MaxPool1d):
    """The maximum of each part over windows, as in the paper; arguments as `torch.nn.MaxPool1d`."""

    forward = _pool_parts


class MaxPool2d(nn.MaxPool2d):
    """The maximum of each part over windows, as in the paper; arguments as `torch.nn.MaxPool2d`."""

    forward = _pool_parts


class MaxPool3d(nn.MaxPool3d):
    """The maximum of each part over windows, as in the paper; arguments as `torch.nn.MaxPool3d`."""

    forward = _pool_parts


class AdaptiveAvgPool1d(nn.AdaptiveAvgPool1d):
    """The average of each part to a given output size; arguments as `torch.nn.AdaptiveAvgPool1d`."""

    forward = _pool_parts


class AdaptiveAvgPool2d(nn.AdaptiveAvgPool2d):
    """The average of each part to a given output size; arguments as `torch.nn.AdaptiveAvgPool2d`."""

    forward = _pool_parts


class AdaptiveAvgPool3d(nn.AdaptiveAvgPool3d):
    """The average of each part to a given output size; arguments as `torch.nn.AdaptiveAvgPool3d`."""

    forward = _pool_parts


class AdaptiveMaxPool1d(nn.AdaptiveMaxPool1d):
    """The maximum of each part to a given output size; arguments as `torch.nn.AdaptiveMaxPool1d`."""

    forward = _pool_parts


class AdaptiveMaxPool2d(nn.AdaptiveMaxPool2d):
    """The maximum of each part to a given output size; arguments as `torch.nn.AdaptiveMaxPool2d`."""

    forward = _pool_parts


class AdaptiveMaxPool3d(nn.AdaptiveMaxPool3d):
    """The maximum of each part to a given output size; arguments as `torch.nn.AdaptiveMaxPool3d`."""

    forward = _pool_parts


_MAX_WITH_INDICES = {
    1: F.max_pool1d_with_indices,
    2: F.max_pool2d_with_indices,
    3: F.max_pool3d_with_indices,
}


def _pool_by_modulus(self: Any, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """Take the entry of largest modulus in each window."""
    check_complex(self, input)
    indices = largest(self, abs2(input.detach()))
    taken = taken_at(indices, input, self.dimensions)
    return (taken, indices) if self.return_indices else taken


def largest(pool: Any, sizes: Tensor) -> Tensor:
    """The index of the largest entry in each window of a layer."""
    options = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
    indices: Tensor = _MAX_WITH_INDICES[pool.dimensions](sizes, *options)[1]
    return indices


def taken_at(indices: Tensor, x: Tensor, n: int) -> Tensor:
    """The entries at such indices of the last n axes."""
    return x.flatten(-n).gather(-1, indices.flatten(-n)).view(indices.shape)


class ModMaxPool1d(nn.MaxPool1d):
    """The entry of largest modulus in each window; arguments as `torch.nn.MaxPool1d`.

    >>> ModMaxPool1d(2)(torch.tensor([[3 + 0j, -4j, 1 + 1j, 1 + 0j]]))
    tensor([[-0.-4.j, 1.+1.j]])
    """

    dimensions = 1
    forward = _pool_by_modulus


class ModMaxPool2d(nn.MaxPool2d):
    """The entry of largest modulus in each window; arguments as `torch.nn.MaxPool2d`."""

    dimensions = 2
    forward = _pool_by_modulus


class ModMaxPool3d(nn.MaxPool3d):
    """The entry of largest modulus in each window; arguments as `torch.nn.MaxPool3d`."""

    dimensions = 3
    forward = _pool_by_modulus
