"""What a stage carries from epoch to epoch, and its checkpoint: one safetensors file, nothing pickled."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand import ArgandError, Masks
from argand.deploy.live import LivePart
from argand.files import load_tensor_file, save_tensor_file
from argand.optim import Adam


@dataclass
class Live:
    """The part of a network that is trained, with an Adam of its own."""

    part: LivePart
    optimizer: Adam


@dataclass
class State:
    """A network in training, its optimiser, its masks once it has some, and the epochs so far.

    Within an epoch its `live` part, if it has one, is trained in place of the whole.
    """

    net: nn.Module
    optimizer: Adam
    masks: Masks | None = None
    live: Live | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)  # scores taken for early stopping

    @property
    def trained(self) -> tuple[nn.Module, Adam, Masks | None]:
        """The network, the optimiser and the masks of an epoch."""
        if self.live is None:
            return self.net, self.optimizer, self.masks
        return self.live.part.net, self.live.optimizer, self.live.part.masks

    @property
    def epoch(self) -> int:
        """Epochs finished."""
        return len(self.history)


class DivergedError(Exception):
    """The loss is no longer a number: the stage ends here."""


def save_checkpoint(path: Path, state: State, *, moments: bool = True) -> None:
    """Write everything that is needed to go on (without moments: to use the network)."""
    tensors = {f"net.{name}": value for name, value in state.net.state_dict().items()}
    for name, parameter in state.net.named_parameters() if moments else ():
        for key, value in state.optimizer.state[parameter].items():
            tensors[f"adam.{key}.{name}"] = value
    for name, mask in (state.masks or {}).items():
        tensors[f"mask.{name}"] = mask
    progress = json.dumps({"history": state.history, "validation": state.validation}, allow_nan=False)
    tensors["progress"] = torch.frombuffer(bytearray(progress.encode()), dtype=torch.uint8)
    save_tensor_file(path, tensors, kind="checkpoint")


def load_checkpoint(path: Path, state: State) -> None:
    """Put a checkpoint into a state of the same network; refuses one of another."""
    tensors = load_tensor_file(path, "a checkpoint of this stage", lambda tensor: True)
    try:
        progress = json.loads(bytes(tensors.pop("progress").tolist()))
        state.history, state.validation = list(progress["history"]), list(progress["validation"])
    except (KeyError, TypeError, ValueError):
        raise ArgandError(f"{path} holds no record of its epochs. Expected a checkpoint that argand wrote.") from None
    try:
        state.net.load_state_dict(dict(_under("net.", tensors)))
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise ArgandError(f"{path} is of another network: {problem}") from None
    masks = dict(_under("mask.", tensors))
    state.masks = Masks(masks) if masks else None
    parameters = dict(state.net.named_parameters())
    state.optimizer.state.clear()
    for name, value in _under("adam.", tensors):
        key, _, parameter = name.partition(".")
        target = parameters[parameter]
        state.optimizer.state[target][key] = value.to(target.device)
    if state.masks is not None:
        state.masks._matched(state.net)  # raises on a wrong name or shape


def _under(prefix: str, tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), value) for name, value in tensors.items() if name.startswith(prefix))
