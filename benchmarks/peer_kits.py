"""The benchmarks' networks in the peers' own layers; runs in the peers' interpreter.

A kind chooses the layers. cplxmodule has two for variational dropout: "vd-exact" computes the divergence and its
gradient, "vd" the gradient alone. complextorch has the exact one only, under both names. "plain" has no divergence.

What they lack: complextorch pools by modulus, so the maximum of parts is its split layer with torch's pooling inside
(cplxmodule's CplxMaxPool2d too goes by modulus; its split layer serves both poolings); cplxmodule's average pooling is
its split layer. Everything that these networks need is there otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from tasks import TASKS
from torch import Tensor, nn

Layer = Callable[..., nn.Module]


class Kit(NamedTuple):
    """A peer's parts for one kind of layer, and how it holds a complex batch."""

    linear: Layer
    conv1d: Layer
    conv2d: Layer
    norm1d: Layer
    norm2d: Layer
    relu: Layer
    average1d: Layer
    average2d: Layer
    maximum2d: Layer
    flatten: Layer
    real: Layer
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
        "vd-exact": (relevance.CplxLinearVD, relevance.CplxConv1dVD, relevance.CplxConv2dVD),
        "vd": (extensions.CplxLinearVDBogus, extensions.CplxConv1dVDBogus, extensions.CplxConv2dVDBogus),
        "plain": (peer.CplxLinear, peer.CplxConv1d, peer.CplxConv2d),
    }[kind]
    split = peer.CplxToCplx
    return Kit(
        *layers,
        norm1d=peer.CplxBatchNorm1d,
        norm2d=peer.CplxBatchNorm2d,
        relu=split[nn.ReLU],
        average1d=split[nn.AvgPool1d],
        average2d=split[nn.AvgPool2d],
        maximum2d=split[nn.MaxPool2d],
        flatten=split[nn.Flatten],
        real=peer.CplxReal,
        batch=lambda z: Cplx(z.real.contiguous(), z.imag.contiguous()),
        divergences=relevance.penalties,
    )


def complextorch(kind: str) -> Kit:
    """complextorch's parts, on native complex tensors. Its in-place ReLU, the default, has no backward here."""
    from complextorch import nn as peer
    from complextorch.nn import relevance

    exact = (relevance.LinearVD, relevance.Conv1dVD, relevance.Conv2dVD)
    layers = {"vd-exact": exact, "vd": exact, "plain": (peer.Linear, peer.Conv1d, peer.Conv2d)}[kind]
    return Kit(
        *layers,
        norm1d=peer.BatchNorm1d,
        norm2d=peer.BatchNorm2d,
        relu=lambda: peer.CReLU(inplace=False),
        average1d=peer.AvgPool1d,
        average2d=peer.AvgPool2d,
        maximum2d=lambda size: peer.GeneralizedSplitActivation(nn.MaxPool2d(size), nn.MaxPool2d(size)),
        flatten=nn.Flatten,
        real=Real,
        batch=lambda z: z,
        divergences=relevance.penalties,
    )


def dense(kit: Kit, classes: int, width: float) -> list[nn.Module]:
    """784 → 4096 → 10."""
    hidden = round(4096 * width)
    return [kit.linear(784, hidden), kit.relu(), kit.linear(hidden, classes)]


def simple_conv(kit: Kit, classes: int, width: float) -> list[nn.Module]:
    """Two convolutions of 5 x 5, each averaged over 2 x 2, and two linear layers."""
    a, b, c = (round(n * width) for n in (20, 50, 500))
    return [
        *(kit.conv2d(1, a, 5), kit.relu(), kit.average2d(2)),
        *(kit.conv2d(a, b, 5), kit.relu(), kit.average2d(2)),
        *(kit.flatten(), kit.linear(16 * b, c), kit.relu(), kit.linear(c, classes)),
    ]


def vgg16(kit: Kit, classes: int, width: float) -> list[nn.Module]:
    """Thirteen convolutions of 3 x 3 with batch norm, five maximum poolings (of parts), one linear layer."""
    body, channels = [], 3
    for block in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for size in block:
            outputs = round(size * width)
            body += [kit.conv2d(channels, outputs, 3, padding=1), kit.norm2d(outputs), kit.relu()]
            channels = outputs
        body.append(kit.maximum2d(2))
    return [*body, kit.flatten(), kit.linear(channels, classes)]


def deep_conv_net(kit: Kit, classes: int, width: float) -> list[nn.Module]:
    """Six convolutions, all but the fifth with batch norm and average pooling, and two linear layers."""
    body, channels, length = [], *TASKS["deepconv"].shape
    for size, kernel, stride, full in (
        *((16, 6, 2, True), (32, 3, 2, True), (64, 3, 1, True), (64, 3, 1, True)),
        *((128, 3, 1, False), (128, 3, 1, True)),
    ):
        outputs = round(size * width)
        body.append(kit.conv1d(channels, outputs, kernel, stride=stride, bias=not full))
        body += [kit.norm1d(outputs), kit.relu(), kit.average1d(2)] if full else [kit.relu()]
        channels, length = outputs, ((length - kernel) // stride + 1) // (2 if full else 1)
    hidden = round(2048 * width)
    return [*body, kit.flatten(), kit.linear(channels * length, hidden), kit.relu(), kit.linear(hidden, classes)]


KINDS = ("vd-exact", "vd", "plain")
KITS: dict[str, Callable[[str], Kit]] = {"cplxmodule": cplxmodule, "complextorch": complextorch}
NETWORKS: dict[str, Callable[[Kit, int, float], list[nn.Module]]] = {
    "dense": dense,
    "conv": simple_conv,
    "vgg16": vgg16,
    "deepconv": deep_conv_net,
}


def build(network: str, kit: Kit, width: float = 1.0) -> nn.Sequential:
    """A fresh network in training; its logits are the real part."""
    return nn.Sequential(*NETWORKS[network](kit, TASKS[network].classes, width), kit.real()).train()


def adam(net: nn.Module, rate: float) -> torch.optim.Adam:
    """torch's Adam in its fastest form for each parameter: fused for the real ones; it refuses complex ones."""
    real = [p for p in net.parameters() if not p.is_complex()]
    native = [p for p in net.parameters() if p.is_complex()]
    groups: list[dict[str, Any]] = [{"params": real, "fused": True}, {"params": native, "foreach": True}]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=rate)
