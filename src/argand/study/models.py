"""The paper's networks, one function each, over either field and with a factor on the hidden widths."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

import argand.nn as ann
from argand.errors import ArgandError
from argand.study.features import COMPLEX_FIELDS

#: the factor that each field puts on the hidden widths
WIDTHS = {"R": 1.0, "C": 1.0, "2R": 2.0, "halfC": 0.5}


@dataclass(frozen=True)
class Layers:
    """The layers of one field under common names, so that a network is written once."""

    field: str  # "real" or "complex"

    def __getattr__(self, name: str) -> Callable[..., nn.Module]:
        layer: Callable[..., nn.Module] = getattr(ann if self.field == "complex" else nn, name)
        return layer

    def begin(self, real_input: bool) -> list[nn.Module]:
        """What stands before the first layer."""
        return [ann.ToComplex()] if self.field == "complex" and real_input else []

    def end(self) -> list[nn.Module]:
        """What turns the last layer's output into logits."""
        return [ann.Real()] if self.field == "complex" else []


def two_layer_dense(shape: tuple[int, ...], classes: int, *, field: str = "complex", width: float = 1.0,
                    real_input: bool = True) -> nn.Sequential:  # fmt: skip
    """One hidden layer of 4096 features."""
    layers, hidden, inputs = Layers(field), round(4096 * width), 1
    for size in shape:
        inputs *= size
    body = [nn.Flatten(), layers.Linear(inputs, hidden), layers.ReLU(), layers.Linear(hidden, classes)]
    return nn.Sequential(*layers.begin(real_input), *body, *layers.end())


def simple_conv(shape: tuple[int, ...], classes: int, *, field: str = "complex", width: float = 1.0,
                real_input: bool = True) -> nn.Sequential:  # fmt: skip
    """Two convolutions of 5 x 5 with average pooling, and two linear layers."""
    layers = Layers(field)
    a, b, c = (round(n * width) for n in (20, 50, 500))
    side = [((n - 4) // 2 - 4) // 2 for n in shape[1:]]
    return nn.Sequential(
        *layers.begin(real_input),
        *(layers.Conv2d(shape[0], a, 5), layers.ReLU(), layers.AvgPool2d(2)),
        *(layers.Conv2d(a, b, 5), layers.ReLU(), layers.AvgPool2d(2)),
        *(nn.Flatten(), layers.Linear(b * side[0] * side[1], c), layers.ReLU(), layers.Linear(c, classes)),
        *layers.end(),
    )


def vgg16(shape: tuple[int, ...], classes: int, *, field: str = "complex", width: float = 1.0,
          real_input: bool = True) -> nn.Sequential:  # fmt: skip
    """Thirteen convolutions of 3 x 3 with batch norm, five maximum poolings (of parts), one linear layer."""
    layers, channels = Layers(field), shape[0]
    body: list[nn.Module] = []
    for block in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for size in block:
            outputs = round(size * width)
            body += [layers.Conv2d(channels, outputs, 3, padding=1), layers.BatchNorm2d(outputs), layers.ReLU()]
            channels = outputs
        body.append(layers.MaxPool2d(2))
    rest = channels * (shape[1] // 32) * (shape[2] // 32)
    return nn.Sequential(*layers.begin(real_input), *body, nn.Flatten(), layers.Linear(rest, classes), *layers.end())


def deep_conv_net(shape: tuple[int, ...], classes: int, *, field: str = "complex", width: float = 1.0,
                  real_input: bool = False, kernel: int = 6) -> nn.Sequential:  # fmt: skip
    """Trabelsi's network for windows of sound: six convolutions, all but the fifth with batch norm and pooling."""
    layers, (channels, length) = Layers(field), shape
    body: list[nn.Module] = []
    for size, k, stride, full in (
        *((16, kernel, 2, True), (32, 3, 2, True), (64, 3, 1, True), (64, 3, 1, True)),
        *((128, 3, 1, False), (128, 3, 1, True)),
    ):
        outputs = round(size * width)
        body.append(layers.Conv1d(channels, outputs, k, stride=stride, bias=not full))
        body += [layers.BatchNorm1d(outputs), layers.ReLU(), layers.AvgPool1d(2)] if full else [layers.ReLU()]
        channels, length = outputs, ((length - k) // stride + 1) // (2 if full else 1)
    hidden = round(2048 * width)
    ending = [nn.Flatten(), layers.Linear(channels * length, hidden), layers.ReLU(), layers.Linear(hidden, classes)]
    return nn.Sequential(*layers.begin(real_input), *body, *ending, *layers.end())


def shallow_conv_net(shape: tuple[int, ...], classes: int, *, field: str = "complex", width: float = 1.0,
                     real_input: bool = False) -> nn.Sequential:  # fmt: skip
    """Trabelsi's shallow network for windows of sound: one long convolution, two linear layers."""
    layers, (channels, length) = Layers(field), shape
    outputs, hidden = round(64 * width), round(2048 * width)
    pooled = (((length - 512) // 16 + 1) - 4) // 2 + 1
    return nn.Sequential(
        *layers.begin(real_input),
        *(layers.Conv1d(channels, outputs, 512, stride=16), layers.ReLU(), layers.AvgPool1d(4, 2), nn.Flatten()),
        *(layers.Linear(outputs * pooled, hidden), layers.ReLU(), layers.Linear(hidden, classes)),
        *layers.end(),
    )


def deep_conv_net_k3(*arguments: Any, **options: Any) -> nn.Sequential:
    """The same with a first kernel of 3."""
    return deep_conv_net(*arguments, **options, kernel=3)


MODELS: dict[str, Callable[..., nn.Sequential]] = {
    "TwoLayerDense": two_layer_dense,
    "SimpleConv": simple_conv,
    "VGG16": vgg16,
    "DeepConvNet": deep_conv_net,
    "DeepConvNet-k3": deep_conv_net_k3,
    "ShallowConvNet": shallow_conv_net,
}
#: axes of a sample (with channels) that each model takes; None for any
AXES = {"TwoLayerDense": None, "SimpleConv": 3, "VGG16": 3, "DeepConvNet": 2, "DeepConvNet-k3": 2, "ShallowConvNet": 2}
#: the least length of the axes after the channels
LEAST = {"SimpleConv": 16, "VGG16": 32, "DeepConvNet": 150, "DeepConvNet-k3": 150, "ShallowConvNet": 560}


def network(model: str, field: str, sample: Tensor, classes: int, width: float = 1.0) -> nn.Sequential:
    """A fresh network for one sample's features (without the batch axis); field is R, C, 2R or halfC.

    >>> import torch
    >>> net = network("SimpleConv", "C", torch.zeros(1, 28, 28), classes=10)
    >>> argand.report(net).total.floats
    862160
    """
    shape = tuple(sample.shape)
    axes, least = AXES[model], LEAST.get(model, 1)
    if (axes is not None and len(shape) != axes) or min(shape[1:], default=least) < least:
        wanted = "(channels, height, width)" if axes == 3 else "(channels, length)"
        raise ArgandError(f"{model} takes samples of {wanted}, at least {least} long, and these are {shape}.")
    kind = "complex" if field in COMPLEX_FIELDS else "real"
    return MODELS[model](shape, classes, field=kind, width=width * WIDTHS[field], real_input=not sample.is_complex())
