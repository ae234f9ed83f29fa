"""The training steps that are timed: argand's in both fields, and torch's of real networks.

A step is forward, cross entropy, the divergence's gradient, backward, clipping to norm 0.5, and Adam.
"""

import copy
from functools import partial
from unittest import mock

import networks
import torch
from measure import Runner, Step, milliseconds
from peers import Peer
from tasks import DIVERGENCE_WEIGHT, LEARNING_RATE, MAX_NORM, TASKS
from torch import Tensor, nn

import argand

TOLERANCE = 1e-3  # of the parameters' change, relative: Adam divides by small float32 gradients
IMAGES = ("conv", "vgg16")
SMALL = ("dense", "conv")  # those that are checked, and timed in all kinds
RIVALS = (
    *(("cplxmodule", "vd-exact"), ("cplxmodule", "vd"), ("cplxmodule", "plain")),
    *(("complextorch", "vd"), ("complextorch", "plain")),
)


def batch(network: str, size: int, device: str, *, field: str, last: bool) -> tuple[Tensor, Tensor]:
    """Random inputs, of images with the channels last in memory or in torch's usual order, and labels."""
    task = TASKS[network]
    dtype = torch.complex64 if field == "complex" else torch.float32
    x = torch.randn(size, *task.shape, dtype=dtype, device=device)
    return x.to(memory_format=torch.channels_last) if last else x, torch.randint(task.classes, (size,), device=device)


def our_step(net: nn.Module, opt: argand.optim.Adam, x: Tensor, y: Tensor) -> None:
    """The step that is timed and checked."""
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()


def torch_step(net: nn.Module, opt: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """A step of a real network by torch's own means."""
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
    opt.step()


def reference_step(net: nn.Module, opt: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """Our variational step through torch alone: differentiable divergence, clipping, Adam."""
    opt.zero_grad()
    (nn.functional.cross_entropy(net(x), y) + DIVERGENCE_WEIGHT * argand.divergence(net)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
    opt.step()


def training(net: nn.Module, kind: str, x: Tensor, y: Tensor) -> Step:
    """A fresh network in training by argand on one batch; the kind is vd, ard or plain."""
    if kind != "plain":
        argand.sparsify(net, kind)
    weight = 0.0 if kind == "plain" else DIVERGENCE_WEIGHT
    opt = argand.optim.Adam(net, lr=LEARNING_RATE, divergence_weight=weight, max_norm=MAX_NORM)
    return partial(our_step, net, opt, x, y)


def training_in_torch(net: nn.Module, x: Tensor, y: Tensor) -> Step:
    """A fresh real network in training on one batch, with torch's fused Adam and its clipping."""
    return partial(torch_step, net, torch.optim.Adam(net.parameters(), lr=LEARNING_RATE, fused=True), x, y)


def ours(
    network: str,
    kind: str,
    size: int,
    device: str = "cpu",
    *,
    field: str = "complex",
    last: bool = False,
    width: float = 1.0,
) -> Step:
    """One of the networks by argand; a real one has the same features as the complex one."""
    torch.manual_seed(0)
    makers = networks.COMPLEX if field == "complex" else networks.REAL
    net = makers[network](width=width).to(device)
    return training(net, kind, *batch(network, size, device, field=field, last=last))


def in_torch(network: str, size: int, device: str = "cpu", *, width: float = 2.0, last: bool = False) -> Step:
    """One of the real networks by torch."""
    torch.manual_seed(0)
    net = networks.REAL[network](width=width).to(device)
    return training_in_torch(net, *batch(network, size, device, field="real", last=last))


def local(network: str, size: int, device: str) -> dict[str, Step]:
    """All contestants of this interpreter, by name."""
    image = network in IMAGES
    found = {f"argand complex {kind}": ours(network, kind, size, device, last=image) for kind in ("vd", "plain")}
    found["torch real 2R"] = in_torch(network, size, device)
    if image:
        found["argand complex vd, usual order"] = ours(network, "vd", size, device)
        found["torch real 2R, channels last"] = in_torch(network, size, device, last=True)
    if network in SMALL:
        found["argand complex ard"] = ours(network, "ard", size, device, last=image)
        found["real plain"] = in_torch(network, size, device, width=1)
        for kind in ("vd", "ard"):
            found[f"argand real {kind}"] = ours(network, kind, size, device, field="real")
    return found


def all_of(
    network: str, size: int, device: str, threads: int, worker: Peer
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Every contestant, warmed up; and why a peer's is left out, where it can't do a step."""
    runners: dict[str, Runner] = {}
    left_out: dict[str, str] = {}
    for name, step in local(network, size, device).items():
        runners[name] = partial(milliseconds, step, device=device)
        runners[name](2)
    for peer, kind in RIVALS:
        request = {"network": network, "peer": peer, "kind": kind, "batch": size, "seed": 0}
        run = partial(_rival, worker, {**request, "threads": threads, "device": device})
        try:
            run(1)
        except RuntimeError as error:
            left_out[f"{peer} {kind}"] = str(error)
        else:
            runners[f"{peer} {kind}"] = run
    return runners, left_out


def _rival(worker: Peer, request: dict[str, object], count: int) -> list[float]:
    return worker.steps(**request, steps=count)


def check(network: str, size: int, device: str, steps: int = 3) -> float:
    """Relative distance of the parameters' change over some steps to that of a float64 reference; raises if large."""
    torch.manual_seed(0)
    net = argand.sparsify(networks.COMPLEX[network]().to(device), "vd")
    exact = copy.deepcopy(net).double()
    before = [p.detach().clone() for p in exact.parameters()]
    x, y = batch(network, size, device, field="complex", last=network in IMAGES)
    draw = argand.sampling.noise_like

    def draw_single(like: Tensor) -> Tensor:
        """The noise of the float32 network."""
        return draw(like.to(torch.complex64)).to(like.dtype)

    opt = argand.optim.Adam(net, lr=LEARNING_RATE, divergence_weight=DIVERGENCE_WEIGHT, max_norm=MAX_NORM)
    reference = torch.optim.Adam(exact.parameters(), lr=LEARNING_RATE)
    for i in range(steps):
        torch.manual_seed(i)
        our_step(net, opt, x, y)
        torch.manual_seed(i)
        with mock.patch("argand.sampling.noise_like", draw_single):
            reference_step(exact, reference, x.to(torch.complex128), y)
    difference, change = 0.0, 0.0
    for single, double, start in zip(net.parameters(), exact.parameters(), before, strict=True):
        difference += (single.detach().to(double.dtype) - double.detach()).abs().square().sum().item()
        change += (double.detach() - start).abs().square().sum().item()
    error = (difference / change) ** 0.5
    if not error <= TOLERANCE:
        raise SystemExit(f"{network}: our steps differ from the float64 reference by {error:.1e} of their change.")
    return error
