"""From torch.fx's graph of a network to steps, in the vocabulary of `kinds` and `steps`."""

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from argand.errors import ArgandError
from argand.graph.kinds import FUNCTION_LAYERS, SILENT, UNUSED
from argand.graph.network import Network
from argand.graph.nodes import holder, is_leaf, nodes_of
from argand.graph.steps import OPAQUE, Graph, Step, layer_step
from argand.modes import evaluation

_ARITHMETIC: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), "add"),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, "sub", "sub_"), "sub"),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), "mul"),
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
        return net.graph
    root = holder(net) if is_leaf(net) else net
    with evaluation(root):
        nodes = nodes_of(root, opaque)
    reader = _Reader(root, opaque, training)
    graph = reader.read(nodes)
    if root is not net:
        steps = tuple(Step(s.name, s.kind, s.inputs, s.layer, "", s.options) for s in graph.steps)
        graph = Graph(graph.inputs, steps, graph.outputs, graph.single)
    return graph


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
            elif "assert" not in node.name:
                self._step(node)
        single = isinstance(returned, fx.Node)
        outputs: Any = (returned,) if single else returned
        if not isinstance(outputs, tuple | list) or not all(isinstance(o, fx.Node) for o in outputs):
            raise ArgandError(
                f"The network returns {type(returned).__name__}. Expected a tensor or a tuple of tensors."
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
        except (_UnknownError, TypeError):
            if not self.opaque:
                target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
                raise ArgandError(
                    f"The network's forward uses {target!r} ({node.op.replace('_', ' ')}, as {node.format_node()}), "
                    "which can't be written down. Known are the layers of argand.nn and torch.nn in the documentation, "
                    "sums and products, cat, mean, abs, reshape, flatten, transpose, squeeze."
                ) from None
            inputs = tuple(self.alias[n] for n in node.all_input_nodes if n in self.alias)
            self._add(node, Step(node.name, OPAQUE, inputs))

    def _add(self, node: fx.Node, step: Step) -> None:
        self.steps.append(step)
        self.alias[node] = step.name

    def _module(self, node: fx.Node) -> None:
        path = str(node.target)
        layer = self.net.get_submodule(path)
        if isinstance(layer, SILENT):
            self._silent(node, node.args[0], None if isinstance(layer, nn.Identity) else layer, path)
            return
        given = [*node.args, *node.kwargs.values()]
        step = layer_step(node.name, layer, tuple(self._value(x) for x in given), path)
        if (step.kind == OPAQUE and not self.opaque) or getattr(layer, "return_indices", False):
            raise ArgandError(
                f'Layer "{path}" ({type(layer).__name__}) can\'t be written down: it is no layer of argand.nn, nor one '
                "of those of torch.nn that the documentation lists."
            )
        self._add(node, step)

    def _function(self, node: fx.Node) -> None:
        target: Any = node.target
        first, *rest = node.args or (None,)
        named = dict(node.kwargs)
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
            dims: Any = rest[0] if rest and isinstance(rest[0], tuple | list) else rest
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
            self._reshape(node, rest)
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
        self._add(node, Step(node.name, kind, (self._value(node.args[0]),), options=options))

    def _layer(self, node: fx.Node, make: Callable[..., nn.Module], rest: list[Any], named: dict[str, Any]) -> None:
        options = {key: value for key, value in named.items() if key not in UNUSED}
        if named.get("return_indices") or any(isinstance(x, fx.Node) for x in [*rest, *options.values()]):
            raise _UnknownError
        self._add(node, layer_step(node.name, make(*rest, **options).eval(), (self._value(node.args[0]),)))

    def _arithmetic(self, node: fx.Node, kind: str) -> None:
        a, b = node.args
        if isinstance(a, fx.Node) and isinstance(b, fx.Node):
            if kind == "div":
                raise _UnknownError
            self._add(node, Step(node.name, kind, (self._value(a), self._value(b))))
            return
        if isinstance(b, fx.Node):
            if kind not in ("add", "mul"):
                raise _UnknownError
            a, b = b, a
        if not isinstance(b, int | float) or node.kwargs:
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
            self._add(node, layer_step(node.name, nn.Flatten(), (self._value(node.args[0]),)))
        else:
            self._one(node, "reshape", shape=tuple(others))
