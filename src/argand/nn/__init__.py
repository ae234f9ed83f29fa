"""Complex layers under the names and signatures of `torch.nn`, on native complex tensors."""

from argand.nn.activation import Cardioid, Dropout, ModReLU, ReLU, Split, ZReLU
from argand.nn.batchnorm import Affine, BatchNorm1d, BatchNorm2d, BatchNorm3d
from argand.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from argand.nn.convert import Concatenate, Real, Separate, ToComplex
from argand.nn.layers import Bilinear, Linear
from argand.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    ModMaxPool1d,
    ModMaxPool2d,
    ModMaxPool3d,
)

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "Affine",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Cardioid",
    "Concatenate",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "ModMaxPool1d",
    "ModMaxPool2d",
    "ModMaxPool3d",
    "ModReLU",
    "ReLU",
    "Real",
    "Separate",
    "Split",
    "ToComplex",
    "ZReLU",
]
