"""The planar network: the graph of another one, run on parts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.graph import Graph, Step, trace
from argand.graph.nodes import is_leaf
from argand.twin.forms import form_of, weighted_form
from argand.twin.parts import Parts, Value, call, join, split
from argand.variational import Variational


def planar(net: nn.Module) -> "Planar":
    """The same network in real arithmetic on [re; im], sharing its layers: the same inputs, outputs and parameters.

    Complex tensors go in and come out where the network has them. The parameters are the original's own, and
    backward fills their `.grad`. Noise and dropout are those of the original for the same seed. It has the modules'
    paths, follows `.train()` and `.eval()`, and may be sparsified or collapsed like the original.

    The forward is read once, as it is in evaluation, and hooks on complex layers don't run.

    >>> net = nn.Sequential(argand.nn.Linear(3, 2), argand.nn.ReLU(), argand.nn.Real())
    >>> x = torch.randn(5, 3, dtype=torch.complex64)
    >>> twin = argand.twin.planar(net)
    >>> torch.allclose(twin(x), net(x), atol=1e-6), list(twin.parameters())[0] is net[0].weight
    (True, True)
    """
    return net if isinstance(net, Planar) else Planar(net)


class Planar(nn.Module):
    """What `planar` returns: the original's layers under their paths, and the graph of its forward."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        graph = trace(net, opaque=True, training=True)
        layers = {step.name: step.layer for step in graph.steps if step.layer is not None}
        for step in graph.steps:
            if step.layer is None and step.kind == "opaque":
                raise ArgandError(
                    f"The network's forward uses {step.name!r}, which has no planar form. Known are sums and products, "
                    "cat, mean, abs, reshape, flatten, transpose, squeeze, and any layer."
                )
        kept = set(layers.values())
        if net in kept:  # a bare layer
            self._modules["layer"] = net
            self.training = net.training
        else:
            _copy_tree(net, self, kept, {})
        made = {name: layer for name, layer in layers.items() if layer not in set(self.modules())}
        if made:  # for functions that are the same as a layer
            functions = self._modules["_functions"] = nn.Module()
            for name, layer in made.items():
                functions._modules[name] = layer.train(net.training)
        paths = {module: path for path, module in self.named_modules()}
        self._places = {name: paths[layer] for name, layer in layers.items()}
        self._graph = replace(graph, steps=tuple(replace(step, layer=None) for step in graph.steps))

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The original's outputs."""
        graph = self._graph
        if len(inputs) != len(graph.inputs):
            raise ArgandError(f"The network takes {len(graph.inputs)} inputs, and was given {len(inputs)}.")
        outputs = run(self.graph, [split(x) for x in inputs], checked)
        joined = tuple(join(x) for x in outputs)
        return joined[0] if graph.single else joined

    @property
    def graph(self) -> Graph:
        """The graph with the layers that are in the modules now."""
        steps = (
            replace(step, layer=self.get_submodule(self._places[step.name])) if step.name in self._places else step
            for step in self._graph.steps
        )
        return replace(self._graph, steps=tuple(steps))


def _copy_tree(module: nn.Module, shell: nn.Module, kept: set[nn.Module], done: dict[nn.Module, nn.Module]) -> None:
    """Give a fresh module the same tensors and children: the layers themselves, containers as fresh modules."""
    shell.training = module.training
    shell._parameters.update(module._parameters)
    shell._buffers.update(module._buffers)
    shell._non_persistent_buffers_set.update(module._non_persistent_buffers_set)
    for name, child in module._modules.items():
        if child is None or child in kept or is_leaf(child):
            shell._modules[name] = child
            continue
        if child not in done:
            done[child] = nn.Module()
            _copy_tree(child, done[child], kept, done)
        shell._modules[name] = done[child]


def run(graph: Graph, inputs: list[Value], apply: Callable[[Step, list[Value]], Value]) -> list[Value]:
    """The outputs of a graph."""
    values: dict[str, Value] = dict(zip(graph.inputs, inputs, strict=True))
    for step in graph.steps:
        given = [values[name] for name in step.inputs]
        values[step.name] = call(step.kind, given, dict(step.options)) if step.layer is None else apply(step, given)
        if getattr(step.layer, "inplace", False):  # what later steps see of the input
            values[step.inputs[0]] = values[step.name]
    return [values[name] for name in graph.outputs]


def checked(step: Step, values: list[Value]) -> Value:
    """A layer's value, where the field of its weight is that of its inputs."""
    layer = step.layer
    mean: Any = layer.mean if isinstance(layer, Variational) else layer
    if weighted_form(mean) and any(isinstance(x, Parts) != mean.weight.is_complex() for x in values):
        _refuse(step, values)
    return step_value(step, values)


def step_value(step: Step, values: list[Value]) -> Value:
    """A layer's value: in its planar form, or as the layer itself gives it where everything is real."""
    layer: Any = step.layer
    form = form_of(layer, values)
    if form is not None:
        return form(layer, *values)
    if any(isinstance(x, Parts) for x in values):
        _refuse(step, values)
    return split(layer(*values))


@torch.no_grad()
def _refuse(step: Step, values: list[Value]) -> NoReturn:
    """Say what is wrong: in the layer's own words, or that it has no planar form."""
    layer: Any = step.layer
    try:
        layer(*(join(x) for x in values))
    except ArgandError:
        raise
    except Exception:  # whatever torch makes of complex values
        pass
    raise ArgandError(
        f"Layer {step.at} was given complex values, and has no planar form. Known are the layers of argand.nn, and "
        "of torch.nn those with complex weights and Flatten; on real values any layer may act."
    )
