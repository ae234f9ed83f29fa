"""Products and convolutions of complex values held as parts, in real arithmetic that compilers and exporters know.

One real convolution on stacked channels [re; im] with the block weight [[a, -b], [b, a]] does four real products per
complex one in a single call; three convolutions (Gauss) do three, with more memory traffic.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from argand.nn.kernels import Convolution

Parts = tuple[Tensor, Tensor]  # (re, im)


def prefers_stacked(weight: Tensor, groups: int) -> bool:
    """Whether one stacked real convolution is faster: with few channels, where memory traffic dominates."""
    return groups == 1 and weight.shape[0] * weight.shape[1] < 2**11


def stacked_parts(convolve: Convolution, x: Parts, weight: Parts, bias: Parts | None, transposed: bool) -> Parts:
    """One real convolution with the block weight."""
    a, b = weight
    channels = 1 - a.dim()  # the channel axis, counted from the end: inputs may lack the batch axis
    upper, lower = (b, -b) if transposed else (-b, b)
    block = torch.cat([torch.cat([a, upper], 1), torch.cat([lower, a], 1)], 0)
    both = None if bias is None else torch.cat(bias)
    re, im = convolve(torch.cat(x, channels), block, both).chunk(2, channels)
    return re, im


def three_parts(convolve: Convolution, x: Parts, weight: Parts, bias: Parts | None) -> Parts:
    """Three real convolutions, as torch's complex one does."""
    (re, im), (a, b) = x, weight
    first, second, both = convolve(re, a, None), convolve(im, b, None), convolve(re + im, a + b, None)
    out = first - second, both - first - second
    if bias is None:
        return out
    shape = (-1,) + (1,) * (a.dim() - 2)
    return out[0] + bias[0].view(shape), out[1] + bias[1].view(shape)


def convolution_of_parts(
    convolve: Convolution, x: Parts, weight: Parts, bias: Parts | None, groups: int, transposed: bool = False
) -> Parts:
    """The complex convolution in real arithmetic on the parts (re, im) of everything."""
    if prefers_stacked(weight[0], groups):
        return stacked_parts(convolve, x, weight, bias, transposed)
    return three_parts(convolve, x, weight, bias)


def prefers_interleaved(weight: Tensor) -> bool:
    """Whether a linear layer is faster without a copy of its weight, given as a real view: with many outputs."""
    return weight.shape[0] > 2**10


def linear_of_parts(x: Parts, weight: Tensor, bias: Tensor | None) -> Parts:
    """Wx + b in real arithmetic in one product, for a weight and bias given as real views, (re, im) last.

    Many outputs: the weight stays as it lies, (re, im) interleaved along the input axis, and is met by x as (re, -im)
    and (im, re). Few: the weight is laid out as rows [a; b], which both parts of x meet.
    """
    re, im = x
    outputs = weight.shape[0]
    if prefers_interleaved(weight):
        both = torch.stack([torch.stack([re, -im], -1), torch.stack([im, re], -1)]).flatten(-2)
        p, q = F.linear(both, weight.flatten(1)).unbind(0)
    else:
        rows = weight.permute(2, 0, 1).flatten(0, 1)
        with_re, with_im = F.linear(re, rows), F.linear(im, rows)
        p = with_re[..., :outputs] - with_im[..., outputs:]
        q = with_re[..., outputs:] + with_im[..., :outputs]
    if bias is None:
        return p, q
    c, d = bias.unbind(-1)
    return p + c, q + d
