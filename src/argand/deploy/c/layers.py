"""Layers with weights, and batch norms: their tables and the calls of their kernels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argand.deploy.c.kernels import Kernel
from argand.deploy.c.program import Program, Value
from argand.deploy.c.weights import C_TYPES, Weight
from argand.errors import ArgandError
from argand.graph import Step
from argand.nn.batchnorm import evaluation_map


def linear(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """y = W x + b over the last axis."""
    assert step.layer is not None
    (x,), weight = inputs, program.weights[step.layer]
    columns, rows = x.shape[-1], y.shape[-1]
    positions = math.prod(x.shape[:-1])
    file = f"linear_{_storage(weight)}_{_field(weight)}"
    program.macs += positions * int(weight.done.sum()) * weight.parts**2
    program.call(_kernel(file, weight), inputs, y, positions, columns, rows, *_tables(program, step))


def bilinear(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """y_o = Σ W_oij x_i z_j + b_o over the last axes."""
    assert step.layer is not None
    (x, z), weight = inputs, program.weights[step.layer]
    positions = math.prod(x.shape[:-1])
    conjugate = [-1.0 if getattr(step.layer, "conjugate", False) else 1.0] if weight.parts == 2 else []
    pointers = _tables(program, step)
    if not weight.sparse:
        pointers = ("NULL", "NULL", *pointers)
    program.macs += 2 * positions * int(weight.done.sum()) * weight.parts**2
    sizes = positions, x.shape[-1], z.shape[-1], y.shape[-1]
    kernel = Kernel(f"bilinear_{_field(weight)}", weight.parts, *_types(weight))
    program.call(kernel, inputs, y, *sizes, *conjugate, *pointers)


def convolution(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A convolution, plain or transposed, in one to three dimensions."""
    layer: Any = step.layer
    (x,), weight = inputs, program.weights[layer]
    n = len(layer.kernel_size)
    before = _left_padding(layer, n)
    if layer.padding_mode != "zeros":
        x = _padded(program, step, x, before, layer._reversed_padding_repeated_twice)
        before = [0] * n
    long, short = (y, x) if layer.transposed else (x, y)
    axes = [
        [short.shape[1 + i], long.shape[1 + i], layer.kernel_size[i], layer.stride[i], layer.dilation[i], before[i]]
        for i in range(n)
    ]
    if all(axis[2:] == [1, 1, 1, 0] for axis in axes) and short.shape == (short.shape[0], *long.shape[1:]):
        axes = [[math.prod(short.shape[1:])] * 2 + [1, 1, 1, 0]]  # pointwise: one long axis
    axes = [[1, 1, 1, 1, 1, 0]] * (3 - len(axes)) + axes
    planes = math.prod(x.shape[1:]), math.prod(y.shape[1:])
    members = *axes, x.shape[0], y.shape[0], layer.groups, *planes, int(layer.transposed)
    geometry = program.struct(f"{_name(step)}_shape", "net_convolution", members)
    program.macs += _uses(weight, axes) * weight.parts**2
    program.call(_kernel(f"convolve_{_storage(weight)}", weight), [x], y, geometry, *_tables(program, step))


def normalisation(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A batch norm in evaluation, or an Affine: a map for each channel."""
    layer: Any = step.layer
    (x,) = inputs
    if step.kind != "Affine" and layer.running_mean is None:
        raise ArgandError(
            f"Layer {step.at} takes its statistics from the batch, also in evaluation. Expected running statistics: "
            "train it with track_running_stats=True."
        )
    if x.is_complex:
        matrix, shift = (layer.weight, layer.bias) if step.kind == "Affine" else evaluation_map(layer)
        numbers = torch.cat([matrix.detach().flatten(1), torch.view_as_real(shift.detach())], 1)
    else:
        numbers = torch.stack(_scale_and_shift(layer), 1)
    (table,) = program.once((layer, "map"), lambda: (program.table(f"{_name(step)}_map", numbers),))
    plane = math.prod(x.shape[1:])
    program.macs += x.floats * x.parts
    program.elementwise("affine" if x.is_complex else "scale_shift", x, y, x.shape[0], plane, table)


def _scale_and_shift(norm: Any) -> list[Tensor]:
    """What a real batch norm does to a channel."""
    scale = (norm.running_var + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.detach()
    shift = -norm.running_mean * scale
    return [scale, shift if norm.bias is None else shift + norm.bias.detach()]


def _left_padding(layer: Any, n: int) -> list[int]:
    """The padding before each axis; an uneven "same" has one more behind."""
    if isinstance(layer.padding, str):
        return [int(layer._reversed_padding_repeated_twice[2 * (n - 1 - i)]) for i in range(n)]
    return [int(size) for size in layer.padding]


def _padded(program: Program, step: Step, x: Value, before: list[int], both: Sequence[int]) -> Value:
    """The input with reflected, replicated or circular borders; `both` are the last axis's two sizes, and so on."""
    layer: Any = step.layer
    n = len(before)
    sizes = [x.shape[1 + i] + both[2 * (n - 1 - i)] + both[2 * (n - 1 - i) + 1] for i in range(n)]
    padded = program.temporary((x.shape[0], *sizes), x.parts)
    triples = ([1] * (3 - n) + list(x.shape[1:]), [0] * (3 - n) + before, [1] * (3 - n) + sizes)
    names = [
        program.table(f"{_name(step)}_{word}", np.array(sizes, dtype="int32"))
        for word, sizes in zip(("size", "before", "padded"), triples, strict=True)
    ]
    mode = {"reflect": "'r'", "replicate": "'e'", "circular": "'c'"}[layer.padding_mode]
    program.call("pad", [x], padded, x.shape[0], *names, x.parts, mode)
    return padded


def _uses(weight: Weight, axes: Sequence[Sequence[int]]) -> int:
    """How often the weights are multiplied: each at the positions where its tap meets an entry."""
    counts = np.ones((), dtype=np.int64)
    for positions, entries, kernel, stride, dilation, padding in axes:
        met = np.arange(positions) * stride + np.arange(kernel)[:, None] * dilation - padding
        counts = np.multiply.outer(counts, ((met >= 0) & (met < entries)).sum(1))
    taps = counts.ravel()
    return int((weight.done.reshape(len(weight.done), -1, len(taps)) * taps).sum())


def _tables(program: Program, step: Step) -> tuple[str, ...]:
    """The arguments of a layer: (counts, columns,) values, scale, bias."""
    return program.once(step.layer, lambda: _write_tables(program, step))


def _write_tables(program: Program, step: Step) -> tuple[str, ...]:
    layer, name = step.layer, _name(step)
    assert layer is not None
    weight = program.weights[layer]
    pointers = []
    if weight.sparse:
        kept = weight.kept
        pointers.append(program.table(f"{name}_counts", kept.sum(1).astype(weight.index)))
        columns = np.nonzero(kept)[1].astype(weight.index)
        pointers.append(_table_or_null(program, f"{name}_columns", columns))
        pointers.append(_table_or_null(program, f"{name}_values", weight.levels[kept]))
    else:
        pointers.append(program.table(f"{name}_values", weight.levels))
    pointers.append("NULL" if weight.scale is None else program.table(f"{name}_scale", weight.scale))
    bias: Any = layer.bias
    pointers.append("NULL" if bias is None else program.table(f"{name}_bias", bias))
    return tuple(pointers)


def _table_or_null(program: Program, name: str, entries: Any) -> str:
    """C has no empty arrays."""
    return program.table(name, entries) if entries.size else "NULL"


def _kernel(file: str, weight: Weight) -> Kernel:
    value, index = _types(weight)
    return Kernel(file, weight.parts, value, index if weight.sparse else "")


def _types(weight: Weight) -> tuple[str, str]:
    return C_TYPES[weight.levels.dtype.name], C_TYPES[weight.index.name]


def _storage(weight: Weight) -> str:
    return "sparse" if weight.sparse else "dense"


def _field(weight: Weight) -> str:
    return "complex" if weight.parts == 2 else "real"


def _name(step: Step) -> str:
    """For tables: the layer's path, or the step's own name."""
    return step.path or step.name
