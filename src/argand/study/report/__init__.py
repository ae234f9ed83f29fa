"""The report of a study: one HTML page that needs no network, its figures as pictures beside it.

`build(runs, output)` reads the stages' small JSON files. records -> charts (one file per figure) -> picture.py
(matplotlib) and interactive.py (plotly.js) -> page.py. To add a figure: a function from cells to charts, and a row in
sections.py.
"""

from argand.study.report.page import build

__all__ = ["build"]
