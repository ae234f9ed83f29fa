"""How a complex convolution is computed: by one real convolution, or by torch's native complex one.

One real convolution on stacked channels [re; im] with the block weight [[a, -b], [b, a]] does four real products per
complex one in a single call; the native path does three (Gauss) in three calls, with more memory traffic. Which is
faster depends on the shape alone; `benchmarks/conv_kernels.py` prints the table behind `prefers_stacked`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Convolution = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def prefers_stacked(weight: Tensor, groups: int) -> bool:
    """Whether one stacked real convolution beats three: yes for few channels, no when arithmetic dominates."""
    return weight.shape[0] * weight.shape[1] < 2**14


def complex_convolution(
    convolve: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool = False
) -> Tensor:
    """The convolution of complex x and weight, where `convolve(x, weight, bias)` is torch's for one dtype."""
    if not prefers_stacked(weight, groups):
        return convolve(x, weight, bias)
    channels = 1 - weight.dim()  # the channel axis, counted from the end: inputs may lack the batch axis
    stacked = convolve(
        _stack(x, channels, groups), _block(weight, groups, transposed), None if bias is None else _flat(bias, groups)
    )
    parts = torch.unflatten(stacked, channels, (groups, 2, -1))
    re, im = (part.flatten(channels - 1, channels) for part in parts.unbind(channels - 1))
    return torch.complex(re, im)


def _stack(x: Tensor, channels: int, groups: int) -> Tensor:
    """Complex channels as real ones, [re; im] within each group."""
    if groups == 1:
        return torch.cat([x.real, x.imag], channels)
    x = torch.unflatten(x, channels, (groups, -1))
    return torch.cat([x.real, x.imag], channels).flatten(channels - 1, channels)


def _block(weight: Tensor, groups: int, transposed: bool) -> Tensor:
    """[[a, -b], [b, a]] over (out, in) channels of each group; its transpose for (in, out)."""
    grouped = torch.unflatten(weight, 0, (groups, -1))
    a, b = grouped.real, grouped.imag
    upper, lower = (b, -b) if transposed else (-b, b)
    rows = torch.cat([a, upper], 2), torch.cat([lower, a], 2)
    return torch.cat(rows, 1).flatten(0, 1)


def _flat(bias: Tensor, groups: int) -> Tensor:
    return torch.view_as_real(bias).reshape(groups, -1, 2).transpose(1, 2).flatten()
