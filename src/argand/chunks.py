"""Elementwise work on large tensors in pieces that stay in the cache.

A dozen elementwise operations over millions of weights are bound by memory traffic when each one passes over the
whole tensor. In pieces, only the first read and the last write leave the cache: three to four times faster on a CPU.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

CHUNK = 2**16  # elements: two threads get torch's grain of 2^15 each, and a dozen temporaries stay in the cache


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Matching pieces of tensors of one shape, as views; the tensors themselves off the CPU or if not contiguous."""
    whole = tensors[0].device.type != "cpu" or not all(t.is_contiguous() for t in tensors)
    if whole or tensors[0].numel() <= CHUNK:
        yield tensors
    else:
        yield from zip(*(torch.split(t.view(-1), CHUNK) for t in tensors), strict=True)


def map_pieces(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The elementwise function of tensors of one shape, computed piece by piece; no gradient passes."""
    with torch.no_grad():
        results = [function(*piece) for piece in pieces(*tensors)]
    return results[0] if len(results) == 1 else torch.cat(results).view(tensors[0].shape)
