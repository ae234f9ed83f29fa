"""Weights as rows of numbers, one row for each output channel: rounded to the stored type, sparse or dense."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from argand.deploy import tensors
from argand.field import real_view

#: what a weight's part may be stored as: the largest level, or None for a float
LEVELS: dict[str, int | None] = {"fp32": None, **tensors.LEVELS}
C_TYPES = {"float32": "float", "int32": "int"} | {
    name: f"{name}_t" for name in ("int8", "int16", "uint8", "uint16", "uint32")
}


@dataclass(frozen=True)
class Weight:
    """Levels (rows, columns, parts), and for whole numbers the scale of each row: the weight is scale · level."""

    levels: NDArray[Any]
    scale: NDArray[np.float32] | None

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which weights aren't 0."""
        return np.asarray((self.levels != 0).any(-1))

    @cached_property
    def index(self) -> np.dtype[Any]:
        """The narrowest type for a column, and for the number of weights in a row."""
        columns = self.levels.shape[1]
        return np.dtype("uint8" if columns < 2**8 else "uint16" if columns < 2**16 else "uint32")

    @cached_property
    def sparse(self) -> bool:
        """Whether kept weights with their columns, and counts for the rows, take fewer bytes than all weights."""
        kept = int(self.kept.sum())
        of_weight = self.levels.shape[2] * self.levels.itemsize
        bytes_sparse: int = kept * (of_weight + self.index.itemsize) + len(self.levels) * self.index.itemsize
        return bytes_sparse < int(self.levels.nbytes)

    @property
    def done(self) -> NDArray[np.bool_]:
        """The weights with which the program multiplies."""
        return self.kept if self.sparse else np.ones(self.levels.shape[:2], dtype=np.bool_)

    @property
    def parts(self) -> int:
        """Floats of one weight."""
        return int(self.levels.shape[2])

    def restored(self) -> Tensor:
        """The rows as the program sees them, in double precision."""
        scale = 1.0 if self.scale is None else self.scale.astype(np.float64)[:, None, None]
        rows = torch.from_numpy(self.levels * scale).double()
        return torch.view_as_complex(rows.contiguous()) if self.parts == 2 else rows[..., 0]


def quantised(rows: Tensor, dtype: str) -> Weight:
    """Rows in the stored type; a row's scale is its largest part over the largest level.

    >>> weight = quantised(torch.tensor([[0.5, -1.0]]), "int8")
    >>> weight.levels.tolist(), float(weight.scale[0])
    ([[[64], [-127]]], 0.00787401...)
    """
    parts = real_view(rows).double().reshape(*rows.shape, -1).numpy()
    top = LEVELS[dtype]
    if top is None:
        return Weight(parts.astype(np.float32), None)
    scale = (np.abs(parts).max((1, 2), initial=0.0) / top).astype(np.float32)
    safe = np.where(scale > 0, scale, 1).astype(np.float64)[:, None, None]
    levels = np.clip(np.rint(parts / safe), -top, top)
    return Weight(levels.astype(dtype), scale)


def rows_of(layer: nn.Module) -> Tensor:
    """A layer's weight as (output channels, the rest): of a transposed convolution, in the order of a plain one."""
    weight = layer.get_parameter("weight").detach()
    if not getattr(layer, "transposed", False):
        return weight.flatten(1)
    groups = int(layer.groups)  # type: ignore[arg-type]
    inputs, outputs = weight.shape[:2]
    return weight.reshape(groups, inputs // groups, outputs, -1).transpose(1, 2).reshape(groups * outputs, -1)


def weight_of(layer: nn.Module, rows: Tensor) -> Tensor:
    """The weight in the layer's own shape: the inverse of `rows_of`."""
    weight = layer.get_parameter("weight")
    if not getattr(layer, "transposed", False):
        return rows.reshape(weight.shape)
    groups, (inputs, outputs) = int(layer.groups), weight.shape[:2]  # type: ignore[arg-type]
    taps = math.prod(weight.shape[2:])
    return rows.reshape(groups, outputs, inputs // groups, taps).transpose(1, 2).reshape(weight.shape)
