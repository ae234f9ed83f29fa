"""The part of a pruned network that can still learn something: without the units that nothing reads.

Where every weight that reads a unit is masked, no gradient reaches what feeds it. Trained without it, the rest takes
the same steps: dead entries would have kept their values, and zero moments.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.compact import shrink_unread
from argand.errors import ArgandError
from argand.graph import trace
from argand.pruning import Masks


@dataclass
class LivePart:
    """A smaller network, its masks, and where each of its numbers stands in the whole one (-1: masked, and so zero)."""

    net: nn.Module
    masks: Masks
    positions: Mapping[str, Tensor]

    def take(self, name: str, whole: Tensor) -> Tensor:
        """The entries of a parameter, a buffer, or a moment of one, that belong to this part."""
        places = self.positions[name]
        taken = whole.detach().flatten()[places.clamp_min(0)]
        return torch.where(places >= 0, taken, torch.zeros_like(taken))

    def put(self, name: str, part: Tensor, whole: Tensor) -> None:
        """Write them back; the others stay as they are."""
        places = self.positions[name]
        alive = places >= 0
        with torch.no_grad():
            row = whole.detach().flatten()
            row[places[alive]] = part.detach()[alive]
            whole.copy_(row.view(whole.shape))


def live_part(net: nn.Module, masks: Masks) -> LivePart | None:
    """The live part of a masked network; None where nothing is dead, or the network can't be read as a graph."""
    numbered = copy.deepcopy(net).double().eval()
    tensors = dict(_tensors(numbered))
    for name, tensor in tensors.items():
        tensor.copy_(torch.arange(1, tensor.numel() + 1, device=tensor.device).view(tensor.shape))
        if name in masks:
            tensor.mul_(masks[name])
    try:
        graph = trace(numbered)
    except ArgandError:
        return None
    if not shrink_unread(graph):
        return None
    positions = {name: (t.real if t.is_complex() else t).round().long() - 1 for name, t in _tensors(numbered)}
    small = _cast(numbered, net)
    part = LivePart(small, Masks({name: positions[name] >= 0 for name in masks}), positions)
    whole = dict(_tensors(net))
    for name, tensor in _tensors(small):
        tensor.copy_(part.take(name, whole[name]))
    return part


def _tensors(net: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and statistics; counters aside."""
    buffers = ((name, buffer) for name, buffer in net.named_buffers() if buffer.dim())
    return [*((name, p.data) for name, p in net.named_parameters()), *buffers]


def _cast(net: nn.Module, like: nn.Module) -> nn.Module:
    """In the precision and the mode of another network."""
    reference: Any = next(like.parameters())
    return net.to(reference.dtype.to_real()).train(like.training)
