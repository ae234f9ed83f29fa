"""The sections of the page, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from argand.study.report.chart import Chart
from argand.study.report.comparison import comparison
from argand.study.report.deployment import deployments
from argand.study.report.layers import histograms, kept_shares
from argand.study.report.slope import slopes
from argand.study.report.stopping import stopping
from argand.study.report.study import Study
from argand.study.report.table import Table
from argand.study.report.tables import all_cells, groups, machines, states, troubles
from argand.study.report.thresholds import threshold_curves
from argand.study.report.tradeoff import trade_offs, trade_offs_in_bytes
from argand.study.report.training import training_curves


@dataclass(frozen=True)
class Section:
    """A heading with what is below it."""

    name: str
    title: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = field(default_factory=list)
    empty: str = ""


_NETWORKS = "No network has gone through all three stages yet; argand run fills this, with any specification."

#: Name, title, what draws it, and what is said when there is nothing to draw. To add a figure: a row.
FIGURES: tuple[tuple[str, str, Callable[[Study], list[Chart]], str], ...] = (
    ("trade-off", "Score against compression", trade_offs, _NETWORKS),
    ("bytes", "Score against bytes", trade_offs_in_bytes, _NETWORKS),
    (
        "thresholds",
        "Along the threshold",
        threshold_curves,
        "No sparsified network was cut at several thresholds: an experiment with a list of thresholds in its [grid] "
        "fills this.",
    ),
    (
        "early-stopping",
        "Early stopping",
        stopping,
        "No fine-tuning could stop early: an experiment with [stages.finetune.early_stopping], such as that of "
        "MusicNet, fills this.",
    ),
    (
        "kl-derivative",
        "The derivative of the divergence",
        slopes,
        "It was not computed: an experiment with a [divergence_slope] table fills this.",
    ),
    (
        "layers",
        "Kept, layer by layer",
        kept_shares,
        "No finished network lists its layers yet; argand run fills this.",
    ),
    (
        "log-alpha",
        "Log alpha, layer by layer",
        histograms,
        "No network of a Bayesian method is finished: methods vd, ard and real-scaling fill this.",
    ),
    ("training", "Training", training_curves, "No finished network has a history yet; argand run fills this."),
)


def sections(study: Study) -> list[Section]:
    """Everything below the summary."""
    found = [Section("groups", "The curves in numbers", tables=[groups(study)])]
    found += [Section(name, title, draw(study), empty=empty) for name, title, draw, empty in FIGURES]
    found.insert(3, Section("paper", "Beside the paper, at equal C", tables=[comparison(study)]))
    found.append(Section("deployment", "Deployment", tables=[deployments(study)]))
    found.append(Section("networks", "All networks", tables=[all_cells(study)]))
    stages = [states(study), troubles(study), machines(study)]
    return [*found, Section("stages", "Stages, versions, devices", tables=stages)]
