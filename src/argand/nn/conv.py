"""Convolutions in one to three dimensions, plain and transposed: one forward for each kind."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from argand.nn.kernels import Convolution, channels_last, complex_convolution
from argand.nn.layers import check_field, complex_layer

_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _convolve(self: _ConvNd, input: Tensor) -> Tensor:
    """Cross-correlate, with every padding mode and group count of the torch layer."""
    check_field(self, self.weight, input)
    return convolved(self, self.weight, self.bias, input)


def convolved(layer: _ConvNd, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """The layer's convolution with any weight and bias, over either field."""
    one_axis = x.dim() == weight.dim() == 3 and (x.is_complex() or channels_last(x))
    compute = _as_two_dimensional(layer) if one_axis else layer._conv_forward
    if not x.is_complex():
        return compute(x, weight, bias)
    return complex_convolution(compute, x, weight, bias, layer.groups)


def _as_two_dimensional(layer: _ConvNd) -> Convolution:
    """A convolution along one axis as one of images of height 1: torch's keeps channels last, and is then faster."""

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = layer.padding if isinstance(layer.padding, str) else (0, *layer.padding)
        if layer.padding_mode != "zeros":
            x, padding = F.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode), 0
        stride, dilation = (1, *layer.stride), (1, *layer.dilation)
        return F.conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, stride, padding, dilation, layer.groups).squeeze(2)

    return convolve


def _convolve_transposed(self: _ConvTransposeNd, input: Tensor, output_size: list[int] | None = None) -> Tensor:
    """Apply the transposed convolution; `output_size` resolves the ambiguity of strides."""
    check_field(self, self.weight, input)
    convolve = transposed_convolution(self, input, output_size)
    if not input.is_complex():
        return convolve(input, self.weight, self.bias)
    return complex_convolution(convolve, input, self.weight, self.bias, self.groups, transposed=True)


def transposed_convolution(layer: _ConvTransposeNd, input: Tensor, output_size: list[int] | None = None) -> Convolution:
    """The layer's convolution with any weight and bias, for inputs of this shape."""
    n = len(layer.kernel_size)
    geometry: Any = layer.stride, layer.padding, layer.kernel_size, n, layer.dilation
    output_padding = layer._output_padding(input, output_size, *geometry)

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        options: tuple[Any, ...] = layer.stride, layer.padding, output_padding, layer.groups, layer.dilation
        return _TRANSPOSED[n](x, weight, bias, *options)

    return convolve


@complex_layer
class Conv1d(nn.Conv1d):
    """Complex convolution over (batch, channels, length); arguments and state as `torch.nn.Conv1d`."""

    forward = _convolve


@complex_layer
class Conv2d(nn.Conv2d):
    """Complex convolution over (batch, channels, height, width); arguments and state as `torch.nn.Conv2d`.

    >>> Conv2d(1, 20, 5, padding="same", padding_mode="circular")(torch.zeros(2, 1, 8, 8, dtype=torch.complex64)).shape
    torch.Size([2, 20, 8, 8])
    """

    forward = _convolve


@complex_layer
class Conv3d(nn.Conv3d):
    """Complex convolution over (batch, channels, depth, height, width); arguments and state as `torch.nn.Conv3d`."""

    forward = _convolve


@complex_layer
class ConvTranspose1d(nn.ConvTranspose1d):
    """Complex transposed convolution; arguments and state as `torch.nn.ConvTranspose1d`."""

    forward = _convolve_transposed


@complex_layer
class ConvTranspose2d(nn.ConvTranspose2d):
    """Complex transposed convolution; arguments and state as `torch.nn.ConvTranspose2d`."""

    forward = _convolve_transposed


@complex_layer
class ConvTranspose3d(nn.ConvTranspose3d):
    """Complex transposed convolution; arguments and state as `torch.nn.ConvTranspose3d`."""

    forward = _convolve_transposed
