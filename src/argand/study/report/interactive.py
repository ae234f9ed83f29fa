"""A chart as the object that plotly.js draws: plain data, no plotly classes."""

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from argand.study.report.chart import Axis, Band, Chart, Panel, Series, Value, finite

_DASHES = {"line": "solid", "dashes": "dash", "dots": "dot", "steps": "solid"}
_GRID = "rgba(128,128,128,0.22)"  # seen on light and on dark paper
_COORDINATES: tuple[Callable[[Series], Sequence[Value]], ...] = (lambda series: series.x, lambda series: series.y)
_FONT = "system-ui, sans-serif"


def describe(chart: Chart) -> dict[str, Any]:
    """{"data": [...], "layout": {...}} for Plotly.newPlot; every string in it is escaped, every number finite."""
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "height": 460 if chart.rows == 1 else 320 * chart.rows,
        "margin": {"l": 68, "r": 16, "t": 34, "b": 54},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12.5},
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "rgba(128,128,128,0.7)", "activecolor": "rgb(128,128,128)"},
        "barmode": "group",
        "legend": {"tracegroupgap": 2, "groupclick": "togglegroup", "font": {"size": 12}},
        "shapes": [],
        "annotations": [],
    }
    legend: set[str] = set()
    for index, panel in enumerate(chart.panels):
        name = "" if index == 0 else str(index + 1)
        data += [_trace(series, name, legend) for series in panel.series]
        columns, rows = _domain(chart, index)
        across, up = ([v for s in panel.series for v in values(s)] for values in _COORDINATES)
        layout["xaxis" + name] = _axis(panel.x, across, columns, "y" + name, 3 / chart.columns)
        layout["yaxis" + name] = _axis(panel.y, up, rows, "x" + name, 3)
        if chart.shared and index:
            layout["xaxis" + name]["matches"] = "x"
        layout["shapes"] += _shapes(panel, name)
        if panel.title:
            middle = sum(columns) / 2
            layout["annotations"].append(_title(panel.title, middle, rows[1]))
    return {"data": data, "layout": layout}


def _trace(series: Series, name: str, legend: set[str]) -> dict[str, Any]:
    group = series.group or series.label
    trace: dict[str, Any] = {
        "type": "bar" if series.style == "bars" else "scatter",
        "x": [_clean(value) for value in series.x],
        "y": [_clean(value) for value in series.y],
        "xaxis": "x" + name,
        "yaxis": "y" + name,
        "name": _text(series.label or group),
        "legendgroup": _text(group),
        "showlegend": bool(series.label) and series.label not in legend,
        "legendrank": 1001 if series.faint else 1000,
        "opacity": 0.5 if series.faint else 0.95,
    }
    legend.add(series.label)
    if series.notes:
        trace |= {"hovertext": [_text(note) for note in series.notes], "hoverinfo": "text"}
    elif not series.label:
        trace["hoverinfo"] = "skip"
    if series.style == "bars":
        trace["marker"] = {"color": series.colour}
    elif series.style == "points":
        symbol = series.marker + "-open" if series.faint else series.marker
        marker = {"color": series.colour, "symbol": symbol, "size": 5 if series.faint else 8}
        trace |= {"mode": "markers", "marker": marker}
    else:
        line = {"color": series.colour, "dash": _DASHES[series.style], "width": 1 if series.faint else 1.8}
        trace |= {"mode": "lines", "line": line | ({"shape": "hv"} if series.style == "steps" else {})}
    return trace


def _domain(chart: Chart, index: int) -> tuple[list[float], list[float]]:
    row, column = divmod(index, chart.columns)
    beside, below = 0.09, 0.08 if chart.shared else 0.2
    wide = (1 - beside * (chart.columns - 1)) / chart.columns
    high = (1 - below * (chart.rows - 1)) / chart.rows
    left, top = column * (wide + beside), 1 - row * (high + below)
    return [left, left + wide], [max(top - high, 0.0), top]


def _axis(wanted: Axis, values: list[Any], domain: list[float], anchor: str, most: float) -> dict[str, Any]:
    numbers = finite(values)
    axis: dict[str, Any] = {
        "title": {"text": _text(wanted.label), "standoff": 8},
        "domain": [round(place, 4) for place in domain],
        "anchor": anchor,
        "gridcolor": _GRID,
        "zeroline": False,
        "linecolor": "rgba(128,128,128,0.6)",
        "showline": True,
        "ticks": "outside",
        "tickcolor": "rgba(128,128,128,0.6)",
        "automargin": True,
    }
    positive = [value for value in numbers if value > 0]
    if values and not numbers:
        return axis | {"type": "category"}
    if wanted.log and positive:
        decades = math.log10(max(positive) / min(positive))
        ticks = {} if decades < 0.7 else {"dtick": 1 if decades >= most else "D2"}  # 1, or 1, 2, 5 of a decade
        axis |= ticks | {"type": "log", "tickformat": "~s" if wanted.compact else "~g"}
        if wanted.low and wanted.high:
            axis["range"] = [math.log10(wanted.low), math.log10(wanted.high)]
        return axis
    if wanted.low is not None and wanted.high is not None:
        axis["range"] = [wanted.low, wanted.high]
    return axis | {"type": "linear"}


def _shapes(panel: Panel, name: str) -> list[dict[str, Any]]:
    shapes = [shape for band in panel.bands for shape in _band(band, name)]
    line = {"color": "rgba(128,128,128,0.7)", "width": 1, "dash": "dot"}
    for place in panel.verticals:
        across = {"xref": "x" + name, "x0": place, "x1": place, "yref": f"y{name} domain", "y0": 0, "y1": 1}
        shapes.append({"type": "line", "line": line, "layer": "below"} | across)
    return shapes


def _band(band: Band, name: str) -> list[dict[str, Any]]:
    common = {"xref": f"x{name} domain", "x0": 0, "x1": 1, "yref": "y" + name, "layer": "below"}
    fill = {"type": "rect", "fillcolor": band.colour, "opacity": 0.06 if band.faint else 0.15, "line": {"width": 0}}
    line = {"color": band.colour, "width": 1, "dash": "dot" if band.faint else "solid"}
    return [
        common | fill | {"y0": band.low, "y1": band.high},
        common | {"type": "line", "line": line, "opacity": 0.7, "y0": band.middle, "y1": band.middle},
    ]


def _title(text: str, middle: float, top: float) -> dict[str, Any]:
    place = {"xref": "paper", "yref": "paper", "x": middle, "y": top, "xanchor": "center", "yanchor": "bottom"}
    return {"text": _text(text), "showarrow": False, "font": {"size": 13}} | place


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _text(text: str) -> str:
    """Plotly reads a few HTML tags and entities in labels: none of ours are meant as such."""
    return html.escape(text, quote=False)
