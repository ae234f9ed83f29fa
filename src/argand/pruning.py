"""Masks: which weights stay. Data, not layers: a dict of bool tensors under the names of the plain network."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.files import load_tensor_file, save_tensor_file
from argand.surgery import is_linear_in_weight
from argand.variational import Variational, log_alpha

DEFAULT_THRESHOLD = -0.5


class Masks(dict[str, Tensor]):
    """Bool tensors by weight name, True = keep; the same for a sparsified network and its collapsed form.

    >>> net = nn.Linear(2, 1)
    >>> masks = Masks(weight=torch.tensor([[True, False]]))
    >>> masks.apply_(net).weight[0, 1].item(), masks.kept
    (0.0, 0.5)
    """

    def count(self) -> tuple[int, int]:
        """How many weights stay, of how many (a complex weight is one)."""
        return sum(int(mask.sum()) for mask in self.values()), sum(mask.numel() for mask in self.values())

    @property
    def kept(self) -> float:
        """The share of weights that stay."""
        stay, total = self.count()
        return stay / total if total else 1.0

    def apply_(self, net: nn.Module) -> nn.Module:
        """Set the dropped weights to zero, in place; returns the network."""
        _zero(self._matched(net))
        return net

    @contextmanager
    def pin(self, net: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Hold the dropped weights at zero while the others are fine-tuned.

        Their gradients are zeroed as they arrive, so clipping sees the kept weights only, and after each step of the
        optimiser they are set to zero again, whatever momentum or weight decay did.

        >>> net, masks = nn.Linear(2, 1), Masks(weight=torch.tensor([[True, False]]))
        >>> opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
        >>> with masks.pin(net, opt):
        ...     net(torch.ones(3, 2)).sum().backward()
        ...     opt.step()
        >>> net.weight[0, 1].item()
        0.0
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ArgandError(f"pin needs the torch optimizer of the loop, and was given {type(optimizer).__name__}.")
        pairs = self._matched(net)
        _zero(pairs)
        _zero([(weight.grad, mask) for weight, mask in pairs if weight.grad is not None])
        hooks = [_mask_gradient(weight, mask) for weight, mask in pairs if weight.requires_grad]
        hooks.append(optimizer.register_step_post_hook(lambda *_: _zero(pairs)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def save(self, path: str | Path) -> None:
        """Write the masks as a safetensors file."""
        save_tensor_file(path, self, kind="masks")

    @classmethod
    def load(cls, path: str | Path) -> "Masks":
        """Read what `save` wrote."""
        return cls(load_tensor_file(path, "masks saved by argand: bool tensors", lambda t: t.dtype == torch.bool))

    def _matched(self, net: nn.Module) -> list[tuple[nn.Parameter, Tensor]]:
        """Each mask with its weight, checked by name and shape, on the weight's device."""
        weights = plain_parameters(net)
        pairs = []
        for name, mask in self.items():
            if name not in weights:
                near = ", ".join(n for n in weights if n.endswith("weight"))
                raise ArgandError(f"There is a mask for {name!r}, and {type(net).__name__} has no such weight: {near}.")
            weight = weights[name]
            if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != weight.shape:
                found = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask)
                raise ArgandError(
                    f"The mask of {name!r} is {found}, and the weight needs a bool tensor of shape "
                    f"{tuple(weight.shape)}."
                )
            pairs.append((weight, mask.to(weight.device)))
        return pairs


@torch.no_grad()
def _zero(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    for tensor, mask in pairs:
        tensor.masked_fill_(~mask, 0)


def _mask_gradient(weight: nn.Parameter, mask: Tensor) -> Any:
    """Zero the dropped entries of a gradient before it is accumulated (and before DDP reduces it)."""
    return weight.register_hook(lambda grad: grad.masked_fill(~mask, 0))  # type: ignore[no-untyped-call]


def plain_parameters(net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by their names in the collapsed network; those of the posteriors are left out."""
    own = {
        id(p) for module in net.modules() if isinstance(module, Variational) for p in module.parameters(recurse=False)
    }
    wrappers = {path for path, module in net.named_modules(remove_duplicate=False) if isinstance(module, Variational)}

    def plain(name: str) -> str:
        path, _, leaf = name.rpartition(".")
        wrapper, _, last = path.rpartition(".")
        return f"{wrapper}.{leaf}".lstrip(".") if last == "mean" and wrapper in wrappers else name

    return {plain(name): p for name, p in net.named_parameters() if id(p) not in own}


def masks(net: nn.Module, threshold: float | None = None, *, kept: float | None = None) -> Masks:
    """Which weights of a sparsified network to keep: log_alpha <= threshold, or the given share of all of them.

    The default threshold is -0.5. With `kept`, all weights are ranked together by log_alpha and exactly
    round(kept·n) stay; ties go to the earlier layer and position.

    >>> net = argand.sparsify(nn.Sequential(nn.Linear(10, 10)))
    >>> argand.masks(net, kept=0.25).count()
    (25, 100)
    """
    if threshold is not None and kept is not None:
        raise ArgandError(f"Give a threshold or a kept share, not both: threshold={threshold}, kept={kept}.")
    scores = log_alpha(net)
    for name, score in scores.items():
        if torch.isnan(score).any():
            raise ArgandError(f"{name!r} has a log_alpha that is not a number: the training has diverged.")
    if kept is not None:
        return _largest_share(scores, kept)
    limit = DEFAULT_THRESHOLD if threshold is None else check_threshold(threshold)
    return Masks({name: score <= limit for name, score in scores.items()})


def by_modulus(net: nn.Module, kept: float) -> Masks:
    """Magnitude pruning: keep this share of a plain network's weights, the largest by modulus in all layers together.

    >>> by_modulus(nn.Sequential(nn.Linear(10, 10)), kept=0.25).count()
    (25, 100)
    """
    weights = {
        f"{path}.weight".removeprefix("."): layer.get_parameter("weight").detach()
        for path, layer in net.named_modules()
        if is_linear_in_weight(layer)
    }
    if not weights:
        raise ArgandError(f"{type(net).__name__} has no layer whose weights can be pruned.")
    return _largest_share({name: -weight.abs() for name, weight in weights.items()}, kept)


def check_threshold(threshold: float) -> float:
    """The threshold as a number; refuses NaN and what is no number."""
    try:
        value = float(threshold)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        raise ArgandError(f"The threshold on log_alpha must be a number, and {threshold!r} was given.")
    return value


def _largest_share(scores: dict[str, Tensor], kept: float) -> Masks:
    """Keep exactly round(kept·n) of all n weights: those of smallest log_alpha, the earlier one first in a tie."""
    if not 0 <= kept <= 1:  # also false for NaN
        raise ArgandError(f"kept is the share of weights to keep, between 0 and 1, and {kept} was given.")
    first = next(iter(scores.values()))
    ranked = torch.cat([score.flatten().to(first) for score in scores.values()])
    stay = torch.zeros(ranked.shape, dtype=torch.bool, device=first.device)
    stay[torch.sort(ranked, stable=True).indices[: round(kept * len(ranked))]] = True
    parts: Iterable[Tensor] = stay.split([score.numel() for score in scores.values()])  # type: ignore[no-untyped-call]
    return Masks({n: p.view(s.shape).to(s.device) for (n, s), p in zip(scores.items(), parts, strict=True)})
