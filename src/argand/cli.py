"""The command line: `argand run`, `status`, `report`, `export-results`, `data`, `pack`, `export`, `bench`, `demo`."""

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from argand.errors import ArgandError
from argand.study.data.commands import data_app

app = typer.Typer(
    help="Bayesian sparsification of complex- and real-valued neural networks: the study, from data to report.",
    no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
)  # fmt: skip
app.add_typer(data_app, name="data")

DONE, BAD, MISTAKE, INTERRUPTED = 0, 1, 2, 130

Runs = Annotated[Path, typer.Argument(help="The runs directory of a study.", metavar="RUNS", show_default=False)]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Where the data are (default: $ARGAND_DATA, or the user's cache).")
]


class EngineName(StrEnum):
    """The engines of --engine."""

    local = "local"


class Device(StrEnum):
    """The devices of --device."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def version(wanted: bool) -> None:
    """Print it and leave."""
    if wanted:
        import argand

        typer.echo(f"argand {argand.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Options of all commands."""


@app.command()
def run(
    specification: Annotated[Path, typer.Argument(metavar="SPEC.toml", show_default=False)],
    runs: Annotated[Path | None, typer.Option(help="Where results go (default: runs/NAME).")] = None,
    engine: Annotated[EngineName, typer.Option(help="What computes the stages.")] = EngineName.local,
    jobs: Annotated[int, typer.Option(min=1, help="Stages side by side.")] = 1,
    device: Annotated[Device | None, typer.Option(help="In place of the specification's.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The specification's small variant, minutes long.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key: --set grid.seed=[0,1]")
    ] = None,
    data: DataRoot = None,
    report: Annotated[bool, typer.Option(help="Write RUNS/report/index.html at the end.")] = True,
    profile: Annotated[bool, typer.Option("--profile", help="Tell where the stages' time went.")] = False,
) -> None:
    """Compute a specification: every stage that has not finished yet. Stop it with Ctrl-C and go on at any time."""
    from argand.study.config import load_specification
    from argand.study.session import run_specification

    changes = list(settings or []) + ([f"run.device={device.value}"] if device else [])
    asked = load_specification(specification, quick=quick, settings=changes)
    place = runs or Path("runs") / asked.study.name
    console = Console(stderr=True)
    code = run_specification(asked, place, jobs=jobs, root=data, report=report, profile=profile, console=console)
    raise typer.Exit(code)


@app.command()
def status(
    runs: Runs,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the index anew from the directories.")] = False,
) -> None:
    """Where a study stands; works at any moment, beside a running one."""
    from argand.study.session import show_status

    show_status(runs, rebuild=rebuild)


@app.command()
def report(
    runs: Runs,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.", show_default=False)],
) -> None:
    """One HTML page with every figure and table, that works offline; PNG and SVG of each figure beside it."""
    from argand.study.report import build

    typer.echo(f"{build(runs, output)}")


@app.command("export-results")
def export_results(
    runs: Runs,
    csv: Annotated[Path | None, typer.Option(help="Write a CSV file, a line per network.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write a Parquet file (needs argand[parquet]).")] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Write event files into this folder (needs argand[tensorboard]).")
    ] = None,
) -> None:
    """The results as a table for other programs."""
    from argand.study import export

    if not (csv or parquet or tensorboard):
        raise ArgandError("export-results needs at least one of --csv FILE, --parquet FILE and --tensorboard DIR.")
    for path, write in ((csv, export.to_csv), (parquet, export.to_parquet), (tensorboard, export.to_tensorboard)):
        if path is not None:
            typer.echo(f"{path}: {write(runs, path)} networks")


class StoredAs(StrEnum):
    """The types of --dtype."""

    fp32 = "fp32"
    fp16 = "fp16"
    int16 = "int16"
    int8 = "int8"
    auto = "auto"


class CTypes(StrEnum):
    """The types of a C program's weights."""

    fp32 = "fp32"
    int16 = "int16"
    int8 = "int8"


PackedFile = Annotated[Path, typer.Argument(help="A packed network.", metavar="net.argand", show_default=False)]
Shape = Annotated[
    str | None,
    typer.Option(
        help="An input's shape without the batch, if the file lacks it: 1,28,28, or 2,256,c64 for complex input."
    ),
]


@app.command()
def pack(
    stage: Annotated[Path, typer.Argument(help="A fine-tuned stage: RUNS/stages/finetune-...", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.", show_default=False)],
    dtype: Annotated[StoredAs, typer.Option(help="How weights are stored; auto asks the posterior.")] = StoredAs.fp32,
    fold_batchnorm: Annotated[bool, typer.Option("--fold-batchnorm", help="Put batch norms into layers.")] = False,
    data: DataRoot = None,
) -> None:
    """A pruned network as one small file; its bytes, score, flash and latency go into the study's report."""
    from argand.study.deployment import pack_stage

    typer.echo(pack_stage(stage, output, dtype.value, fold_batchnorm=fold_batchnorm, root=data))


@app.command()
def export(
    file: PackedFile,
    c: Annotated[Path | None, typer.Option("--c", help="Write a C program into this folder.")] = None,
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file (needs the extra onnx).")] = None,
    numpy: Annotated[Path | None, typer.Option(help="Write one Python file that needs only numpy.")] = None,
    dtype: Annotated[CTypes, typer.Option(help="The C program's weights, whatever the file's.")] = CTypes.fp32,
    shape: Shape = None,
    emulate: Annotated[bool, typer.Option("--emulate", help="Run the C program on an emulated Cortex-M4.")] = False,
) -> None:
    """A packed network as a C program, as ONNX, or as one Python file."""
    from argand.deploy import commands

    lines = commands.export(file, c=c, onnx=onnx, numpy=numpy, dtype=dtype.value, shape=shape, emulate=emulate)
    for line in lines:
        typer.echo(line)


@app.command()
def bench(
    file: PackedFile,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a call; the C program takes one.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Of PyTorch.")] = 1,
    shape: Shape = None,
) -> None:
    """The latency of a packed network: dense, on sparse kernels, and as a C program."""
    from argand.deploy import commands

    typer.echo(commands.bench_file(file, batch=batch, threads=threads, shape=shape))


@app.command()
def demo(
    runs: Annotated[Path, typer.Option(help="Where results go.")] = Path("runs/demo"),
    jobs: Annotated[int, typer.Option(min=1, help="Stages side by side.")] = min(os.cpu_count() or 1, 4),
) -> None:
    """The whole way on embedded data: three stages at a few values of C, a table, and the report."""
    from argand.study.session import run_demo

    raise typer.Exit(run_demo(runs, jobs=jobs, console=Console(stderr=True)))


def _interrupt(number: int, frame: FrameType | None) -> Any:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Run a command; one line for a user's mistake, and the exit code that scripts rely on."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(args=arguments, prog_name="argand", standalone_mode=False)
    except ArgandError as error:
        print(f"argand: {error}", file=sys.stderr)
        return MISTAKE
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # a wrong option or argument, in the words of typer
        return MISTAKE
    if code == INTERRUPTED:
        print("argand: interrupted; the same command goes on from here.", file=sys.stderr)
    return code if isinstance(code, int) else DONE


if __name__ == "__main__":
    sys.exit(main())
