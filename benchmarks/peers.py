"""The peers' training step, timed in an interpreter of their own.

The peers are cplxmodule and complextorch. They live in a scratch environment, so this file is two things:

* a module for the driver of a benchmark: `ensure` makes the environment, `Peer` talks to a worker inside it;
* that worker, when the environment's interpreter runs it: a line of JSON in, a line of JSON out.

    with Peer(ensure(Path("scratch"))) as peer:
        ms = peer.steps(network="dense", peer="cplxmodule", kind="vd", batch=128, threads=2, seed=0, steps=5)

A request names all seven: `network` (dense, conv), `peer`, `kind` (vd-exact, vd, plain), `batch`, `threads`, `seed`
and `steps`. Its answer is `{"ms": [one number a step], "peak_mb": number}`, or `{"error": text}`. A network is built
and warmed up by the first request for it, and kept; `{"drop": true}` forgets all. The end of the input ends the worker.

A step is: forward, cross entropy + 1e-4 · divergence, backward, clipping to norm 0.5, Adam, on one batch made before.

`kind` chooses the layers. cplxmodule has two for variational dropout: "vd-exact" computes the divergence and its
gradient, "vd" the gradient alone. complextorch has the exact one only, under both names. "plain" has no divergence.

A step's time depends on whether the C library keeps freed memory. The worker inherits the driver's environment, so
glibc's MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_, set for the driver, are the same for both.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

PEERS = ("cplxmodule==2022.6", "complextorch==2.1.1")
BESIDE = ("torch", "numpy", "scipy")
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"

DIVERGENCE_WEIGHT = 1e-4
LEARNING_RATE = 1e-3
MAX_NORM = 0.5
CLASSES = 10


# The driver's side.


def ensure(folder: Path) -> Path:
    """The interpreter of the peers' environment at `folder`, made if it is missing or its pins have changed."""
    folder = folder.absolute()
    python, marker = folder / "bin" / "python", folder / "peers-installed.txt"
    wanted = "\n".join([*BESIDE, *PEERS, CONSTRAINTS.read_text()])
    if python.exists() and marker.exists() and marker.read_text() == wanted:
        return python
    marker.unlink(missing_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([*pip, "-c", str(CONSTRAINTS), *BESIDE], check=True)
    subprocess.run([*pip, "--no-deps", *PEERS], check=True)
    subprocess.run([str(python), "-I", "-c", "import cplxmodule.nn.relevance, complextorch.nn.relevance"], check=True)
    marker.write_text(wanted)
    return python


class Peer:
    """A worker in the peers' environment, alive inside a `with` block and asleep between requests."""

    def __init__(self, python: Path) -> None:
        self.command = [str(python), "-I", str(Path(__file__).resolve())]

    def __enter__(self) -> Peer:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def ask(self, **request: Any) -> dict[str, Any]:
        """The worker's answer to one request; RuntimeError where it refuses or has died."""
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peers' worker ended with code {self.process.wait()} at the request {request}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the peers' worker refused {request}: {answer['error']}")
        return answer

    def steps(self, **request: Any) -> list[float]:
        """Milliseconds of each training step that the request asks for."""
        return [float(ms) for ms in self.ask(**request)["ms"]]


# The worker's side.


class Kit(NamedTuple):
    """A peer's parts for one kind of layer, and how it holds a complex batch."""

    linear: Callable[[int, int], nn.Module]
    convolution: Callable[[int, int, int], nn.Module]
    relu: Callable[[], nn.Module]
    pool: Callable[[int], nn.Module]
    flatten: Callable[[], nn.Module]
    real: Callable[[], nn.Module]
    batch: Callable[[Tensor], Any]
    divergences: Callable[[nn.Module], Iterable[Tensor]]


class Real(nn.Module):
    """The real part of a native complex tensor."""

    def forward(self, z: Tensor) -> Tensor:
        return z.real


def cplxmodule(kind: str) -> Kit:
    """cplxmodule's parts: a complex tensor is a pair of real ones, a split layer is a real layer applied to each."""
    from cplxmodule import Cplx
    from cplxmodule import nn as peer
    from cplxmodule.nn import relevance
    from cplxmodule.nn.relevance import extensions

    layers = {
        "vd-exact": (relevance.CplxLinearVD, relevance.CplxConv2dVD),
        "vd": (extensions.CplxLinearVDBogus, extensions.CplxConv2dVDBogus),
        "plain": (peer.CplxLinear, peer.CplxConv2d),
    }[kind]
    split = peer.CplxToCplx
    return Kit(
        *layers,
        relu=split[nn.ReLU],
        pool=split[nn.AvgPool2d],
        flatten=split[nn.Flatten],
        real=peer.CplxReal,
        batch=lambda z: Cplx(z.real.contiguous(), z.imag.contiguous()),
        divergences=relevance.penalties,
    )


def complextorch(kind: str) -> Kit:
    """complextorch's parts, on native complex tensors. Its in-place ReLU, the default, has no backward here."""
    from complextorch import nn as peer
    from complextorch.nn import relevance

    exact = (relevance.LinearVD, relevance.Conv2dVD)
    layers = {"vd-exact": exact, "vd": exact, "plain": (peer.Linear, peer.Conv2d)}[kind]
    return Kit(
        *layers,
        relu=lambda: peer.CReLU(inplace=False),
        pool=peer.AvgPool2d,
        flatten=nn.Flatten,
        real=Real,
        batch=lambda z: z,
        divergences=relevance.penalties,
    )


def dense(kit: Kit) -> nn.Sequential:
    """784 → 4096 → 10."""
    return nn.Sequential(kit.linear(784, 4096), kit.relu(), kit.linear(4096, CLASSES), kit.real())


def simple_conv(kit: Kit) -> nn.Sequential:
    """Two convolutions of 5 x 5, each averaged over 2 x 2, and two linear layers."""
    return nn.Sequential(
        *(kit.convolution(1, 20, 5), kit.relu(), kit.pool(2)),
        *(kit.convolution(20, 50, 5), kit.relu(), kit.pool(2)),
        *(kit.flatten(), kit.linear(800, 500), kit.relu()),
        *(kit.linear(500, CLASSES), kit.real()),
    )


KINDS = ("vd-exact", "vd", "plain")
KITS: dict[str, Callable[[str], Kit]] = {"cplxmodule": cplxmodule, "complextorch": complextorch}
NETWORKS: dict[str, tuple[Callable[[Kit], nn.Sequential], tuple[int, ...]]] = {
    "dense": (dense, (784,)),
    "conv": (simple_conv, (1, 28, 28)),
}


def adam(net: nn.Module) -> torch.optim.Adam:
    """torch's Adam in its fastest form for each parameter: fused for the real ones; it refuses complex ones."""
    real = [p for p in net.parameters() if not p.is_complex()]
    native = [p for p in net.parameters() if p.is_complex()]
    groups: list[dict[str, Any]] = [{"params": real, "fused": True}, {"params": native, "foreach": True}]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=LEARNING_RATE)


@dataclass
class Trial:
    """A network in training on its one batch. `held_mb`: what it has added to the resident memory so far."""

    net: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Any
    target: Tensor
    divergences: Callable[[nn.Module], Iterable[Tensor]]
    held_mb: float = 0.0

    def step(self) -> float:
        """Does one training step; the loss before it."""
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(self.batch), self.target)
        for divergence in self.divergences(self.net):
            loss = loss + DIVERGENCE_WEIGHT * divergence
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), MAX_NORM)
        self.optimizer.step()
        return loss.item()


def build(network: str, peer: str, kind: str, batch: int, seed: int) -> Trial:
    """A fresh network with its optimizer and a random batch, all from the seed."""
    for what, known in ((network, NETWORKS), (peer, KITS), (kind, KINDS)):
        if what not in known:
            raise ValueError(f"{what!r} is none of {', '.join(known)}")
    torch.manual_seed(seed)
    architecture, shape = NETWORKS[network]
    kit = KITS[peer](kind)
    net = architecture(kit).train()
    inputs, target = torch.randn(batch, *shape, dtype=torch.complex64), torch.randint(CLASSES, (batch,))
    return Trial(net, adam(net), kit.batch(inputs), target, kit.divergences)


def resident(field: str) -> float:
    """Megabytes of this process, now ("VmRSS") or at most ("VmHWM"); 0 where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(rf"^{field}:\s+(\d+) kB", status.read_text() if status.exists() else "", re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def timed(trials: dict[tuple[Any, ...], Trial], *, steps: int, threads: int, **network: Any) -> dict[str, Any]:
    """Does the steps; `peak_mb`: the most that this network held during them, beyond what was there before it.

    That is less than it needs where it lives in memory that another one has left: a fresh worker tells all of it.
    """
    torch.set_num_threads(threads)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak restarts from what is resident now
    start = resident("VmRSS")
    key = tuple(sorted(network.items()))
    if key not in trials:
        trial = build(**network)
        trial.step()
        trials[key] = trial
    trial, ms = trials[key], []
    for _ in range(steps):
        begin = time.perf_counter()
        trial.step()
        ms.append((time.perf_counter() - begin) * 1e3)
    peak = trial.held_mb + resident("VmHWM") - start
    trial.held_mb += resident("VmRSS") - start
    return {"ms": ms, "peak_mb": round(peak, 1)}


def drop(trials: dict[tuple[Any, ...], Trial]) -> dict[str, Any]:
    """Forgets the networks and gives their memory back to the system, where its C library can."""
    trials.clear()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    return {"ms": [], "peak_mb": 0.0}


def answer(trials: dict[tuple[Any, ...], Trial], line: str) -> dict[str, Any]:
    """The answer to one line; whatever is wrong with it is told, not raised."""
    try:
        request = json.loads(line)
        return drop(trials) if request == {"drop": True} else timed(trials, **request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def serve() -> None:
    """Answers each line of the input; what the peers print goes to the error stream."""
    trials: dict[tuple[Any, ...], Trial] = {}
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            print(json.dumps(answer(trials, line)), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    serve()
