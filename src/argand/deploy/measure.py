"""How long a network takes: dense, on sparse kernels, and as a C program."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from argand.deploy.c import export_c
from argand.deploy.c.check import compiler
from argand.deploy.sparse import sparse
from argand.errors import ArgandError
from argand.modes import evaluation
from argand.summary import format_table

FLAGS = ("-std=c99", "-O3", "-march=native", "-ffp-contract=fast")
ROUNDS = 9

_DRIVER = """#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "net.h"

static float input[NET_INPUT_FLOATS], output[NET_OUTPUT_FLOATS], scratch[NET_SCRATCH_FLOATS + 1];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int count, char **arguments)
{
    long i, calls = count > 1 ? atol(arguments[1]) : 1;
    double begin;
    for (i = 0; i < NET_INPUT_FLOATS; i++)
        input[i] = (float)(i % 7) - 3.0f;
    net_run(input, output, scratch);
    begin = now();
    for (i = 0; i < calls; i++)
        net_run(input, output, scratch);
    printf("%.9g\\n", (now() - begin) / (double)calls);
    return 0;
}
"""


@dataclass(frozen=True)
class Latency:
    """Microseconds of one call, by what runs it: medians of rounds in which all take turns."""

    microseconds: dict[str, float]
    batch: int
    threads: int

    def __str__(self) -> str:
        first = next(iter(self.microseconds.values()))
        rows = [[name, f"{value:.1f}", f"x{first / value:.3g}"] for name, value in self.microseconds.items()]
        return format_table([f"batch {self.batch}", "µs", "faster"], rows)


def latency(contestants: dict[str, Callable[[], float]], batch: int, threads: int) -> Latency:
    """Let the contestants, each of which times itself and gives seconds, take turns."""
    with _threads(threads):
        for run in contestants.values():
            run()
        times = {name: sorted(run() for _ in range(ROUNDS)) for name, run in contestants.items()}
    return Latency({name: 1e6 * found[len(found) // 2] for name, found in times.items()}, batch, threads)


def bench(
    net: nn.Module,
    example: Tensor | tuple[Tensor, ...],
    *,
    original: nn.Module | None = None,
    threads: int = 1,
    c: bool = True,
) -> Latency:
    """A network's latency on an example: dense in PyTorch, on sparse kernels, and, for a batch of one, as C.

    With `original`, the network from which it was made compact, that one's comes first.

    >>> net = nn.Sequential(nn.Linear(100, 50))
    >>> sorted(bench(net, torch.zeros(1, 100), c=False).microseconds)
    ['dense', 'sparse']
    """
    inputs = example if isinstance(example, tuple) else (example,)
    batch = inputs[0].shape[0]
    networks = {"original": original, "dense": net}
    given = {name: network for name, network in networks.items() if network is not None}
    with evaluation(*given.values()), _threads(threads), tempfile.TemporaryDirectory() as folder:
        given["sparse"] = sparse(net, inputs)
        contestants = {name: torch_seconds(network, inputs) for name, network in given.items()}
        if c and batch == 1 and compiler() is not None:
            export_c(net, inputs, folder, check=False)
            contestants["C"] = c_seconds(Path(folder))
        return latency(contestants, batch, threads)


def torch_seconds(net: nn.Module, inputs: Sequence[Tensor], least: float = 0.02) -> Callable[[], float]:
    """A timer of a network in inference mode: the mean of the calls that fit into so many seconds."""

    def run() -> float:
        with torch.inference_mode():
            calls, begin = 0, time.perf_counter()
            while (passed := time.perf_counter() - begin) < least or calls < 2:
                net(*inputs)
                calls += 1
        return passed / calls

    return run


def c_seconds(directory: Path, flags: Sequence[str] = FLAGS, least: float = 0.02) -> Callable[[], float]:
    """A timer of the C program in a directory, compiled there for this machine."""
    found = compiler()
    if found is None:
        raise ArgandError("There is no C compiler here: set CC, or install one (cc).")
    (directory / "bench.c").write_text(_DRIVER)
    program = directory / "bench"
    command = [*found, *flags, "net.c", "bench.c", "-o", str(program), "-lm"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArgandError(f"{' '.join(command)} failed: {done.stderr.strip()[:500]}")

    def seconds(calls: int) -> float:
        printed = subprocess.run([str(program), str(calls)], capture_output=True, text=True, check=True).stdout
        match = re.match(r"[\d.e+-]+", printed)
        assert match is not None
        return float(match[0])

    calls = max(2, round(least / max(seconds(3), 1e-9)))
    return lambda: seconds(calls)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
