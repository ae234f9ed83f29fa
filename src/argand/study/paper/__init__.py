"""The published points, read off the paper's figures (README.md says how), for laying over one's own results.

>>> points = paper_points("mnist", "raw", "SimpleConv", "C", "vd")
>>> len(points), points[0]
(185, PaperPoint(C=..., compression=..., score=...))
>>> paper_band("mnist", "raw", "SimpleConv", "C", "vd").floats
862160
>>> paper_points("kmnist", "raw", "SimpleConv", "C", "vd")
[]
"""

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Group = tuple[str, ...]  # dataset, features, model, field, method
#: Of pre-training, sparsification and fine-tuning, by data set.
PAPER_EPOCHS = {"mnist": "40/75/40", "cifar10": "20/40/20", "musicnet": "12/32/50"}
_GROUP = ("dataset", "features", "model", "field", "method")


@dataclass(frozen=True)
class PaperPoint:
    """One published network: its C (inferred; None where it can't be), compression in floats, and score."""

    C: float | None
    compression: float
    score: float


@dataclass(frozen=True)
class PaperBand:
    """The published uncompressed networks of a group: their scores, how many, and their floats."""

    low: float
    median: float
    high: float
    runs: int
    floats: int


@dataclass(frozen=True)
class PaperThreshold:
    """One threshold of the published study: means over five runs; None where the curve leaves the page."""

    C: float
    threshold: float
    compression: float | None
    before: float | None
    after: float | None


@dataclass(frozen=True)
class PaperStopping:
    """How long published fine-tunings ran: at a compression (one run) or at a C (the mean of five)."""

    at: float
    epochs: float


def paper_points(dataset: str, features: str, model: str, field: str, method: str) -> list[PaperPoint]:
    """The published networks of this group, by rising C; none where the paper has none."""
    rows = _read("points").get((dataset, features, model, field, method), [])
    return [PaperPoint(_number(r["C"]), float(r["compression"]), float(r["score"])) for r in rows]


def paper_points_at(points: list[PaperPoint], divergence_weight: float) -> list[PaperPoint]:
    """Those at this C, which is stored with six digits."""
    return [p for p in points if p.C is not None and math.isclose(p.C, divergence_weight, rel_tol=1e-3)]


def paper_band(dataset: str, features: str, model: str, field: str, method: str) -> PaperBand | None:
    """The published uncompressed networks of this group."""
    for r in _read("bands").get((dataset, features, model, field, method), []):
        low, median, high = (float(r[name]) for name in ("low", "median", "high"))
        return PaperBand(low, median, high, int(r["runs"]), int(r["floats"]))
    return None


def paper_thresholds(dataset: str, features: str, model: str, field: str, method: str) -> list[PaperThreshold]:
    """The published threshold study of this group (MusicNet only), by C and threshold."""
    rows = _read("thresholds").get((dataset, features, model, field, method), [])
    return [
        PaperThreshold(float(r["C"]), float(r["threshold"]), *map(_number, (r["compression"], r["before"], r["after"])))
        for r in rows
    ]


def paper_stopping(dataset: str, features: str, model: str, field: str, method: str) -> list[PaperStopping]:
    """Epochs of fine-tuning until early stopping, by compression (MusicNet only)."""
    rows = _read("stopping").get((dataset, features, model, field, method), [])
    return [PaperStopping(float(r["compression"]), float(r["epochs"])) for r in rows]


def paper_stopping_by_weight(dataset: str, features: str, model: str, field: str, method: str) -> list[PaperStopping]:
    """The same by C: means of five runs."""
    rows = _read("stopping_by_C").get((dataset, features, model, field, method), [])
    return [PaperStopping(float(r["C"]), float(r["mean"])) for r in rows]


def _number(text: str) -> float | None:
    return float(text) if text else None


@cache
def _read(name: str) -> dict[Group, list[dict[str, str]]]:
    """A file's rows by group."""
    rows: dict[Group, list[dict[str, str]]] = defaultdict(list)
    with (Path(__file__).parent / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows[tuple(row[column] for column in _GROUP)].append(row)
    return dict(rows)
