"""Elementwise work compiled into one loop, where there is a compiler and the tensors are large.

A dozen operations over millions of numbers are bound by memory traffic; compiled, they read and write each number once.
Compiling takes seconds at the first call, is kept on the disk by torch, and falls back on the caller's own way when it
fails. Complex numbers travel as 64-bit words, which vector units load whole; halves of them they would load singly.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from argand.chunks import is_batched, memory_order
from argand.errors import ArgandWarning

SMALLEST = 2**18  # numbers from which compiling pays unasked

_asked: list[bool | None] = [None if os.environ.get("ARGAND_COMPILE", "1") != "0" else False]
_failed: set[Callable[..., Any]] = set()


@contextmanager
def compiling(wanted: bool | None) -> Iterator[None]:
    """Compile always (where it is possible) or never, for a while; None leaves it as it is.

    >>> with compiling(False):
    ...     should_compile(torch.device("cpu"), 10**9)
    False
    """
    _asked.append(_asked[-1] if wanted is None else wanted)
    try:
        yield
    finally:
        _asked.pop()


def should_compile(device: torch.device, size: int) -> bool:
    """Whether so many numbers on a device are worth a compiled loop."""
    wanted = _asked[-1]
    if torch.compiler.is_compiling():
        return False
    return wanted is not False and (wanted or size >= SMALLEST) and can_compile(device.type)


@cache
def can_compile(device: str) -> bool:
    """Whether torch finds what it needs to compile for this kind of device: a C++ compiler, or Triton."""
    if device == "cuda":
        return find_spec("triton") is not None
    compilers = (os.environ.get("CXX"), "g++", "clang++")
    return device == "cpu" and os.name == "posix" and any(name and shutil.which(name) for name in compilers)


def attempt(function: Callable[..., Any], *tensors: Tensor) -> Any:
    """function(*tensors) compiled, without gradients; None where torch can't compile it, before anything was done."""
    if function in _failed:
        return None
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's, of its own making
            return _loop(function)(*tensors)
    except Exception as error:  # whatever a compiler, its cache or its linker may raise
        _failed.add(function)
        reason = next(iter(str(error).strip().splitlines()), "")
        warnings.warn(
            f"torch could not compile a loop ({type(error).__name__}: {reason}), which is computed without, some times "
            "slower. ARGAND_COMPILE=0 does so without trying.",
            ArgandWarning,
            stacklevel=2,
        )
        return None


@cache
def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, dynamic=True, fullgraph=True)
    return compiled


def same_order(*tensors: Tensor) -> bool:
    """Whether float32 or complex64 tensors of one shape fill their memory in one order, as loops need."""
    order = memory_order(tensors[0])
    return all(
        t.dtype in (torch.float32, torch.complex64) and not t.is_neg() and not t.is_conj()
        and t.permute(order).is_contiguous() and not is_batched(t)
        for t in tensors
    )  # fmt: skip


def words(x: Tensor) -> Tensor:
    """The numbers in a row as they lie: real ones, or complex ones as 64-bit words."""
    return _row(x, torch.int64 if x.is_complex() else x.dtype)


def pairs(x: Tensor) -> Tensor:
    """An even number of real ones as they lie, two to a word."""
    return _row(x, torch.int64)


def _row(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The memory that a tensor fills, as another type; not as a view: torch compiles anew for each kind of base."""
    size = x.element_size() * x.numel() // dtype.itemsize
    start = x.element_size() * x.storage_offset() // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=x.device).set_(x.untyped_storage(), start, (size,), (1,))


def is_paired(x: Tensor) -> bool:
    """Whether real numbers begin and end with a word."""
    return x.is_complex() or (x.numel() % 2 == 0 and x.storage_offset() % 2 == 0)


def from_words(x: Tensor) -> list[Tensor]:
    """The components, (re, im) or (x,), inside a loop."""
    if x.dtype != torch.int64:
        return [x]
    return [half.to(torch.int32).view(torch.float32) for half in (x, x >> 32)]


def to_words(components: Sequence[Tensor]) -> Tensor:
    """What `from_words` undoes."""
    if len(components) == 1:
        return components[0]
    low, high = (part.view(torch.int32).to(torch.int64) for part in components)
    return (low & 0xFFFFFFFF) | (high << 32)
