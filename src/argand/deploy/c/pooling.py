"""Pooling in one to three dimensions: averages and maxima of each part, and the entry of largest modulus."""

import math
from collections.abc import Sequence
from typing import Any

from argand.deploy.c.kernels import Kernel
from argand.deploy.c.program import Program, Value
from argand.graph import Step

#: the most entries of a window that are summed one by one; larger ones are summed by rows, for precision
FEW = 64


def pooling(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Any pooling layer; the shape of the result says how many windows there are."""
    layer: Any = step.layer
    (x,) = inputs
    if step.kind.startswith("Adaptive"):
        axes = [_adaptive(*sizes) for sizes in zip(y.shape[1:], x.shape[1:], strict=True)]
    else:
        options = ("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0)
        columns = [_each(getattr(layer, name, default), len(x.shape) - 1) for name, default in options]
        axes = [list(axis) for axis in zip(y.shape[1:], x.shape[1:], *columns, strict=True)]
    kernel, divisor = _kernel(step, axes)
    axes = [[1, 1, 1, 1, 1, 0]] * (3 - len(axes)) + axes
    geometry = program.struct(f"{step.path or step.name}_shape", "net_pooling", (*axes, x.shape[0], divisor))
    program.call(Kernel(kernel, 0 if kernel == "modulus_windows" else x.parts), inputs, y, geometry)


def _adaptive(positions: int, entries: int) -> list[int]:
    """An axis in equal shares; where they can't be equal, a kernel of 0 says so."""
    share = entries // positions if entries % positions == 0 else 0
    return [positions, entries, share, share or 1, 1, 0]


def _kernel(step: Step, axes: Sequence[Sequence[int]]) -> tuple[str, int]:
    """The kernel and the divisor: tap by tap where windows are regular and, for an average, equal."""
    layer: Any = step.layer
    regular = all(axis[2] for axis in axes)
    if step.kind.startswith("ModMax"):
        return "modulus_windows", 0
    if "Avg" not in step.kind:
        return "pool" if regular else "maximum_windows", 0
    entries = math.prod(axis[2] for axis in axes)
    given = getattr(layer, "divisor_override", None)
    padded = getattr(layer, "count_include_pad", True)
    equal = given is not None or all(_inside(axis, padded) for axis in axes)
    if regular and equal and entries <= FEW:
        return "pool", given or entries
    return "average_windows", given or (0 if padded else -1)


def _inside(axis: Sequence[int], padded: bool) -> bool:
    """Whether all windows lie in the axis, or in the padded axis where padding counts."""
    positions, entries, kernel, stride, _, padding = axis
    border = padding if padded else 0
    return padding <= border and (positions - 1) * stride - padding + kernel <= entries + border


def _each(option: Any, n: int) -> list[int]:
    """An option for each axis."""
    return [int(option)] * n if isinstance(option, int) else [int(size) for size in option]
