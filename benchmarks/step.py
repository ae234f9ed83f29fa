"""One training step of the paper's two MNIST networks: argand beside its peers and a plain real network.

    python benchmarks/step.py [--rounds 7] [--steps 3] [--threads 2] [--batch 128] [--json FILE] [--quick]

A step is forward, cross entropy, the divergence's gradient, backward, clipping to norm 0.5, and Adam. All contestants
take turns in one run, so that a busy machine slows them alike; a figure is the median over all of a contestant's steps.
What counts are the ratios. The peers are installed into a scratch environment at the first run.

"2R" is a real network of about the same floats (twice the hidden width), with torch's fused Adam. Before anything is
timed, three of our variational steps are compared with the same steps done in float64 by torch's own Adam, clipping
and autograd, with the same noise.
"""

import argparse
import copy
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import networks
import peers
import torch
from torch import Tensor, nn

import argand
from argand.memory import KEEPING, keep_freed_memory

WEIGHT, RATE, NORM = peers.DIVERGENCE_WEIGHT, peers.LEARNING_RATE, peers.MAX_NORM
SCRATCH = Path(__file__).parent / ".peers"
TOLERANCE = 1e-3  # of the parameters' change, relative: Adam divides by small float32 gradients

Step = Callable[[], None]


def batch(network: str, size: int, complex_input: bool) -> tuple[Tensor, Tensor]:
    """Random inputs and labels."""
    dtype = torch.complex64 if complex_input else torch.float32
    x = torch.randn(size, *networks.SHAPES[network], dtype=dtype)
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 and complex_input else x, torch.randint(10, (size,))


def our_step(net: nn.Module, opt: argand.optim.Adam, x: Tensor, y: Tensor) -> None:
    """The step that is timed and checked."""
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()


def reference_step(net: nn.Module, opt: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """The same step through torch alone: differentiable divergence, clipping, Adam."""
    opt.zero_grad()
    (nn.functional.cross_entropy(net(x), y) + WEIGHT * argand.divergence(net)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), NORM)
    opt.step()


def ours(network: str, kind: str, size: int) -> Step:
    """A network of ours in training on one batch."""
    net = networks.COMPLEX[network]()
    weight = 0.0
    if kind == "vd":
        argand.sparsify(net, "vd")
        weight = WEIGHT
    opt = argand.optim.Adam(net, lr=RATE, divergence_weight=weight, max_norm=NORM)
    x, y = batch(network, size, complex_input=True)
    return lambda: our_step(net, opt, x, y)


def plain_real(network: str, size: int) -> Step:
    """The real network of the same floats, with torch's own fused Adam and clipping."""
    net = networks.REAL[network]()
    opt = torch.optim.Adam(net.parameters(), lr=RATE, fused=True)
    x, y = batch(network, size, complex_input=False)

    def step() -> None:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), NORM)
        opt.step()

    return step


def check(network: str, size: int, steps: int = 3) -> float:
    """Relative distance of the parameters' change over some steps to that of a float64 reference; raises if large."""
    torch.manual_seed(0)
    net = argand.sparsify(networks.COMPLEX[network](), "vd")
    exact = copy.deepcopy(net).double()
    before = [p.detach().clone() for p in exact.parameters()]
    x, y = batch(network, size, complex_input=True)
    draw = argand.field.noise_like

    def draw_single(like: Tensor) -> Tensor:
        """The noise of the float32 network."""
        return draw(like.to(torch.complex64)).to(like.dtype)

    opt = argand.optim.Adam(net, lr=RATE, divergence_weight=WEIGHT, max_norm=NORM)
    reference = torch.optim.Adam(exact.parameters(), lr=RATE)
    for i in range(steps):
        torch.manual_seed(i)
        our_step(net, opt, x, y)
        torch.manual_seed(i)
        with mock.patch("argand.field.noise_like", draw_single):
            reference_step(exact, reference, x.to(torch.complex128), y)
    difference, change = 0.0, 0.0
    for ours, theirs, start in zip(net.parameters(), exact.parameters(), before, strict=True):
        difference += (ours.detach().to(theirs.dtype) - theirs.detach()).abs().square().sum().item()
        change += (theirs.detach() - start).abs().square().sum().item()
    error = (difference / change) ** 0.5
    if not error <= TOLERANCE:
        raise SystemExit(f"{network}: our steps differ from the float64 reference by {error:.1e} of their change.")
    return error


def milliseconds(step: Step, count: int) -> list[float]:
    """The times of some steps."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def compete(network: str, options: argparse.Namespace) -> dict[str, float]:
    """Median milliseconds of every contestant, taking turns."""
    python = peers.ensure(SCRATCH)
    rivals = [("cplxmodule", kind) for kind in ("vd-exact", "vd", "plain")]
    rivals += [("complextorch", kind) for kind in ("vd", "plain")]
    contestants: dict[str, Callable[[int], list[float]]] = {}
    for kind in ("vd", "plain"):
        step = ours(network, kind, options.batch)
        contestants[f"argand {kind}"] = lambda count, step=step: milliseconds(step, count)
    real = plain_real(network, options.batch)
    contestants["torch real 2R"] = lambda count: milliseconds(real, count)
    times: dict[str, list[float]] = {}
    with peers.Peer(python) as worker:
        request = {"network": network, "batch": options.batch, "threads": options.threads, "seed": 0}
        for peer, kind in rivals:
            contestants[f"{peer} {kind}"] = lambda count, peer=peer, kind=kind: worker.steps(
                peer=peer, kind=kind, steps=count, **request
            )
        for name, run in contestants.items():
            run(2)
            times[name] = []
        for _ in range(options.rounds):
            for name, run in contestants.items():
                times[name] += run(options.steps)
    return {name: statistics.median(found) for name, found in times.items()}


def show(network: str, medians: dict[str, float]) -> dict[str, float]:
    """Print the table; the ratios to our variational step."""
    vd, plain = medians["argand vd"], medians["argand plain"]
    print(f"\n{network:<24} {'ms':>8} {'/ argand vd':>12} {'/ argand plain':>15}")
    for name, ms in sorted(medians.items(), key=lambda item: item[1]):
        print(f"{name:<24} {ms:>8.1f} {ms / vd:>12.2f} {ms / plain:>15.2f}")
    return {name: ms / vd for name, ms in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", type=Path, help="write medians and ratios here")
    parser.add_argument("--quick", action="store_true", help="two rounds of one step")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps = 2, 1
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    os.environ.update(KEEPING)
    results = {"torch": torch.__version__, "machine": platform.processor() or platform.machine(), **vars(options)}
    results.pop("json")
    for network in networks.SHAPES:
        error = check(network, options.batch)
        print(f"{network}: 3 steps agree with the float64 reference to {error:.1e} of the parameters' change")
        medians = compete(network, options)
        results[network] = {"error": error, "ms": medians, "ratio_to_argand_vd": show(network, medians)}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
