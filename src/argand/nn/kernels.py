"""How complex layers are computed: by real products and convolutions on the numbers as they lie in memory.

A complex tensor is a real one with (re, im) innermost. With the channels next to them in memory (channels last) it is
a real tensor of twice the channels, re_0, im_0, re_1, im_1, ..., without a copy, and the layer is the real one with the
block weight, in which each a + jb stands as [[a, -b], [b, a]]. Real kernels are far better tuned than complex ones, and
those of convolution and pooling prefer this order. Where torch's own complex kernel is faster, by shape, it is taken;
`benchmarks/conv_kernels.py` prints the table.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from argand.field import is_real_valued, real_view
from argand.nn.product import prefers_onednn, product

Convolution = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def channels_last(x: Tensor) -> bool:
    """Whether the channels (axis 1) are innermost in memory; as in torch, strides tell it for a single channel."""
    return x.dim() > 2 and x.stride(1) == 1 and x[0, 0].numel() > 1 and x.movedim(1, -1).is_contiguous()


def to_channels_last(x: Tensor) -> Tensor:
    """The same numbers with the channels innermost in memory."""
    last = x.movedim(1, -1).contiguous()
    return last.flatten().view(last.shape).movedim(-1, 1)  # with one channel, its stride is 1 only then


def interleaved(x: Tensor) -> Tensor:
    """Complex (n, c, ...) as real (n, 2c, ...), channels last; a view where x is channels last."""
    return torch.view_as_real(x.movedim(1, -1).contiguous()).flatten(-2).movedim(-1, 1)


def paired(x: Tensor) -> Tensor:
    """Real (n, 2c, ...) as complex (n, c, ...), channels last: the inverse of `interleaved`."""
    return torch.view_as_complex(torch.unflatten(x.movedim(1, -1).contiguous(), -1, (-1, 2))).movedim(-1, 1)


def on_channels(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A real function of 2c channels on c complex ones; the output's order in memory is that of the input."""
    output = paired(function(interleaved(x)))
    return output if channels_last(x) else output.contiguous()


def block(weight: Tensor, transposed: bool = False) -> Tensor:
    """The real weight (2m, 2n, ...) of a complex one (m, n, ...), for interleaved numbers.

    `transposed` is for weights whose axis 0 is the input's.

    >>> block(torch.tensor([[3 + 4j]]))
    tensor([[ 3., -4.],
            [ 4.,  3.]])
    """
    a, b = real_view(weight).unbind(-1)
    upper, lower = (b, -b) if transposed else (-b, b)
    rows = torch.stack([a, upper], 2), torch.stack([lower, a], 2)
    return torch.stack(rows, 1).flatten(0, 1).flatten(1, 2)


def rows(weight: Tensor) -> Tensor:
    """The real weight (2m, n, ...) of a complex one (m, n, ...), for real numbers: rows a_0, b_0, a_1, b_1, ...

    >>> rows(torch.tensor([[3 + 4j]]))
    tensor([[3.],
            [4.]])
    """
    return real_view(weight).movedim(-1, 1).flatten(0, 1)


def flat(bias: Tensor | None) -> Tensor | None:
    """A complex vector as re_0, im_0, ..."""
    return None if bias is None else real_view(bias).flatten()


def complex_convolution(
    convolve: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool = False
) -> Tensor:
    """The convolution of complex x and weight, where `convolve(x, weight, bias)` is torch's for any dtype."""
    if not prefers_real_convolution(x, weight, groups):
        return convolve(x, weight, bias)
    if x.dim() < weight.dim():  # no batch axis
        return complex_convolution(convolve, x.unsqueeze(0), weight, bias, groups, transposed).squeeze(0)
    if not transposed and is_real_valued(x):  # half the products
        output = paired(convolve(to_channels_last(x.real), rows(weight), flat(bias)))
        return output if channels_last(x) else output.contiguous()
    return on_channels(lambda both: convolve(both, block(weight, transposed), flat(bias)), x)


def prefers_real_convolution(x: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether one real convolution is faster than torch's complex one, which does three in another order."""
    return groups == 1


def complex_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Wx + b over the last axis of complex x."""
    if not prefers_real_product(x, weight):
        return F.linear(x, weight, bias)
    if is_real_valued(x):  # half the products
        output = product(x.real.contiguous(), rows(weight), flat(bias))
        return torch.view_as_complex(torch.unflatten(output, -1, (-1, 2)))
    outputs, inputs = weight.shape
    if x.numel() // max(inputs, 1) > outputs:
        output = product(real_view(x).flatten(-2), block(weight), flat(bias))
        return torch.view_as_complex(torch.unflatten(output, -1, (-1, 2)))
    re, im = real_view(x).unbind(-1)
    both = torch.stack([torch.stack([re, -im], -1), torch.stack([im, re], -1)]).flatten(-2)
    output = torch.complex(*product(both, real_view(weight).flatten(1)).unbind(0))
    return output if bias is None else output + bias


def prefers_real_product(x: Tensor, weight: Tensor) -> bool:
    """Whether one real product of four times the size is faster than torch's complex one."""
    return prefers_onednn(real_view(x.detach()), real_view(weight.detach()).flatten(1))
