"""Early stopping: how many scores were taken in fine-tuning, against compression and against C."""

from collections.abc import Sequence

from argand.study.paper import PaperStopping, paper_stopping, paper_stopping_by_weight
from argand.study.records import Cell
from argand.study.report.chart import (
    PAPER,
    Axis,
    Chart,
    Panel,
    Series,
    field_colour,
    field_words,
    method_marker,
    slug,
)
from argand.study.report.study import Study, by, cell_note, family_title, kind_label


def stopping(study: Study) -> list[Chart]:
    """A figure per dataset, features and model whose fine-tuning could stop early."""
    early = [cell for cell in study.curves if _stops(cell)]
    return [_chart(family, cells) for family, cells in by(early, lambda cell: cell.group[:3]).items()]


def _stops(cell: Cell) -> bool:
    return cell.finetune.config.get("early_stopping") is not None and cell.value("evaluations") is not None


def _chart(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    left: list[Series] = []
    right: list[Series] = []
    for (_, _, _, field, method), group in by(cells, lambda cell: cell.group).items():
        published = (*family, field, method)
        left += _published(paper_stopping(*published), field, method)
        right += _published(paper_stopping_by_weight(*published), field, method)
        left.append(_measured(group, [cell.value("compression") for cell in group]))
        right.append(_measured(group, [cell.setting("C") for cell in group]))
    epochs = "scores taken until the stop"
    panels = [
        Panel(Axis("compression (floats)", log=True), Axis(epochs), left),
        Panel(Axis("C, the weight of the divergence", log=True), Axis(epochs), right),
    ]
    text = "A point is one fine-tuning; the score is taken at every epoch's start, first that of the pruned network."
    known = any(series.faint for series in left)
    text += " Hollow, faint: the published ones (right: means of five runs)." if known else ""
    text += "" if known else " The paper has no such points for this data set."
    return Chart(slug("early-stopping", *family), family_title(family), text, panels, columns=2)


def _measured(group: Sequence[Cell], x: Sequence[float | None]) -> Series:
    label = kind_label(group[0])
    colour, marker = field_colour(group[0].group[3]), method_marker(group[0].group[4])
    notes = [cell_note(cell) for cell in group]
    return Series(x, [cell.value("evaluations") for cell in group], label, colour, marker=marker, notes=notes)


def _published(points: Sequence[PaperStopping], field: str, method: str) -> list[Series]:
    if not points:
        return []
    label = f"{PAPER}: {field_words(field)} · {method}"
    x, y = [point.at for point in points], [point.epochs for point in points]
    return [Series(x, y, label, field_colour(field), marker=method_marker(method), faint=True)]
