"""Complex batch norm alone, forward and backward, at the inputs that it has inside a network."""

from collections import Counter
from functools import partial
from typing import Any

import bars
import contestants
import networks
import torch
from measure import Runner, Step, milliseconds, turns
from peers import Peer
from torch import Tensor, nn

import argand.nn as ann

NORMS = {3: ann.BatchNorm1d, 4: ann.BatchNorm2d}
PEERS = ("complextorch", "cplxmodule")

Place = tuple[tuple[int, ...], tuple[int, ...]]  # a shape and its strides


def places(network: str, size: int, device: str) -> Counter[Place]:
    """How many batch norms of our network have inputs of each shape and order in memory."""
    net, found = networks.COMPLEX[network]().to(device), Counter[Place]()

    def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found[tuple(inputs[0].shape), inputs[0].stride()] += 1

    for layer in net.modules():
        if isinstance(layer, tuple(NORMS.values())):
            layer.register_forward_pre_hook(note)
    x, _ = contestants.batch(network, size, device, field="complex", last=network in contestants.IMAGES)
    with torch.no_grad():
        net(x)
    return found


def ours(place: Place, device: str) -> Step:
    """Forward and backward of our batch norm on one random batch, with gradients to it and to the parameters."""
    shape, strides = place
    torch.manual_seed(0)
    norm = NORMS[len(shape)](shape[1]).to(device)
    x = torch.empty_strided(shape, strides, dtype=torch.complex64, device=device).normal_().requires_grad_()
    gradient = torch.randn_like(norm(x))

    def step() -> None:
        x.grad = None
        norm.zero_grad()
        norm(x).backward(gradient)

    return step


def compete(place: Place, worker: Peer, rounds: int, steps: int, **where: Any) -> dict[str, float]:
    """Median milliseconds of ours and of each peer's, taking turns."""
    device, shape = where["device"], list(place[0])
    runners: dict[str, Runner] = {"argand": partial(milliseconds, ours(place, device), device=device)}
    for peer in PEERS:
        runners[peer] = partial(_peer, worker, {"peer": peer, "shape": shape, "seed": 0, **where})
    for run in runners.values():
        run(2)
    return turns(runners, rounds, steps)


def _peer(worker: Peer, request: dict[str, Any], count: int) -> list[float]:
    return worker.norm(**request, steps=count)


def table(network: str, size: int, worker: Peer, rounds: int, steps: int, **where: Any) -> dict[str, Any]:
    """The medians at each shape, and their sums over the network's layers, printed and told."""
    print(f"\n{f'batch norm in {network}, batch {size}':<32} {'argand':>8} {PEERS[0]:>20} {PEERS[1]:>20}")
    rows, sums = [], dict.fromkeys(("argand", *PEERS), 0.0)
    for place, count in places(network, size, where["device"]).items():
        found = compete(place, worker, rounds, steps, **where)
        rows.append({"shape": place[0], "strides": place[1], "layers": count, "ms": found})
        _row(f"{count} of {' x '.join(map(str, place[0]))}", found)
        sums = {name: total + count * found[name] for name, total in sums.items()}
    _row("all of them", sums)
    return {"places": rows, "ms": sums, "ratios": bars.held(bars.NORM, sums)}


def _row(title: str, ms: dict[str, float]) -> None:
    own = ms["argand"]
    theirs = "".join(f"{f'{ms[peer]:.1f} (x {ms[peer] / own:.1f})':>21}" for peer in PEERS)
    print(f"{title:<32} {own:>8.1f}{theirs}")
