"""Normal numbers by counting: the i-th number of a key is a hash of both.

torch's generator of the CPU draws one number after the other on one thread, which takes as long as a large
convolution. A hash of the position has no order: it is computed by all threads, vectorised, and fused with what the
noise is for. Keys come from torch's default generator, so that `torch.manual_seed` governs all.
"""

import math

import torch
from torch import Tensor


def draw_key() -> Tensor:
    """A fresh key."""
    return torch.randint(2**62, ())


def _signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x


# splitmix64 (Steele, Lea and Flood, 2014): the odd step between counts, and the multipliers of Stafford's 13th mix
_STEP = _signed(0x9E3779B97F4A7C15)
_MIX = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)))


def hashed(counts: Tensor, key: Tensor) -> Tensor:
    """64 bits for each count.

    The key comes in before the first product: compilers fold a product into the counting of the loop, and C leaves it
    undefined where that overflows.
    """
    z = (counts ^ key) * _STEP
    for shift, multiplier in _MIX:
        z = (z ^ _shifted(z, shift)) * multiplier
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, shift: int) -> Tensor:
    """To the right, with zeros coming in."""
    low: Tensor = (z >> shift) & (2 ** (64 - shift) - 1)
    return low


def normal_pairs(counts: Tensor, key: Tensor, power: Tensor | float, dtype: torch.dtype) -> list[Tensor]:
    """Two independent normal numbers of variance power/2 for each count, by Box and Muller's transform of its hash.

    Their resolution is that of 32 bits: at a power of 2 none exceeds 6.8.

    >>> first, second = normal_pairs(torch.arange(5), torch.tensor(1), 2.0, torch.float32)
    >>> first.shape, torch.equal(first, normal_pairs(torch.arange(5), torch.tensor(1), 2.0, torch.float32)[0])
    (torch.Size([5]), True)
    """
    bits = hashed(counts, key)
    uniform = (_shifted(bits, 32).to(dtype) + 0.5) * 2.0**-32
    angle = (bits & 0xFFFFFFFF).to(dtype) * (2 * math.pi * 2.0**-32)
    # the squared length of the pair is exponentially distributed; float32 may round the number up to 1
    radius = (uniform.log() * -power).clamp_min(0.0).sqrt()
    return [radius * angle.cos(), radius * angle.sin()]
