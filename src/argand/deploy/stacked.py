"""A complex network as an ordinary real one on stacked parts [re; im]: the form in which it runs fastest.

Linear layers, convolutions, poolings and activations of parts become real layers on twice the features or channels.
Any other layer stays as it is, between layers that join and stack the parts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import argand.nn as ann
from argand.graph import Graph, Step, activation_of, build, kind_of, options_of
from argand.graph.kinds import ELEMENTWISE, KINDS
from argand.graph.steps import layer_step

_POOLS = tuple(f"{kind}Pool{n}d" for kind in ("Avg", "Max", "AdaptiveAvg", "AdaptiveMax") for n in (1, 2, 3))
_CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d")


class Half(nn.Module):
    """The real parts of stacked values."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, input: Tensor) -> Tensor:
        """The first half along the axis."""
        return input.chunk(2, self.axis)[0]


@dataclass
class Form:
    """How a value of the original is at hand: as it was, stacked along an axis, or without its parts of zero."""

    name: str
    axis: int | None = None  # of [re; im]
    bare: bool = False  # a real value that stands for x + 0j


def stack(graph: Graph, weighted: Callable[[nn.Module, bool], nn.Module]) -> Graph:
    """The graph on stacked parts; `weighted(layer, bare)` makes the real form of a linear layer or a convolution.

    `bare` says that the layer reads real values, whose imaginary parts are zero.
    """
    return _Stacker(weighted).run(graph)


class _Stacker:
    def __init__(self, weighted: Callable[[nn.Module, bool], nn.Module]) -> None:
        self.weighted = weighted
        self.steps: list[Step] = []
        self.forms: dict[str, Form] = {}
        self.made: dict[tuple[int, bool], nn.Module] = {}  # of shared layers
        self.placed: dict[str, nn.Module] = {}  # by path

    def run(self, graph: Graph) -> Graph:
        self.forms = {name: Form(name) for name in graph.inputs}
        for step in graph.steps:
            self.forms[step.name] = self.step(step, [self.forms[name] for name in step.inputs])
        outputs = tuple(self.native(self.forms[name]) for name in graph.outputs)
        return replace(graph, steps=tuple(self.steps), outputs=outputs)

    def add(self, step: Step, axis: int | None = None, bare: bool = False) -> Form:
        if step.layer is not None and self.placed.setdefault(step.path, step.layer) is not step.layer:
            step = replace(step, path="")  # another layer of the result has this path: a shared one has several forms
        self.steps.append(step)
        return Form(step.name, axis, bare)

    def new(self, stem: str, layer: nn.Module, source: str) -> str:
        name = f"{stem}_{len(self.steps)}"
        self.steps.append(layer_step(name, layer.eval(), (source,)))
        return name

    def native(self, form: Form) -> str:
        """The value as the original has it."""
        if form.bare:
            return self.new("complex", ann.ToComplex(), form.name)
        return form.name if form.axis is None else self.new("join", ann.Separate(form.axis), form.name)

    def along(self, form: Form, axis: int) -> str:
        """The value stacked along this axis."""
        return form.name if form.axis == axis else self.new("stack", ann.Concatenate(axis), self.native(form))

    def step(self, step: Step, forms: list[Form]) -> Form:
        first = forms[0]
        layer: Any = step.layer
        if layer is not None and step.kind in ("Linear", *_CONVOLUTIONS) and layer.weight.is_complex():
            return self._weighted(step, first)
        if step.kind in ("Linear", *_CONVOLUTIONS) and first.axis is None and not first.bare:
            return self._made(step, first.name, bare=False, axis=None)
        if step.kind == "ToComplex" and first.axis is None and not first.bare:
            return Form(first.name, bare=True)
        if step.kind == "Separate" and first.axis is None:
            return Form(first.name, axis=layer.dim)
        if all(form.axis is not None and form.axis == first.axis for form in forms):
            found = self._on_stacked(step, forms)
            if found is not None:
                return found
        return self.add(replace(step, inputs=tuple(self.native(form) for form in forms)))

    def _weighted(self, step: Step, form: Form) -> Form:
        axis = -1 if step.kind == "Linear" else 1
        source = form.name if form.bare else self.along(form, axis)
        return self._made(step, source, bare=form.bare, axis=axis)

    def _made(self, step: Step, source: str, bare: bool, axis: int | None) -> Form:
        assert step.layer is not None
        key = (id(step.layer), bare)
        shared = key in self.made
        layer = self.made.setdefault(key, self.made[key] if shared else self.weighted(step.layer, bare))
        return self.add(layer_step(step.name, layer, (source,), step.path), axis)

    def _on_stacked(self, step: Step, forms: list[Form]) -> Form | None:
        """Steps that are the same on stacked parts; None for the others."""
        form, layer = forms[0], step.layer
        names = tuple(f.name for f in forms)
        real: nn.Module | None = None
        axis = form.axis
        if step.kind == "Concatenate" and getattr(layer, "dim", None) == axis:
            return Form(form.name)
        if step.kind in ("add", "sub") and len(forms) == 2:
            return self.add(replace(step, inputs=names), axis)
        if step.kind in ("mul", "div") and len(forms) == 1:
            return self.add(replace(step, inputs=names), axis)
        if step.kind in ("Real", "real"):
            real, axis = Half(axis or 0), None
        elif step.kind == "Flatten" and layer is not None and axis == 1 and options_of(layer)["start_dim"] == 1:
            real, axis = (layer, -1) if options_of(layer)["end_dim"] == -1 else (None, axis)
        elif step.kind == "ReLU":
            real = nn.ReLU()
        elif step.kind == "Split" and layer is not None:
            inner = activation_of(layer)
            real = inner if type(inner).__name__ in ELEMENTWISE else None
        elif step.kind in _POOLS and layer is not None and axis == 1:
            kind = kind_of(layer)
            real = build(KINDS[f"nn.{step.kind}"].name, options_of(layer)) if kind else None
        if real is None:
            return None
        return self.add(
            layer_step(step.name, real.eval(), names, step.path), axis if step.kind not in ("Real", "real") else None
        )


def dense_form(layer: Any, bare: bool) -> nn.Module:
    """The real layer that does on stacked parts what a complex one does: its weight is [[a, -b], [b, a]].

    For bare inputs, whose imaginary parts are zero, it is [a; b]. Groups become zeros.
    """
    if not layer.weight.is_complex():
        return layer  # type: ignore[no-any-return]
    weight = ungrouped(layer)
    a, b = weight.real, weight.imag
    left, right = torch.cat([a, b]), torch.cat([-b, a])
    real = (left if bare else torch.cat([left, right], 1)).contiguous()
    kind = kind_of(layer)
    assert kind is not None
    sizes = ("in_features", "out_features") if kind.word == "Linear" else ("in_channels", "out_channels")
    options = options_of(layer) | {sizes[0]: real.shape[1], sizes[1]: real.shape[0], "device": "meta"}
    options |= {"groups": 1} if "groups" in options else {}
    result: Any = KINDS[f"nn.{kind.word}"].cls(**options)
    result.weight = nn.Parameter(real)
    if layer.bias is not None:
        bias = layer.bias.detach()
        result.bias = nn.Parameter(torch.cat([bias.real, bias.imag]))
    return result  # type: ignore[no-any-return]


def ungrouped(layer: Any) -> Tensor:
    """The weight of a convolution as if it had no groups; of any other layer as it is."""
    weight: Tensor = layer.weight.detach()
    groups = getattr(layer, "groups", 1)
    if groups == 1:
        return weight
    full = weight.new_zeros(weight.shape[0], layer.in_channels, *weight.shape[2:])
    for i, (part, place) in enumerate(zip(weight.chunk(groups), full.chunk(groups), strict=True)):
        place[:, i * part.shape[1] : (i + 1) * part.shape[1]] = part
    return full
