"""Elementwise work on large tensors in pieces that stay in the cache.

A dozen elementwise operations over millions of numbers are bound by memory traffic when each one passes over the
whole tensor. In pieces, only the first read and the last write leave the cache: three to four times faster on a CPU.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

CHUNK = 2**16  # elements: two threads get torch's grain of 2^15 each, and a dozen temporaries stay in the cache


def is_batched(x: Tensor) -> bool:
    """Whether `torch.func` runs this tensor in its own way, as in `vmap`; compilers are told no."""
    return not torch.compiler.is_compiling() and is_functorch_wrapped_tensor(x)


def memory_order(x: Tensor) -> list[int]:
    """The axes from the outermost in memory to the innermost."""
    if x.is_contiguous():
        return list(range(x.dim()))
    return sorted(range(x.dim()), key=lambda axis: x.stride()[axis], reverse=True)


def inverse(order: list[int]) -> list[int]:
    """What `permute` takes to undo an order of axes."""
    return sorted(range(len(order)), key=order.__getitem__)


def in_memory_order(x: Tensor, order: list[int]) -> Tensor:
    """The numbers in one row, as a view, where the tensor fills its memory in this order of its axes."""
    return x.permute(order).view(-1)


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Matching pieces of tensors of one shape, as views; the tensors themselves off the CPU or if ordered differently.

    All pieces have 2^16 elements but the last, which has more.
    """
    first = tensors[0]
    count = first.numel() // CHUNK
    if first.device.type != "cpu" or count < 2:
        yield tensors
        return
    order = memory_order(first)
    if not all(t.permute(order).is_contiguous() for t in tensors):
        yield tensors
        return
    sizes = [CHUNK] * (count - 1) + [first.numel() - CHUNK * (count - 1)]
    yield from zip(*(torch.split(in_memory_order(t, order), sizes) for t in tensors), strict=True)


def map_pieces(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The elementwise function of tensors of one shape, computed piece by piece; no gradient passes."""
    with torch.no_grad():
        matching = pieces(*tensors)
        first = function(*next(matching))
        if first.numel() == tensors[0].numel():
            return first
        order = memory_order(tensors[0])
        result = torch.empty(tensors[0].numel(), dtype=first.dtype)
        done = first.numel()
        result[:done] = first
        for piece in matching:
            size = piece[0].numel()
            result[done : done + size] = function(*piece)
            done += size
    return result.view([tensors[0].shape[axis] for axis in order]).permute(inverse(order))
