"""Layer by layer: the share of weights kept, and the histograms of log alpha."""

import re
from collections.abc import Sequence

from argand.study.records import Cell
from argand.study.report.chart import Axis, Chart, Panel, Series, depth_colour, palette, slug
from argand.study.report.study import USUAL_THRESHOLD, Study, cell_label, family_title, representatives


def kept_shares(study: Study) -> list[Chart]:
    """A figure per dataset, features and model: bars per layer for a few networks."""
    charts = []
    for family, cells in study.families.items():
        chosen = representatives([cell for cell in cells if cell.value("layers")])
        if chosen:
            charts.append(_bars(family, chosen))
    return charts


def _bars(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    series, lowest = [], 1.0
    for index, cell in enumerate(cells):
        rows = [row for row in cell.value("layers") if row["weights"]]
        shares = [100 * row["kept"] / row["weights"] or None for row in rows]
        lowest = min([lowest, *(share for share in shares if share)])
        label = f"{cell_label(cell)} (×{cell.value('compression'):.3g})"
        notes = [f"{label}\n{row['name']}: {row['kept']:,} of {row['weights']:,} weights" for row in rows]
        series.append(Series([row["name"] for row in rows], shares, label, palette(index), "bars", notes=notes))
    axis = Axis("weights kept, %", log=True, low=lowest / 2, high=100)
    text = "One network per field and method, at its median C (with few of them also at the smallest and the largest). "
    text += "The axis is logarithmic; a layer without a bar keeps nothing."
    return Chart(slug("layers", *family), family_title(family), text, [Panel(Axis("layer"), axis, series)])


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in names as numbers: 8.weight comes before 10.weight."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def histograms(study: Study) -> list[Chart]:
    """A figure per dataset, features and model: log alpha of every layer, for a few sparsified networks."""
    charts = []
    for family, cells in study.families.items():
        chosen = representatives([cell for cell in cells if (cell.sparsify.result or {}).get("log_alpha")], limit=4)
        if chosen:
            panels = [_histogram(cell) for cell in chosen]
            text = (
                "Weights per bin of log alpha, a line per layer, the first layer darkest; everything beyond ±12 is in "
            )
            text += f"the outermost bins. Dotted: the threshold, {USUAL_THRESHOLD:g}; what is left of it is kept."
            title, columns = family_title(family), min(2, len(panels))
            charts.append(Chart(slug("log-alpha", *family), title, text, panels, columns))
    return charts


def _histogram(cell: Cell) -> Panel:
    assert cell.sparsify.result is not None
    found = cell.sparsify.result["log_alpha"]
    series = []
    for index, (name, bins) in enumerate(sorted(found.items(), key=lambda item: _natural(item[0]))):
        counts = [count or None for count in bins["counts"]]
        width = (bins["high"] - bins["low"]) / max(len(counts), 1)
        edges = [bins["low"] + width * place for place in range(len(counts) + 1)]
        series.append(Series(edges, [*counts, *counts[-1:]], name, depth_colour(index, len(found)), "steps"))
    axis = Axis("weights", log=True, compact=True)
    return Panel(Axis("log alpha"), axis, series, verticals=[USUAL_THRESHOLD], title=cell_label(cell))
