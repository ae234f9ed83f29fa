"""Steps: one layer or function applied to the values of earlier steps."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from argand.field import modulus
from argand.graph.kinds import kind_of
from argand.surgery import is_linear_in_weight
from argand.variational import Variational

OPAQUE = "opaque"
STILL_VARIATIONAL = "is variational: call masks.apply_(net) and argand.collapse(net) first."


@dataclass(frozen=True)
class Step:
    """A layer (then `layer` and, if it is one of the network's own, its `path`) or a function with its options."""

    name: str
    kind: str  # a layer's word ("Conv2d", "ReLU"), a function's name, "Variational" or "opaque"
    inputs: tuple[str, ...]
    layer: nn.Module | None = None
    path: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """For messages: the layer's path and class, or the function."""
        kind = type(self.layer).__name__ if self.layer is not None else self.kind
        return f'"{self.path}" ({kind})' if self.path else f"{kind}"


@dataclass(frozen=True)
class Graph:
    """Steps in the order in which they run; `outputs` are names of inputs or steps."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    single: bool = True  # whether the network returns a tensor rather than a tuple

    def readers(self) -> dict[str, list[Step]]:
        """The steps that read each value."""
        found: dict[str, list[Step]] = {name: [] for name in (*self.inputs, *(step.name for step in self.steps))}
        for step in self.steps:
            for name in step.inputs:
                found[name].append(step)
        return found


def objection(layer: nn.Module) -> str | None:
    """Why a layer can't be copied by its options and tensors, as a sentence; None if it can."""
    if is_linear_in_weight(layer) and not isinstance(layer._parameters.get("weight"), nn.Parameter):
        return (
            "computes its weight from other tensors. Make it a plain one first, with torch.nn.utils.prune.remove or "
            "torch.nn.utils.parametrize.remove_parametrizations."
        )
    for name, tensor in (*layer.named_parameters(), *layer.named_buffers()):
        if is_lazy(tensor):
            return f"has no {name} yet. Run one batch through the network first."
    return None


def layer_step(name: str, layer: nn.Module, inputs: tuple[str, ...], path: str = "") -> Step:
    """The step of a layer, by its kind."""
    kind = kind_of(layer)
    word = kind.word if kind else ("Variational" if isinstance(layer, Variational) else OPAQUE)
    return Step(name, word, inputs, layer, path)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Tensor]:
    def apply(*values: Tensor, value: float | None = None) -> Tensor:
        result: Tensor = function(*values) if value is None else function(values[0], value)
        return result

    return apply


def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.reshape(x.shape[0], *shape)


#: What a function does to its inputs: of two values, or of one and a number for the arithmetic ones.
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "add": _binary(operator.add),
    "sub": _binary(operator.sub),
    "mul": _binary(operator.mul),
    "div": _binary(operator.truediv),
    "abs": modulus,
    "real": lambda x: x.real,
    "cat": lambda *values, dim: torch.cat(values, dim),
    "mean": lambda x, dim, keepdim: x.mean(dim, keepdim),
    "reshape": _reshape,  # all axes but the first
    "transpose": torch.transpose,
    "permute": torch.permute,
    "squeeze": torch.squeeze,
    "unsqueeze": torch.unsqueeze,
}
