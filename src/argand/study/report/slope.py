"""The derivative of the divergence: exact, fitted, and by Monte Carlo."""

from collections.abc import Mapping
from typing import Any

from argand.study.records import Stage
from argand.study.report.chart import Axis, Chart, Panel, Series, field_words, palette, slug
from argand.study.report.study import Study

_EXACT, _FIT, _SAMPLED = palette(0), palette(1), palette(2)


def slopes(study: Study) -> list[Chart]:
    """A figure per kl-derivative stage."""
    stages = [stage for stage in study.of_kind("kl-derivative") if stage.status == "done"]
    return [_chart(stage) for stage in sorted(stages, key=lambda stage: str(stage.config["field"]), reverse=True)]


def _chart(stage: Stage) -> Chart:
    assert stage.result is not None
    curves: Mapping[str, Any] = stage.result["curves"]
    field, place = str(stage.config["field"]), curves["log_alpha"]
    top = [
        Series(place, curves["monte_carlo"], "Monte Carlo", _SAMPLED, "points", faint=True),
        Series(place, curves["exact"], "exact", _EXACT, "line"),
        Series(place, curves["fit"], "fit of the literature", _FIT, "dashes"),
    ]
    bottom = [
        Series(place, _difference(curves, "monte_carlo"), "Monte Carlo", _SAMPLED, "points", faint=True),
        Series(place, _difference(curves, "fit"), "fit of the literature", _FIT, "dashes"),
        Series(place, [0.0] * len(place), "exact", _EXACT, "line"),
    ]
    panels = [
        Panel(Axis(""), Axis("dKL / dlog alpha"), top),
        Panel(Axis("log alpha"), Axis("difference from exact"), bottom),
    ]
    name = slug("kl-derivative", field, stage.key[-8:])
    return Chart(name, f"{field_words(field).capitalize()} weights, log-uniform prior", _words(stage, curves), panels)


def _difference(curves: Mapping[str, Any], name: str) -> list[float]:
    return [value - exact for value, exact in zip(curves[name], curves["exact"], strict=True)]


def _words(stage: Stage, curves: Mapping[str, Any]) -> str:
    at, fit = curves["fit_worst"]
    relative_at, relative = curves["fit_worst_relative"]
    sampled_at, sampled, error = curves["monte_carlo_worst"]
    draws, points = stage.config["draws"], stage.config["points"]
    return (
        f"Largest deviation of the fit: {fit:+.4f} at log alpha {at:.2f}, or {100 * relative:+.2f} % of the exact "
        f"slope at {relative_at:.2f}. Monte Carlo (forward difference with common random numbers, {draws:,} draws, "
        f"{points:,} grid points, seed {stage.config.get('seed')}): largest deviation {sampled:+.4f} at "
        f"{sampled_at:.2f}, where its "
        f"standard error is {error:.4f}; root mean square {curves['monte_carlo_rms'][0]:.4f}. "
        f"{len(curves['log_alpha'])} of the points are drawn."
    )
