"""What moves numbers without computing: views, transpositions, concatenation, between real and complex; means."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from argand.deploy.c.program import Program, Value
from argand.errors import ArgandError
from argand.graph import Step

#: axes of the kernel that copies an array in another order
MOST_AXES = 5


def view(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Flatten, reshape, squeeze, unsqueeze: the same floats in the same order."""
    program.view(y, inputs[0])


def to_complex(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """x + 0j."""
    program.call("to_complex", inputs, y, inputs[0].floats)


def as_complex(program: Program, x: Value) -> Value:
    """The value itself if it is complex, else x + 0j."""
    if x.is_complex:
        return x
    z = program.temporary(x.shape, 2)
    program.call("to_complex", [x], z, x.floats)
    return z


def real(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """The real part."""
    if inputs[0].is_complex:
        program.elementwise("real_part", inputs[0], y, y.floats)
    else:
        program.view(y, inputs[0])


def absolute(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """|x|."""
    program.elementwise("absolute_complex" if inputs[0].is_complex else "absolute_real", inputs[0], y, y.floats)


def concatenate(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Concatenate: all real parts, then all imaginary ones, along an axis."""
    layer: Any = step.layer
    (x,) = inputs
    axis = axis_of(step, layer.dim, len(x.shape))
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    gather(program, step, x, y, (outer, 2, inner), (2 * inner, 1, 2))


def separate(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Separate: the first half of an axis becomes real parts, the second imaginary ones."""
    layer: Any = step.layer
    (x,) = inputs
    axis = axis_of(step, layer.dim, len(x.shape))
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis:]) // 2
    gather(program, step, x, y, (outer, inner, 2), (2 * inner, 1, inner))


def cat(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Inputs side by side along an axis: each in blocks."""
    axis = axis_of(step, step.options["dim"], len(y.shape))
    blocks = math.prod(y.shape[:axis])
    offset = 0
    for given in inputs:
        x = as_complex(program, given) if y.is_complex else given
        size = x.floats // blocks
        program.call("copy", [x], y, blocks, size, y.floats // blocks, offset=offset)
        offset += size


def permuted(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Transpose and permute."""
    (x,) = inputs
    rank = len(x.shape) + 1
    if step.kind == "permute":
        order = [axis % rank for axis in step.options["dims"]]
    else:
        first, second = (step.options[name] % rank for name in ("dim0", "dim1"))
        order = list(range(rank))
        order[first], order[second] = second, first
    if order[0] != 0:
        raise ArgandError(f"{step.at} moves the batch axis, the first. A program runs one sample: move others only.")
    steps = _steps(x)
    gather(program, step, x, y, y.shape, [steps[axis - 1] for axis in order[1:]])


def broadcast(program: Program, step: Step, x: Value, y: Value) -> Value:
    """The value in the shape of the result; axes of one are repeated."""
    if x.shape == y.shape:
        return x
    if len(x.shape) != len(y.shape):
        raise ArgandError(
            f"{step.at} has inputs with different numbers of axes: {x} for a result {y}, batch apart. Unsqueeze first."
        )
    wide = program.temporary(y.shape, x.parts)
    steps = [0 if size == 1 else s for size, s in zip(x.shape, _steps(x), strict=True)]
    gather(program, step, x, wide, y.shape, steps)
    return wide


def mean(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """The mean over axes: one after the other, adjacent ones together."""
    (x,) = inputs
    axes = sorted(axis_of(step, axis, len(x.shape)) for axis in step.options["dim"])
    shape = list(x.shape)
    while axes:
        last = first = axes.pop()
        while axes and axes[-1] == first - 1:
            first = axes.pop()
        sizes = math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :]) * x.parts
        shape[first : last + 1] = [1] * (last + 1 - first)
        target = program.temporary(shape, x.parts) if axes else y
        program.call("mean", [x], target, *sizes)
        x = target


def axis_of(step: Step, axis: int, rank: int) -> int:
    """An axis without the batch axis, from torch's number; the batch axis itself is refused."""
    place = axis % (rank + 1)
    if place == 0:
        raise ArgandError(f"{step.at} works along the batch axis, the first. A program runs one sample at a time.")
    return place - 1


def gather(program: Program, step: Step, x: Value, y: Value, shape: Sequence[int], steps: Sequence[int]) -> None:
    """Copy x to y: numbers for a complex y with complex x move with both parts. Adjacent axes are joined."""
    if x.is_complex and y.is_complex:
        shape, steps = [*shape, 2], [*(2 * s for s in steps), 1]
    axes: list[list[int]] = []
    for size, s in zip(shape, steps, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * s:
            axes[-1] = [axes[-1][0] * size, s]
        else:
            axes.append([size, s])
    if len(axes) > MOST_AXES:
        raise ArgandError(f"{step.at}: a copy from {x} to {y} needs {len(axes)} loops, and the kernel has {MOST_AXES}.")
    axes = [[1, 0]] * (MOST_AXES - len(axes)) + axes
    name = step.path or step.name
    tables = [
        program.table(f"{name}_{word}", np.array([axis[i] for axis in axes], dtype="int32"))
        for i, word in enumerate(("shape", "step"))
    ]
    program.call("gather", [x], y, *tables)


def _steps(x: Value) -> list[int]:
    """Numbers between neighbours along each axis."""
    return [math.prod(x.shape[i + 1 :]) for i in range(len(x.shape))]
