"""The same network without the units that no longer matter."""

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.fold import fold
from argand.deploy.units import Analysis, Mixing, analyse, grouped
from argand.errors import ArgandError, ArgandWarning
from argand.graph import Graph, Step, trace, values_of
from argand.graph.nodes import entered, is_leaf
from argand.graph.steps import OPAQUE
from argand.modes import evaluation
from argand.surgery import replace


def compact(
    net: nn.Module, *, fold_batchnorm: bool = False, example: Tensor | tuple[Tensor, ...] | None = None
) -> nn.Module:
    """A new network without dead units: the same class, smaller layers, the same outputs in evaluation.

    A unit goes if every weight that reads it is zero, or if it is a constant (no kept weight feeds it) that its
    readers can take into their biases; then again, until nothing changes. Sums tie units together, and groups of a
    convolution stay equally large. The argument is untouched.

    Args:
        net: a plain network; `argand.collapse` a sparsified one first, and apply its masks.
        fold_batchnorm: put batch norms into the layers before them. A complex one whose 2x2 map is no complex number
            becomes an `argand.nn.Affine`.
        example: inputs (a batch of two or more tells most) on which the outputs are compared. They also tell the
            number of axes; without them a norm after a linear layer is taken to act on its features.

    What can't be read as a graph (a forward with data-dependent control flow) stays as it is, with a warning, and the
    modules that it calls, as a whole, are made smaller one by one.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> with torch.no_grad():
    ...     net[2].weight[:, 1] = 0  # nothing reads the second unit
    >>> argand.compact(net)
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
      (2): Linear(in_features=2, out_features=2, bias=True)
    )
    """
    if not isinstance(net, nn.Module):
        raise ArgandError(f"compact takes a torch.nn.Module, and was given {type(net).__name__}.")
    try:
        small = copy.deepcopy(net)
    except RuntimeError as error:
        raise ArgandError(
            f"{type(net).__name__} can't be copied, since it has tensors that are computed from others: {error} Make "
            "them plain first, with torch.nn.utils.prune.remove or the like."
        ) from None
    old = set(small.modules())
    with evaluation(net, small):
        _compacted(small, fold_batchnorm, "", example)
        if example is not None:
            _compare(net, small, example)
    for module in set(small.modules()) - old:
        module.train(net.training)
    return small


@torch.no_grad()
def _compare(net: nn.Module, small: nn.Module, example: Tensor | tuple[Tensor, ...]) -> None:
    """Refuse a result with other outputs."""
    inputs = example if isinstance(example, tuple) else (example,)
    pairs = zip(*(y if isinstance(y, tuple) else (y,) for y in (net(*inputs), small(*inputs))), strict=True)
    for expected, found in pairs:
        if expected.shape != found.shape or not torch.allclose(expected, found, rtol=1e-3, atol=1e-4):
            raise ArgandError(
                "The compact network's outputs on the example are not the original's: its forward uses its layers in a "
                "way that can't be followed. Leave it as it is, and tell us."
            )


def _compacted(
    net: nn.Module, fold_batchnorm: bool, path: str, example: Tensor | tuple[Tensor, ...] | None = None
) -> None:
    """The network itself, made smaller in place."""
    try:
        graph = trace(net, opaque=True)
    except ArgandError as error:
        where = f'The forward of "{path}"' if path else "The network's own forward"
        _warn(f"{where} is left as it is, and the modules in it are made smaller one by one. {error}")
        parts = list(entered(net))
    else:
        opaque = [step for step in graph.steps if step.kind == OPAQUE]
        parts = [step.layer for step in opaque if step.layer is not None and not is_leaf(step.layer)]
        unknown = [step.at if step.path else step.name for step in opaque if step.layer not in parts]
        if unknown:
            _warn(f"What these read and give is left as it is, since compact does not know them: {', '.join(unknown)}.")
        ndims = {} if example is None or opaque else {k: v.dim() for k, v in values_of(graph, example).items()}
        if fold_batchnorm:
            placed = fold(graph, ndims)
            replace(net, lambda at, module: placed.get(at))
        while _shrink(trace(net, opaque=True), ndims):
            pass
    for part in parts:
        inside = next(name for name, module in net.named_modules() if module is part)
        _compacted(part, fold_batchnorm, f"{path}.{inside}".lstrip("."))


def _warn(message: str) -> None:
    warnings.warn(message, ArgandWarning, stacklevel=5)


def shrink_unread(graph: Graph) -> bool:
    """Take out, in place, the units that nothing reads, and leave constants where they are; whether there were any."""
    return _shrink(graph, {}, absorb=False)


@torch.no_grad()
def _shrink(graph: Graph, ndims: Mapping[str, int], *, absorb: bool = True) -> bool:
    """Take out, once, all units that can go (constants only with `absorb`); whether there were any."""
    analysis = analyse(graph, ndims)
    if not absorb:
        for mixing in analysis.mixing:
            mixing.constant = torch.zeros_like(mixing.constant)
    removed = _removable(analysis)
    if not removed.any():
        return False
    for mixing in analysis.mixing:
        _shrink_mixing(mixing, removed[analysis.roots(mixing.outputs)], removed[analysis.roots(mixing.inputs)])
    for step, units in analysis.per_unit:
        _shrink_per_unit(step, ~removed[analysis.roots(units)])
    return True


def _removable(analysis: Analysis) -> Tensor:
    """By number of unit, whether it goes: the largest set in which no unit is needed by one that stays."""
    every = torch.arange(len(analysis.parents))
    removed = analysis.roots(every) == every  # the others are one with their root
    for unit in analysis.pinned:
        removed[analysis.root(unit)] = False
    layers = [(m, analysis.roots(m.outputs), analysis.roots(m.inputs)) for m in analysis.mixing]
    count = -1
    while count != int(removed.sum()):
        count = int(removed.sum())
        for mixing, outputs, inputs in layers:
            absorbed = mixing.constant & (_foldable(mixing) | (mixing.value == 0))
            removed[inputs[_reads(mixing, ~removed[outputs]) & ~absorbed]] = False
        if count == int(removed.sum()):  # groups are made equal only among units that nothing else holds
            for mixing, outputs, inputs in layers:
                _keep_groups_equal(removed, outputs, inputs, mixing.sizes)
    return removed


def _reads(mixing: Mixing, stay: Tensor) -> Tensor:
    """Which columns have, in a row that stays, a weight that is not zero."""
    weight = mixing.layer.weight
    if mixing.step.kind == "Bilinear":
        used = weight[stay[0]] != 0
        return torch.cat([used.any(2).any(0), used.any(1).any(0)]).unsqueeze(0)
    return ((grouped(mixing.layer, weight) != 0).any(3) & stay.unsqueeze(2)).any(1)


def _foldable(mixing: Mixing) -> bool:
    """Whether a constant input is the same as a bias, at the borders too."""
    layer = mixing.layer
    if mixing.step.kind == "Linear":
        return True
    if mixing.step.kind == "Bilinear" or layer.transposed:
        return False
    padded = layer.padding if isinstance(layer.padding, str) else any(layer.padding)
    return layer.padding_mode != "zeros" or padded in (False, "valid")


def _keep_groups_equal(removed: Tensor, outputs: Tensor, inputs: Tensor, sizes: tuple[int, ...]) -> None:
    """Leave so many units that the layer's groups stay equally large, and none is empty."""
    gone = removed[outputs].all(1) & removed[inputs].all(1)
    if gone.all():
        gone[0] = False
    for side in (outputs[~gone], *torch.split(inputs[~gone], list(sizes), 1)):
        drop = removed[side]
        most = min(int(drop.sum(1).min()), side.shape[1] - 1)
        removed[side[drop & (drop.cumsum(1) > most)]] = False


def _shrink_mixing(mixing: Mixing, out_gone: Tensor, in_gone: Tensor) -> None:
    """Take rows and columns out of a layer; constants among the columns go into its bias."""
    layer = mixing.layer
    if mixing.step.kind == "Bilinear":
        _shrink_bilinear(layer, ~out_gone[0], ~in_gone[0])
        return
    if not (out_gone.any() or in_gone.any()):
        return
    weight = grouped(layer, layer.weight)
    folded = torch.where(in_gone & mixing.constant, mixing.value, torch.zeros_like(mixing.value)).to(weight.dtype)
    shift = torch.einsum("goik,gi->go", weight, folded).flatten()
    bias = layer.bias
    if bias is None and (shift != 0).any():
        layer.bias = bias = nn.Parameter(torch.zeros_like(shift), requires_grad=layer.weight.requires_grad)
    if bias is not None:
        layer.bias = _like(bias, (bias + shift)[~out_gone.flatten()])
    groups = [
        part[~o][:, ~i] for part, o, i in zip(weight, out_gone, in_gone, strict=True) if not (o.all() and i.all())
    ]
    kept = torch.stack(groups)
    count, outputs, inputs, _ = kept.shape
    if getattr(layer, "transposed", False):
        kept, rows = kept.transpose(1, 2), count * inputs
    else:
        rows = count * outputs
    layer.weight = _like(layer.weight, kept.reshape(rows, -1, *layer.weight.shape[2:]))
    if mixing.step.kind == "Linear":
        layer.out_features, layer.in_features = outputs, inputs
    else:
        layer.groups, layer.out_channels, layer.in_channels = count, count * outputs, count * inputs


def _shrink_bilinear(layer: Any, rows: Tensor, columns: Tensor) -> None:
    first, second = torch.split(columns, [layer.in1_features, layer.in2_features])
    layer.weight = _like(layer.weight, layer.weight[rows][:, first][:, :, second])
    if layer.bias is not None:
        layer.bias = _like(layer.bias, layer.bias[rows])
    layer.out_features, layer.in1_features, layer.in2_features = layer.weight.shape


def _shrink_per_unit(step: Step, stay: Tensor) -> None:
    """Take units out of parameters and statistics that have an entry for each."""
    layer: Any = step.layer
    if stay.all():
        return
    for name, parameter in list(layer._parameters.items()):
        if parameter is not None:
            setattr(layer, name, _like(parameter, parameter[stay]))
    for name, buffer in list(layer._buffers.items()):
        if buffer is not None and buffer.dim():
            setattr(layer, name, buffer[stay].clone())
    count = "num_features" if hasattr(layer, "num_features") else "num_parameters"
    setattr(layer, count, int(stay.sum()))


def _like(parameter: Tensor, value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.detach().clone(memory_format=torch.contiguous_format), parameter.requires_grad)
