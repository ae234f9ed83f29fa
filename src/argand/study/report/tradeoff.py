"""The trade-off: score against compression in floats, and against bytes, with the published points behind."""

from collections.abc import Sequence

from argand.study.paper import PAPER_EPOCHS, PaperBand, paper_band, paper_points
from argand.study.records import Cell
from argand.study.report.chart import (
    PAPER,
    Axis,
    Band,
    Chart,
    Panel,
    Series,
    field_colour,
    field_words,
    finite,
    method_marker,
    slug,
)
from argand.study.report.study import Study, baselines, by, cell_note, family_title, kind_label, training

PAPER_METHODS = ("vd", "ard")
_HALF_POINT = 0.005


def trade_offs(study: Study) -> list[Chart]:
    """Score against compression in floats: a figure per dataset, features and model."""
    return [_against_compression(family, cells) for family, cells in study.families.items()]


def trade_offs_in_bytes(study: Study) -> list[Chart]:
    """Score against the bytes of the stored network."""
    return [_against_bytes(family, cells) for family, cells in study.families.items()]


def _against_compression(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    fields = list(by(cells, lambda cell: cell.group[3]))
    published = [series for field in fields for series in _published(family, field)]
    series = published + _measured(cells, "compression")
    panel = Panel(
        Axis("compression (floats of all parameters / floats kept)", log=True),
        _score_axis(cells, published),
        series,
        _bands(cells) + _published_bands(family, fields),
    )
    text = f"{_HOW} {_paper_note(family, cells, bool(published))}"
    return Chart(slug("trade-off", *family), family_title(family), text, [panel])


def _against_bytes(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    panel = Panel(
        Axis("bytes of the stored network (further left is smaller)", log=True, compact=True),
        _score_axis(cells, []),
        _measured(cells, "bytes"),
        _bands(cells),
    )
    text = f"{_HOW} Read it along a vertical line to compare fields at equal bytes. "
    text += "The paper states no bytes, so its points are left out here."
    return Chart(slug("bytes", *family), family_title(family), text, [panel])


_HOW = (
    "A point is one network; its tail ends at the score before fine-tuning (tails that leave the frame end below it). "
    "Bands: lowest to highest score of the uncompressed networks, with their median."
)


def _measured(cells: Sequence[Cell], x: str) -> list[Series]:
    series = []
    for (_, _, _, field, method), group in by(cells, lambda cell: cell.group).items():
        label, colour = kind_label(group[0]), field_colour(field)
        tails: list[tuple[float | None, float | None]] = []
        for cell in group:
            place = cell.value(x)
            tails += [(place, cell.value("score")), (place, cell.value("score_before")), (None, None)]
        across, down = zip(*tails, strict=True)
        series.append(Series(across, down, colour=colour, style="line", faint=True, group=label))
        points = [cell.value(x) for cell in group], [cell.value("score") for cell in group]
        notes = [cell_note(cell) for cell in group]
        series.append(Series(*points, label, colour, marker=method_marker(method), group=label, notes=notes))
    return series


def _published(family: tuple[str, ...], field: str) -> list[Series]:
    series = []
    for method in PAPER_METHODS:
        group = (*family, field, method)
        points = paper_points(*group)
        if points:
            label = f"{PAPER}: {field_words(field)} · {method}"
            x, y = [point.compression for point in points], [point.score for point in points]
            notes = [f"{label}\ncompression ×{p.compression:.4g}\nscore {p.score:.4f}" for p in points]
            if all(point.C is not None for point in points):
                notes = [f"{note}\nC = {p.C:.3g} (inferred)" for note, p in zip(notes, points, strict=True)]
            colour, marker = field_colour(field), method_marker(method)
            series.append(Series(x, y, label, colour, marker=marker, faint=True, notes=notes))
    return series


def _bands(cells: Sequence[Cell]) -> list[Band]:
    bands = []
    for field, group in by(cells, lambda cell: cell.group[3]).items():
        scores = sorted(finite(baselines(group)))
        if scores:
            middle = (scores[(len(scores) - 1) // 2] + scores[len(scores) // 2]) / 2
            bands.append(Band(scores[0], middle, scores[-1], field_colour(field)))
    return bands


def _published_bands(family: tuple[str, ...], fields: Sequence[str]) -> list[Band]:
    bands = []
    for field in fields:
        found = _known_bands(family, field)
        if found:
            low, high = min(band.low for band in found), max(band.high for band in found)
            bands.append(Band(low, found[0].median, high, field_colour(field), faint=True))
    return bands


def _known_bands(family: tuple[str, ...], field: str) -> list[PaperBand]:
    groups = ((*family, field, method) for method in PAPER_METHODS)
    return [band for group in groups if (band := paper_band(*group))]


def _score_axis(cells: Sequence[Cell], published: Sequence[Series]) -> Axis:
    """From the lowest final score, but not so far down that the differences between the others are lost."""
    scores = finite([cell.value("score") for cell in cells] + baselines(cells))
    scores += [value for series in published for value in finite(series.y)]
    if not scores:
        return Axis(cells[0].metric)
    high = max(scores)
    low = max(min(scores), high - 0.15)
    margin = max(0.06 * (high - low), 0.001)
    return Axis(cells[0].metric, low=low - 2 * margin, high=high + margin)


def _paper_note(family: tuple[str, ...], cells: Sequence[Cell], published: bool) -> str:
    if not published:
        return "The paper has no points for this data set, features and model."
    note = "Hollow, faint: the published points (read off the paper's figure), and dotted their band."
    for field, group in by(cells, lambda cell: cell.group[3]).items():
        known, floats = _known_bands(family, field), group[0].value("floats")
        if known and floats != known[0].floats:
            note += f" The {field_words(field)} networks differ in size: {floats:,} floats here,"
            note += f" {known[0].floats:,} in the paper."
    trained, expected = sorted({training(cell) for cell in cells}), PAPER_EPOCHS.get(family[0])
    if trained != [expected]:
        note += f" Epochs of the three stages here: {'; '.join(trained)}; in the paper: {expected}."
    return note


def within_half_point(pairs: Sequence[tuple[float, float]], baseline: float) -> float | None:
    """The largest compression of (compression, score) pairs whose score is at most 0.005 below the baseline."""
    near = [compression for compression, score in pairs if score >= baseline - _HALF_POINT]
    return max(near, default=None)
