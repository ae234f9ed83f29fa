"""The network that a program computes, as a graph in double precision with the weights as they are stored."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from argand.deploy.c.weights import LEVELS, Weight, quantised, rows_of, weight_of
from argand.errors import ArgandError
from argand.graph import FUNCTIONS, Graph, Step, kind_of
from argand.graph.network import run
from argand.graph.steps import STILL_VARIATIONAL
from argand.surgery import is_linear_in_weight

Dtypes = str | Mapping[str, str]

#: real functions, which torch would compute of complex numbers as analytic ones, or not at all
_REAL = [
    *("nn.ReLU", "nn.ReLU6", "nn.LeakyReLU", "nn.ELU", "nn.GELU", "nn.SiLU", "nn.Softplus", "nn.Hardtanh", "nn.Tanh"),
    *("nn.Sigmoid", "nn.PReLU", "nn.Softmax", "nn.LogSoftmax"),
]


@dataclass(frozen=True)
class Reference:
    """A graph of copies of the layers, and the stored weights of each of them."""

    graph: Graph
    weights: dict[nn.Module, Weight]

    def outputs(self, inputs: Sequence[Tensor], dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """What the network returns, computed in float64 or in float32."""
        graph = self.graph if dtype == torch.float64 else _copied(self.graph, dtype)
        with torch.no_grad():
            values = run(graph, [_cast(x, dtype) for x in inputs])
        return [values[name] for name in graph.outputs]


def reference(graph: Graph, dtypes: Dtypes) -> Reference:
    """Copies of the layers in evaluation, rounded to what the program stores."""
    for step in graph.steps:
        _check_layer(step)
    chosen = _chosen(graph, dtypes)
    rounded = _copied(_alive(graph), torch.float32)
    rounded = _copied(rounded, torch.float64)
    weights: dict[nn.Module, Weight] = {}
    for step in rounded.steps:
        layer = step.layer
        if layer is not None and is_linear_in_weight(layer) and layer not in weights:
            weights[layer] = quantised(rows_of(layer), chosen[step.path])
            layer.get_parameter("weight").data = weight_of(layer, weights[layer].restored())
    return Reference(rounded, weights)


def example_values(graph: Graph, example: Sequence[Tensor]) -> dict[str, Tensor]:
    """Every value for the example, step by step, so that what can't be computed is refused by name."""
    with torch.no_grad():
        values = run(replace(graph, steps=()), [_cast(x, torch.float64) for x in example])
        for step in graph.steps:
            inputs = [values[name] for name in step.inputs]
            values[step.name] = _applied(step, inputs)
    return values


def _applied(step: Step, inputs: list[Tensor]) -> Tensor:
    complex_input = any(x.is_complex() for x in inputs)
    kind = kind_of(step.layer) if step.layer is not None else None
    if complex_input and kind is not None and kind.name in _REAL:
        raise ArgandError(
            f"{step.at} is a real function and is given a complex tensor. Put it in argand.nn.Split, which applies it "
            "to both parts."
        )
    function = step.layer or FUNCTIONS[step.kind]
    try:
        value: Tensor = function(*inputs, **step.options)
    except ArgandError as error:
        raise ArgandError(f"{step.at} can't be computed for the example. {error}") from None
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in inputs)
        raise ArgandError(f"{step.at} can't be computed for the example, where it gets {shapes}: {error}") from None
    if value.dim() == 0 or value.shape[0] != 1:
        raise ArgandError(
            f"{step.at} gives {tuple(value.shape)} for the example. Expected the batch axis to stay the first, of 1."
        )
    return value


def _check_layer(step: Step) -> None:
    layer = step.layer
    if step.kind == "Variational":
        raise ArgandError(f"Layer {step.at} {STILL_VARIATIONAL}")
    if layer is None:
        return
    for name, tensor in (*layer.named_parameters(), *layer.named_buffers()):
        if not bool(torch.isfinite(tensor).all()) or (
            tensor.dtype in (torch.float64, torch.complex128)
            and bool((tensor.abs() > torch.finfo(torch.float32).max).any())
        ):
            raise ArgandError(f"Layer {step.at} has a {name} that isn't finite in fp32. Train it again, or mend it.")


def _chosen(graph: Graph, dtypes: Dtypes) -> dict[str, str]:
    """The stored type of each layer with weights, by its path."""
    paths = [step.path for step in graph.steps if step.layer is not None and is_linear_in_weight(step.layer)]
    given = dict.fromkeys(paths or [""], dtypes) if isinstance(dtypes, str) else dict(dtypes)
    for path, dtype in given.items():
        if dtype not in LEVELS:
            raise ArgandError(f"The dtype {dtype!r} is unknown. Expected one of {', '.join(LEVELS)}.")
        if path not in paths and not isinstance(dtypes, str):
            known = ", ".join(f'"{path}"' for path in paths) or "none"
            raise ArgandError(f'dtype names "{path}", which is no layer with weights. Those are: {known}.')
    return dict.fromkeys(paths, "fp32") | given


def _alive(graph: Graph) -> Graph:
    """Only the steps that an output needs."""
    needed, steps = set(graph.outputs), []
    for step in reversed(graph.steps):
        if step.name in needed:
            needed.update(step.inputs)
            steps.append(step)
    return replace(graph, steps=tuple(reversed(steps)))


def _copied(graph: Graph, dtype: torch.dtype) -> Graph:
    """The graph with copies of its layers in evaluation and in a precision; shared layers stay shared."""
    copies: dict[int, nn.Module] = {}
    for step in graph.steps:
        if step.layer is not None and id(step.layer) not in copies:
            layer = copy.deepcopy(step.layer).eval()
            for tensor in (*layer.parameters(), *layer.buffers()):
                tensor.data = _cast(tensor.data, dtype).cpu()
            copies[id(step.layer)] = layer
    steps = (replace(step, layer=copies[id(step.layer)]) if step.layer is not None else step for step in graph.steps)
    return replace(graph, steps=tuple(steps))


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In a precision and the field that it has; counters stay as they are."""
    if not (x.is_floating_point() or x.is_complex()):
        return x
    return x.detach().cpu().to(dtype.to_complex() if x.is_complex() else dtype)
