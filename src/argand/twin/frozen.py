"""The real core of a network: real tensors in, real tensors out, and nothing complex inside."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

import argand.nn as ann
from argand.errors import ArgandError
from argand.field import real_view
from argand.graph import kind_of
from argand.graph.steps import STILL_VARIATIONAL
from argand.nn.batchnorm import evaluation_map
from argand.surgery import replace
from argand.twin.network import Planar, planar, run, step_value
from argand.twin.parts import Parts, split
from argand.variational import Variational


def freeze(net: nn.Module, example: Tensor | tuple[Tensor, ...]) -> "Frozen":
    """A copy of a network in evaluation that takes and gives parts: for exporters, which know no complex numbers.

    Each complex input is two real ones, re and im, in order; outputs likewise. The example says which are complex.

    >>> net = nn.Sequential(argand.nn.Linear(3, 2), argand.nn.ReLU())
    >>> x = torch.randn(5, 3, dtype=torch.complex64)
    >>> [part.shape for part in argand.twin.freeze(net, x)(x.real, x.imag)]
    [torch.Size([5, 2]), torch.Size([5, 2])]
    """
    twin = planar(net)
    for path, module in net.named_modules():
        if isinstance(module, Variational):
            raise ArgandError(f'Layer "{path}" {STILL_VARIATIONAL}')
    return Frozen(twin, example if isinstance(example, tuple) else (example,))


class Frozen(nn.Module):
    """What `freeze` returns. `inputs` and `outputs` are the original's, by name and whether they are complex."""

    def __init__(self, twin: Planar, example: tuple[Tensor, ...]) -> None:
        super().__init__()
        twin = copy.deepcopy(twin).eval()
        with torch.no_grad():
            outputs = twin(*example)
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        names = ["output"] if twin.graph.single else [f"output_{i}" for i in range(len(several))]
        self.inputs = {name: x.is_complex() for name, x in zip(twin.graph.inputs, example, strict=True)}
        self.outputs = {name: x.is_complex() for name, x in zip(names, several, strict=True)}
        self.twin = replace(twin, lambda path, module: _affine(module))
        for module in self.twin.modules():
            _store_views(module)
        self.requires_grad_(False)
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The parts of the outputs."""
        given = iter(inputs)
        values = [Parts(next(given), next(given)) if complex else next(given) for complex in self.inputs.values()]
        outputs = run(self.twin.graph, values, step_value)  # type: ignore[arg-type]
        return tuple(part for x in outputs for part in (x if isinstance(x, Parts) else (x,)))


def named_parts(fields: dict[str, bool]) -> list[str]:
    """The names of the real tensors: X_re and X_im for a complex X.

    >>> named_parts({"x": True, "scale": False})
    ['x_re', 'x_im', 'scale']
    """
    return [
        name
        for whole, is_complex in fields.items()
        for name in ((f"{whole}_re", f"{whole}_im") if is_complex else (whole,))
    ]


def real_parts(values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a frozen network takes or gives for these values."""
    pairs = (split(x) for x in values)
    return tuple(part for x in pairs for part in (x if isinstance(x, Parts) else (x,)))


def _affine(module: nn.Module) -> nn.Module | None:
    """A complex batch norm as the map that it is in evaluation."""
    kind = kind_of(module)
    norm: Any = module
    if kind is None or not kind.name.startswith("ann.BatchNorm") or norm.running_mean is None:
        return None
    with torch.no_grad():
        matrix, shift = evaluation_map(norm)
    layer = ann.Affine(norm.num_features)
    layer.weight, layer.bias = nn.Parameter(matrix), nn.Parameter(shift)
    return layer


def _store_views(module: nn.Module) -> None:
    """Replace complex tensors by their real views, which the planar forms read as well."""
    for name, parameter in module._parameters.items():
        if parameter is not None and parameter.is_complex():
            module._parameters[name] = nn.Parameter(real_view(parameter.detach()), requires_grad=False)
    for name, buffer in module._buffers.items():
        if buffer is not None and buffer.is_complex():
            module._buffers[name] = real_view(buffer)
