"""One training step: argand beside its peers and plain real networks, held against the bars that were set for it.

    python benchmarks/step.py [--networks dense conv vgg16 deepconv] [--device cpu] [--threads 2] [--batch N]
        [--rounds N] [--steps N] [--json FILE] [--quick]

A step is forward, cross entropy, the divergence's gradient, backward, clipping to norm 0.5, and Adam. All contestants
take turns in one run, so that a busy machine slows them alike; a figure is the median over all of a contestant's steps.
What counts are the ratios. The peers are installed into a scratch environment at the first run.

"2R" is a real network of about the same floats (twice the hidden width) and "real plain" one of the same width, both
with torch's fused Adam and clipping. Images come with the channels last in memory unless "usual order" is said; those
of real networks in the usual order unless "channels last" is. Before anything is timed, three of our variational steps
of the small networks are compared with the same steps done in float64 by torch's own Adam, clipping and autograd, with
the same noise. Then come complex batch norm alone, and the peak memory of a variational step.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import bars
import contestants
import memory
import norms
import torch
from measure import machine, turns
from peers import SCRATCH, Peer, ensure
from tasks import TASKS

from argand.memory import KEEPING, keep_freed_memory


def compete(network: str, options: argparse.Namespace, python: Path) -> dict[str, Any]:
    """Median milliseconds of every contestant, taking turns, and what they are held against."""
    task = TASKS[network]
    size, rounds, steps = options.batch or task.batch, options.rounds or task.rounds, options.steps or task.steps
    error = None
    if network in contestants.SMALL:
        error = contestants.check(network, size, options.device)
        print(f"\n{network}: 3 steps agree with the float64 reference to {error:.1e} of the parameters' change")
    with Peer(python) as worker:
        runners, left_out = contestants.all_of(network, size, options.device, options.threads, worker)
        medians = turns(runners, rounds, steps)
    bars.show_steps(network, size, medians)
    for name, reason in left_out.items():
        print(f"{name:<32} left out: {reason}")
    ratios = bars.held(bars.STEP[network], medians)
    found = {"batch": size, "rounds": rounds, "steps": steps, "ms": medians, "ratios": ratios, "left_out": left_out}
    return found | ({} if error is None else {"error": error})


def batch_norms(options: argparse.Namespace, python: Path) -> dict[str, Any]:
    """Batch norm alone, in those of the networks that have it."""
    found = {}
    where = {"device": options.device, "threads": options.threads}
    for network in options.networks:
        if network not in contestants.SMALL:
            with Peer(python) as worker:
                counts = options.rounds or 7, options.steps or 3
                found[network] = norms.table(network, options.batch or TASKS[network].batch, worker, *counts, **where)
    return found


def memories(options: argparse.Namespace, python: Path) -> dict[str, Any]:
    """Peak memory, of the small networks."""
    return {
        network: memory.table(python, network, options.batch or TASKS[network].batch, options.threads, options.device)
        for network in options.networks
        if network in contestants.SMALL
    }


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, help="by default each network's own")
    parser.add_argument("--rounds", type=int, help="by default each network's own")
    parser.add_argument("--steps", type=int, help="in a round; by default each network's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--quick", action="store_true", help="two rounds of one step")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a GPU that torch can use, and it finds none here")
    if options.quick:
        options.rounds, options.steps = 2, 1
    return options


def main() -> None:
    options = parsed()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    os.environ.update(KEEPING)
    python = ensure(SCRATCH)
    results: dict[str, Any] = {
        "torch": torch.__version__,
        "machine": machine(options.device),
        "device": options.device,
        "threads": options.threads,
        "networks": {network: compete(network, options, python) for network in options.networks},
        "batch_norm": batch_norms(options, python),
        "memory": memories(options, python),
    }
    judged = [
        row
        for part in ("networks", "batch_norm", "memory")
        for found in results[part].values()
        for row in found["ratios"]
    ]
    print(f"\n{sum(row['met'] for row in judged)} of {len(judged)} bars are met")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
