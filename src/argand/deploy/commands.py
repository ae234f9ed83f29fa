"""What `argand export` and `argand bench` do with a packed file."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from argand.deploy.c import export_c
from argand.deploy.c.target import run_on_cortex_m4
from argand.deploy.export_numpy import source
from argand.deploy.measure import Latency, bench
from argand.deploy.unpack import load
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.graph import Network, values_of


def export(file: Path, *, c: Path | None, onnx: Path | None, numpy: Path | None, dtype: str,
           shape: str | None, emulate: bool) -> Iterator[str]:  # fmt: skip
    """Write what was asked for; a line of each."""
    if not (c or onnx or numpy):
        raise ArgandError("export needs at least one of --c DIR, --onnx FILE and --numpy FILE.")
    if emulate and not c:
        raise ArgandError("--emulate runs the C program: give --c DIR too.")
    net = load(file)
    if c is not None:
        yield str(export_c(net, example_of(net, file, shape), c, dtype=dtype))
        if emulate:
            yield f"Cortex-M4 {run_on_cortex_m4(c).strip().splitlines()[-1]}"
    if onnx is not None:
        from argand.deploy.onnx import export_onnx

        yield str(export_onnx(net, example_of(net, file, shape), onnx))
    if numpy is not None:
        content = source(file.read_bytes()).encode()
        write_atomically(numpy, content)
        yield f"{numpy}: {len(content):,} bytes; python {numpy} input.npy output.npy"


def bench_file(file: Path, *, batch: int, threads: int, shape: str | None) -> Latency:
    """A packed network's latency."""
    net = load(file)
    return bench(net, example_of(net, file, shape, batch), threads=threads)


def example_of(net: Network, file: Path, shape: str | None, batch: int = 1) -> tuple[Tensor, ...]:
    """Random inputs of the shape in the file, or of the one given: "1,28,28", with "c64" as the last if complex."""
    if shape is None:
        known = net.example(batch)
        if known is None:
            raise ArgandError(
                f"{file} does not tell its input's shape: give --shape, as 1,28,28, or 2,256,c64 for complex input."
            )
        return known
    *sizes, last = shape.split(",")
    complex_ = last.strip() == "c64"
    try:
        numbers = [int(n) for n in ([*sizes] if complex_ else [*sizes, last])]
    except ValueError:
        numbers = [0]
    if any(n < 1 for n in numbers):
        raise ArgandError(
            f"--shape {shape} is no shape. Expected sizes without the batch: 1,28,28, or 2,256,c64 for complex input."
        )
    made = (torch.randn(batch, *numbers, dtype=torch.complex64 if complex_ else torch.float32),)
    values_of(net.graph, made)  # refuses a shape that does not fit
    return made
