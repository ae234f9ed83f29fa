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
    """64 bits for each count."""
    z = counts * _STEP + key
    for shift, multiplier in _MIX:
        z = (z ^ _shifted(z, shift)) * multiplier
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, shift: int) -> Tensor:
    """To the right, with zeros coming in."""
    return (z >> shift) & (2 ** (64 - shift) - 1)


def normal_components(counts: Tensor, key: Tensor, k: int, dtype: torch.dtype) -> list[Tensor]:
    """The k real components of e with E|e|² = 1, by Box and Muller's transform of the two halves of a hash."""
    bits = hashed(counts, key)
    uniform = (_shifted(bits, 32).to(dtype) + 0.5) * 2.0**-32
    angle = (bits & 0xFFFFFFFF).to(dtype) * (2 * math.pi * 2.0**-32)
    radius = (-uniform.log()).clamp_min(0.0).sqrt()  # of the complex number: -log is |e|², exponentially distributed
    if k == 1:
        return [math.sqrt(2) * radius * angle.cos()]
    return [radius * angle.cos(), radius * angle.sin()]
