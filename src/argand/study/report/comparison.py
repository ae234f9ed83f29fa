"""Beside the paper: at equal C, our compression and score and the published ones."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from argand.study.paper import PAPER_EPOCHS, PaperPoint, paper_band, paper_points, paper_points_at
from argand.study.records import Cell
from argand.study.report.chart import finite
from argand.study.report.study import USUAL_THRESHOLD, Study, by, count, training
from argand.study.report.table import Entry, Table, number, words

_HEADER = [
    "data set", "features", "model", "field", "method", "C", "networks", "published", "compression",
    "paper's compression", "log ratio", "score", "paper's score", "score inside", "epochs", "paper's epochs",
]  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Our networks at one C, trained alike (epochs, and how many examples if not all), and the published ones."""

    group: tuple[str, ...]
    weight: float
    training: str
    ours: Sequence[Cell]
    theirs: Sequence[PaperPoint]

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of our compression over theirs, geometric means."""
        ours = [math.log(cell.value("compression")) for cell in self.ours]
        return statistics.fmean(ours) - statistics.fmean(math.log(point.compression) for point in self.theirs)

    @property
    def inside(self) -> bool:
        """Whether our median score lies in the published range."""
        middle = statistics.median(cell.value("score") for cell in self.ours)
        scores = [point.score for point in self.theirs]
        return bool(min(scores) <= middle <= max(scores))


def pairs(study: Study) -> list[Pair]:
    """Our networks beside the published ones: same group, same C, threshold -1/2, same number of floats."""
    usual = [
        cell
        for cell in study.cells
        if cell.setting("C") is not None and cell.setting("threshold") == USUAL_THRESHOLD and _same_size(cell)
    ]
    found = []
    for (group, weight, trained), cells in by(usual, lambda c: (c.group, c.setting("C"), training(c))).items():
        theirs = paper_points_at(paper_points(*group), float(weight))
        if theirs:
            found.append(Pair(group, float(weight), trained, cells, theirs))
    return found


def _same_size(cell: Cell) -> bool:
    band = paper_band(*cell.group)
    compression = finite([cell.value("compression"), cell.value("score")])
    return band is not None and cell.value("floats") == band.floats and len(compression) == 2


def comparison(study: Study) -> Table:
    """The table of pairs."""
    rows = []
    for pair in pairs(study):
        ours, theirs = [cell.value("compression") for cell in pair.ours], [p.compression for p in pair.theirs]
        row = [*map(words, pair.group), number(pair.weight), number(len(ours)), number(len(theirs))]
        row += [_span(ours, ".4g", "×"), _span(theirs, ".4g", "×"), number(pair.log_ratio, "+.3f")]
        row += [_span([cell.value("score") for cell in pair.ours], ".4f"), _span([p.score for p in pair.theirs], ".4f")]
        row += [words("yes" if pair.inside else "no"), words(pair.training)]
        rows.append([*row, words(PAPER_EPOCHS.get(pair.group[0]))])
    caption = "Networks of the published size, at the same C and threshold -1/2. Ranges are lowest–highest; log ratio: "
    caption += (
        "natural logarithm of our geometric mean compression over the paper's (+0.1 is 10 % more); score inside: "
    )
    caption += "whether our median score lies in the published range. The paper's C is inferred from its figures."
    empty = "No network here has a published counterpart (the same data set, features, model, field, method, C, "
    empty += "threshold -1/2 and size): the presets for MNIST, CIFAR10 and MusicNet have them."
    return Table(_HEADER, rows, caption, empty)


def in_words(found: Sequence[Pair]) -> str:
    """The comparison in a sentence; empty without pairs."""
    if not found:
        return ""
    ratios = sorted(pair.log_ratio for pair in found)
    inside = sum(pair.inside for pair in found)
    text = f"At equal C, {count(len(found), 'setting')} can be laid beside the paper: our compression is "
    text += f"{math.exp(statistics.median(ratios)):.2f} times the published one in the median setting "
    text += f"({math.exp(ratios[0]):.2f} to {math.exp(ratios[-1]):.2f}), and the score lies in the published range in "
    text += f"{inside} of {len(found)}."
    other = sum(pair.training != PAPER_EPOCHS.get(pair.group[0]) for pair in found)
    return text + (f" In {other} of them the epochs or the training examples aren't the paper's." if other else "")


def _span(values: Sequence[float], form: str, prefix: str = "") -> Entry:
    low, high = min(values), max(values)
    text = f"{prefix}{low:{form}}" if low == high else f"{prefix}{low:{form}}–{high:{form}}"
    return Entry(text, statistics.median(values))
