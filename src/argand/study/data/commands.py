"""The command `argand data`: list, get, check and render-music."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from argand.study.data import catalogue
from argand.study.data.download import Progress as Report
from argand.study.data.render import PIECES, render_music

data_app = typer.Typer(no_args_is_help=True, help="Data sets: which there are, getting, checking and rendering them.")

Root = Annotated[
    Path | None,
    typer.Option("--data-root", help="The folder of all data. Default: $ARGAND_DATA, else argand/data in the cache."),
]
Name = Annotated[str, typer.Argument(help="A name that `argand data list` shows.")]


@data_app.command("list")
def list_(root: Root = None) -> None:
    """Show the data sets, where they lie and whether they are ready."""
    table = Table("name", "what", "where", "state", "size", title=f"Data in {catalogue.data_root(root)}")
    table.title_justify = "left"
    table.columns[4].justify = "right"
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    folders = {row.folder: catalogue.data_root(root) / row.folder for row in catalogue.TABLE.values()}
    for name, row in catalogue.TABLE.items():
        ready = catalogue.is_ready(name, root)
        where = "in the package" if row.embedded else f"{row.folder}/"
        state = "embedded" if row.embedded else "ready" if ready else "missing"
        size = _size(folders[row.folder]) if ready and not row.embedded else ""
        table.add_row(name, row.what, where, state, size)
    Console().print(table)


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e6:,.0f} MB"


@data_app.command()
def get(
    name: Name,
    origin: Annotated[
        Path | None,
        typer.Option("--from", help="A folder or file with a copy of the data; without it they are downloaded."),
    ] = None,
    root: Root = None,
) -> None:
    """Bring a data set here, from its official address or from a local copy, verified."""
    with _shown() as (report, say):
        done = catalogue.get(name, origin, root, report, say)
    typer.echo(done)


@data_app.command()
def check(name: Name, root: Root = None) -> None:
    """Read all of a data set, and compare it with every checksum that is known."""
    typer.echo(f"{name}: {catalogue.check(name, root)}")


@data_app.command("render-music")
def render(
    pieces: Annotated[int | None, typer.Option(help=f"How many pieces, from 3. Default: all {len(PIECES)}.")] = None,
    root: Root = None,
) -> None:
    """Make the stand-in for MusicNet: real scores, played by a synthesiser, with exact labels."""
    folder = catalogue.data_root(root) / "rendered-music"
    with _shown() as (_, say):
        count = render_music(folder, pieces, say)
    typer.echo(f"rendered-music is in {folder}: {count} recordings at 11,000 Hz")


@contextmanager
def _shown() -> Iterator[tuple[Report, Callable[[str], None]]]:
    """Show bytes and recordings as they come, on a terminal only."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task("getting", total=None)

        def report(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        yield report, lambda recording: bars.update(task, description=recording)
