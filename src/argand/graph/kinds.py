"""The layers that argand can take out of a network and build again, by name: the vocabulary of files and programs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import argand.nn as ann
from argand.errors import ArgandError


@dataclass(frozen=True)
class Kind:
    """A layer's class, the constructor's arguments (kept as attributes of the same name), and its tensors."""

    name: str  # with its namespace: "nn.Conv2d" of torch, "ann.Conv2d" of argand
    cls: type[nn.Module]
    options: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The name without its namespace: what the layer computes, in either field."""
        return self.name.partition(".")[2]


WEIGHT_BIAS = ("weight", "bias")
_CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding")
_DILATED = ("dilation", "groups", "bias", "padding_mode")
_NORM = ("num_features", "eps", "affine", "track_running_stats", "bias")
_STATISTICS = ("running_mean", "running_var")
_MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_AVG = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

#: in both namespaces: the constructor's arguments and the tensors
_IN_BOTH: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Linear": (("in_features", "out_features", "bias"), WEIGHT_BIAS),
    "ReLU": ((), ()),
    **{f"Conv{n}d": ((*_CONV, *_DILATED), WEIGHT_BIAS) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": ((*_CONV, "output_padding", *_DILATED), WEIGHT_BIAS) for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": (_NORM, (*WEIGHT_BIAS, *_STATISTICS)) for n in (1, 2, 3)},
    **{f"AvgPool{n}d": ((*_AVG, *(("divisor_override",) if n > 1 else ())), ()) for n in (1, 2, 3)},
    **{f"MaxPool{n}d": (_MAX, ()) for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{n}d": (("output_size",), ()) for kind in ("Avg", "Max") for n in (1, 2, 3)},
}
#: of torch alone
_IN_TORCH: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Bilinear": (("in1_features", "in2_features", "out_features", "bias"), WEIGHT_BIAS),
    "Flatten": (("start_dim", "end_dim"), ()),
    "PReLU": (("num_parameters",), ("weight",)),
    "LeakyReLU": (("negative_slope",), ()),
    "ELU": (("alpha",), ()),
    "GELU": (("approximate",), ()),
    "Softplus": (("beta", "threshold"), ()),
    "Hardtanh": (("min_val", "max_val"), ()),
    "Softmax": (("dim",), ()),
    "LogSoftmax": (("dim",), ()),
    **dict.fromkeys(("ReLU6", "SiLU", "Tanh", "Sigmoid"), ((), ())),
}
#: of argand alone
_IN_ARGAND: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Bilinear": (("in1_features", "in2_features", "out_features", "bias", "conjugate"), WEIGHT_BIAS),
    **{f"ModMaxPool{n}d": (_MAX, ()) for n in (1, 2, 3)},
    "Split": (("activation",), ()),
    "ModReLU": (("num_parameters",), ("bias",)),
    "Affine": (("num_features",), WEIGHT_BIAS),
    "Concatenate": (("dim",), ()),
    "Separate": (("dim",), ()),
    **dict.fromkeys(("Cardioid", "ZReLU", "ToComplex", "Real"), ((), ())),
}

KINDS: dict[str, Kind] = {
    f"{space}.{name}": Kind(f"{space}.{name}", getattr(module, name), *columns)
    for space, module, table in (("nn", nn, _IN_BOTH | _IN_TORCH), ("ann", ann, _IN_BOTH | _IN_ARGAND))
    for name, columns in table.items()
}
_BY_CLASS = {kind.cls: kind for kind in KINDS.values()}

#: real functions of each number alone, without parameters
ELEMENTWISE = (*("ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "Softplus", "Hardtanh", "Tanh", "Sigmoid"),)
#: layers that do nothing in evaluation
SILENT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, ann.Dropout)

#: functions of torch that are the same as a layer without tensors: their arguments after the input are the layer's
FUNCTION_LAYERS: dict[Any, Callable[..., nn.Module]] = {
    torch.flatten: lambda start_dim=0, end_dim=-1: nn.Flatten(start_dim, end_dim),
    **dict.fromkeys((torch.relu, F.relu, "relu"), nn.ReLU),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh"), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid"), nn.Sigmoid),
    **dict.fromkeys((torch.softmax, F.softmax, "softmax"), nn.Softmax),
    **dict.fromkeys((torch.log_softmax, F.log_softmax, "log_softmax"), nn.LogSoftmax),
    F.relu6: nn.ReLU6,
    F.leaky_relu: nn.LeakyReLU,
    F.elu: nn.ELU,
    F.gelu: nn.GELU,
    F.silu: nn.SiLU,
    F.softplus: nn.Softplus,
    F.hardtanh: nn.Hardtanh,
    **{getattr(F, f"{k}_pool{n}d"): getattr(nn, f"{c}Pool{n}d")
       for n in (1, 2, 3)
       for k, c in (("max", "Max"), ("avg", "Avg"), ("adaptive_max", "AdaptiveMax"), ("adaptive_avg", "AdaptiveAvg"))},
}  # fmt: skip
FUNCTION_LAYERS["flatten"] = FUNCTION_LAYERS[torch.flatten]
#: arguments of such functions that a layer of an inference program doesn't have
UNUSED = ("inplace", "training", "return_indices", "_stacklevel", "dtype")

_FUNCTION_ACTIVATIONS: dict[Any, nn.Module] = {
    **dict.fromkeys((torch.relu, F.relu), nn.ReLU()),
    **dict.fromkeys((torch.tanh, F.tanh), nn.Tanh()),
    **dict.fromkeys((torch.sigmoid, F.sigmoid), nn.Sigmoid()),
    **{getattr(F, name): cls() for name, cls in (("relu6", nn.ReLU6), ("leaky_relu", nn.LeakyReLU), ("elu", nn.ELU),
       ("gelu", nn.GELU), ("silu", nn.SiLU), ("softplus", nn.Softplus), ("hardtanh", nn.Hardtanh))},
}  # fmt: skip


def kind_of(layer: nn.Module) -> Kind | None:
    """The kind of a layer; a subclass counts if it keeps the forward. None for what is not in the table.

    >>> kind_of(nn.Conv2d(1, 2, 3)).name, kind_of(ann.Conv2d(1, 2, 3)).name, kind_of(nn.LSTM(1, 2))
    ('nn.Conv2d', 'ann.Conv2d', None)
    """
    for cls in type(layer).__mro__:
        kind = _BY_CLASS.get(cls)
        if kind is not None:
            return kind if type(layer).forward is kind.cls.forward else None
    return None


def options_of(layer: nn.Module) -> dict[str, Any]:
    """The constructor's arguments that give a layer of this shape.

    >>> options_of(nn.Linear(3, 2, bias=False))
    {'in_features': 3, 'out_features': 2, 'bias': False}
    """
    kind = kind_of(layer)
    assert kind is not None
    options = {name: getattr(layer, name) for name in kind.options}
    if "bias" in options:
        options["bias"] = options["bias"] is not None
    return options


def activation_of(split: nn.Module) -> nn.Module:
    """The activation of a Split as a layer of the table; refuses any other."""
    activation: Any = split.activation
    layer: Any = _FUNCTION_ACTIVATIONS.get(activation, activation)
    kind = kind_of(layer) if isinstance(layer, nn.Module) else None
    if kind is None or not kind.name.startswith("nn."):
        known = ", ".join(sorted({type(layer).__name__ for layer in _FUNCTION_ACTIVATIONS.values()}))
        name = getattr(activation, "__name__", type(activation).__name__)
        raise ArgandError(f"Split({name}) has an activation that can't be written down. Known ones: {known}.")
    return layer  # type: ignore[no-any-return]


def build(name: str, options: dict[str, Any]) -> nn.Module:
    """A layer from its kind's name and options."""
    layer: nn.Module = KINDS[name].cls(**options)
    return layer
