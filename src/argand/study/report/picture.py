"""A chart as a picture: PNG and SVG by matplotlib, without a display and without pyplot."""

import io
import math
from typing import Any

from argand.study.report.chart import PAPER, Axis, Band, Chart, Panel, Series, finite

_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "x": "x",
}
_LINES = {"line": "-", "dashes": (0, (4, 2)), "dots": (0, (1, 1.5)), "steps": "-"}
_STYLE: dict[str, Any] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.7,
    "svg.hashsalt": "argand",
}


def draw(chart: Chart) -> tuple[bytes, bytes]:
    """The chart as PNG and as SVG; equal charts give equal bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):  # type: ignore[arg-type]
        labels = {series.label for panel in chart.panels for series in panel.series}
        height = max(4.6 if chart.rows == 1 else 3.1 * chart.rows, 0.2 * len(labels))  # the legend's, if that is long
        figure = Figure(figsize=(9.6, height), layout="constrained")
        grid = figure.subplots(chart.rows, chart.columns, squeeze=False, sharex=chart.shared).flatten()
        for axes, panel in zip(grid, chart.panels, strict=False):
            _panel(axes, panel, 3 / chart.columns)
        for axes in grid[len(chart.panels) :]:
            axes.set_visible(False)
        _legend(figure, grid)
        png = _saved(figure, "png", dpi=132)
        figure.set_layout_engine("none")  # it has its layout
        return png, _saved(figure, "svg", metadata={"Date": None})


def _saved(figure: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def _panel(axes: Any, panel: Panel, most: float) -> None:
    for band in panel.bands:
        _band(axes, band)
    for place in panel.verticals:
        axes.axvline(place, color="0.6", linewidth=0.8, linestyle=":")
    bars = [series for series in panel.series if series.style == "bars"]
    for series in panel.series:
        if series.style == "bars":
            _bars(axes, series, bars.index(series), len(bars))
        else:
            _series(axes, series)
    values = [[v for s in panel.series for v in finite(s.x)], [v for s in panel.series for v in finite(s.y)]]
    _scale(axes, "x", panel.x, values[0], most)
    _scale(axes, "y", panel.y, values[1], 3)
    axes.set_xlabel(_plain(panel.x.label))
    axes.set_ylabel(_plain(panel.y.label))
    if panel.title:
        axes.set_title(_plain(panel.title), fontsize=10)


def _band(axes: Any, band: Band) -> None:
    axes.axhspan(band.low, band.high, color=band.colour, alpha=0.05 if band.faint else 0.13, linewidth=0)
    style = _LINES["dots"] if band.faint else "-"
    axes.axhline(band.middle, color=band.colour, alpha=0.6, linewidth=0.9, linestyle=style)


def _series(axes: Any, series: Series) -> None:
    x, y = zip(*((_gap(a), _gap(b)) for a, b in zip(series.x, series.y, strict=True)), strict=True)
    label = _plain(series.label) or "_nolegend_"
    alpha = 0.35 if series.faint else 0.9
    if series.style == "points":
        face = "none" if series.faint else series.colour
        edge = {} if series.marker == "x" else {"facecolors": face, "edgecolors": series.colour}
        options = edge or {"color": series.colour}
        size = 13 if series.faint else 26
        axes.scatter(x, y, s=size, marker=_MARKERS[series.marker], linewidths=0.8, alpha=alpha, label=label, **options)
        return
    width = 0.9 if series.faint else 1.5
    step = "steps-post" if series.style == "steps" else "default"
    line = {"linewidth": width, "linestyle": _LINES[series.style], "drawstyle": step}
    axes.plot(x, y, color=series.colour, alpha=alpha, label=label, **line)


def _bars(axes: Any, series: Series, index: int, count: int) -> None:
    width = 0.8 / count
    places = [place + (index - (count - 1) / 2) * width for place in range(len(series.x))]
    heights = [_gap(value) for value in series.y]
    axes.bar(places, heights, width=width * 0.92, color=series.colour, label=_plain(series.label))
    turned = {"rotation": 30, "ha": "right"} if max(len(str(x)) for x in series.x) * len(series.x) > 90 else {}
    axes.set_xticks(range(len(series.x)), [_plain(str(x)) for x in series.x], **turned)


def _scale(axes: Any, name: str, wanted: Axis, values: list[float], most: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis = axes.xaxis if name == "x" else axes.yaxis
    if wanted.log and any(value > 0 for value in values):
        axes.set(**{f"{name}scale": "log"})
        positive = [value for value in values if value > 0]
        decades = math.log10(max(positive) / min(positive))
        ticks = (1, 2, 5) if decades >= 0.7 else (1, 1.5, 2, 3, 4, 5, 6, 8)
        axis.set_major_locator(LogLocator(subs=(1,) if decades >= most else ticks))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    elif wanted.compact:
        axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    elif name == "y":
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.set(**{f"{name}lim": (wanted.low, wanted.high)})


def compact(value: float) -> str:
    """A tick: 0.001, 20, 50k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _legend(figure: Any, grid: Any) -> None:
    found: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        order = sorted(found, key=lambda label: label.startswith(PAPER))
        handles = [found[label] for label in order]
        legend = figure.legend(handles, order, loc="outside right upper", frameon=False, fontsize=8.5)
        for handle in legend.legend_handles:
            handle.set_alpha(0.9)


def _gap(value: Any) -> Any:
    """Matplotlib breaks a line at nan."""
    return math.nan if value is None else value


def _plain(text: str) -> str:
    """At most 60 characters, of which a dollar sign begins no formula."""
    return (text if len(text) <= 60 else text[:59] + "…").replace("$", r"\$")
