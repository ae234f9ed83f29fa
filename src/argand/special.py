"""Ein and Dawson's integral at full precision, on the tensor's own device, without tables of constants.

On the half line r >= 0 each function is a simple one plus, or times, a bounded smooth remainder: for instance
Ein(r) = log(1 + r) + (remainder rising from 0 to Euler's constant). A remainder is interpolated once at Chebyshev
nodes of q = r / (scale + r), which maps [0, inf] to [0, 1], from its definition as an integral. The coefficients fall
geometrically, so float32 takes the first twenty-odd and float64 all. There are no branches: r = 0 and r = inf are
ordinary points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

EULER_GAMMA = float(np.euler_gamma)
_FAR = 60.0  # beyond it exp(-r) < 1e-26, and the asymptotic series below are exact to 1e-16
Array = NDArray[np.float64]


@dataclass(frozen=True)
class HalfLine:
    """A smooth function of r in [0, inf], q^order · P(q) with q = r / (scale + r), P a Chebyshev sum.

    `definition` gives P at a vector of (r, q). `scale` was chosen for the fastest decay of the coefficients.
    """

    definition: Callable[[Array, Array], Array]
    scale: float
    order: int
    nodes: int = 64
    #: coefficients of P on [0, 1], up to the last that a number of the precision can feel
    series: dict[torch.dtype, list[float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """The discrete cosine sum over the Chebyshev nodes."""
        angles = np.pi * (np.arange(self.nodes) + 0.5) / self.nodes
        q = 0.5 + 0.5 * np.cos(angles)
        values = self.definition(self.scale * q / (1 - q), q)
        found = 2 / self.nodes * np.cos(np.outer(np.arange(self.nodes), angles)) @ values
        found[0] /= 2
        for dtype in (torch.float32, torch.float64):
            last = np.flatnonzero(np.abs(found) > 2 * torch.finfo(dtype).eps)[-1]
            self.series[dtype] = [float(c) for c in found[: last + 1]]

    def __call__(self, r: Tensor) -> Tensor:
        """The function at each entry."""
        return self.of_inverse(1 / r)

    def of_inverse(self, u: Tensor) -> Tensor:
        """The function at r = 1/u, by Clenshaw's recurrence."""
        q = 1 / (1 + self.scale * u)
        twice = 4 * q - 2
        first, *rest = self.series.get(u.dtype) or self.series[torch.float32]
        b, before = torch.zeros_like(q), torch.zeros_like(q)
        for c in reversed(rest):
            b, before = torch.addcmul(c - before, twice, b), b
        value = torch.addcmul(first - before, twice, b, value=0.5)
        return value * q**self.order if self.order else value


@cache
def _gauss(count: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 + 0.5 * x, 0.5 * w


def _ein_excess(r: Array, q: Array) -> Array:
    """(Ein(r) - log(1 + r)) / q², from Ein(r) = ∫0^1 (1 - exp(-rt))/t dt; both power series where they cancel."""
    t, w = _gauss(80)
    near = np.minimum(r, _FAR)[:, None]
    ein = (-np.expm1(-near * t) / t) @ w
    ein = np.where(r > _FAR, EULER_GAMMA + np.log(r), ein)
    n = np.arange(2.0, 40.0)
    factorials = np.array([math.factorial(int(i)) for i in n])
    small = np.minimum(r, 0.1)[:, None]
    series = (np.power(-small, n) / n * (1 - 1 / factorials)).sum(1)
    return np.where(r < 0.1, series, ein - np.log1p(r)) / q**2


def _dawson(s2: Array) -> Array:
    """D(s)/s = ∫0^1 exp(-s²(1 - v²)) dv for s² <= 60."""
    v, w = _gauss(80)
    return np.exp(-s2[..., None] * (1 - v * v)) @ w


def _dawson_tail(s2: Array, over: Callable[[Array], Array]) -> Array:
    """Σ (2j-1)!! / (2^(j+1) s2^j) · over(j): the asymptotic terms of s·D(s) past ½, and of its integral."""
    j = np.arange(1.0, 24.0)
    odd_factorials = np.cumprod(2 * j - 1)
    return np.asarray((odd_factorials * over(j) / (2 ** (j + 1) * np.power(s2[:, None], j))).sum(1))


def _dawson_ratio(r: Array, q: Array) -> Array:
    """2 s·D(s) (1 + r)/r at s² = r/2: rises from 1, and returns to 1 at infinity."""
    s2 = r / 2
    near = s2 * _dawson(np.minimum(s2, _FAR))
    far = 0.5 + _dawson_tail(np.maximum(s2, _FAR), np.ones_like)
    return 2 * np.where(s2 > _FAR, far, near) * (1 + r) / r


def _dawson_excess(r: Array, q: Array) -> Array:
    """(4 ∫0^s D - log(1 + r)) / q² at s² = r/2; both power series where they cancel."""
    s2, (v, w) = r / 2, _gauss(80)
    near = 4 * np.minimum(s2, _FAR) * ((_dawson(np.minimum(s2, _FAR)[:, None] * v * v) * v) @ w)
    tail = _dawson_tail(np.maximum(s2, _FAR), lambda j: 1 / j)
    far = np.log(np.maximum(s2, _FAR)) + EULER_GAMMA + 2 * math.log(2) - 2 * tail
    n = np.arange(2.0, 40.0)
    small = np.minimum(r, 0.1)[:, None]
    # 4 ∫0^s D = Σ (-1)^(n+1) (r^n / n) / (2n-1)!!, and log(1 + r) is the same without the odd factorial
    series = (np.power(-small, n) / n * (1 - 1 / np.cumprod(2 * np.arange(1.0, 40.0) - 1)[1:])).sum(1)
    return np.where(r < 0.1, series, np.where(s2 > _FAR, far, near) - np.log1p(r)) / q**2


#: Ein(r) - log(1 + r), from 0 to γ.
ein_excess = HalfLine(_ein_excess, scale=5.0, order=2)
#: 4 ∫0^s D(t) dt - log(1 + r) at s = sqrt(r/2), from 0 to γ + log 2.
dawson_excess = HalfLine(_dawson_excess, scale=8.0, order=2)
#: s·D(s) over its ARD counterpart ½ r/(1 + r), at s = sqrt(r/2).
dawson_ratio = HalfLine(_dawson_ratio, scale=24.0, order=0)


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x) to full relative precision everywhere (torch's switches to x at 20)."""
    return x.clamp_min(0) + torch.log1p(torch.exp(-x.abs()))


def ein(x: Tensor) -> Tensor:
    """Ein(x) = ∫0^x (1 - e^(-t))/t dt = γ + log x + E1(x), for x >= 0.

    >>> ein(torch.tensor([0.0, 1.0, 100.0], dtype=torch.float64))
    tensor([0.0000, 0.7966, 5.1824], dtype=torch.float64)
    """
    return torch.log1p(x) + ein_excess(x)


def dawson(x: Tensor) -> Tensor:
    """Dawson's integral D(x) = exp(-x²) ∫0^x exp(t²) dt, odd in x.

    >>> dawson(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
    tensor([-0.5381,  0.0000,  0.5381], dtype=torch.float64)
    """
    return dawson_ratio(2 * x * x) / (1 / x + 2 * x)


def dawson_integral(x: Tensor) -> Tensor:
    """∫0^x D(t) dt, even in x.

    >>> dawson_integral(torch.tensor([0.5, 1e6], dtype=torch.float64))
    tensor([0.1152, 7.3986], dtype=torch.float64)
    """
    r = 2 * x * x
    return 0.25 * (torch.log1p(r) + dawson_excess(r))
