"""The training loop of every stage."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from argand.loops import compiling
from argand.study.live import settle
from argand.study.profile import Stopwatch
from argand.study.state import DivergedError, State
from argand.study.tasks import Batch, Task

MANY_STEPS = 1000  # in a stage, from which the seconds that compiling takes come back
Config = Mapping[str, Any]
#: called about once a second: the epoch, the share of it that is done, the loss
Tick = Callable[[int, float, float], None]


def fit(
    state: State,
    config: Config,
    task: Task,
    *,
    seed: str,
    divergence_weight: float = 0.0,
    kept: Callable[[], float | None] = lambda: None,
    around: Callable[[int], AbstractContextManager[object]] = lambda epoch: nullcontext(),
    forward: Callable[[nn.Module], Callable[[Tensor], Tensor]] = lambda net: net,
    save: Callable[[], None] = lambda: None,
    watch: Stopwatch | None = None,
    tick: Tick = lambda epoch, share, loss: None,
) -> None:
    """Train the state's network in place, from the epoch it is at to the configured last.

    All random numbers of an epoch come from `seed` and the epoch, so a stage that is taken up again goes on as if it
    had never stopped. `around(epoch)` is entered for each epoch, `kept()` is noted after it, `save()` ends it.
    `forward` gives the function that is trained in place of the network itself, on the same parameters. Raises
    DivergedError when the loss is no number.
    """
    watch = watch or Stopwatch()
    net, optimizer, _ = state.trained
    steps = task.steps(config["batch"])
    wanted = None if config["epochs"] * steps >= MANY_STEPS else False
    for epoch in range(state.epoch, config["epochs"]):
        if should_stop(state, config, task):
            break
        rate = learning_rate(config, epoch)
        for group in optimizer.param_groups:
            group["lr"] = rate
        generator = seed_everything(f"{seed}/{epoch}")
        net.train()
        total, count, told = torch.zeros(()), 0, time.monotonic()
        with around(epoch), compiling(wanted):
            batches = iter(task.batches(config["batch"], generator))
            while (batch := _next(batches, watch)) is not None:
                optimizer.divergence_weight = divergence_weight * ramp(config, epoch + count / steps)
                with watch("forward"):
                    loss = task.loss(forward(net)(batch[0]).float(), batch[1])
                with watch("backward"):
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                with watch("update"):
                    optimizer.step()
                total, count = total.to(loss.device) + loss.detach(), count + 1
                if time.monotonic() - told > 1:
                    told = time.monotonic()
                    tick(epoch, count / steps, check_finite(total, epoch) / count)
        settle(state)
        mean = check_finite(total, epoch) / count
        line: dict[str, Any] = {"epoch": epoch + 1, "loss": mean, "lr": rate, "kept": kept()}
        every = config["score_every"]
        with watch("evaluation"):
            line["score"] = task.score(state.net)[0] if every and (epoch + 1) % every == 0 else None
        state.history.append(line)
        tick(epoch, 1.0, mean)
        with watch("checkpoint"):
            save()


def _next(batches: Iterator[Batch], watch: Stopwatch) -> Batch | None:
    with watch("data"):
        return next(batches, None)


def check_finite(total: torch.Tensor, epoch: int) -> float:
    """The value, unless it is no number."""
    value = float(total)
    if value - value != 0:
        raise DivergedError(f"the loss became {value} in epoch {epoch + 1}")
    return value


def learning_rate(config: Config, epoch: int) -> float:
    """The rate of an epoch: lr times the factor of the last step of the schedule that has begun.

    >>> [learning_rate({"lr": 1.0, "schedule": [[5, 0.1], [10, 0.05]]}, epoch) for epoch in (0, 5, 12)]
    [1.0, 0.1, 0.05]
    """
    begun = [factor for start, factor in config["schedule"] if start <= epoch]
    return float(config["lr"] * (begun[-1] if begun else 1.0))


def ramp(config: Config, epochs: float) -> float:
    """How much of the divergence's weight applies after so many epochs."""
    warmup = config.get("warmup") or 0
    return min(1.0, epochs / warmup) if warmup else 1.0


def should_stop(state: State, config: Config, task: Task) -> bool:
    """Early stopping, asked before every epoch; scores the network on the validation data.

    As in the paper: a score at or above the best starts the patience anew; one within the tolerance below it uses
    some up; one further below ends the stage at the next question.
    """
    rule = config["early_stopping"]
    if rule is None:
        return False
    scores = state.validation
    if scores and scores[-1] < max(scores) - rule["tolerance"]:
        return True
    if len(scores) <= state.epoch:
        scores.append(task.score(state.net, "validation")[0])
    waited = len(scores) - 1 - max(i for i, score in enumerate(scores) if score == max(scores))
    return bool(waited >= rule["patience"])


def seed_everything(text: str) -> torch.Generator:
    """Seed torch's own generators from a text; returns another one for the order of the data."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    torch.manual_seed(number)
    return torch.Generator().manual_seed(number + 1)
