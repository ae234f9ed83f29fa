"""The tables behind the conformance tests: a layer, a field or a posterior joins every test by one row here."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import argand.nn as ann


@dataclass(frozen=True)
class LayerCase:
    """A layer linear in its weight, made from a namespace (torch.nn or argand.nn), and its inputs' shapes."""

    name: str
    make: Callable[..., nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    complex_only: bool = False


@dataclass(frozen=True)
class Field:
    """Where layers come from and in which double-precision type."""

    name: str
    namespace: ModuleType
    dtype: torch.dtype


LAYERS = [
    LayerCase("linear", lambda n, **o: n.Linear(3, 2, **o), ((3,),)),
    LayerCase("linear-positions-no-bias", lambda n, **o: n.Linear(3, 2, bias=False, **o), ((2, 3),)),
    LayerCase("bilinear", lambda n, **o: n.Bilinear(2, 3, 2, **o), ((2,), (3,))),
    LayerCase("bilinear-conjugate", lambda n, **o: n.Bilinear(2, 3, 2, conjugate=True, **o), ((2,), (3,)), True),
    LayerCase("conv1d", lambda n, **o: n.Conv1d(2, 2, 3, **o), ((2, 5),)),
    LayerCase("conv1d-groups", lambda n, **o: n.Conv1d(4, 2, 2, groups=2, **o), ((4, 4),)),
    LayerCase("conv1d-stride-dilation", lambda n, **o: n.Conv1d(2, 2, 2, stride=2, dilation=2, **o), ((2, 7),)),
    LayerCase("conv1d-same", lambda n, **o: n.Conv1d(1, 2, 3, padding="same", **o), ((1, 4),)),
    LayerCase(
        "conv1d-replicate", lambda n, **o: n.Conv1d(1, 2, 3, padding=1, padding_mode="replicate", **o), ((1, 4),)
    ),
    LayerCase("conv2d", lambda n, **o: n.Conv2d(2, 2, 2, **o), ((2, 3, 3),)),
    LayerCase("conv2d-no-bias-padding", lambda n, **o: n.Conv2d(2, 2, 2, padding=1, bias=False, **o), ((2, 2, 2),)),
    LayerCase(
        "conv2d-circular-same",
        lambda n, **o: n.Conv2d(1, 2, 3, padding="same", padding_mode="circular", **o),
        ((1, 3, 3),),
    ),
    LayerCase(
        "conv2d-reflect-groups",
        lambda n, **o: n.Conv2d(2, 2, 3, padding=1, groups=2, padding_mode="reflect", **o),
        ((2, 2, 3),),
    ),
    LayerCase("conv3d-stride", lambda n, **o: n.Conv3d(2, 2, 2, stride=2, bias=False, **o), ((2, 4, 2, 2),)),
    LayerCase("transpose1d", lambda n, **o: n.ConvTranspose1d(2, 2, 2, stride=2, output_padding=1, **o), ((2, 3),)),
    LayerCase("transpose2d-groups", lambda n, **o: n.ConvTranspose2d(2, 4, 2, groups=2, padding=1, **o), ((2, 3, 3),)),
    LayerCase(
        "transpose3d",
        lambda n, **o: n.ConvTranspose3d(1, 2, 2, stride=2, dilation=1, output_padding=1, bias=False, **o),
        ((1, 1, 2, 1),),
    ),
]

FIELDS = [Field("real", nn, torch.float64), Field("complex", ann, torch.complex128)]
PRIORS = ["vd", "ard", "vd-fit"]
POSTERIORS = ["circular", "real-scaling", "relation"]


def prior_of(posterior: str) -> str:
    """A prior that the posterior accepts."""
    return "ard" if posterior == "relation" else "vd"


def layer_and_inputs(case: LayerCase, field: Field, batch: int = 1) -> tuple[Any, tuple[Tensor, ...]]:
    """The layer with its default initial weights, and standard normal inputs."""
    layer = case.make(field.namespace, dtype=field.dtype)
    return layer, tuple(torch.randn(batch, *shape, dtype=field.dtype) for shape in case.shapes)


def pairs() -> list[Any]:
    """Every layer in every field that it exists in, as (case, field) with readable names."""
    import pytest

    return [
        pytest.param(case, field, id=f"{case.name}-{field.name}")
        for case in LAYERS
        for field in FIELDS
        if field.name == "complex" or not case.complex_only
    ]
