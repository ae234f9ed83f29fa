"""Reading a network's graph with torch.fx, in the vocabulary of `kinds` and `steps`."""

import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from argand.errors import ArgandError
from argand.graph.kinds import FUNCTION_LAYERS, SILENT, UNUSED, kind_of
from argand.graph.network import Network
from argand.graph.steps import OPAQUE, Graph, Step, layer_step
from argand.variational import Variational

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


class _Tracer(fx.Tracer):
    """Enters the user's modules, and stops at layers."""

    def __init__(self, opaque: set[nn.Module]) -> None:
        super().__init__()
        self.opaque = opaque

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m in self.opaque or is_leaf(m)


def is_leaf(module: nn.Module) -> bool:
    """Whether a module is a layer: of argand or of torch (but no container), or one in the table."""
    space = type(module).__module__
    layer = space.startswith(("torch.nn.modules", "argand.nn")) and not isinstance(
        module, nn.Sequential | nn.ModuleList | nn.ModuleDict
    )
    return layer or isinstance(module, (Variational, *SILENT)) or kind_of(module) is not None


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
    root = _holder(net) if is_leaf(net) else net
    with _evaluation(root):
        nodes = _nodes(root, opaque)
    reader = _Reader(root, opaque, training)
    graph = reader.read(nodes)
    if root is not net:
        steps = tuple(Step(s.name, s.kind, s.inputs, s.layer, "", s.options) for s in graph.steps)
        graph = Graph(graph.inputs, steps, graph.outputs, graph.single)
    return graph


class _Pair(nn.Sequential):
    """Holds one layer of two inputs."""

    def forward(self, input1: Any, input2: Any) -> Any:  # type: ignore[override]
        """Apply the layer."""
        return self[0](input1, input2)


def _holder(layer: nn.Module) -> nn.Module:
    """A module around a bare layer, with the layer's number of inputs."""
    mean = layer.mean if isinstance(layer, Variational) else layer
    return _Pair(layer) if isinstance(mean, nn.Bilinear) else nn.Sequential(layer)


def _nodes(net: nn.Module, opaque: bool) -> fx.Graph:
    """fx's own graph; modules that fx can't enter become leaves, or are refused by name."""
    barred: set[nn.Module] = set()
    while True:
        try:
            return _fx_graph(net, barred)
        except Exception as error:
            if isinstance(error, ArgandError):
                raise
            culprit, reason = _culprit(net, barred, error)
            if culprit is net or not opaque:
                where = next(path for path, module in net.named_modules() if module is culprit)
                name = f'The forward of "{where}" ({type(culprit).__name__})' if where else "The network's own forward"
                raise ArgandError(
                    f"{name} can't be read as a graph of layers: {reason} Its control flow may not depend on the data."
                ) from None
            barred.add(culprit)


def _fx_graph(net: nn.Module, barred: set[nn.Module]) -> fx.Graph:
    defaults = {
        name: p.default
        for name, p in inspect.signature(net.forward).parameters.items()
        if p.default is not inspect.Parameter.empty
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Tracer(barred).trace(net, concrete_args=defaults or None)


def _culprit(net: nn.Module, barred: set[nn.Module], error: Exception) -> tuple[nn.Module, str]:
    """The innermost module whose own forward fails to trace, and why."""
    for module in entered(net):
        if module not in barred:
            try:
                _fx_graph(module, barred)
            except Exception as inner:
                return _culprit(module, barred, inner)
    words = " ".join(str(error).split()) or type(error).__name__
    return net, words if words.endswith(".") else words + "."


def entered(net: nn.Module) -> Iterator[nn.Module]:
    """The children with a forward of their own, through lists."""
    for child in net.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from entered(child)
        elif not is_leaf(child):
            yield child


@contextmanager
def _evaluation(net: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


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
