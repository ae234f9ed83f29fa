"""What a layer linear in its weight does with any weight, in the fastest way known: for training, up to rounding."""

from typing import Any

from torch import Tensor, nn

from argand.nn import conv, layers
from argand.nn.conv import convolved
from argand.nn.kernels import channels_last, complex_linear, to_channels_last
from argand.nn.product import product

_LINEAR = {nn.Linear.forward, layers.Linear.forward}
_CONVOLUTIONS = {getattr(module, f"Conv{n}d").forward for module in (nn, conv) for n in (1, 2, 3)}


def knows(layer: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether `applied` takes this layer and these inputs."""
    if options or len(inputs) != 1 or not isinstance(inputs[0], Tensor):
        return False
    forward, x = type(layer).forward, inputs[0]
    return forward in _LINEAR or (forward in _CONVOLUTIONS and x.dim() == layer.weight.dim())  # type: ignore[operator]


def is_linear(layer: nn.Module) -> bool:
    """Whether the layer is y = Wx + b and nothing else."""
    return type(layer).forward in _LINEAR


def applied(layer: Any, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """The layer's output for another weight and bias, both of the input's field."""
    if is_linear(layer):
        return complex_linear(x, weight, bias) if x.is_complex() else product(x, weight, bias)
    return convolved(layer, weight, bias, x)


def ordered(layer: nn.Module, x: Tensor) -> Tensor:
    """The input in the order that the layer is fastest for: on a CPU, convolutions take channels last."""
    if type(layer).forward not in _CONVOLUTIONS or x.device.type != "cpu" or channels_last(x):
        return x
    return to_channels_last(x)


def is_hooked(layer: nn.Module) -> bool:
    """Whether calling the layer does more than its forward."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(hooks)
