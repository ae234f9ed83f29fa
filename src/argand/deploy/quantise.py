"""Bits from the posterior: a layer is stored as coarsely as its own uncertainty allows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from argand.deploy.tensors import scales_of
from argand.errors import ArgandError
from argand.field import real_dim
from argand.pruning import Masks
from argand.summary import format_table
from argand.variational import named_layers


@dataclass(frozen=True)
class Choice:
    """A layer's stored type, and why: root mean squares over its kept weights, per weight."""

    path: str
    dtype: str
    rounding: float  # of the stored values
    spread: float  # of the posterior


class Choices(dict[str, str]):
    """Stored types by the paths of layers, for `save(..., dtype=...)`; prints as a table with the reasons."""

    def __init__(self, found: Sequence[Choice]) -> None:
        super().__init__({choice.path: choice.dtype for choice in found})
        self.found = list(found)

    def __str__(self) -> str:
        rows = [[c.path or "weight", c.dtype, f"{c.rounding:.2e}", f"{c.spread:.2e}"] for c in self.found]
        return format_table(["layer", "stored as", "rounding", "spread"], rows)


@torch.no_grad()
def quantise(net: nn.Module, masks: Masks, *, share: float = 1.0) -> Choices:
    """The coarsest of int8, int16 and fp32 for each layer whose rounding stays below the posterior's own spread.

    Both are root mean squares over the kept weights: of rounding to steps of one scale for each output channel,
    and of sigma. `share` is the largest ratio of the two.

    Args:
        net: the sparsified network, before `collapse`.
        masks: what it keeps.
        share: 1 lets rounding be as large as the spread.

    >>> net = argand.sparsify(nn.Sequential(nn.Linear(20, 5)), initial=-8.0)
    >>> argand.deploy.quantise.quantise(net, argand.masks(net, threshold=50.0))
    {'0': 'int8'}
    """
    if not share > 0:
        raise ArgandError(f"share is the largest ratio of rounding to spread, above 0, and {share} was given.")
    found = []
    for name, layer in named_layers(net).items():
        mu = layer.weight_mean.detach()
        if name not in masks:
            raise ArgandError(f"The masks have none for {name!r}: take them from the same network.")
        kept = masks[name].to(mu.device)
        variance = layer.posterior.variance(mu, layer.spread).detach()
        spread = float(variance[kept].double().mean().sqrt()) if kept.any() else 0.0
        found.append(_choice(name.removesuffix("weight").removesuffix("."), layer.mean, mu * kept, kept, spread, share))
    return Choices(found)


def _choice(path: str, layer: nn.Module, weight: Tensor, kept: Tensor, spread: float, share: float) -> Choice:
    axis = int(bool(getattr(layer, "transposed", False)))
    for dtype in ("int8", "int16"):
        step = scales_of(weight, dtype, axis).double()
        along = step.view([n if i == axis else 1 for i, n in enumerate(weight.shape)]).expand(weight.shape)
        # a uniform error in [-step/2, step/2] in each real part
        rounding = float((along[kept].square().mean() * real_dim(weight) / 12).sqrt()) if kept.any() else 0.0
        if rounding <= share * spread:
            return Choice(path, dtype, rounding, spread)
    return Choice(path, "fp32", 0.0, spread)
