"""A graph as a module again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.field import field_name
from argand.graph.steps import FUNCTIONS, Graph, layer_step
from argand.modes import evaluation

#: where layers are that a function of the original's forward stands for
FUNCTIONS_PLACE = "_functions"


class Network(nn.Module):
    """Runs a graph; its layers are under the paths that they had, so the state's keys are the original's.

    >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> Network(argand.graph.trace(net))(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """

    def __init__(self, graph: Graph, examples: Sequence[tuple[tuple[int, ...], bool]] = ()) -> None:
        super().__init__()
        self.examples = tuple(examples)  # of each input, if known: the shape without the batch axis, whether complex
        self._places: dict[str, str] = {}
        self._finders: dict[str, Callable[[Any], Any]] = {}
        self._bare = graph
        places = _places(self, graph)
        for step in graph.steps:
            if step.layer is not None:
                _place(self, places[step.name], step.layer)
        # The modules are the only owners of the layers, so that sparsify and the like may replace them.
        self._places = places
        self._finders = {name: attrgetter(place) for name, place in places.items()}
        self._bare = replace(graph, steps=tuple(replace(step, layer=None) for step in graph.steps))

    @property
    def graph(self) -> Graph:
        """The graph with the layers that are in the modules now."""
        layers = {name: self.get_submodule(place) for name, place in self._places.items()}
        steps = (
            layer_step(step.name, layers[step.name], step.inputs, step.path) if step.name in layers else step
            for step in self._bare.steps
        )
        return replace(self._bare, steps=tuple(steps))

    def example(self, batch: int = 1, seed: int = 0) -> tuple[Tensor, ...] | None:
        """Standard normal inputs, if their shapes are known."""
        generator = torch.Generator().manual_seed(seed)
        types = {False: torch.float32, True: torch.complex64}
        made = (torch.randn(batch, *shape, dtype=types[field], generator=generator) for shape, field in self.examples)
        return tuple(made) if self.examples else None

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Apply the steps in order."""
        graph = self._bare
        values = run(graph, inputs, {name: find(self) for name, find in self._finders.items()})
        return values[graph.outputs[0]] if graph.single else tuple(values[name] for name in graph.outputs)


def _places(root: nn.Module, graph: Graph) -> dict[str, str]:
    """Where the layers go, by the names of their steps: to their paths, or among the functions if they have none.

    A name that a module of torch keeps for itself gets an underscore.
    """
    reserved = {*dir(root), *vars(root), "training", FUNCTIONS_PLACE}
    places = {}
    for step in graph.steps:
        if step.layer is not None:
            path = ".".join(f"{part}_" if part in reserved else part for part in step.path.split("."))
            places[step.name] = path if step.path else f"{FUNCTIONS_PLACE}.{step.name}"
    return places


def _place(root: nn.Module, path: str, layer: nn.Module) -> None:
    """Put a layer under a dotted path, in containers made for it."""
    *parents, name = path.split(".")
    module = root
    for parent in parents:
        if parent not in module._modules:
            module.add_module(parent, _Container())
        module = module._modules[parent]  # type: ignore[assignment]
    there = module._modules.get(name)
    if there is None and (module is root or isinstance(module, _Container)):
        module.add_module(name, layer)
    elif there is not layer:
        raise ArgandError(f'Two layers are at "{path}", or one inside another: give one of them another name.')


class _Container(nn.Module):
    """Holds layers on the way along a path."""


def run(graph: Graph, inputs: Sequence[Tensor], layers: Mapping[str, nn.Module] | None = None) -> dict[str, Any]:
    """Every value of the graph by its name; `layers` by the names of their steps, unless they are in the steps."""
    if len(inputs) != len(graph.inputs):
        raise ArgandError(f"The network takes {len(graph.inputs)} inputs, and was given {len(inputs)}.")
    if layers is None:
        layers = {step.name: step.layer for step in graph.steps if step.layer is not None}
    values = dict(zip(graph.inputs, inputs, strict=True))
    for step in graph.steps:
        function = layers.get(step.name) or FUNCTIONS[step.kind]
        values[step.name] = function(*(values[name] for name in step.inputs), **step.options)
    return values


def values_of(graph: Graph, example: Tensor | tuple[Tensor, ...]) -> dict[str, Tensor]:
    """The values for an example, in evaluation: their shapes and fields are what a program is written for."""
    inputs = example if isinstance(example, tuple) else (example,)
    if len(inputs) != len(graph.inputs) or not all(isinstance(x, Tensor) for x in inputs):
        kinds = ", ".join(type(x).__name__ for x in inputs)
        raise ArgandError(f"The network takes {len(graph.inputs)} tensors, and the example is {kinds}.")
    layers = [step.layer for step in graph.steps if step.layer is not None]
    values = dict(zip(graph.inputs, inputs, strict=True))
    with evaluation(*layers), torch.no_grad():
        for step in graph.steps:
            function = step.layer or FUNCTIONS[step.kind]
            given = [values[name] for name in step.inputs]
            try:
                values[step.name] = function(*given, **step.options)
            except ArgandError as error:
                raise ArgandError(f"{step.at} can't be computed for the example: {error}") from None
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                shapes = ", ".join(f"{field_name(x)} {tuple(x.shape)}" for x in given)
                raise ArgandError(
                    f"{step.at} can't be computed for the example, where it gets {shapes}: {error}. The example is a "
                    "batch of inputs, as the network takes them."
                ) from None
    return values
