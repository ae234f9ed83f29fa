"""How a complex convolution is computed: by one real convolution, or by torch's native complex one.

One real convolution on stacked channels [re; im] with the block weight [[a, -b], [b, a]] does four real products per
complex one in a single call; the native path does three (Gauss) in three calls, with more memory traffic. Which is
faster depends on the shape; `benchmarks/conv_kernels.py` prints the table behind `prefers_stacked`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Convolution = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def prefers_stacked(weight: Tensor, groups: int) -> bool:
    """Whether one stacked real convolution is faster: with few channels, where memory traffic dominates."""
    return groups == 1 and weight.shape[0] * weight.shape[1] < 2**11


def complex_convolution(
    convolve: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool = False
) -> Tensor:
    """The convolution of complex x and weight, where `convolve(x, weight, bias)` is torch's for any dtype."""
    if prefers_stacked(weight, groups):
        return stacked(convolve, x, weight, bias, transposed)
    return native(convolve, x, weight, bias)


def native(convolve: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """torch's own complex convolution."""
    return convolve(x, weight, bias)


def stacked(convolve: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool = False) -> Tensor:
    """One real convolution on stacked channels; a transposed one has weights of (in, out) channels."""
    channels = 1 - weight.dim()  # the channel axis, counted from the end: inputs may lack the batch axis
    a, b = weight.real, weight.imag
    upper, lower = (b, -b) if transposed else (-b, b)
    block = torch.cat([torch.cat([a, upper], 1), torch.cat([lower, a], 1)], 0)
    both = None if bias is None else torch.cat([bias.real, bias.imag])
    return torch.complex(*convolve(torch.cat([x.real, x.imag], channels), block, both).chunk(2, channels))
