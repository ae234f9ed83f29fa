"""From steps to calls of kernels: one writer for each kind of layer and for each function."""

from collections.abc import Callable, Sequence

from torch import Tensor

from argand.deploy.c import layers, pointwise, pooling, shapes
from argand.deploy.c.program import Program, Value
from argand.deploy.c.reference import Reference, example_values
from argand.errors import ArgandError
from argand.graph import Step

Writer = Callable[[Program, Step, Sequence[Value], Value], None]


def _write(program: Program, step: Step, inputs: Sequence[Value], y: Value) -> None:
    WRITERS[step.kind](program, step, inputs, y)


#: by a layer's kind without its namespace, or by a function's name
WRITERS: dict[str, Writer] = {
    "Linear": layers.linear,
    "Bilinear": layers.bilinear,
    "Affine": layers.normalisation,
    **{f"{kind}{n}d": layers.convolution for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": layers.normalisation for n in (1, 2, 3)},
    **{
        f"{kind}Pool{n}d": pooling.pooling
        for kind in ("Avg", "Max", "AdaptiveAvg", "AdaptiveMax", "ModMax")
        for n in (1, 2, 3)
    },
    **dict.fromkeys(pointwise.ELEMENTWISE, pointwise.elementwise),
    **dict.fromkeys(("Softmax", "LogSoftmax"), pointwise.softmax),
    **dict.fromkeys(("add", "sub", "mul", "div"), pointwise.arithmetic),
    "Split": pointwise.split(_write),
    "PReLU": pointwise.prelu,
    "ModReLU": pointwise.mod_relu,
    "Cardioid": pointwise.cardioid,
    "ZReLU": pointwise.zrelu,
    **dict.fromkeys(("Flatten", "reshape", "squeeze", "unsqueeze"), shapes.view),
    **dict.fromkeys(("transpose", "permute"), shapes.permuted),
    **dict.fromkeys(("Real", "real"), shapes.real),
    "ToComplex": shapes.to_complex,
    "Concatenate": shapes.concatenate,
    "Separate": shapes.separate,
    "abs": shapes.absolute,
    "cat": shapes.cat,
    "mean": shapes.mean,
}


def lower(reference: Reference, example: Sequence[Tensor]) -> Program:
    """The calls for a network, whose values have the shapes and fields that they have for the example."""
    graph = reference.graph
    tensors = example_values(graph, example)
    program = Program(reference.weights)
    for name in graph.inputs:
        program.add(name, tensors[name])
    for step in graph.steps:
        inputs = [program.values[name] for name in step.inputs]
        y = program.add(step.name, tensors[step.name])
        _check_axes(step, inputs[0])
        program.comment = f"{step.at.replace('*/', '')}: {y}"
        _write(program, step, inputs, y)
    program.outputs = _own_outputs(program, graph.inputs, graph.outputs)
    program.inputs = graph.inputs
    return program


def _check_axes(step: Step, x: Value) -> None:
    """Convolutions and pooling need channels: torch would take an axis fewer for one sample without batch axis."""
    if step.kind[-2:] in ("1d", "2d", "3d") and not step.kind.startswith("BatchNorm"):
        n = int(step.kind[-2])
        if len(x.shape) != n + 1:
            raise ArgandError(
                f"{step.at} gets {x}, batch apart. Expected channels and {n} axes: give the example its batch axis."
            )


def _own_outputs(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[str, ...]:
    """Outputs with memory of their own: inputs, and what is returned twice, are copied."""
    taken, found = set(inputs), []
    for name in outputs:
        root = program.root(name)
        if root in taken:
            value = program.values[name]
            copy = program.temporary(value.shape, value.parts)
            program.comment = "an output"
            program.call("copy", [value], copy, 1, value.floats, value.floats)
            root = copy.name
        taken.add(root)
        found.append(root)
    return tuple(found)
