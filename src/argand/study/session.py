"""What the commands do: from a specification to results, a table and a report."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from argand import ArgandError
from argand.study import store, views
from argand.study.config import Specification, load_specification
from argand.study.data import digest
from argand.study.driver import Outcome, epochs_now, is_driven, run_plan, stage_directory
from argand.study.engines import LocalEngine
from argand.study.graph import Plan, plan
from argand.study.profile import WAIT
from argand.study.records import Stage, cells, read_stages

DONE, BAD = 0, 1


def resolve_device(asked: str) -> str:
    """cpu or cuda; auto is cuda where there is one."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise ArgandError("device cuda was asked for, and torch finds no CUDA device here. Use --device cpu or auto.")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"


def run_specification(
    specification: Specification,
    runs: Path,
    *,
    jobs: int,
    root: Path | None,
    report: bool,
    console: Console,
    profile: bool = False,
) -> int:
    """Compute it, print the table (and the profile), write the report; returns the exit code."""
    if profile:
        os.environ[WAIT] = "1"  # for the workers
    made = plan(specification, resolve_device(specification.run.device), lambda name: digest(name, root))
    with views.Bars(console) if console.is_terminal else nullcontext(views.Quiet()) as view:
        outcome = run_plan(made, runs, LocalEngine(root), view, jobs=jobs)
    stages = read_stages(runs)
    show_results(made, stages, outcome)
    if profile:
        views.plain_console().print(views.profile_table(stage_directory(runs, key) for key in made.nodes))
    if report:
        _report(runs, console)
    return BAD if outcome.bad or outcome.blocked else DONE


def show_results(made: Plan, stages: Mapping[str, Stage], outcome: Outcome) -> None:
    """The table of the plan's networks, and what went wrong."""
    console = views.plain_console()
    found = [cell for cell in cells(stages) if cell.key in made.nodes]
    if found:
        console.print(views.cell_table(found))
    for key, reason in outcome.bad.items():
        console.print(Text(f"{store.label(stages[key], dict(stages))}: {reason} (log: stages/{key}/log.txt)", "red"))
    if outcome.blocked:
        console.print(f"{len(outcome.blocked)} stages could not begin, because the stage before them did not finish.")
    console.print(f"{len(outcome.computed)} stages computed, {len(outcome.skipped)} were finished before.")


def _report(runs: Path, console: Console) -> None:
    """Write RUNS/report, or say why not."""
    from argand.study.report import build

    try:
        with console.status("writing the report") if console.is_terminal else nullcontext():
            page = build(runs, runs / "report")
    except ArgandError as error:
        console.print(Text(f"no report: {error}", "yellow"))
    else:
        print(f"report: {page}")


def run_demo(runs: Path, *, jobs: int, console: Console) -> int:
    """The embedded specification on the embedded data."""
    with as_file(files("argand.study").joinpath("demo.toml")) as path:
        specification = load_specification(path)
    print(specification.study.title)
    return run_specification(specification, runs, jobs=jobs, root=None, report=True, console=console)


def show_status(runs: Path, *, rebuild: bool) -> None:
    """Print the counts, and the stages that run or went wrong."""
    driven = is_driven(runs) if runs.is_dir() else False
    if rebuild:
        if driven:
            raise ArgandError(f"{runs} is in use by argand run, which keeps its index: rebuild it when that has ended.")
        store.rebuild(runs)
    entries = [_now(runs, entry) for entry in store.read(runs)]
    counts = Counter(entry.status for entry in entries)
    words = ", ".join(f"{counts[status]} {status}" for status in views.STATUSES if counts[status])
    console = views.plain_console()
    console.print(
        f"{runs}: {words or 'no stages'}; {'a run is going on' if driven else 'no run is going on'}", soft_wrap=True
    )
    if any(entry.status not in ("done", "waiting") for entry in entries):
        console.print(views.status_table(entries, driven))


def _now(runs: Path, entry: store.Entry) -> store.Entry:
    """The entry with the epochs that its history shows now."""
    values: dict[str, Any] = {**entry.__dict__}
    if entry.status in ("running", "waiting"):
        values["epoch"] = epochs_now(runs, entry.key)
    return store.Entry(**values)
