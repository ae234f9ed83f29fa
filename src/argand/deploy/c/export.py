"""From a network to C files."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from argand.deploy.c import emit
from argand.deploy.c.buffers import plan
from argand.deploy.c.check import run_selftest
from argand.deploy.c.lower import lower
from argand.deploy.c.reference import Dtypes, Reference, reference
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.graph import trace

#: inputs in the selftest: the example and random ones
VECTORS = 4
#: the error that a program may have, of the largest output, or this many times PyTorch's own in fp32
ALLOWED, OF_TORCH = 1e-5, 4.0


@dataclass(frozen=True)
class CProgram:
    """A program in a directory: what it costs, and the largest error of its selftest of the largest output."""

    directory: Path
    flash_bytes: int  # constant tables
    scratch_bytes: int  # memory beside input and output
    macs: int  # real multiply-accumulates of one run
    error: float | None  # None where it wasn't checked
    checked: bool

    def __str__(self) -> str:
        """A short table."""
        error = f"{self.error:.2g} of the largest output" if self.error is not None else "not measured"
        state = "compiled and run here" if self.checked else "not checked: compile and run net_selftest.c yourself"
        rows = {
            "directory": f"{self.directory}",
            "flash": f"{self.flash_bytes:,} bytes of constants",
            "scratch": f"{self.scratch_bytes:,} bytes",
            "work": f"{self.macs:,} real multiply-accumulates",
            "error": f"{error} ({state})",
        }
        return "\n".join(f"{name:10}{words}" for name, words in rows.items())


def export_c(
    net: nn.Module,
    example: Tensor | tuple[Tensor, ...],
    directory: str | Path,
    *,
    dtype: Dtypes = "fp32",
    check: bool = True,
) -> CProgram:
    """Write net.h, net.c and net_selftest.c: the network in evaluation as `net_run(input, output, scratch)` in C99.

    The example is a batch of one (a tuple, where the network takes several inputs). Weights are stored as "fp32",
    "int16" or "int8" with a scale for each output channel, or by a dict from a layer's path to one of these. With
    `check` the program is compiled and run on this machine, if that has a C compiler.

    >>> net = nn.Sequential(ann.Linear(3, 2), ann.ModReLU(), ann.Real())
    >>> program = export_c(net, torch.zeros(1, 3, dtype=torch.complex64), getfixture("tmp_path"))
    >>> program.macs, program.flash_bytes
    (24, 68)
    """
    inputs = _examples(example)
    wanted = reference(trace(net), dtype)
    program = lower(wanted, inputs)
    places = plan(program)
    vectors, allowed = _vectors(wanted, inputs)
    files = {
        "net.h": emit.header(program, places),
        "net.c": emit.source(program, places),
        "net_selftest.c": emit.selftest(vectors, allowed),
    }
    error = _checked(files) if check else None
    directory = Path(directory)
    _write(directory, files)
    costs = emit.flash_bytes(program), 4 * emit.scratch_floats(places), program.macs
    return CProgram(directory, *costs, error, error is not None)


def _examples(example: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    inputs = example if isinstance(example, tuple) else (example,)
    for x in inputs:
        if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ArgandError(f"The example holds {kind}. Expected a real or complex tensor, or a tuple of them.")
        if x.dim() == 0 or x.shape[0] != 1:
            raise ArgandError(
                f"The example has shape {tuple(x.shape)}. Expected a batch of one, since a program runs one sample: "
                "give it x[:1], or x[None] if x is one sample."
            )
    return inputs


def _vectors(
    wanted: Reference, example: Sequence[Tensor]
) -> tuple[list[tuple[Sequence[Tensor], Sequence[Tensor]]], float]:
    """The selftest's inputs and outputs, and the error that it allows."""
    generator = torch.Generator().manual_seed(0)
    given = [tuple(x.detach().cpu() for x in example)]
    given += [
        tuple(torch.randn(x.shape, dtype=_single(x), generator=generator) for x in example) for _ in range(VECTORS - 1)
    ]
    rounded = [tuple(x.to(_single(x)) for x in inputs) for inputs in given]
    vectors: list[tuple[Sequence[Tensor], Sequence[Tensor]]] = []
    of_torch = largest = 0.0
    for inputs in rounded:
        outputs = wanted.outputs(inputs)
        if not all(bool(torch.isfinite(y).all()) for y in outputs):
            if inputs is rounded[0]:
                raise ArgandError("The network's output for the example isn't finite. Give another example.")
            continue
        for y, single in zip(outputs, wanted.outputs(inputs, torch.float32), strict=True):
            largest = max(largest, float(y.abs().max()))
            of_torch = max(of_torch, float((y - single).abs().max()))
        vectors.append((inputs, outputs))
    return vectors, max(ALLOWED, OF_TORCH * of_torch / largest if largest else 0.0)


def _single(x: Tensor) -> torch.dtype:
    return torch.complex64 if x.is_complex() else torch.float32


def _checked(files: dict[str, str]) -> float | None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        return run_selftest(Path(folder))


def _write(directory: Path, files: dict[str, str]) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise ArgandError(f"The directory {directory} can't be made: {error.strerror}.") from None
    for name, text in files.items():
        write_atomically(directory / name, text.encode())
