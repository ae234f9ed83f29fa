"""The three stages as functions from the parent's state to the stage's own, and what each one's result says."""

import json
import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

import argand
from argand import ArgandError
from argand.optim import Adam
from argand.pruning import by_modulus
from argand.study.fit import Config, seed_everything
from argand.study.models import network
from argand.study.records import BAYESIAN
from argand.study.state import State
from argand.study.tasks import Task

HISTOGRAM = (-12.0, 12.0, 96)  # of log_alpha: low, high, bins


def pretrain(config: Config, task: Task) -> State:
    """A fresh network."""
    seed_everything(seed_of(config, config))
    sample = task.sample()
    net = network(config["model"], config["field"], sample.cpu(), task.classes, config["width"]).to(sample.device)
    return State(net, _adam(net, config))


def sparsify(parent: State, config: Config) -> State:
    """The trained network with a posterior, and with Adam as it was; as it is for the magnitude methods.

    A network that is sparsified already, at a neighbouring C, goes on as it is.
    """
    net, method = parent.net, config["method"]
    warm = any(isinstance(module, argand.Variational) for module in net.modules())
    if method in BAYESIAN and not warm:
        prior, posterior = ("vd", "real-scaling") if method == "real-scaling" else (method, "circular")
        argand.sparsify(net, prior, posterior=posterior, initial=config["initial"])
    if not config["carry_moments"]:
        return State(net, _adam(net, config))
    optimizer = parent.optimizer
    optimizer.max_norm = config["max_norm"]
    if method in BAYESIAN and not warm:
        optimizer.add_new_parameters()
    return State(net, optimizer)


def finetune(parent: State, config: Config) -> State:
    """The plain network that is left, its masks, and a fresh Adam."""
    net = parent.net
    if config["threshold"] is not None:
        masks = argand.masks(net, config["threshold"])
        argand.collapse(net)
    else:
        masks = by_modulus(net, config["kept"])
    masks.apply_(net)
    return State(net, _adam(net, config), masks)


def _adam(net: nn.Module, config: Config) -> Adam:
    return Adam(net, lr=config["lr"], max_norm=config["max_norm"])


def cubic(kept: float, done: float) -> float:
    """The share to keep when this share of the stage is done: 1 - (1 - kept)(1 - (1 - done)³).

    >>> [round(cubic(0.1, done), 4) for done in (0.0, 0.5, 1.0)]
    [1.0, 0.2125, 0.1]
    """
    return 1 - (1 - kept) * (1 - (1 - done) ** 3)


def around_epoch(state: State, config: Config, epoch: int) -> AbstractContextManager[object]:
    """What an epoch runs under: the masks, which grow epoch by epoch for magnitude-cubic."""
    if config.get("method") == "magnitude-cubic":
        state.masks = by_modulus(state.net, cubic(config["kept"], (epoch + 1) / config["epochs"]))
    net, optimizer, masks = state.trained
    return nullcontext() if masks is None else masks.pin(net, optimizer)


def forward_of(first: Config, net: nn.Module) -> Callable[[Tensor], Tensor]:
    """The function that trains a network: itself, or its twin in real arithmetic, which may run in bfloat16."""
    model = argand.planar(net) if first.get("planar") else net
    if first.get("precision") != "bf16":
        return model
    device = next(net.parameters()).device.type

    def autocast(x: Tensor) -> Tensor:
        model.train(net.training)
        with torch.autocast(device, torch.bfloat16):
            output: Tensor = model(x)
        return output

    return autocast


def divergence_weight(config: Config, task: Task) -> float:
    """What multiplies the divergence in a stage: C/N, or C times the number that is configured."""
    if config.get("method") not in BAYESIAN:
        return 0.0
    rule = config["divergence_weight"]
    return float(config["C"] / task.size if rule == "C/N" else config["C"] * rule)


def share_kept(state: State, config: Config) -> float | None:
    """The share of weights that the usual threshold would keep now; None while all stay."""
    if config.get("method") in BAYESIAN:
        return argand.masks(state.net).kept
    return None if state.masks is None else state.masks.kept


def seed_of(config: Config, first: Config) -> str:
    """What a stage's random numbers come from: the seed, the stage, and the cell where cells don't share."""
    replica = json.dumps(first["replica"], sort_keys=True) if "replica" in first else ""
    return f"{first['seed']}/{config['stage']}/{replica}"


def result(state: State, config: Config, first: Config, task: Task) -> dict[str, Any]:
    """What a finished stage reports; no time, place or path, so that equal runs report the same."""
    score, loss = task.score(state.net)
    values: dict[str, Any] = {"metric": task.metric, "score": score, "loss": loss, "epochs_run": state.epoch}
    values |= provenance(first)
    if config["stage"] == "sparsify" and config["method"] in BAYESIAN:
        values["log_alpha"] = {name: _histogram(value) for name, value in argand.log_alpha(state.net).items()}
    if config["stage"] == "finetune":
        assert state.masks is not None
        counted = argand.report(state.net, state.masks)
        total = counted.total
        values |= {
            "kept": state.masks.kept, "compression": counted.compression, "floats": total.floats,
            "kept_floats": total.kept_floats, "bytes": total.bytes, "dense_bytes": total.dense_bytes,
            "evaluations": len(state.validation) or None,
        }  # fmt: skip
        names = ("name", "field", "weights", "kept", "floats", "kept_floats", "dense_bytes", "bytes")
        values["layers"] = [{name: asdict(row)[name] for name in names} for row in counted.layers]
    return values


def provenance(first: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, device kind and threads."""
    versions = {"argand": argand.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"versions": versions, "device": first.get("device", "cpu"), "threads": first.get("threads", 1)}


def _histogram(values: torch.Tensor) -> dict[str, Any]:
    low, high, bins = HISTOGRAM
    counts = torch.histc(values.float().cpu().clamp(low, high), bins=bins, min=low, max=high)
    return {"low": low, "high": high, "counts": counts.int().tolist()}


def check_early_stopping(config: Config, task: Task) -> None:
    """Refuse early stopping without validation data."""
    if config["early_stopping"] is not None and not task.has_validation:
        raise ArgandError(
            f"stages.{config['stage']}.early_stopping needs validation data: hold some of the training images out "
            "with data.validation."
        )
