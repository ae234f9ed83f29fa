"""A step of dense networks against width, batch and depth, beside the least time that the machine would allow.

    python benchmarks/scaling.py [--threads 2] [--rounds 5] [--steps 2] [--json FILE] [--plot FILE.svg] [--quick]

The step is that of step.py, of networks 784 -> hidden -> ... -> 10: argand's complex ones, variational and plain, and
torch's real one of the same floats ("2R"). They take turns; figures are medians.

The roof is this machine's: the rate of float32 matrix products, by torch's own library and by `argand.nn.product`, and
the rate at which it copies memory, each the best of several tries. From these follows the least time of a variational
step: its products, as real ones, at the better rate, and the update of the weights with each number passing once.
Activations, noise and everything else are not in it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from contestants import training, training_in_torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from measure import machine, milliseconds, turns
from networks import stack

from argand.memory import KEEPING, keep_freed_memory
from argand.nn.product import product

VD, PLAIN, TWICE_REAL, LEAST = "argand complex vd", "argand complex plain", "torch real 2R", "complex vd, least"
#: Okabe and Ito's colours, told apart with any kind of colour vision
LOOKS = {VD: ("#0072B2", "o-"), PLAIN: ("#56B4E9", "o-"), TWICE_REAL: ("#E69F00", "o-"), LEAST: ("#7F7F7F", "--")}

#: real operations of a layer for each complex weight and sample, in one of its three products (forward, backward to the
#: weight, backward to the input): 4 real products with their sums for the mean, and 1 for the variance
OPERATIONS = 2 * 4 + 2 * 1
#: bytes for each complex weight: the means and log variances, their gradients and Adam's two moments have 12 each. The
#: norm must be known before the update, for clipping, and reads 24; the update reads 48 and writes all but gradients.
UPDATE_BYTES = 24 + 48 + 36


class Size(NamedTuple):
    """A network and its batch."""

    hidden: int
    batch: int
    depth: int


AXES = {
    "width": [Size(hidden, 128, 1) for hidden in (512, 1024, 2048, 4096, 8192)],
    "batch": [Size(4096, batch, 1) for batch in (16, 32, 64, 128, 256, 512)],
    "depth": [Size(1024, 128, depth) for depth in range(1, 9)],
}
STYLE: dict[str, Any] = {
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "argand",
    "svg.fonttype": "none",
}
LABELS = {
    "width": "hidden features (batch 128, 1 layer)",
    "batch": "batch (4096 features, 1 layer)",
    "depth": "hidden layers (1024 features, batch 128)",
}


def best(function: Callable[[], Any], tries: int) -> float:
    """The least seconds of some tries, after one that does not count."""
    function()
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def roof(side: int, tries: int) -> dict[str, float]:
    """The rates of the machine, in 10⁹ a second: operations of products, and bytes copied (read and written)."""
    x, weight = torch.randn(side, side), torch.randn(side, side)
    source = torch.randn(2**26)
    target = torch.empty_like(source)
    operations, size = 2 * side**3, 2 * source.numel() * source.element_size()
    with torch.no_grad():
        return {
            "F.linear, Gflop/s": operations / best(partial(F.linear, x, weight), tries) / 1e9,
            "argand.nn.product, Gflop/s": operations / best(partial(product, x, weight), tries) / 1e9,
            "copy, GB/s": size / best(partial(target.copy_, source), tries) / 1e9,
        }


def least(size: Size, rates: dict[str, float]) -> float:
    """The least milliseconds of a complex variational step; the first layer passes no gradient on."""
    weights = [a * b for a, b in pairwise([784, *[size.hidden] * size.depth, 10])]
    operations = OPERATIONS * size.batch * (3 * sum(weights) - weights[0])
    rate = max(rates["F.linear, Gflop/s"], rates["argand.nn.product, Gflop/s"])
    return 1e-6 * (operations / rate + UPDATE_BYTES * sum(weights) / rates["copy, GB/s"])


def measured(size: Size, rounds: int, steps: int) -> dict[str, float]:
    """The median milliseconds of the three contestants."""
    torch.manual_seed(0)
    y = torch.randint(10, (size.batch,))
    x = torch.randn(size.batch, 784, dtype=torch.complex64)
    made = {
        VD: training(stack("complex", size.hidden, size.depth), "vd", x, y),
        PLAIN: training(stack("complex", size.hidden, size.depth), "plain", x, y),
        TWICE_REAL: training_in_torch(stack("real", 2 * size.hidden, size.depth), x.real.contiguous(), y),
    }
    runners = {name: partial(milliseconds, step) for name, step in made.items()}
    for run in runners.values():
        run(2)
    return turns(runners, rounds, steps)


def table(axis: str, sizes: list[Size], rates: dict[str, float], rounds: int, steps: int) -> list[dict[str, Any]]:
    """The step along one axis, printed and told."""
    heads = ("complex vd", "plain", "real 2R", "least vd", "vd / least", "vd / 2R")
    print(f"\n{axis:>8}" + "".join(f"{head:>12}" for head in heads))
    rows = []
    for size in sizes:
        ms = measured(size, rounds, steps)
        floor = least(size, rates)
        at = {"width": size.hidden, "batch": size.batch, "depth": size.depth}[axis]
        figures = (*ms.values(), floor, ms[VD] / floor, ms[VD] / ms[TWICE_REAL])
        print(f"{at:>8}" + "".join(f"{figure:>12.2f}" for figure in figures))
        rows.append({axis: at, "size": size._asdict(), "ms": {**ms, LEAST: floor}})
    return rows


def plot(found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """A panel for each axis, all scales logarithmic, with ticks where something was measured."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.4), layout="constrained")
        panels = figure.subplots(1, len(found), sharey=True)
        for panel, (axis, rows) in zip(panels, found.items(), strict=True):
            x = [row[axis] for row in rows]
            for name, (colour, style) in LOOKS.items():
                panel.loglog(x, [row["ms"][name] for row in rows], style, color=colour, label=name, markersize=4)
            panel.set_xticks(x, [str(value) for value in x])
            panel.xaxis.set_minor_locator(NullLocator())
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.grid(color="0.9", linewidth=0.7)
            panel.set_xlabel(LABELS[axis])
        panels[0].set_ylabel("milliseconds a step")
        panels[0].legend(frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=132)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--plot", type=Path, help="draw them here, as SVG or PNG by the name")
    parser.add_argument("--quick", action="store_true", help="the ends of each axis, two rounds of one step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    os.environ.update(KEEPING)
    if options.quick:
        options.rounds, options.steps = 2, 1
    rates = roof(2048, 3 if options.quick else 15)
    print("  ".join(f"{name}: {rate:.1f}" for name, rate in rates.items()))
    found = {
        axis: table(axis, [sizes[0], sizes[-1]] if options.quick else sizes, rates, options.rounds, options.steps)
        for axis, sizes in AXES.items()
    }
    if options.json:
        about = {"torch": torch.__version__, "machine": machine("cpu"), "threads": options.threads, "roof": rates}
        options.json.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
