"""Training curves: loss and score, epoch by epoch, through the three stages."""

from collections.abc import Sequence

from argand.study.records import Cell, Stage
from argand.study.report.chart import Axis, Chart, Panel, Series, palette, slug
from argand.study.report.checks import history
from argand.study.report.study import Study, cell_label, family_title, representatives

Point = tuple[float | None, float | None]


def training_curves(study: Study) -> list[Chart]:
    """A figure per dataset, features and model, for a few networks."""
    charts = []
    for family, cells in study.families.items():
        chosen = [cell for cell in representatives(cells) if any(map(history, _stages(cell)))]
        if chosen:
            charts.append(_chart(family, chosen))
    return charts


def _stages(cell: Cell) -> tuple[Stage, ...]:
    return (cell.pretrain, cell.sparsify, cell.finetune)


def _line(points: Sequence[Point], label: str, index: int, group: str) -> Series:
    x, y = zip(*points, strict=True)
    return Series(x, y, label, palette(index), "line", group=group)


def _chart(family: tuple[str, ...], cells: Sequence[Cell]) -> Chart:
    losses, scores, ends = [], [], set()
    for index, cell in enumerate(cells):
        label, offset = cell_label(cell), 0
        loss: list[Point] = []
        score: list[Point] = []
        for stage in _stages(cell):
            lines = history(stage)
            loss += [(offset + line["epoch"], line.get("loss")) for line in lines]
            score += [(offset + line["epoch"], line["score"]) for line in lines if line.get("score") is not None]
            loss.append((None, None))
            score.append((None, None))
            offset += max((line["epoch"] for line in lines), default=0)
            ends.add(offset + 0.5)
        losses.append(_line(loss, label, index, label))
        scores.append(_line(score, "", index, label))
        places, values = zip(*score, strict=True)  # a stage may have a single score, which a line doesn't show
        scores.append(Series(places, values, "", palette(index), faint=True, group=label))
    verticals = sorted(ends)[:-1] if len(ends) <= 3 else []
    panels = [
        Panel(Axis(""), Axis("loss", log=True), losses, verticals=verticals),
        Panel(Axis("epoch, through the three stages"), Axis(cells[0].metric), scores, verticals=verticals),
    ]
    text = "Pre-training, sparsification, fine-tuning, one after another; a line breaks where a stage ends."
    text += " The loss is that of the data, without the divergence."
    return Chart(slug("training", *family), family_title(family), text, panels)
