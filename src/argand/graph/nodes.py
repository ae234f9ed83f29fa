"""torch.fx's graph of a network, whose leaves are layers."""

import inspect
import operator
import warnings
from collections.abc import Iterator
from typing import Any

from torch import fx, nn

from argand.errors import ArgandError
from argand.graph.kinds import SILENT, kind_of
from argand.variational import Variational


class _Proxy(fx.Proxy):
    """Records `y += x` as what it is, which torch.fx takes for `y = y + x`."""

    def __iadd__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __isub__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

    def __imul__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

    def __itruediv__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})


class _Tracer(fx.Tracer):
    """Enters the user's modules, and stops at layers."""

    def __init__(self, opaque: set[nn.Module]) -> None:
        super().__init__()
        self.opaque = opaque

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m in self.opaque or is_leaf(m)


def is_leaf(module: nn.Module) -> bool:
    """Whether a module is a layer: of argand or of torch (but no container), or one in the table."""
    space = type(module).__module__
    layer = space.startswith(("torch.nn.modules", "argand.nn")) and not isinstance(
        module, nn.Sequential | nn.ModuleList | nn.ModuleDict
    )
    return layer or isinstance(module, (Variational, *SILENT)) or kind_of(module) is not None


class _Pair(nn.Sequential):
    """Holds one layer of two inputs."""

    def forward(self, input1: Any, input2: Any) -> Any:  # type: ignore[override]
        """Apply the layer."""
        return self[0](input1, input2)


def holder(layer: nn.Module) -> nn.Module:
    """A module around a bare layer, with the layer's number of inputs."""
    mean = layer.mean if isinstance(layer, Variational) else layer
    return _Pair(layer) if isinstance(mean, nn.Bilinear) else nn.Sequential(layer)


def nodes_of(net: nn.Module, opaque: bool) -> fx.Graph:
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
