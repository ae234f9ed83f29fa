"""The index of a runs directory: an SQLite file that its driver writes, made from the directories, remade at will."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from argand import ArgandError
from argand.study.records import Stage, read_stages

INDEX = "index.sqlite"
_COLUMNS = "key, stage, parent, label, status, reason, epoch, epochs, score, compression, seconds"
_TABLE = f"CREATE TABLE IF NOT EXISTS stages ({_COLUMNS.replace('key', 'key TEXT PRIMARY KEY', 1)})"


@dataclass(frozen=True)
class Entry:
    """One stage in the index."""

    key: str
    stage: str
    parent: str | None
    label: str
    status: str  # waiting, running, done, diverged, failed
    reason: str | None = None
    epoch: int = 0
    epochs: int = 0
    score: float | None = None
    compression: float | None = None
    seconds: float = 0.0


class Store:
    """The index, opened for writing by the one driver of a runs directory."""

    def __init__(self, runs: Path) -> None:
        self._path = runs / INDEX
        self._connection = sqlite3.connect(self._path, timeout=30)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(_TABLE)

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace entries, all in one transaction."""
        marks = ", ".join("?" * len(_COLUMNS.split(",")))
        rows = [astuple(entry) for entry in entries]
        try:
            with self._connection:
                self._connection.executemany(f"INSERT OR REPLACE INTO stages ({_COLUMNS}) VALUES ({marks})", rows)
        except sqlite3.OperationalError as error:
            raise ArgandError(f"{self._path} can't be written: {error}.") from None

    def close(self) -> None:
        """Close it."""
        self._connection.close()


@contextmanager
def open_store(runs: Path) -> Iterator[Store]:
    """The index for writing; one that is damaged is set aside and made anew."""
    try:
        store = Store(runs)
    except sqlite3.DatabaseError:
        remove(runs)
        store = Store(runs)
    try:
        yield store
    finally:
        store.close()


def remove(runs: Path) -> None:
    """Delete the index."""
    for suffix in ("", "-wal", "-shm"):
        (runs / (INDEX + suffix)).unlink(missing_ok=True)


def rebuild(runs: Path) -> None:
    """Make the index anew from the directories."""
    stages = read_stages(runs)
    remove(runs)
    with open_store(runs) as store:
        store.put(entry_of(stage, stages) for stage in stages.values())


def read(runs: Path) -> list[Entry]:
    """All entries, in the order in which they were planned."""
    if not (runs / INDEX).exists():
        raise ArgandError(f"{runs} has no index. Expected a runs directory: argand status {runs} --rebuild makes one.")
    try:
        with closing(sqlite3.connect(f"file:{runs / INDEX}?mode=ro", uri=True, timeout=30)) as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM stages ORDER BY rowid").fetchall()
    except sqlite3.DatabaseError as error:
        raise ArgandError(
            f"{runs / INDEX} can't be read ({error}): argand status {runs} --rebuild remakes it."
        ) from None
    return [Entry(*row) for row in rows]


def entry_of(stage: Stage, stages: dict[str, Stage]) -> Entry:
    """The index entry that a stage's directory amounts to."""
    result = stage.result or {}
    status = "waiting" if stage.result is None else stage.status
    return Entry(
        key=stage.key, stage=str(stage.config["stage"]), parent=stage.config.get("parent"),
        label=label(stage, stages), status=status, reason=result.get("reason"), epoch=len(stage.history),
        epochs=int(stage.config.get("epochs", 0)), score=result.get("score"), compression=result.get("compression"),
        seconds=stage.seconds,
    )  # fmt: skip


def label(stage: Stage, stages: dict[str, Stage]) -> str:
    """A stage in words: its own settings after those of its ancestors."""
    config = stage.config
    if config["stage"] == "kl-derivative":
        return f"slope of the divergence, {config.get('field')}"
    if config["stage"] == "pretrain":
        names = [config[name] for name in ("dataset", "features", "model", "field")]
        width = f" x{config['width']:g}" if config["width"] != 1 else ""
        return " ".join(names) + f"{width} seed {config['seed']}"
    parent = stages.get(str(config["parent"]))
    before = label(parent, stages) if parent else str(config["parent"])
    if config["stage"] == "sparsify":
        scale = f" C={config['C']:.4g}" if config["C"] is not None else ""
        return f"{before} {config['method']}{scale}"
    kept, threshold = config["kept"], config["threshold"]
    return f"{before} " + (f"kept {kept:g}" if threshold is None else f"threshold {threshold:g}")
