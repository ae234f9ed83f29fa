"""Priors: what a weight's posterior is measured against.

A prior's divergence is KL(q‖p) of one weight, q = N_k(mu, sigma²) over a field of real dimension k. For a scale-free
prior it depends on the signal-to-noise ratio r = |mu|²/sigma² alone, and is given by two elementwise functions of
l = log r: `kl(l, k)` and its derivative `slope(l, k)`. Everything else, gradients included, follows from those two.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from argand.chunks import map_pieces
from argand.errors import ArgandError
from argand.field import components, modulus, real_dim, scaled
from argand.special import dawson_excess, dawson_ratio, ein_excess, softplus

LogSnrFunction = Callable[[Tensor, int], Tensor]


class Prior(ABC):
    """A prior over weights. Subclass it and return a differentiable divergence, one number per weight.

    >>> from argand.field import abs2, real_dim
    >>> class Unit(Prior):
    ...     '''The standard Gaussian N_k(0, 1).'''
    ...     def divergence(self, mu, log_sigma2):
    ...         return real_dim(mu) / 2 * (abs2(mu) + log_sigma2.exp() - log_sigma2 - 1)
    >>> Unit().divergence(torch.tensor([0.0, 1.0]), torch.zeros(2))
    tensor([0.0000, 0.5000])
    """

    @abstractmethod
    def divergence(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        """KL(q‖p) of each weight: real, of the weight's shape."""

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class SnrPrior(Prior):
    """A scale-free prior: its divergence is `kl(log_snr, k)`, zero at r = 0, with derivative `slope(log_snr, k)`."""

    name: str
    kl: LogSnrFunction
    slope: LogSnrFunction

    def __str__(self) -> str:
        return self.name

    def divergence(self, mu: Tensor, log_sigma2: Tensor) -> Tensor:
        """KL of each weight, with the closed-form gradient."""
        value: Tensor = _SnrDivergence.apply(mu, log_sigma2, self)  # type: ignore[no-untyped-call]
        return value


def log_snr(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """l = log(|mu|²/sigma²) = 2 log|mu| - log_sigma2, which is -log_alpha; -inf at mu = 0."""
    return 2 * modulus(mu).log() - log_sigma2


def snr_gradient(mu: Tensor, log_sigma2: Tensor, slope: LogSnrFunction) -> tuple[Tensor, Tensor]:
    """dKL/dmu (as re + j·im of the real partials) and dKL/dlog_sigma2, from g = dKL/dl alone."""
    *to_mu, to_log_sigma2 = snr_gradient_of([x.contiguous() for x in components(mu)], log_sigma2, slope)
    return torch.complex(*to_mu) if mu.is_complex() else to_mu[0], to_log_sigma2


def snr_gradient_of(mu: Sequence[Tensor], log_sigma2: Tensor, slope: LogSnrFunction) -> list[Tensor]:
    """dKL/d each of mu's k real components, then dKL/dlog_sigma2: real arithmetic, for compilers.

    With a = min(1/sigma, 1/|mu|) and q = g/min(r, 1) these are 2q·a²·mu and -q·min(r, 1). Each factor is bounded or
    representable, so both are finite for every mu (0 included) wherever exp(|log_sigma2|/2) is.
    """
    size, precision = torch.hypot(*mu) if len(mu) == 2 else mu[0].abs(), torch.exp(-0.5 * log_sigma2)
    amplitude = size * precision  # sqrt(r): accurate where log r, a difference of large numbers, is not
    # q is constant to 1e-17 where r < e^-40: the clamp keeps 0/0 away from mu = 0
    log_ratio = (2 * amplitude.log()).clamp_min(-40.0)
    q = slope(log_ratio, len(mu)) * torch.exp(-log_ratio).clamp_min(1.0)
    bound = torch.minimum(precision, size.reciprocal())
    factor = 2 * q * bound
    return [*(x * bound * factor for x in mu), -q * amplitude.clamp_max(1.0).square()]


class _SnrDivergence(torch.autograd.Function):
    """The divergence of a scale-free prior: forward through kl, backward through slope."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, log_sigma2: Tensor, prior: SnrPrior) -> Tensor:
        ctx.save_for_backward(mu, log_sigma2)
        ctx.prior = prior
        return map_pieces(lambda m, s: prior.kl(log_snr(m, s), real_dim(m)), mu, log_sigma2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        mu, log_sigma2 = ctx.saved_tensors
        to_mu, to_log_sigma2 = snr_gradient(mu, log_sigma2, ctx.prior.slope)
        return scaled(to_mu, grads[0]), to_log_sigma2 * grads[0], None


def _ard_kl(log_snr: Tensor, k: int) -> Tensor:
    """(k/2) log(1 + r): the Gaussian prior whose variance is fitted to each weight."""
    return 0.5 * k * softplus(log_snr)


def _ard_slope(log_snr: Tensor, k: int) -> Tensor:
    return 0.5 * k / (1 + torch.exp(-log_snr))


def _vd_kl(log_snr: Tensor, k: int) -> Tensor:
    """Ein(r) if k = 2, 2∫0^s D at s = sqrt(r/2) if k = 1: that of ARD plus a bounded excess."""
    excess = ein_excess if k == 2 else dawson_excess
    return 0.5 * k * (softplus(log_snr) + excess(log_snr.exp()))


def _vd_slope(log_snr: Tensor, k: int) -> Tensor:
    """1 - exp(-r) if k = 2, s·D(s) if k = 1."""
    if k == 2:
        # torch's compiler makes expm1 a difference of exp and 1, which loses small slopes; tanh it leaves whole
        half = torch.tanh(0.5 * log_snr.exp())
        return 2 * half / (1 + half)
    inverse = torch.exp(-log_snr)
    return 0.5 / (1 + inverse) * dawson_ratio.of_inverse(inverse)


# The fits of the literature: softplus(l)·k/2 + k1·sigmoid(k3·l - k2). Real: Molchanov et al., 2017; complex: the
# paper's appendix. Their slopes are within 3.755 % (real) and 3.90 % (complex) of the exact ones.
_FITS = {1: (0.63576, 1.87320, 1.48695), 2: (0.57810091, 1.45926293, 1.36525956)}


def _fit_kl(log_snr: Tensor, k: int) -> Tensor:
    k1, k2, k3 = _FITS[k]
    return _ard_kl(log_snr, k) + k1 * torch.sigmoid(k3 * log_snr - k2)


def _fit_slope(log_snr: Tensor, k: int) -> Tensor:
    k1, k2, k3 = _FITS[k]
    bump = torch.sigmoid(k3 * log_snr - k2)
    return _ard_slope(log_snr, k) + k1 * k3 * bump * (1 - bump)


#: The priors by name: log-uniform ("vd"), automatic relevance determination ("ard"), and the fitted approximation of
#: the first ("vd-fit"), a baseline for comparison. To add one: two functions and a row.
PRIORS: dict[str, SnrPrior] = {
    prior.name: prior
    for prior in (
        SnrPrior("vd", _vd_kl, _vd_slope),
        SnrPrior("ard", _ard_kl, _ard_slope),
        SnrPrior("vd-fit", _fit_kl, _fit_slope),
    )
}


def find_prior(prior: str | Prior) -> Prior:
    """The prior of this name, or the given one."""
    if isinstance(prior, Prior):
        return prior
    if prior not in PRIORS:
        known = ", ".join(f'"{name}"' for name in PRIORS)
        raise ArgandError(f"There is no prior {prior!r}: choose {known}, or give an argand.priors.Prior of your own.")
    return PRIORS[prior]


def kept_probability(log_alpha: Tensor, delta: float, k: int) -> Tensor:
    """P(|w - mu| <= delta·|mu|) under the posterior: how sure a kept weight is, for choosing a threshold.

    >>> kept_probability(torch.tensor([-2.5, -0.5]), 0.5, k=2)
    tensor([0.9524, 0.3378])
    """
    ratio = delta * torch.exp(-0.5 * log_alpha)
    return torch.erf(ratio / math.sqrt(2)) if k == 1 else -torch.expm1(-ratio.square())
