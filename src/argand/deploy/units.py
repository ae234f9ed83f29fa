"""Which units of a network no longer matter: the analysis behind `compact`.

Every unit (feature or channel) of every value has a number. Layers that mix units give their outputs new numbers;
what acts on each unit alone passes them on; a sum makes the numbers of its two operands one. A unit can go if each
layer that reads it has only zero weights for it, or if it is a constant that the reader can take into its bias.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.graph import FUNCTIONS, Graph, Step, activation_of
from argand.graph.kinds import ELEMENTWISE
from argand.graph.steps import OPAQUE, STILL_VARIATIONAL

MIXING = ("Linear", "Bilinear", *(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)))
#: parameters and statistics per unit
PER_UNIT = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Affine", "ModReLU", "PReLU")
_ALONE = (*ELEMENTWISE, "Split", "Cardioid", "ZReLU", "ToComplex", "Real", "abs", "real")
_POOLS = ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "ModMaxPool")


@dataclass
class Value:
    """The units of a value along `axis` ("channels": the second axis, or "last"), and which are constants.

    After a flatten each unit stands for several features: "repeated" (c c c d d d) or "tiled" (c d c d c d).
    `ndim` is None where it is not known.
    """

    units: Tensor
    constant: Tensor  # bool
    value: Tensor  # of the constant ones
    axis: str
    ndim: int | None = None
    layout: str = "plain"

    def features(self, count: int) -> "Value | None":
        """As a layer of that many input features sees it; None if it doesn't fit."""
        times, rest = divmod(count, len(self.units))
        if rest or (self.layout == "plain" and times != 1):
            return None
        expand: Callable[[Tensor], Tensor] = (
            (lambda t: t.repeat(times)) if self.layout == "tiled" else (lambda t: t.repeat_interleave(times))
        )
        return replace(self, units=expand(self.units), constant=expand(self.constant), value=expand(self.value))


@dataclass
class Mixing:
    """A layer that mixes units, with the numbers of its outputs and inputs: (groups, per group) each."""

    step: Step
    outputs: Tensor
    inputs: Tensor  # of a Bilinear those of both inputs, one after the other
    sizes: tuple[int, ...]  # of the inputs, in a group
    constant: Tensor
    value: Tensor

    @property
    def layer(self) -> Any:
        """The layer itself."""
        return self.step.layer


@dataclass
class Analysis:
    """Units by number: those that have become one, those that must stay, and where they are used."""

    mixing: list[Mixing] = field(default_factory=list)
    per_unit: list[tuple[Step, Tensor]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    pinned: set[int] = field(default_factory=set)

    def new(self, count: int) -> Tensor:
        """Numbers for new units."""
        first = len(self.parents)
        self.parents += range(first, first + count)
        return torch.arange(first, first + count)

    def root(self, unit: int) -> int:
        """The number that stands for all units that are one with this."""
        while self.parents[unit] != unit:
            self.parents[unit] = self.parents[self.parents[unit]]
            unit = self.parents[unit]
        return unit

    def roots(self, units: Tensor) -> Tensor:
        """The same for many."""
        return torch.tensor([self.root(u) for u in units.flatten().tolist()], dtype=torch.long).view(units.shape)

    def unite(self, a: Tensor, b: Tensor) -> None:
        """Make units of two values one."""
        for one, other in zip(a.tolist(), b.tolist(), strict=True):
            self.parents[self.root(other)] = self.root(one)

    def pin(self, value: Value | None) -> None:
        """Units that must stay."""
        if value is not None:
            self.pinned.update(value.units.tolist())


def analyse(graph: Graph, ndims: Mapping[str, int]) -> Analysis:
    """Follow the units from step to step; `ndims` are the axes of values, as far as they are known.

    Where they are not, what acts on the second axis of a linear layer's outputs is taken to act on its features.
    """
    analysis = Analysis()
    values: dict[str, Value | None] = dict.fromkeys(graph.inputs)
    steps = [step.layer for step in graph.steps if step.layer is not None]
    held = _held(graph)
    for step in graph.steps:
        inputs = [values[name] for name in step.inputs]
        shared = step.layer is not None and steps.count(step.layer) > 1
        values[step.name] = _mix(analysis, step, inputs, shared or step.layer in held) if step.kind in MIXING else None
        if step.kind not in MIXING:
            result = None if shared and step.kind in PER_UNIT else _pass(analysis, step, inputs)
            if result is None:
                for value in inputs:
                    analysis.pin(value)
            values[step.name] = result
        known = values[step.name]
        if known is not None and known.ndim is None:
            known.ndim = ndims.get(step.name)
    for name in graph.outputs:
        analysis.pin(values[name])
    return analysis


def _held(graph: Graph) -> set[nn.Module]:
    """Layers that something besides the graph's own steps uses: opaque modules, or a forward that reads a weight."""
    opaque = [step for step in graph.steps if step.kind == OPAQUE]
    held = {module for step in opaque if step.layer is not None for module in step.layer.modules()}
    read = {str(step.options["attribute"]).rpartition(".")[0] for step in opaque if "attribute" in step.options}
    return held | {step.layer for step in graph.steps if step.layer is not None and step.path in read}


def grouped(layer: Any, weight: Tensor) -> Tensor:
    """A weight as (groups, outputs of a group, inputs of a group, rest)."""
    groups = int(getattr(layer, "groups", 1))
    parts = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return parts.transpose(1, 2) if getattr(layer, "transposed", False) else parts


def _mix(analysis: Analysis, step: Step, inputs: Sequence[Value | None], shared: bool) -> Value:
    """A layer that mixes: its columns are the units it reads, its rows are new units."""
    layer: Any = step.layer
    weight: Tensor = layer.weight.detach()
    sizes: tuple[int, ...]
    if step.kind == "Bilinear":
        sizes, rows, ndim = (weight.shape[1], weight.shape[2]), weight.shape[0], None
        row_weights = weight.flatten(1)
    elif step.kind == "Linear":
        sizes, rows, ndim = (weight.shape[1],), weight.shape[0], inputs[0].ndim if inputs[0] else None
        row_weights = weight
    else:
        sizes, rows, ndim = (layer.in_channels,), layer.out_channels, weight.dim()
        row_weights = grouped(layer, weight).flatten(2).flatten(0, 1)
    axis = "channels" if step.kind.startswith("Conv") else "last"
    read = [_read(analysis, value, size, axis, weight) for value, size in zip(inputs, sizes, strict=True)]
    groups = int(getattr(layer, "groups", 1))
    outputs = analysis.new(rows)
    bias = torch.zeros(rows, dtype=weight.dtype) if layer.bias is None else layer.bias.detach().clone()
    result = Value(outputs, ~(row_weights != 0).any(1), bias, axis, ndim)
    columns = [torch.cat([getattr(value, name) for value in read]) for name in ("units", "constant", "value")]
    units, constant, value = (column.view(groups, -1) for column in columns)
    analysis.mixing.append(
        Mixing(step, outputs.view(groups, -1), units, tuple(n // groups for n in sizes), constant, value)
    )
    if shared:
        analysis.pinned.update(outputs.tolist())
        analysis.pinned.update(units.flatten().tolist())
    return result


def _read(analysis: Analysis, value: Value | None, size: int, axis: str, weight: Tensor) -> Value:
    """What a layer reads; where the units are not known, new ones that must stay."""
    fitting = value.features(size) if value is not None and value.axis == axis else None
    if fitting is not None:
        return fitting
    analysis.pin(value)
    unknown = Value(
        analysis.new(size), torch.zeros(size, dtype=torch.bool), torch.zeros(size, dtype=weight.dtype), axis
    )
    analysis.pin(unknown)
    return unknown


def _pass(analysis: Analysis, step: Step, inputs: Sequence[Value | None]) -> Value | None:
    """A step that acts on each unit alone; None for any other."""
    if step.kind == "Variational":
        raise ArgandError(f"{step.at} {STILL_VARIATIONAL}")
    known = [value for value in inputs if value is not None]
    rule = _RULES.get(step.kind)
    return rule(analysis, step, known) if rule and known and len(known) == len(inputs) else None


@torch.no_grad()
def _applied(step: Step, x: Tensor) -> Tensor:
    """The step's function of constants."""
    output: Tensor = step.layer(x) if step.layer is not None else FUNCTIONS[step.kind](x, **step.options)
    return output


def _elementwise(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    if step.kind == "Split" and type(activation_of(step.layer)).__name__ not in ELEMENTWISE:  # type: ignore[arg-type]
        return None
    return replace(values[0], value=_applied(step, values[0].value.unsqueeze(0)).squeeze(0))


def _per_unit(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    (value,) = values
    layer: Any = step.layer
    if getattr(layer, "running_mean", layer) is None:
        return None  # statistics of the batch at hand
    count = layer.num_features if hasattr(layer, "num_features") else layer.num_parameters
    if count > 1 or hasattr(layer, "num_features"):
        second = value.axis == "channels" or value.ndim in (2, None)
        if value.layout != "plain" or len(value.units) != count or not second:
            return None
        analysis.per_unit.append((step, value.units))
    axes = {"BatchNorm2d": 2, "BatchNorm3d": 3}.get(step.kind, 0)
    x = value.value.view(1, -1, *(1,) * axes)
    return replace(value, value=_applied(step, x).flatten())


def _pooled(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    (value,) = values
    if value.axis != "channels" or value.ndim != int(step.kind[-2]) + 2:
        return None
    layer: Any = step.layer
    padding = getattr(layer, "padding", 0)
    padded = any(padding) if isinstance(padding, tuple) else bool(padding)
    zeros = padded and getattr(layer, "count_include_pad", False)
    if zeros or getattr(layer, "divisor_override", None):
        return replace(value, constant=value.constant & (value.value == 0))
    return value


def _flattened(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    layer: Any = step.layer
    (value,) = values
    if (layer.start_dim, layer.end_dim) != (1, -1):
        return None
    if value.axis == "channels":
        return replace(value, axis="last", ndim=2, layout="repeated")
    return replace(value, ndim=2, layout=value.layout if value.ndim == 2 else "tiled")


def _combined(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    if len(values) == 1:
        return replace(values[0], value=_applied(step, values[0].value))
    a, b = values
    if (a.axis, a.layout, a.ndim, len(a.units)) != (b.axis, b.layout, b.ndim, len(b.units)):
        return None  # the axes may not match
    analysis.unite(a.units, b.units)
    constant = a.constant & b.constant
    if step.kind == "mul":
        constant = constant | (a.constant & (a.value == 0)) | (b.constant & (b.value == 0))
    return replace(a, constant=constant, value=FUNCTIONS[step.kind](a.value, b.value))


def _concatenated(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    dim = step.options["dim"] if step.layer is None else step.layer.dim
    first = values[0]
    if any((v.axis, v.layout, v.ndim) != (first.axis, "plain", first.ndim) for v in values):
        return None
    along = dim == 1 if first.axis == "channels" else dim == -1 or (dim == 1 and first.ndim == 2)
    if not along:
        return None
    parts = [[v.units for v in values], [v.constant for v in values], [v.value for v in values]]
    if step.kind == "Concatenate":
        parts = [[first.units] * 2, [first.constant] * 2, [first.value.real, first.value.imag]]
    units, constant, value = (torch.cat(part) for part in parts)
    return Value(units, constant, value, first.axis, first.ndim)


def _reduced(analysis: Analysis, step: Step, values: Sequence[Value]) -> Value | None:
    """A mean over positions."""
    (value,) = values
    if value.axis != "channels" or value.ndim is None:
        return None
    dims = {d % value.ndim for d in step.options["dim"]}
    if dims & {0, 1}:
        return None
    if step.options["keepdim"]:
        return value
    left = value.ndim - len(dims)
    return replace(value, ndim=left, axis="last" if left == 2 else "channels")


_RULES: dict[str, Callable[[Analysis, Step, Sequence[Value]], Value | None]] = {
    **dict.fromkeys(_ALONE, _elementwise),
    **dict.fromkeys(PER_UNIT, _per_unit),
    **{f"{kind}{n}d": _pooled for kind in _POOLS for n in (1, 2, 3)},
    "Flatten": _flattened,
    **dict.fromkeys(("add", "sub", "mul", "div"), _combined),
    **dict.fromkeys(("cat", "Concatenate"), _concatenated),
    "mean": _reduced,
}
