"""One stage in its directory: taken up where it stopped, and ended by result.json.

STAGES/KEY/config.json         what to do (the parent's key is in it)
           history.jsonl       a line per epoch
           checkpoint.safetensors
           timing.json         seconds, all attempts together
           result.json         last: done, diverged or failed
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from argand import ArgandError
from argand.files import write_atomically
from argand.study import stages
from argand.study.divergence_slope import kl_derivative
from argand.study.fit import Tick, fit
from argand.study.live import narrow
from argand.study.profile import WAIT, Stopwatch
from argand.study.records import read_json
from argand.study.state import DivergedError, State, load_checkpoint, save_checkpoint
from argand.study.tasks import Task, make_task

CHECKPOINT = "checkpoint.safetensors"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all."""
    write_atomically(path, (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def run_stage(directory: Path, root: Path | None, tick: Tick = lambda epoch, share, loss: None) -> str:
    """Compute a stage unless it has finished; returns its status."""
    with _alone(directory):
        if (directory / "result.json").exists():
            return str(read_json(directory / "result.json")["status"])
        remove_leftovers(directory)
        config = read_json(directory / "config.json")
        try:
            values = {"status": "done", "reason": None, **_compute(directory, config, root, tick)}
        except DivergedError as error:
            values = {"status": "diverged", "reason": str(error)}
        write_json(directory / "result.json", {"stage": config["stage"], **values})
        return str(values["status"])


def _compute(directory: Path, config: Mapping[str, Any], root: Path | None, tick: Tick) -> dict[str, Any]:
    begin, (before, parts) = time.monotonic(), _timing(directory)
    watch = Stopwatch(wait=WAIT in os.environ)

    def note_time() -> None:
        now = time.monotonic() - begin
        seconds = {part: round(parts.get(part, 0.0) + more, 3) for part, more in watch.told(now).items()}
        write_json(directory / "timing.json", {"seconds": round(before + now, 2), "parts": seconds})

    if config["stage"] == "kl-derivative":
        options = {name: config[name] for name in ("draws", "points", "seed")}
        curves = kl_derivative(config["field"], **options)
        note_time()
        return {"curves": curves, **stages.provenance(config)}
    first = first_config(directory.parent, config)
    torch.set_num_threads(first["threads"])
    torch.backends.cudnn.deterministic = True
    with watch("set-up"):
        task = make_task(first, root, torch.device(first["device"]))
        stages.check_early_stopping(config, task)
        state = open_stage(directory.parent, config, task)
        extra = {"score_before": task.score(state.net)[0]} if config["stage"] == "finetune" else {}
        if (directory / CHECKPOINT).exists():
            load_checkpoint(directory / CHECKPOINT, state)
        if config.get("live"):
            narrow(state)

    def save() -> None:
        save_checkpoint(directory / CHECKPOINT, state)
        write_history(directory, state)
        note_time()

    fit(
        state, config, task,
        seed=stages.seed_of(config, first),
        divergence_weight=stages.divergence_weight(config, task),
        kept=partial(stages.share_kept, state, config),
        around=partial(stages.around_epoch, state, config),
        forward=cache(partial(stages.forward_of, first)), save=save, watch=watch, tick=tick,
    )  # fmt: skip
    with watch("checkpoint"):
        save_checkpoint(directory / CHECKPOINT, state, moments=_is_gone_on_from(config))
        write_history(directory, state)
    with watch("evaluation"):
        values = stages.result(state, config, first, task) | extra
    note_time()
    return values


def _is_gone_on_from(config: Mapping[str, Any]) -> bool:
    """Whether another stage takes up this one's moments."""
    return config["stage"] == "pretrain" or bool(config.get("warm_start"))


def open_stage(directory: Path, config: Mapping[str, Any], task: Task) -> State:
    """The state a stage begins with: a fresh network, or its parent's end made into what the stage trains."""
    if config["stage"] == "pretrain":
        return stages.pretrain(config, task)
    parent = finished_state(directory / str(config["parent"]), task)
    return {"sparsify": stages.sparsify, "finetune": stages.finetune}[config["stage"]](parent, config)


def finished_state(directory: Path, task: Task) -> State:
    """The state at the end of a finished stage."""
    result = read_json(directory / "result.json")
    if result.get("status") != "done":
        raise ArgandError(f"{directory} ended as {result.get('status')}: it has no network to go on from.")
    state = open_stage(directory.parent, read_json(directory / "config.json"), task)
    load_checkpoint(directory / CHECKPOINT, state)
    return state


def first_config(directory: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the pre-training that a stage goes back to."""
    while "parent" in config:
        config = read_json(directory / str(config["parent"]) / "config.json")
    return config


def write_history(directory: Path, state: State) -> None:
    """All lines anew, so that none is there twice after a resumption."""
    lines = "".join(json.dumps(line, sort_keys=True) + "\n" for line in state.history)
    write_atomically(directory / "history.jsonl", lines.encode())


def remove_leftovers(directory: Path) -> None:
    """Delete what a killed process had not finished writing."""
    for path in directory.glob(".*"):
        path.unlink(missing_ok=True)


def _timing(directory: Path) -> tuple[float, Mapping[str, float]]:
    """Seconds of earlier attempts, all and by part."""
    path = directory / "timing.json"
    told = read_json(path) if path.exists() else {}
    return float(told.get("seconds", 0.0)), dict(told.get("parts", {}))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until no other process works in the directory: the worker of a killed driver dies within moments."""
    try:
        file = (directory / "lock").open("w")
    except OSError as error:
        raise ArgandError(f"{directory} can't be written to: {error.strerror}.") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
