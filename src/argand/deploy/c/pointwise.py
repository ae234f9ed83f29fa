"""Activations and arithmetic: functions of one number, or of a few along an axis."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from argand.deploy.c.program import Program, Value
from argand.deploy.c.shapes import as_complex, axis_of, broadcast
from argand.errors import ArgandError
from argand.graph import Step, activation_of
from argand.graph.steps import layer_step

Arguments = Callable[[Any], tuple[float, ...]]

#: real functions of each float: the kernel, and its further arguments from the layer
ELEMENTWISE: dict[str, tuple[str, Arguments]] = {
    "ReLU": ("relu", lambda f: ()),
    "ReLU6": ("clip", lambda f: (0.0, 6.0)),
    "Hardtanh": ("clip", lambda f: (float(f.min_val), float(f.max_val))),
    "LeakyReLU": ("leaky_relu", lambda f: (float(f.negative_slope),)),
    "ELU": ("elu", lambda f: (float(f.alpha),)),
    "GELU": ("gelu", lambda f: ()),
    "SiLU": ("silu", lambda f: ()),
    "Softplus": ("softplus", lambda f: (float(f.beta), float(f.threshold))),
    "Tanh": ("tanh", lambda f: ()),
    "Sigmoid": ("sigmoid", lambda f: ()),
}


def elementwise(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A real function of each float."""
    kernel, arguments = ELEMENTWISE[step.kind]
    layer: Any = step.layer
    if getattr(layer, "approximate", "none") == "tanh":
        kernel = "gelu_tanh"
    program.elementwise(kernel, inputs[0], y, inputs[0].floats, *arguments(layer))


def split(write: Callable[..., None]) -> Callable[..., None]:
    """Split: the activation on the same memory, where both parts are floats like others. `write` writes a step."""

    def split_step(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
        assert step.layer is not None
        inner = layer_step(step.name, activation_of(step.layer), step.inputs, step.path)
        if inner.kind not in (*ELEMENTWISE, "PReLU", "Softmax", "LogSoftmax"):
            raise ArgandError(
                f"Layer {step.at} splits a {inner.kind}, which isn't an activation. Use the complex layer of argand.nn."
            )
        write(program, inner, inputs, y)

    return split_step


def prelu(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A slope for all, or one for each channel."""
    _of_channels(program, step, "prelu", inputs[0], y, "weight", inputs[0].floats)


def mod_relu(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A bias for all, or one for each channel."""
    _of_channels(program, step, "mod_relu", inputs[0], y, "bias", inputs[0].floats // 2)


def _of_channels(program: Program, step: Step, kernel: str, x: Value, y: Value, parameter: str, count: int) -> None:
    assert step.layer is not None
    tensor = step.layer.get_parameter(parameter)
    name = f"{step.path or step.name}_{parameter}"
    (table,) = program.once((step.layer, parameter), lambda: (program.table(name, tensor),))
    program.elementwise(kernel, x, y, len(tensor), count // len(tensor), table)


def cardioid(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """z·(1 + cos(arg z))/2."""
    program.elementwise("cardioid", inputs[0], y, inputs[0].floats // 2)


def zrelu(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """The first quadrant."""
    program.elementwise("zrelu", inputs[0], y, inputs[0].floats // 2)


def softmax(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """Softmax and its logarithm along an axis."""
    layer: Any = step.layer
    (x,) = inputs
    if layer.dim is None:
        raise ArgandError(f"{step.at} has no dim, and torch guesses it. Give it one, such as 1.")
    axis = axis_of(step, layer.dim, len(x.shape))
    sizes = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]) * x.parts
    program.elementwise("softmax" if step.kind == "Softmax" else "log_softmax", x, y, *sizes)


def arithmetic(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    """A sum, difference or product of two values, or of a value and a number."""
    if len(inputs) == 1:
        _with_number(program, step, inputs[0], y)
        return
    pair = [broadcast(program, step, as_complex(program, x) if y.is_complex else x, y) for x in inputs]
    kernel = {"add": "add", "sub": "subtract", "mul": "multiply_complex" if y.is_complex else "multiply_real"}[
        step.kind
    ]
    count = y.floats
    if step.kind == "mul":
        count //= y.parts
        program.macs += y.floats * y.parts
    program.call(kernel, pair, y, count, in_place=(0, 1))


def _with_number(program: Program, step: Step, x: Value, y: Value) -> None:
    number = float(step.options["value"])
    if not math.isfinite(number) or (step.kind == "div" and number == 0):
        raise ArgandError(f"{step.at} has the number {number}. Expected a finite one, and no division by 0.")
    if step.kind in ("add", "sub"):
        signed = number if step.kind == "add" else -number
        program.elementwise("add_number", x, y, x.floats // x.parts, x.parts, signed)
    else:
        program.elementwise("scale", x, y, x.floats, number if step.kind == "mul" else 1 / number)
        program.macs += x.floats
