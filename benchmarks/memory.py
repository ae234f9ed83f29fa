"""The most memory that a variational step holds, ours and the peers', each in a fresh process of its own.

As a program it is ours of these processes: `python benchmarks/memory.py JSON` with the request of `peak`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import bars
import contestants
import measure
import torch
from peers import Peer

from argand.loops import compiling

RIVALS = (("cplxmodule", "vd-exact"), ("cplxmodule", "vd"), ("complextorch", "vd"))


def peak(network: str, batch: int, threads: int, device: str) -> dict[str, float]:
    """What a variational network of ours holds at most, in this process."""
    torch.set_num_threads(threads)
    last = network in contestants.IMAGES

    def small() -> measure.Step:
        """A small network that has all its loops compiled, as the large one has."""
        step = contestants.ours(network, "vd", batch, device, last=last, width=0.1)
        return compiling(True)(step)

    return measure.peak(small, lambda: contestants.ours(network, "vd", batch, device, last=last), device)


def table(python: Path, network: str, size: int, threads: int, device: str) -> dict[str, Any]:
    """The megabytes of ours and of the peers', printed and told. A process without a network is told apart."""
    request = {"network": network, "batch": size, "threads": threads, "device": device}
    command = [sys.executable, __file__, json.dumps(request)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {bars.VD: json.loads(answer.splitlines()[-1])}
    for peer, kind in RIVALS:
        with Peer(python) as worker:
            found[f"{peer} {kind}"] = worker.ask("memory", peer=peer, kind=kind, seed=0, **request)
    print(f"\n{f'{network}, batch {size}':<32} {'peak MB':>8} {'process before':>15}")
    for name, held in sorted(found.items(), key=lambda item: item[1]["peak_mb"]):
        print(f"{name:<32} {held['peak_mb']:>8.0f} {held['libraries_mb']:>15.0f}")
    peaks = {name: held["peak_mb"] for name, held in found.items()}
    return {"mb": found, "ratios": bars.held(bars.MEMORY, peaks)}


if __name__ == "__main__":
    print(json.dumps(peak(**json.loads(sys.argv[1]))))
