"""Tensors as sections of a packed file: kept values in few bits, and where they are."""

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from argand.accounting import best_encoding
from argand.deploy.reader import VALUES, Array
from argand.errors import ArgandError
from argand.field import real_dim, real_view

DTYPES = tuple(VALUES)
HALF_LARGEST = 65504
#: the largest integer of each type
LEVELS = {"int16": 2**15 - 1, "int8": 2**7 - 1}


def encode(tensor: Tensor, dtype: str, axis: int = 0) -> tuple[dict[str, Any], bytes]:
    """A tensor's entry in the header, and its section: positions, scales, values.

    What is too large for fp16 is stored as fp32. Integers have one scale for each index of `axis` (an output channel),
    common to both parts of complex weights.

    >>> entry, section = encode(torch.tensor([[0.0, 0.0, 1.5], [0.0, 0.0, 0.0]]), "fp32")
    >>> entry["positions"], entry["count"], len(section)
    ('bitmask', 1, 5)
    """
    tensor = tensor.detach().cpu()
    if dtype == "fp16" and tensor.numel() and real_view(tensor).abs().max() > HALF_LARGEST:
        dtype = "fp32"
    k, item = real_dim(tensor), np.dtype(VALUES[dtype]).itemsize
    mask = tensor != 0
    positions, _ = best_encoding(mask, k, item)
    parts: Array = real_view(tensor.contiguous()).reshape(-1, k).float().numpy()
    kept = mask.flatten().numpy()
    scales = b""
    if dtype in LEVELS:
        scale = scales_of(tensor, dtype, axis)
        parts = np.rint(parts / np.broadcast_to(_along(scale, tensor, axis), (*tensor.shape, 1)).reshape(-1, 1))
        scales = scale.numpy().astype("<f4").tobytes()
    values = (parts if positions == "dense" else parts[kept]).astype(VALUES[dtype])
    section = _positions(positions, kept) + scales + values.tobytes()
    entry = {
        "shape": list(tensor.shape), "complex": k == 2, "values": dtype, "positions": positions,
        "count": len(values), "axis": axis if tensor.dim() else 0, "bytes": len(section), "crc": zlib.crc32(section),
    }  # fmt: skip
    return entry, section


def scales_of(tensor: Tensor, dtype: str, axis: int) -> Tensor:
    """The step of the integers for each index of the axis: the largest part is the largest integer."""
    size = real_view(tensor).abs().reshape(*tensor.shape, -1).amax(-1) if tensor.numel() else tensor.abs()
    largest = size.transpose(0, axis).flatten(1).amax(1) if tensor.dim() > 1 else size.flatten()
    scale = (largest / LEVELS[dtype]).float()
    return torch.where(scale > 0, scale, torch.ones_like(scale))


def _along(scale: Tensor, tensor: Tensor, axis: int) -> Array:
    shape = [n if i == axis else 1 for i, n in enumerate(tensor.shape)]
    return scale.view(*shape, 1).numpy()


def _positions(kind: str, kept: Array) -> bytes:
    if kind == "dense":
        return b""
    if kind == "bitmask":
        return np.packbits(kept, bitorder="little").tobytes()
    code, escape = ("<u1", 255) if kind == "gaps8" else ("<u2", 65535)
    gaps = np.diff(np.flatnonzero(kept), prepend=-1) - 1
    stream = np.full(len(gaps) + int((gaps // escape).sum()), escape, code)
    stream[np.cumsum(gaps // escape + 1) - 1] = gaps % escape
    return stream.tobytes()


def check_dtype(dtype: str) -> str:
    """The name of a stored type; refuses any other."""
    if dtype not in DTYPES:
        hint = " For bits from the posterior give argand.quantise(net, masks), made before collapse."
        asked = f"Values are stored as {', '.join(DTYPES)}, and {dtype!r} was asked for."
        raise ArgandError(asked + (hint if dtype == "auto" else ""))
    return dtype
