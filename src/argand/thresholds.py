"""How a threshold is chosen: score, compression and bytes along a range of them, and the log-alpha histogram."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.pruning import check_threshold, masks
from argand.summary import format_table, report
from argand.surgery import collapse
from argand.variational import log_alpha


@dataclass(frozen=True)
class SweepRow:
    """One threshold: the share of weights kept, what that saves, and the score of the pruned network."""

    threshold: float
    kept: float
    compression: float
    bytes: int
    score: float


@dataclass(frozen=True)
class Sweep:
    """The rows of a threshold sweep and the histogram of log_alpha; prints as a table."""

    rows: list[SweepRow]
    histogram: Tensor  # weights per bin of log_alpha
    edges: Tensor  # of the bins

    def __str__(self) -> str:
        header = ["threshold", "kept %", "compression", "bytes", "score"]
        cells = [
            [f"{r.threshold:g}", f"{100 * r.kept:.3f}", f"x{r.compression:.4g}", str(r.bytes), f"{r.score:.5g}"]
            for r in self.rows
        ]
        return format_table(header, cells)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw score and compression over the threshold, above the histogram of log_alpha; returns the figure.

        Needs matplotlib (the extra argand[report]). With a path, the figure is saved there too.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ArgandError("plot() needs matplotlib: install argand[report].") from None
        figure = Figure(figsize=(6.4, 6.0), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True)
        thresholds = [row.threshold for row in self.rows]
        top.plot(thresholds, [row.score for row in self.rows], "o-", color="C0", label="score")
        top.set_ylabel("score of the pruned network", color="C0")
        compression = top.twinx()
        compression.plot(thresholds, [row.compression for row in self.rows], "s--", color="C1", label="compression")
        compression.set_ylabel("compression (floats)", color="C1")
        compression.set_yscale("log")
        bottom.stairs(self.histogram.tolist(), self.edges.tolist(), fill=True, color="0.6")
        bottom.set(xlabel="log alpha (threshold: keep what is to its left)", ylabel="weights", yscale="log")
        if path is not None:
            figure.savefig(path)
        return figure


def sweep(
    net: nn.Module,
    evaluate: Callable[[nn.Module], float],
    thresholds: Iterable[float] = (-3.0, -2.0, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0),
) -> Sweep:
    """Prune a copy of a sparsified network at each threshold and score it; the network itself is untouched.

    `evaluate` receives a plain network in evaluation mode, its dropped weights at zero; no gradients are kept.

    >>> net = argand.sparsify(nn.Sequential(nn.Linear(20, 10)), initial=-6.0)
    >>> table = argand.sweep(net, lambda pruned: pruned(torch.ones(1, 20)).mean(), thresholds=[-2, 0, 2])
    >>> [row.threshold for row in table.rows]
    [-2.0, 0.0, 2.0]
    """
    limits = sorted(check_threshold(threshold) for threshold in thresholds)
    if not limits:
        raise ArgandError("sweep needs at least one threshold.")
    candidates = [masks(net, limit) for limit in limits]
    pruned = collapse(copy.deepcopy(net)).eval()
    original = {name: value.clone() for name, value in pruned.state_dict().items()}
    rows = []
    for limit, candidate in zip(limits, candidates, strict=True):
        pruned.load_state_dict(original)
        candidate.apply_(pruned)
        with torch.no_grad():
            score = float(evaluate(pruned.eval()))
        counted = report(pruned, candidate)
        rows.append(SweepRow(limit, candidate.kept, counted.compression, counted.bytes, score))
    values = torch.cat([score.flatten().float().cpu() for score in log_alpha(net).values()])
    low, high = min(-12.0, *limits), max(12.0, *limits)
    counts, edges = torch.histogram(values.clamp(low, high), bins=96, range=(low, high))
    return Sweep(rows, counts, edges)
