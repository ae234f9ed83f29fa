"""The page: everything in one HTML file, and each figure as PNG and SVG beside it."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argand.errors import ArgandError
from argand.files import write_atomically
from argand.study.report.chart import Chart
from argand.study.report.comparison import in_words, pairs
from argand.study.report.interactive import describe
from argand.study.report.picture import draw
from argand.study.report.sections import Section, sections
from argand.study.report.study import Study, by, count, family_title, read
from argand.study.report.tables import sharing

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Figure:
    """A chart, drawn: where its pictures lie, the picture as a data URI, and what plotly.js needs."""

    chart: Chart
    file: str
    image: str
    plot: dict[str, Any]


def build(runs: Path, output: Path) -> Path:
    """Write OUTPUT/index.html and OUTPUT/figures/*.png, *.svg from a runs directory; returns the page's path.

    The page stands alone: it opens from disk, needs no network, and holds its figures both as pictures and as
    interactive plots. Needs the extra argand[report].
    """
    _check_extra()
    study = read(Path(runs))
    folder = Path(output) / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgandError(f"{folder} can't be made: {error.strerror}. Expected a place for the report.") from None
    drawn = sections(study)
    figures = _draw([chart for section in drawn for chart in section.charts], folder)
    page = Path(output) / "index.html"
    write_atomically(page, _render(study, drawn, figures).encode())
    return page


def _check_extra() -> None:
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
        import plotly  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise ArgandError(f"The report needs {error.name}: install argand[report].") from None


def _draw(charts: Sequence[Chart], folder: Path) -> dict[int, Figure]:
    """The figures by the identity of their chart; their files are written."""
    names: Counter[str] = Counter()
    figures = {}
    for chart in charts:
        names[chart.name] += 1
        file = chart.name + (f"-{names[chart.name]}" if names[chart.name] > 1 else "")
        png, svg = draw(chart)
        write_atomically(folder / f"{file}.png", png)
        write_atomically(folder / f"{file}.svg", svg)
        image = "data:image/png;base64," + base64.b64encode(png).decode()
        figures[id(chart)] = Figure(chart, file, image, describe(chart))
    return figures


def _render(study: Study, drawn: Sequence[Section], figures: dict[int, Figure]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_function"] = json.dumps
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        title=study.runs.resolve().name,
        lead=lead(study),
        sections=drawn,
        figure=lambda chart: figures[id(chart)],
        style=(_TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=(_TEMPLATES / "script.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
    )


def lead(study: Study) -> list[str]:
    """The summary: a few sentences."""
    counts = Counter(stage.status for stage in study.stages.values())
    states = [f"{counts[state]} {state}" for state in ("done", "diverged", "failed", "open") if counts[state]]
    text = f"{count(len(study.cells), 'network')} went through all three stages. "
    text += f"Of {count(len(study.stages), 'stage')}, "
    lines = [text + f"{', '.join(states)}."]
    if study.families:
        curves = by(study.curves, lambda cell: cell.group)
        lines.append(f"Curves: {len(curves)}, of " + "; ".join(map(family_title, study.families)) + ".")
    lines += [line for line in (in_words(pairs(study)), sharing(study.cells)) if line]
    return lines
