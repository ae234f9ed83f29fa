"""Batch norm folded into the layer before it, as far as its 2x2 map allows."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.units import MIXING
from argand.graph import Graph, Step
from argand.nn import Affine
from argand.nn.batchnorm import evaluation_map

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
_LINEAR = 1e-6  # how far, relatively, a 2x2 map may be from a complex number


def fold(graph: Graph, ndims: Mapping[str, int]) -> dict[str, nn.Module]:
    """Fold batch norms into what stands before them, in place; what takes their own places, by path.

    A real one, or a complex one whose map is a complex number, goes into the weights of a linear layer before it,
    and leaves an Identity. Any other complex one becomes an `argand.nn.Affine`, 6 floats a channel in place of 11.
    """
    before = {step.name: step for step in graph.steps}
    readers = graph.readers()
    layers = [step.layer for step in graph.steps]
    placed: dict[str, nn.Module] = {}
    for step in graph.steps:
        layer: Any = step.layer
        if step.kind not in _NORMS or layer.running_mean is None or layers.count(layer) > 1:
            continue
        source = before.get(step.inputs[0])
        alone = source is not None and len(readers[source.name]) == 1 and source.name not in graph.outputs
        single = alone and source is not None and source.kind in MIXING and layers.count(source.layer) == 1
        scale_and_shift = _complex_scale(layer) if layer.running_mean.is_complex() else _real_scale(layer)
        if single and scale_and_shift is not None and source is not None and _same_axis(source, step, ndims):
            _into(source.layer, *scale_and_shift)
            placed[step.path] = nn.Identity()
        elif layer.running_mean.is_complex():
            placed[step.path] = _as_affine(layer)
    return placed


def _same_axis(source: Step, norm: Step, ndims: Mapping[str, int]) -> bool:
    """Whether the norm's channels are the layer's outputs; where the axes are not known, by their number."""
    layer: Any = source.layer
    outputs = layer.out_features if source.kind in ("Linear", "Bilinear") else layer.out_channels
    features = source.kind.startswith("Conv") or ndims.get(source.name, 2) == 2
    return bool(features and outputs == norm.layer.num_features)  # type: ignore[union-attr]


def _real_scale(norm: Any) -> tuple[Tensor, Tensor]:
    scale = (norm.running_var + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.detach()
    shift = -norm.running_mean * scale
    return scale, shift if norm.bias is None else shift + norm.bias.detach()


def _complex_scale(norm: Any) -> tuple[Tensor, Tensor] | None:
    with torch.no_grad():
        matrix, shift = evaluation_map(norm)
    (a, b), (c, d) = (row.unbind(-1) for row in matrix.unbind(-2))
    far = torch.maximum((a - d).abs(), (b + c).abs())
    if (far > _LINEAR * matrix.abs().amax((-1, -2))).any():
        return None
    return torch.complex((a + d) / 2, (c - b) / 2), shift


def _as_affine(norm: Any) -> Affine:
    with torch.no_grad():
        matrix, shift = evaluation_map(norm)
        result = Affine(norm.num_features, device=shift.device, dtype=shift.dtype)
        result.weight.copy_(matrix)
        result.bias.copy_(shift)
    return result


@torch.no_grad()
def _into(layer: Any, scale: Tensor, shift: Tensor) -> None:
    """y -> scale·y + shift, as part of the layer."""
    weight: Tensor = layer.weight
    if getattr(layer, "transposed", False):
        grouped = scale.view(layer.groups, 1, -1).expand(-1, weight.shape[0] // layer.groups, -1)
        factor = grouped.reshape(weight.shape[0], weight.shape[1], *(1,) * (weight.dim() - 2))
    else:
        factor = scale.view(-1, *(1,) * (weight.dim() - 1))
    layer.weight = nn.Parameter(weight * factor, requires_grad=weight.requires_grad)  # another layer may have the old
    bias = shift if layer.bias is None else layer.bias.detach() * scale + shift
    layer.bias = nn.Parameter(bias.clone(), requires_grad=weight.requires_grad)
