"""What is shown while a plan is computed, and of a runs directory afterwards."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from argand.study.engines import Event
from argand.study.profile import PARTS
from argand.study.records import Cell, read_json
from argand.study.store import Entry

STATUSES = ("done", "running", "waiting", "diverged", "failed")
SHORT = {"accuracy": "accuracy", "average precision": "AP"}


def plain_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for any table where it is a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=240)


class Quiet:
    """Says nothing."""

    def planned(self, entries: Mapping[str, Entry]) -> None:
        """Nothing."""

    def changed(self, entry: Entry, event: Event | None) -> None:
        """Nothing."""


class Bars:
    """A bar for all epochs of the plan, and one for each running stage."""

    def __init__(self, console: Console) -> None:
        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
        self._progress = Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[note]}"), console=console)
        self._tasks: dict[str, TaskID] = {}
        self._entries: dict[str, Entry] = {}
        self._all: TaskID | None = None

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self._progress.stop()

    def planned(self, entries: Mapping[str, Entry]) -> None:
        """Begin."""
        self._entries = dict(entries)
        total = sum(max(entry.epochs, 1) for entry in entries.values())
        self._all = self._progress.add_task("[bold]epochs", total=total, note="")
        self._show_all()

    def changed(self, entry: Entry, event: Event | None) -> None:
        """Move the bars."""
        before = self._entries[entry.key]
        self._entries[entry.key] = entry
        if entry.status == "running" and entry.key not in self._tasks:
            words = Text(f"{entry.stage}: {entry.label}")
            words.truncate(58, overflow="ellipsis")
            task = self._progress.add_task(words.markup, total=max(entry.epochs, 1), note="")
            self._tasks[entry.key] = task
        elif entry.status != "running" and entry.key in self._tasks:
            self._progress.remove_task(self._tasks.pop(entry.key))
        if event is not None and event.kind == "progress" and entry.key in self._tasks:
            done = event.epoch + event.share
            self._progress.update(self._tasks[entry.key], completed=done, note=f"loss {event.loss:.4f}")
        if event is not None and event.kind == "crashed":
            again = "; it is tried again" if entry.status == "waiting" else ""
            self._progress.console.print(Text(f"{entry.label}: {event.message}{again}", style="yellow"))
        if before.status != entry.status or event is not None:
            self._show_all()

    def _show_all(self) -> None:
        assert self._all is not None
        ended = {"done", "diverged", "failed"}
        done = sum(max(e.epochs, 1) if e.status in ended else min(e.epoch, e.epochs) for e in self._entries.values())
        counts = Counter(entry.status for entry in self._entries.values())
        note = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        self._progress.update(self._all, completed=done, note=f"stages: {note}")


def cell_table(cells: list[Cell]) -> Table:
    """What came out, a line per network."""
    table = Table(title=None)
    for name in ("data", "features", "model", "field", "method", "C or kept", "threshold", "seed"):
        table.add_column(name, no_wrap=True)
    for name in ("compression", "bytes", "pruned", "score", "baseline"):
        table.add_column(name, justify="right", no_wrap=True)

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    for cell in sorted(cells, key=lambda cell: (*cell.group, cell.value("compression"))):
        dataset, features, model, field, method = cell.group
        scale = cell.setting("kept") if cell.setting("C") is None else cell.setting("C")
        table.add_row(
            *(Text(word) for word in (dataset, features, model, field, method)),
            *(number(scale), number(cell.setting("threshold")), str(cell.setting("seed"))),
            *(f"x{cell.value('compression'):.1f}", f"{cell.value('bytes'):,}"),
            *(f"{100 * value:.2f} %" for value in (cell.value("score_before"), cell.value("score"), cell.baseline)),
        )
    return table


def status_table(entries: list[Entry], driven: bool) -> Table:
    """The stages that run, and those that went wrong, with where they are."""
    table = Table("stage", "what", "state", "epoch", "why")
    for entry in entries:
        if entry.status in ("done", "waiting"):
            continue
        state = entry.status if driven or entry.status != "running" else "stopped"
        epoch = f"{entry.epoch}/{entry.epochs}" if entry.epochs else ""
        table.add_row(entry.stage, Text(entry.label), state, epoch, Text(entry.reason or ""))
    return table


def profile_table(directories: Iterable[Path]) -> Table:
    """Where the time of the finished stages went, by kind of stage: seconds, and their shares."""
    sums: dict[str, Counter[str]] = {}
    for directory in directories:
        timing = read_json(directory / "timing.json") if (directory / "timing.json").exists() else {}
        sums.setdefault(directory.name.rpartition("-")[0], Counter()).update(timing.get("parts", {}))
    table = Table("stage", *PARTS, "other", "all", title="seconds")
    for name, parts in sums.items():
        total = sum(parts.values())
        shares = (f"{parts[part]:.1f} ({parts[part] / total:.0%})" if total else "" for part in (*PARTS, "other"))
        table.add_row(name, *shares, f"{total:.1f}")
    return table
