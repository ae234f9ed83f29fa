"""The peers' worker, which their interpreter runs: a line of JSON in, a line of JSON out.

A request names an `action` and what that takes:

* `steps`: training steps of a network: `network`, `peer`, `kind` (vd-exact, vd, plain), `batch`, `seed`, `steps`;
* `norm`: forward and backward passes of a complex batch norm: `peer`, `shape`, `seed`, `steps`;
* `memory`: what a network holds at most, in a fresh worker: `network`, `peer`, `kind`, `batch`, `seed`;
* `drop`: forget all networks.

All but the last take `threads`, and `device` (cpu, cuda). Answers are `{"ms": [one number a step]}`, or
`{"peak_mb": number, "libraries_mb": number}`, or `{"error": text}`. A network is built and warmed up by the first
request for it, and kept. The end of the input ends the worker.

A step is: forward, cross entropy + 1e-4 · divergence, backward, clipping to norm 0.5, Adam, on one batch made before.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from measure import Step, give_back, milliseconds, peak
from peer_kits import KINDS, KITS, NETWORKS, adam, build
from tasks import DIVERGENCE_WEIGHT, LEARNING_RATE, MAX_NORM, TASKS
from torch import nn

Steps = dict[tuple[Any, ...], Step]


def training(
    network: str, peer: str, kind: str, batch: int, seed: int, device: str = "cpu", width: float = 1.0
) -> Step:
    """The step of a fresh network with its optimizer and a random batch, all from the seed."""
    for what, known in ((network, NETWORKS), (peer, KITS), (kind, KINDS)):
        if what not in known:
            raise ValueError(f"{what!r} is none of {', '.join(known)}")
    torch.manual_seed(seed)
    kit, task = KITS[peer](kind), TASKS[network]
    net = build(network, kit, width).to(device)
    optimizer = adam(net, LEARNING_RATE)
    inputs = kit.batch(torch.randn(batch, *task.shape, dtype=torch.complex64, device=device))
    target = torch.randint(task.classes, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), target)
        for divergence in kit.divergences(net):
            loss = loss + DIVERGENCE_WEIGHT * divergence
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
        optimizer.step()

    return step


def normalising(peer: str, shape: list[int], seed: int, device: str = "cpu") -> Step:
    """Forward and backward of a batch norm on one random batch, with gradients to the batch and to the parameters."""
    torch.manual_seed(seed)
    kit = KITS[peer]("plain")
    norm = {3: kit.norm1d, 4: kit.norm2d}[len(shape)](shape[1]).train().to(device)
    inputs = kit.batch(torch.randn(shape, dtype=torch.complex64, device=device)).requires_grad_()
    output = norm(inputs)
    native = isinstance(output, torch.Tensor)
    leaves = [inputs] if native else [inputs.real, inputs.imag]
    gradients = [torch.randn_like(part) for part in ([output] if native else [output.real, output.imag])]

    def step() -> None:
        for leaf in [*leaves, *norm.parameters()]:
            leaf.grad = None
        output = norm(inputs)
        torch.autograd.backward([output] if native else [output.real, output.imag], gradients)

    return step


def timed(make: Callable[..., Step], kept: Steps, *, steps: int, device: str = "cpu", **what: Any) -> dict[str, Any]:
    """The times of the steps of what is asked for, made and warmed up where it is new."""
    key = (make, *((name, str(value)) for name, value in sorted(what.items())))
    if key not in kept:
        kept[key] = make(**what, device=device)
        kept[key]()
    return {"ms": milliseconds(kept[key], steps, device)}


def memory(device: str = "cpu", **what: Any) -> dict[str, Any]:
    """What a network holds at most."""
    return peak(lambda: training(**what, device=device, width=0.1), lambda: training(**what, device=device), device)


def drop(kept: Steps) -> dict[str, Any]:
    """Forgets the networks and gives their memory back to the system, where its C library can."""
    kept.clear()
    give_back()
    return {}


def answer(kept: Steps, line: str) -> dict[str, Any]:
    """The answer to one line; whatever is wrong with it is told, not raised."""
    try:
        request = json.loads(line)
        action = request.pop("action")
        torch.set_num_threads(request.pop("threads", torch.get_num_threads()))
        if action == "drop":
            return drop(kept)
        if action == "memory":
            return memory(**request)
        return timed({"steps": training, "norm": normalising}[action], kept, **request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def serve() -> None:
    """Answers each line of the input; what the peers print goes to the error stream."""
    kept: Steps = {}
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            print(json.dumps(answer(kept, line)), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    serve()
