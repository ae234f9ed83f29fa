"""The threshold study: score before and after fine-tuning, and compression, along the thresholds."""

from collections.abc import Sequence

from argand.study.paper import paper_thresholds
from argand.study.records import Cell
from argand.study.report.chart import PAPER, Axis, Chart, Panel, Series, Style, palette, short, slug
from argand.study.report.study import Study, by, family_title

_MOST = 6  # curves of one figure


def threshold_curves(study: Study) -> list[Chart]:
    """A figure per dataset, features, model and field in which a sparsified network was cut at several thresholds."""
    thresholded = [cell for cell in study.cells if cell.setting("threshold") is not None]
    several = [
        cell
        for group in by(thresholded, lambda cell: cell.sparsify.key).values()
        if len({cell.setting("threshold") for cell in group}) > 1
        for cell in group
    ]
    return [_chart(family, cells) for family, cells in by(several, lambda cell: cell.group[:4]).items()]


def _chart(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    kinds = by(cells, lambda cell: (cell.group[4], cell.setting("C")))
    chosen = list(kinds.items())[:: -(-len(kinds) // _MOST)]
    scores, sizes = [], []
    for index, ((method, weight), group) in enumerate(chosen):
        label, colour = f"{method} · C = {short(weight)}", palette(index)
        for network in by(group, lambda cell: cell.sparsify.key).values():
            network.sort(key=lambda cell: cell.setting("threshold"))
            places = [cell.setting("threshold") for cell in network]

            def curve(name: str, network: list[Cell] = network) -> list[float]:
                return [cell.value(name) for cell in network]

            scores.append(Series(places, curve("score"), label, colour, "line", group=label))
            scores.append(Series(places, curve("score_before"), "", colour, "dashes", group=label))
            sizes.append(Series(places, curve("compression"), "", colour, "line", group=label))
    published = []
    for index, ((method, weight), _) in enumerate(chosen):
        published += _published((*family, method), weight, palette(index))
    behind = [series for pair in published for series in pair[:2]]
    metric = cells[0].metric
    panels = [
        Panel(Axis(""), Axis(metric), behind + scores),
        Panel(
            Axis("threshold on log alpha"), Axis("compression (floats)", log=True), [p[2] for p in published] + sizes
        ),
    ]
    text = "Above: solid after fine-tuning, dashed before it; below: compression on its own logarithmic axis. "
    text += "A line is one sparsified network. "
    if published:
        text += "Faint: the published means of five runs (solid after, dotted before fine-tuning). "
    if len(chosen) < len(kinds):
        text += f"{len(chosen)} of {len(kinds)} pairs of method and C are shown. "
    title = f"{family_title(family)}, field {family[3]}"
    return Chart(slug("thresholds", *family), title, text.strip(), panels)


def _published(group: tuple[str, ...], weight: float | None, colour: str) -> list[tuple[Series, Series, Series]]:
    rows = [row for row in paper_thresholds(*group) if weight is not None and abs(row.C / weight - 1) < 1e-3]
    if not rows:
        return []
    full = f"{PAPER}: {group[4]} · C = {short(weight)}"

    def curve(name: str, label: str, style: Style) -> Series:
        points = [(row.threshold, getattr(row, name)) for row in rows if getattr(row, name) is not None]
        x, y = zip(*points, strict=True)
        return Series(x, y, label, colour, style, faint=True, group=full)

    return [(curve("after", full, "line"), curve("before", "", "dots"), curve("compression", "", "dots"))]
