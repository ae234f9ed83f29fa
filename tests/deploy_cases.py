"""Every layer and function that a network may be deployed with, in both fields: the table of the exporters' tests."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import argand.nn as ann
from argand.graph import kind_of, trace


@dataclass(frozen=True)
class Input:
    """The shape of an input without the batch axis, and its field."""

    shape: tuple[int, ...]
    complex: bool


@dataclass(frozen=True)
class Case:
    """A small network, made in evaluation mode with parameters and statistics that are not trivial."""

    name: str
    build: Callable[[], nn.Module]
    takes: tuple[Input, ...]

    def make(self) -> nn.Module:
        """The network: the same one at every call."""
        with torch.random.fork_rng():
            torch.manual_seed(zlib.crc32(self.name.encode()))
            net = self.build()
            for module in net.modules():
                randomise(module)
        return net.eval()

    def inputs(self, batch: int = 1, seed: int = 0) -> tuple[Tensor, ...]:
        """Standard normal inputs with a leading batch axis."""
        generator = torch.Generator().manual_seed(seed)
        dtypes = [torch.complex64 if given.complex else torch.float32 for given in self.takes]
        return tuple(
            torch.randn(batch, *given.shape, dtype=dtype, generator=generator)
            for given, dtype in zip(self.takes, dtypes, strict=True)
        )

    def features(self) -> set[str]:
        """What the network consists of: names of kinds ("ann.Linear") and functions ("add")."""
        found = set()
        for step in trace(self.make()).steps:
            kind = kind_of(step.layer) if step.layer is not None else None
            found.add(kind.name if kind else step.kind)
        return found


@torch.no_grad()
def randomise(module: nn.Module, kept: float = 0.5) -> None:
    """Draw a layer's own parameters and statistics; weights of linear layers get a share of zeros."""
    for name, parameter in module.named_parameters(recurse=False):
        if name == "weight" and parameter.dim() == 3 and parameter.shape[1:] == (2, 2) and "Conv" not in _name(module):
            parameter.copy_(torch.eye(2) + 0.3 * torch.randn(parameter.shape))  # complex batch norm, Affine
        elif name == "weight" and "BatchNorm" in _name(module):
            parameter.copy_(1 + 0.3 * torch.randn(parameter.shape))
        else:
            parameter.normal_(std=0.5)
            if name == "weight" and parameter.dim() > 1:
                parameter.mul_(torch.rand(parameter.shape) < kept)
    if getattr(module, "running_mean", None) is not None:
        norm: Any = module
        norm.running_mean.normal_(std=0.5)
        root = torch.randn(norm.running_var.shape)
        covariance = root @ root.mT + 0.1 * torch.eye(2) if root.dim() > 1 else root.square() + 0.1
        norm.running_var.copy_(covariance)


def _name(module: nn.Module) -> str:
    return type(module).__name__


class One(nn.Module):
    """A function of one value, with layers that it may use."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.layers)


class Two(One):
    """A function of two values."""

    def forward(self, x: Tensor, z: Tensor) -> Any:
        return self.function(x, z, *self.layers)


def _real(*shape: int) -> Input:
    return Input(shape, False)


def _complex(*shape: int) -> Input:
    return Input(shape, True)


def _both(name: str, make: Callable[[Any], nn.Module], *shapes: tuple[int, ...]) -> list[Case]:
    """A layer of torch on real tensors, and argand's of the same name on complex ones."""
    return [
        Case(f"{name}-real", lambda: make(nn), tuple(_real(*shape) for shape in shapes)),
        Case(f"{name}-complex", lambda: make(ann), tuple(_complex(*shape) for shape in shapes)),
    ]


def _function(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Case]:
    """A function on real and on complex tensors."""
    module = One if len(shapes) == 1 else Two
    return [
        Case(f"{name}-real", lambda: module(function), tuple(_real(*shape) for shape in shapes)),
        Case(f"{name}-complex", lambda: module(function), tuple(_complex(*shape) for shape in shapes)),
    ]


_SPACE = {1: (9,), 2: (7, 8), 3: (5, 4, 6)}


def _linear() -> list[Case]:
    weak: dict[str, Any] = {"dtype": torch.complex64}
    return [
        *_both("linear", lambda n: n.Linear(7, 5), (7,)),
        *_both("linear-positions-no-bias", lambda n: n.Linear(4, 3, bias=False), (2, 3, 4)),
        *_both("linear-one-output", lambda n: n.Linear(300, 1), (300,)),
        *_both("bilinear", lambda n: n.Bilinear(3, 4, 5), (3,), (4,)),
        *_both("bilinear-positions", lambda n: n.Bilinear(3, 2, 4, bias=False), (5, 3), (5, 2)),
        Case("bilinear-conjugate", lambda: ann.Bilinear(3, 4, 5, conjugate=True), (_complex(3), _complex(4))),
        Case("linear-of-torch-complex", lambda: nn.Linear(7, 5, **weak), (_complex(7),)),
        Case("conv2d-of-torch-complex", lambda: nn.Conv2d(2, 3, 3, padding=1, **weak), (_complex(2, 5, 5),)),
        Case("transpose1d-of-torch-complex", lambda: nn.ConvTranspose1d(2, 3, 3, **weak), (_complex(2, 5),)),
    ]


def _convolutions() -> list[Case]:
    cases = []
    for d, space in _SPACE.items():
        for mode in ("zeros", "reflect", "replicate", "circular"):
            kernel = 3 if mode == "zeros" else 4  # torch warns of an even one with zeros
            options = {"kernel_size": kernel, "padding": "same", "padding_mode": mode, "bias": mode != "zeros"}
            cases += _both(
                f"conv{d}d-{mode}", lambda n, d=d, o=options: getattr(n, f"Conv{d}d")(2, 3, **o), (2, *space)
            )
        options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
        cases += _both(
            f"conv{d}d-strided", lambda n, d=d, o=options: getattr(n, f"Conv{d}d")(4, 6, 2, **o), (4, *space)
        )
        cases += _both(f"transpose{d}d", lambda n, d=d: getattr(n, f"ConvTranspose{d}d")(2, 3, 3), (2, *space))
        options = {"stride": 3, "padding": 1, "dilation": 2, "groups": 2, "output_padding": 1, "bias": False}
        cases += _both(
            f"transpose{d}d-strided",
            lambda n, d=d, o=options: getattr(n, f"ConvTranspose{d}d")(4, 6, 2, **o),
            (4, *space),
        )
    return [
        *cases,
        *_both("conv1d-pointwise", lambda n: n.Conv1d(5, 3, 1), (5, 6)),
        *_both("conv1d-wide-circular", lambda n: n.Conv1d(1, 2, 5, padding=4, padding_mode="circular"), (1, 4)),
        *_both("conv2d-uneven", lambda n: n.Conv2d(2, 3, (3, 2), (1, 2), (2, 0), (1, 2)), (2, 4, 9)),
        *_both("conv2d-depthwise", lambda n: n.Conv2d(3, 6, 3, groups=3), (3, 5, 6)),
        *_both("conv2d-deep", lambda n: n.Conv2d(40, 3, 3, padding=1), (40, 3, 3)),
        *_both("conv2d-padding-wider-than-kernel", lambda n: n.Conv2d(1, 2, 2, padding=3, stride=2), (1, 2, 3)),
    ]


def _norms() -> list[Case]:
    cases = _both("batchnorm-of-features", lambda n: n.BatchNorm1d(4), (4,))
    for d, space in _SPACE.items():
        cases += _both(f"batchnorm{d}d", lambda n, d=d: getattr(n, f"BatchNorm{d}d")(4), (4, *space))
        cases += _both(
            f"batchnorm{d}d-plain", lambda n, d=d: getattr(n, f"BatchNorm{d}d")(3, affine=False, eps=0.1), (3, *space)
        )
    return [*cases, Case("affine", lambda: ann.Affine(3), (_complex(3, 4, 2),))]


_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky-relu": lambda: nn.LeakyReLU(0.1),
    "elu": lambda: nn.ELU(0.7),
    "gelu": nn.GELU,
    "gelu-tanh": lambda: nn.GELU("tanh"),
    "silu": nn.SiLU,
    "softplus": lambda: nn.Softplus(2.0, 3.0),
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.8),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "prelu": nn.PReLU,
    "prelu-of-channels": lambda: nn.PReLU(3),
}


def _activations() -> list[Case]:
    shape = (3, 4, 5)
    cases = []
    for name, make in _ACTIVATIONS.items():
        cases.append(Case(name, make, (_real(*shape),)))
        cases.append(Case(f"split-{name}", lambda make=make: ann.Split(make()), (_complex(*shape),)))
    return [
        *cases,
        Case("split-function", lambda: ann.Split(torch.tanh), (_complex(*shape),)),
        Case("relu-complex", ann.ReLU, (_complex(*shape),)),
        Case("modrelu", ann.ModReLU, (_complex(*shape),)),
        Case("modrelu-of-channels", lambda: ann.ModReLU(3), (_complex(*shape),)),
        Case("cardioid", ann.Cardioid, (_complex(*shape),)),
        Case("zrelu", ann.ZReLU, (_complex(*shape),)),
        *(Case(f"softmax-{d}", lambda d=d: nn.Softmax(d), (_real(*shape),)) for d in (1, -1)),
        *(Case(f"log-softmax-{d}", lambda d=d: nn.LogSoftmax(d), (_real(*shape),)) for d in (2, -1)),
        Case("functional", lambda: One(lambda x: F.softplus(F.leaky_relu(torch.tanh(x), 0.2))), (_real(6),)),
    ]


def _pools() -> list[Case]:
    cases = []
    for d, space in _SPACE.items():
        shape = (3, *space)
        uneven = {"ceil_mode": True, "padding": 1}
        rows: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
            ("avgpool", "AvgPool", (2,), {}),
            ("avgpool-uneven", "AvgPool", (3, 2), uneven),
            ("avgpool-without-pad", "AvgPool", (3, 2), {**uneven, "count_include_pad": False}),
            ("maxpool", "MaxPool", (2,), {}),
            ("maxpool-uneven", "MaxPool", (2, 3), {**uneven, "dilation": 2}),
            ("adaptive-avgpool", "AdaptiveAvgPool", (3,), {}),
            ("adaptive-maxpool", "AdaptiveMaxPool", (2,), {}),
        ]
        if d > 1:
            rows.append(("avgpool-divisor", "AvgPool", (3, 1), {"divisor_override": 5}))
        for name, word, given, options in rows:
            cases += _both(f"{name}{d}d", lambda n, w=f"{word}{d}d", g=given, o=options: getattr(n, w)(*g, **o), shape)
        for name, options in (("modmaxpool", {}), ("modmaxpool-uneven", {**uneven, "dilation": 2})):
            make = getattr(ann, f"ModMaxPool{d}d")
            cases.append(Case(f"{name}{d}d", lambda m=make, o=options: m(2, 2, **o), (_complex(*shape),)))
    cases += _both("adaptive-avgpool-partly", lambda n: n.AdaptiveAvgPool2d((None, 3)), (2, 4, 7))
    return cases


def _conversions() -> list[Case]:
    return [
        Case("to-complex", ann.ToComplex, (_real(3, 4),)),
        Case("real-part", ann.Real, (_complex(3, 4),)),
        Case("concatenate", ann.Concatenate, (_complex(3, 4),)),
        Case("concatenate-last", lambda: ann.Concatenate(-1), (_complex(3, 4),)),
        Case("separate", ann.Separate, (_real(4, 5),)),
        Case("separate-last", lambda: ann.Separate(-1), (_real(5, 4),)),
        *_both("flatten", lambda n: nn.Flatten(), (3, 4, 2)),
        *_both("flatten-partly", lambda n: nn.Sequential(nn.Flatten(2), n.Linear(8, 2)), (3, 4, 2)),
    ]


def _functions() -> list[Case]:
    shape = (3, 4, 5)
    return [
        *_function("add", lambda x, z: x + z, shape, shape),
        *_function("sub", lambda x, z: x - z, shape, shape),
        *_function("mul", lambda x, z: x * z, shape, shape),
        *_function("square", lambda x: x * x, shape),
        *_function("add-broadcast", lambda x, z: x + z, shape, (3, 1, 1)),
        *_function("mul-broadcast", lambda x, z: x * z, (1, 4, 5), (3, 1, 5)),
        *_function("numbers", lambda x: ((x + 2) * 3 - 0.5) / 7, shape),
        *_function("abs", lambda x: x.abs(), shape),
        *_function("real", lambda x: x.real, shape),
        *_function("cat", lambda x, z: torch.cat([x, z, x], 1), shape, (2, 4, 5)),
        *_function("cat-last", lambda x, z: torch.cat([x, z], -1), shape, (3, 4, 2)),
        *_function("mean", lambda x: x.mean((2, 3)), shape),
        *_function("mean-keepdim", lambda x: x.mean((-1, 1), keepdim=True), shape),
        *_function("reshape", lambda x: x.reshape(x.shape[0], 5, -1), shape),
        *_function("transpose", lambda x: x.transpose(1, -1), shape),
        *_function("permute", lambda x: x.permute(0, 3, 1, 2), shape),
        *_function("squeeze", lambda x: x.squeeze(2), (3, 1, 5)),
        *_function("unsqueeze", lambda x: x.unsqueeze(-1), shape),
        Case("add-mixed", lambda: Two(lambda x, z: x + z), (_real(*shape), _complex(*shape))),
        Case("sub-mixed", lambda: Two(lambda x, z: x - z), (_complex(*shape), _real(*shape))),
        Case("mul-mixed", lambda: Two(lambda x, z: x * z), (_complex(*shape), _real(3, 1, 1))),
    ]


def _networks() -> list[Case]:
    """Shapes of network rather than layers: values read late, several inputs and outputs, shared layers."""

    def residual(x: Tensor, first: nn.Module, second: nn.Module, activation: nn.Module) -> Tensor:
        hidden = activation(first(x))
        return activation(second(activation(hidden * 2)) + hidden) + x

    def heads(x: Tensor, z: Tensor, body: nn.Module, real: nn.Module) -> tuple[Tensor, ...]:
        hidden = body(x)
        return real(hidden), hidden + z, z

    convs = [lambda n: n.Conv2d(2, 2, 3, padding=1), lambda n: n.Conv2d(2, 2, 1), lambda n: n.ReLU()]
    return [
        Case("residual-real", lambda: One(residual, *(c(nn) for c in convs)), (_real(2, 5, 6),)),
        Case("residual-complex", lambda: One(residual, *(c(ann) for c in convs)), (_complex(2, 5, 6),)),
        Case("several-outputs", lambda: Two(heads, ann.Linear(4, 3), ann.Real()), (_complex(4), _complex(3))),
        Case("shared-layer", lambda: One(lambda x, layer: layer(torch.tanh(layer(x))), nn.Linear(4, 4)), (_real(4),)),
        Case("identity", lambda: nn.Sequential(nn.Dropout(), nn.Flatten()), (_complex(2, 3),)),
        Case(
            "mixed",
            lambda: nn.Sequential(
                nn.Conv1d(2, 4, 3), nn.ReLU(), ann.Separate(), ann.Conv1d(2, 3, 2), ann.BatchNorm1d(3), ann.ModReLU(),
                nn.Flatten(), ann.Concatenate(), nn.Linear(42, 3), nn.LogSoftmax(1),
            ),
            (_real(2, 10),),
        ),
    ]  # fmt: skip


CASES: list[Case] = [
    *_linear(),
    *_convolutions(),
    *_norms(),
    *_activations(),
    *_pools(),
    *_conversions(),
    *_functions(),
    *_networks(),
]
