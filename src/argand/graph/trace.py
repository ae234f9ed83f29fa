"""From torch.fx's graph of a network to steps, in the vocabulary of `kinds` and `steps`."""

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from argand.errors import ArgandError
from argand.graph.kinds import FUNCTION_LAYERS, SILENT, UNUSED
from argand.graph.network import Network
from argand.graph.nodes import holder, is_leaf, nodes_of
from argand.graph.steps import OPAQUE, Graph, Step, layer_step, objection
from argand.modes import evaluation

_ARITHMETIC: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), "add"),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, "sub", "sub_"), "sub"),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), "mul"),
    **dict.fromkeys((operator.neg, torch.neg, "neg"), "neg"),
    **dict.fromkeys((operator.truediv, operator.itruediv, torch.div, "div", "div_"), "div"),
}
_SHAPES: dict[Any, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys((torch.abs, "abs", operator.abs), ("abs", ())),
    torch.real: ("real", ()),
    **dict.fromkeys((torch.transpose, "transpose"), ("transpose", ("dim0", "dim1"))),
    **dict.fromkeys((torch.squeeze, "squeeze"), ("squeeze", ("dim",))),
    **dict.fromkeys((torch.unsqueeze, "unsqueeze"), ("unsqueeze", ("dim",))),
}
_RESHAPES = (torch.reshape, "reshape", "view", "flatten")
_DROPOUTS: dict[Any, type[nn.Module]] = {
    F.dropout: nn.Dropout,
    F.dropout1d: nn.Dropout1d,
    F.dropout2d: nn.Dropout2d,
    F.dropout3d: nn.Dropout3d,
    F.alpha_dropout: nn.AlphaDropout,
}
_NOTHING = ("contiguous", "clone", "detach", torch.clone)


class _UnknownError(Exception):
    """A node that the vocabulary lacks."""


def trace(net: nn.Module, *, opaque: bool = False, training: bool = False) -> Graph:
    """The graph of a network in evaluation. With `opaque`, what can't be read is one step; else it is refused.

    With `training`, what acts in training alone stays in: dropout, as steps of that name, and "detach".

    >>> [step.kind for step in trace(nn.Sequential(nn.Linear(3, 2), nn.Dropout(), nn.ReLU())).steps]
    ['Linear', 'ReLU']
    """
    if not isinstance(net, nn.Module):
        raise ArgandError(f"Expected a torch.nn.Module, and was given {type(net).__name__}.")
    if isinstance(net, Network):
        return _checked(net.graph, opaque, training)
    root = holder(net) if is_leaf(net) else net
    with evaluation(root):
        nodes = nodes_of(root, opaque)
    graph = _Reader(root, opaque, training).read(nodes)
    if root is not net:
        steps = tuple(Step(s.name, s.kind, s.inputs, s.layer, "", s.options) for s in graph.steps)
        graph = Graph(graph.inputs, steps, graph.outputs, graph.single)
    return graph


def _checked(graph: Graph, opaque: bool, training: bool) -> Graph:
    """The graph of a Network whose layers may have been replaced: silent ones are left out, unknown ones refused."""
    alias: dict[str, str] = {}
    steps = []
    for given in graph.steps:
        step = replace(given, inputs=tuple(alias.get(name, name) for name in given.inputs))
        if isinstance(step.layer, SILENT) and not training:
            alias[step.name] = step.inputs[0]
            continue
        steps.append(step if step.layer is None else _known(step, opaque))
    return replace(graph, steps=tuple(steps), outputs=tuple(alias.get(name, name) for name in graph.outputs))


def _known(step: Step, opaque: bool) -> Step:
    """The step of a layer that can be written down; any other is opaque, or refused."""
    layer = step.layer
    assert layer is not None
    reason = objection(layer)
    if step.kind == OPAQUE or getattr(layer, "return_indices", False):
        reason = (
            "can't be written down: it is no layer of argand.nn, nor one of those of torch.nn that the documentation "
            "lists."
        )
    elif reason is None and not opaque and (layer._forward_hooks or layer._forward_pre_hooks):
        reason = "has hooks, which can't be written down. Remove them first."
    if reason is None:
        return step
    if not opaque:
        raise ArgandError(f"Layer {step.at} {reason}")
    return replace(step, kind=OPAQUE)


#: steps whose value shares memory with their input
_VIEWS = ("Flatten", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "real", "Real", "detach")


class _Reader:
    """From fx's nodes to steps. What does nothing (dropout, unless `training`) is an alias of its input."""

    def __init__(self, net: nn.Module, opaque: bool, training: bool) -> None:
        self.net, self.opaque, self.training = net, opaque, training
        self.steps: list[Step] = []
        self.alias: dict[fx.Node, str] = {}
        self.sizes: dict[fx.Node, tuple[str, Any]] = {}  # x.shape, x.size(0): the value and the axis (None for all)

    def read(self, graph: fx.Graph) -> Graph:
        inputs, returned = [], None
        for node in graph.nodes:
            if node.op == "placeholder":
                if not node.args:  # others have their default
                    inputs.append(node.name)
                    self.alias[node] = node.name
            elif node.op == "output":
                returned = node.args[0]
            elif getattr(node.target, "__name__", "") != "_assert_is_none":
                self._step(node)
        single = isinstance(returned, fx.Node)
        outputs: Any = (returned,) if single else returned
        if not isinstance(outputs, tuple | list) or not all(o in self.alias for o in outputs):
            raise ArgandError(
                f"The network returns {str(returned)[:80]}. Expected a tensor, or a tuple of tensors and nothing else."
            )
        return Graph(tuple(inputs), tuple(self.steps), tuple(self._value(o) for o in outputs), single)

    def _value(self, node: Any) -> str:
        if not isinstance(node, fx.Node) or node not in self.alias:
            raise _UnknownError
        return self.alias[node]

    def _step(self, node: fx.Node) -> None:
        try:
            if node.op == "call_module":
                self._module(node)
            elif node.op in ("call_function", "call_method"):
                self._function(node)
            else:
                raise _UnknownError
        except ArgandError:
            raise
        except (_UnknownError, TypeError, ValueError, IndexError, KeyError):
            if not self.opaque:
                target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
                raise ArgandError(
                    f"The network's forward uses {target!r} with {node.args} {node.kwargs or ''} to give {node.name}, "
                    "which can't be written down. Known are layers of argand.nn and torch.nn, their functions, sums "
                    "and products, division by a number, cat, mean, abs, real, reshape, flatten, transpose, permute, "
                    "squeeze and unsqueeze (docs/deploy.md lists all). For functions of the parts use argand.nn.Split."
                ) from None
            inputs = tuple(self.alias[n] for n in node.all_input_nodes if n in self.alias)
            options = {"attribute": node.target} if node.op == "get_attr" else {}
            self._add(node, Step(node.name, OPAQUE, inputs, options=options))
        if _in_place(node, self.net):
            self._overwritten(node)

    def _add(self, node: fx.Node, step: Step) -> None:
        self.steps.append(step)
        self.alias[node] = step.name

    def _overwritten(self, node: fx.Node) -> None:
        """Whoever reads the input of an in-place step from here on sees its value."""
        old = self.alias[node.all_input_nodes[0]]
        source = next((step for step in self.steps if step.name == old), None)
        if source is not None and source.kind in _VIEWS:
            raise ArgandError(
                f"The network's forward writes in place into a view ({old}, by {node.name}), which can't be followed. "
                "Use the form that is not in place."
            )
        for other, name in self.alias.items():
            if name == old:
                self.alias[other] = self.alias[node]

    def _module(self, node: fx.Node) -> None:
        path = str(node.target)
        layer = self.net.get_submodule(path)
        if isinstance(layer, SILENT):
            self._silent(node, node.args[0], None if isinstance(layer, nn.Identity) else layer, path)
            return
        given = [*node.args, *node.kwargs.values()]
        step = layer_step(node.name, layer, tuple(self._value(x) for x in given), path)
        self._add(node, _known(step, self.opaque))

    def _function(self, node: fx.Node) -> None:
        target: Any = node.target
        named = dict(node.kwargs)
        first, *rest = node.args or (named.pop("input", None),)
        if target in _NOTHING or target in _DROPOUTS:
            make = _DROPOUTS.get(target)
            self._silent(node, first, make(rest[0] if rest else named.get("p", 0.5)) if make else None)
        elif target in (getattr, "size", "shape") or target is operator.getitem:
            self._size(node, first, rest)
        elif target in _ARITHMETIC:
            self._arithmetic(node, _ARITHMETIC[target])
        elif target in (torch.cat, torch.concat, torch.concatenate):
            dim = rest[0] if rest else named.get("dim", 0)
            values: Any = first if first is not None else named["tensors"]
            self._add(node, Step(node.name, "cat", tuple(map(self._value, values)), options={"dim": dim}))
        elif target in (torch.mean, "mean"):
            dim = rest[0] if rest else named.get("dim")
            keep = rest[1] if len(rest) > 1 else named.get("keepdim", False)
            if dim is None:
                raise _UnknownError
            self._one(node, "mean", dim=tuple(dim) if isinstance(dim, tuple | list) else (dim,), keepdim=bool(keep))
        elif target in (torch.permute, "permute"):
            dims: Any = named.get("dims", rest)
            dims = dims[0] if isinstance(dims[0], tuple | list) else dims
            self._one(node, "permute", dims=tuple(dims))
        elif target in _SHAPES:
            kind, names = _SHAPES[target]
            options = dict(zip(names, rest, strict=False)) | named
            if set(options) != set(names):
                raise _UnknownError
            self._one(node, kind, **options)
        elif target in FUNCTION_LAYERS:
            self._layer(node, FUNCTION_LAYERS[target], rest, named)
        elif target in _RESHAPES:
            self._reshape(node, [named["shape"]] if "shape" in named else rest)
        else:
            raise _UnknownError

    def _silent(self, node: fx.Node, first: Any, layer: nn.Module | None, path: str = "") -> None:
        if self.training and layer is not None:
            self._add(node, Step(node.name, type(layer).__name__, (self._value(first),), layer, path))
        elif self.training and node.target == "detach":
            self._one(node, "detach")
        else:
            self.alias[node] = self._value(first)

    def _one(self, node: fx.Node, kind: str, **options: Any) -> None:
        self._add(node, Step(node.name, kind, (self._value(_first(node)),), options=options))

    def _layer(self, node: fx.Node, make: Callable[..., nn.Module], rest: list[Any], named: dict[str, Any]) -> None:
        options = {key: value for key, value in named.items() if key not in UNUSED}
        if named.get("return_indices") or any(isinstance(x, fx.Node) for x in [*rest, *options.values()]):
            raise _UnknownError
        self._add(node, layer_step(node.name, make(*rest, **options).eval(), (self._value(_first(node)),)))

    def _arithmetic(self, node: fx.Node, kind: str) -> None:
        if kind == "neg":
            self._one(node, "mul", value=-1)
            return
        operands: list[Any] = [*node.args, *(node.kwargs[name] for name in ("input", "other") if name in node.kwargs)]
        a, b = operands
        if set(node.kwargs) - {"input", "other"}:
            raise _UnknownError  # alpha, rounding_mode
        if isinstance(a, fx.Node) and isinstance(b, fx.Node):
            if kind == "div":
                raise _UnknownError
            self._add(node, Step(node.name, kind, (self._value(a), self._value(b))))
            return
        if isinstance(b, fx.Node):
            if kind not in ("add", "mul"):
                raise _UnknownError
            a, b = b, a
        if not isinstance(b, int | float) or isinstance(b, bool):
            raise _UnknownError
        self._add(node, Step(node.name, kind, (self._value(a),), options={"value": b}))

    def _size(self, node: fx.Node, first: Any, rest: list[Any]) -> None:
        """x.size(0), x.shape, x.shape[0] and x.real: sizes are only remembered, for a reshape."""
        if node.target is getattr and rest[0] == "real":
            self._one(node, "real")
        elif node.target is getattr and rest[0] == "shape":
            self.sizes[node] = (self._value(first), None)
        elif node.target == "size":
            self.sizes[node] = (self._value(first), rest[0] if rest else None)
        elif node.target is operator.getitem and first in self.sizes and self.sizes[first][1] is None:
            self.sizes[node] = (self.sizes[first][0], rest[0])
        else:
            raise _UnknownError

    def _reshape(self, node: fx.Node, rest: list[Any]) -> None:
        """Reshapes that keep the batch axis: to (batch, -1), or to given numbers."""
        shape: Any = rest[0] if rest and isinstance(rest[0], tuple | list) else rest
        batch, *others = shape
        kept = batch == -1 or (batch in self.sizes and self.sizes[batch][1] == 0)
        if not kept or not all(isinstance(n, int) for n in others):
            raise _UnknownError
        if batch != -1 and others == [-1]:
            self._add(node, layer_step(node.name, nn.Flatten(), (self._value(_first(node)),)))
        else:
            self._one(node, "reshape", shape=tuple(others))


def _first(node: fx.Node) -> Any:
    return node.args[0] if node.args else node.kwargs.get("input")


def _in_place(node: fx.Node, net: nn.Module) -> bool:
    """Whether a node writes into its first input."""
    if node.op == "call_module":
        return bool(getattr(net.get_submodule(str(node.target)), "inplace", False))
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    augmented = node.target in (operator.iadd, operator.isub, operator.imul, operator.itruediv)
    method = node.op != "get_attr" and name.endswith("_") and not name.endswith("__")
    return augmented or method or bool(node.kwargs.get("inplace"))
