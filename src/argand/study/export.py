"""Results for other programs: CSV, Parquet, TensorBoard."""

import csv
import io
from pathlib import Path
from typing import Any

from argand import ArgandError
from argand.files import write_atomically
from argand.study.records import Cell, cells, read_stages

SETTINGS = ("dataset", "features", "model", "field", "width", "method", "C", "threshold", "kept", "seed")
VALUES = ("compression", "kept_floats", "floats", "bytes", "dense_bytes", "score_before", "score", "epochs_run")


def rows(runs: Path) -> list[dict[str, Any]]:
    """A dict per finished network: its settings, what it keeps, its scores, how long it took, its key."""
    return [_row(cell) for cell in cells(read_stages(runs))]


def _row(cell: Cell) -> dict[str, Any]:
    row = {("kept_asked" if name == "kept" else name): cell.setting(name) for name in SETTINGS}
    row["metric"] = cell.metric
    row |= {name: cell.value(name) for name in VALUES}
    return row | {"kept": cell.value("kept"), "baseline": cell.baseline, "seconds": cell.seconds, "key": cell.key}


def _rows_or_refuse(runs: Path) -> list[dict[str, Any]]:
    found = rows(runs)
    if not found:
        raise ArgandError(f"{runs} holds no finished network yet, so there is nothing to export.")
    return found


def to_csv(runs: Path, path: Path) -> int:
    """Write a CSV file; returns the number of networks."""
    found = _rows_or_refuse(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    write_atomically(path, text.getvalue().encode())
    return len(found)


def to_parquet(runs: Path, path: Path) -> int:
    """Write a Parquet file; returns the number of networks."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise ArgandError("--parquet needs pyarrow: install argand[parquet].") from None
    found = _rows_or_refuse(runs)
    content = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(found), content)
    write_atomically(path, content.getvalue())
    return len(found)


def to_tensorboard(runs: Path, path: Path) -> int:
    """Write event files: the history of each stage's epochs, and each network's settings and scores."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ArgandError("--tensorboard needs tensorboard: install argand[tensorboard].") from None
    stages = read_stages(runs)
    _rows_or_refuse(runs)
    for stage in stages.values():
        with SummaryWriter(str(path / stage.key)) as writer:
            for line in stage.history:
                for name in ("loss", "score", "lr", "kept"):
                    if line.get(name) is not None:
                        writer.add_scalar(name, line[name], line["epoch"])
    finished = cells(stages)
    for cell in finished:
        row = _row(cell)
        settings = {name: row[name] for name in SETTINGS if row.get(name) is not None}
        scores = {f"cell/{name}": float(row[name]) for name in ("compression", "bytes", "score", "score_before")}
        with SummaryWriter(str(path / cell.key)) as writer:
            writer.add_hparams(settings, scores, run_name="cell")
    return len(finished)
