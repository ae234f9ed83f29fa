"""Computes a plan: parents before children, as many side by side as asked, each stage once."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TextIO

from argand import ArgandError
from argand.study.engines import Engine, Event
from argand.study.graph import Node, Plan
from argand.study.records import Stage, read_json, read_stage
from argand.study.stage import CHECKPOINT, remove_leftovers, write_json
from argand.study.store import Entry, Store, entry_of, open_store

ATTEMPTS = 2  # of a stage whose worker is killed or crashes


@dataclass
class Outcome:
    """What a run of a plan did."""

    computed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # finished before
    bad: dict[str, str] = field(default_factory=dict)  # key -> diverged or failed, and why
    blocked: list[str] = field(default_factory=list)  # their parent went bad


class View(Protocol):
    """Who is told how it goes."""

    def planned(self, entries: Mapping[str, Entry]) -> None:
        """All stages."""

    def changed(self, entry: Entry, event: Event | None) -> None:
        """One stage has begun, gone on, or ended."""


def stage_directory(runs: Path, key: str) -> Path:
    """Where a stage lives."""
    return runs / "stages" / key


def run_plan(plan: Plan, runs: Path, engine: Engine, view: View, *, jobs: int = 1) -> Outcome:
    """Compute what is not finished. One driver at a time works on a runs directory."""
    with _only_driver(runs), open_store(runs) as store:
        return _Driver(plan, runs, engine, view, store, jobs).run()


class _Driver:
    def __init__(self, plan: Plan, runs: Path, engine: Engine, view: View, store: Store, jobs: int) -> None:
        self.plan, self.runs, self.engine, self.view, self.store, self.jobs = plan, runs, engine, view, store, jobs
        self.entries: dict[str, Entry] = {}
        self.attempts: dict[str, int] = {}
        self.running: set[str] = set()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """All stages, until none is left that can run."""
        self._prepare()
        try:
            while True:
                for node in self._ready()[: self.jobs - len(self.running)]:
                    self._start(node)
                if not self.running:
                    break
                for event in self.engine.events(0.5):
                    self._handle(event)
        finally:
            self.engine.stop()
            self.store.put(replace(self.entries[key], status="waiting") for key in self.running)
        self.outcome.blocked = [key for key, entry in self.entries.items() if entry.status == "waiting"]
        return self.outcome

    def _prepare(self) -> None:
        """Write what each stage is to do; forget failures, which are tried again; note what is finished."""
        (self.runs / "plans").mkdir(exist_ok=True)
        write_json(self.runs / "plans" / f"{self.plan.name}.json", {"stages": list(self.plan.nodes)})
        stages: dict[str, Stage] = {}
        for key, node in self.plan.nodes.items():
            directory = stage_directory(self.runs, key)
            directory.mkdir(parents=True, exist_ok=True)
            remove_leftovers(directory)
            if not (directory / "config.json").exists():
                write_json(directory / "config.json", node.config)
            stages[key] = read_stage(directory)
            if stages[key].status == "failed":
                (directory / "result.json").unlink()
                stages[key] = read_stage(directory)
            self.entries[key] = entry_of(stages[key], stages)
        self._reopen_parents()
        for key in self.plan.nodes:
            self._note_end(key, self.outcome.skipped)
        self.store.put(self.entries.values())
        self.view.planned(self.entries)

    def _reopen_parents(self) -> None:
        """Compute anew what a waiting stage goes on from but of which only the result was kept."""
        for key in reversed(self.plan.nodes):
            parent = self.plan.nodes[key].parent
            if parent is None or self.entries[key].status != "waiting":
                continue
            directory = stage_directory(self.runs, parent)
            if self.entries[parent].status == "done" and not (directory / CHECKPOINT).exists():
                (directory / "result.json").unlink()
                self.entries[parent] = replace(self.entries[parent], status="waiting", epoch=0)

    def _note_end(self, key: str, finished: list[str]) -> None:
        """Sort a stage by how it ended, if it has."""
        entry = self.entries[key]
        if entry.status == "done":
            finished.append(key)
        elif entry.status in ("diverged", "failed"):
            self.outcome.bad[key] = f"{entry.status}: {entry.reason}"

    def _ready(self) -> list[Node]:
        """What can be started: the deepest stages first, so that results arrive early."""
        done = {key for key, entry in self.entries.items() if entry.status == "done"}
        open_ = [n for key, n in self.plan.nodes.items() if self.entries[key].status == "waiting"]
        ready = [node for node in open_ if node.parent is None or node.parent in done]
        depth = {"finetune": 0, "sparsify": 1}
        return sorted(ready, key=lambda node: depth.get(str(node.config["stage"]), 2))

    def _start(self, node: Node) -> None:
        self.attempts[node.key] = self.attempts.get(node.key, 0) + 1
        self.running.add(node.key)
        self._change(node.key, replace(self.entries[node.key], status="running"))
        self.engine.start(stage_directory(self.runs, node.key), self._threads(node))

    def _threads(self, node: Node) -> int:
        while node.parent is not None:
            node = self.plan.nodes[node.parent]
        return int(node.config.get("threads", 1))

    def _handle(self, event: Event) -> None:
        entry = self.entries[event.key]
        if event.kind == "progress":
            self._change(event.key, replace(entry, epoch=event.epoch), event)
            return
        self.running.discard(event.key)
        directory = stage_directory(self.runs, event.key)
        if event.kind == "refused":
            raise ArgandError(event.message)
        if event.kind == "crashed" and not (directory / "result.json").exists():
            if self.attempts[event.key] < ATTEMPTS:
                self._change(event.key, replace(entry, status="waiting", reason=event.message), event)
                return
            stage = entry.stage
            write_json(directory / "result.json", {"stage": stage, "status": "failed", "reason": event.message})
        stage_now = read_stage(directory)
        self._change(event.key, replace(entry_of(stage_now, {}), label=entry.label), event)
        self._note_end(event.key, self.outcome.computed)

    def _change(self, key: str, entry: Entry, event: Event | None = None) -> None:
        if entry.status != self.entries[key].status:
            self.store.put([entry])
        self.entries[key] = entry
        self.view.changed(entry, event)


@contextmanager
def _only_driver(runs: Path) -> Iterator[None]:
    """Hold the directory's lock, which the system releases however this process ends."""
    try:
        (runs / "stages").mkdir(parents=True, exist_ok=True)
        file = (runs / "driver.lock").open("a+")
    except OSError as error:
        raise ArgandError(f"{runs} can't be written to: {error.strerror}.") from None
    with file:
        if not _locked(file):
            file.seek(0)
            raise ArgandError(
                f"{runs} is in use by another argand run (process {file.read().strip() or 'unknown'}). Wait for it, "
                "stop it, or give another directory by --runs."
            )
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _locked(file: TextIO) -> bool:
    """Take the lock; tries for a moment, since `argand status` holds it for an instant to look."""
    for _ in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def is_driven(runs: Path) -> bool:
    """Whether a driver works on the directory now."""
    path = runs / "driver.lock"
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def epochs_now(runs: Path, key: str) -> int:
    """Epochs that a stage has finished, by its history."""
    path = stage_directory(runs, key) / "history.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def plans(runs: Path) -> dict[str, list[str]]:
    """The stages of every specification that was run here, by its name."""
    return {path.stem: list(read_json(path)["stages"]) for path in sorted((runs / "plans").glob("*.json"))}
