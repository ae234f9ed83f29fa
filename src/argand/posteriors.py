"""Posteriors: what spread a weight has around its mean.

Each weight is w ~ N_k(mu, s2), or over the complex numbers CN(mu, s2, s2·xi) with relation xi. A posterior names the
parameters that hold the spread, and says from them what the noise of an output needs: the variance weight s2 and, if
it is not circular, the relation weight s2·xi.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from argand.errors import ArgandError
from argand.field import abs2, modulus
from argand.priors import PRIORS, Prior, SnrPrior, log_snr

Spread = dict[str, Tensor]  # the posterior's own parameters, by name


class Posterior(ABC):
    """A family of posteriors; stateless, since the parameters live in the layer."""

    name: str
    initial: float  # of the parameter that holds the spread

    @abstractmethod
    def spread(self, weight: Tensor, initial: float) -> Spread:
        """Fresh parameters for a weight."""

    @abstractmethod
    def variance(self, mu: Tensor, spread: Spread) -> Tensor:
        """s2 = E|w - mu|²: real."""

    def log_variance(self, spread: Spread) -> Tensor | None:
        """log s2, where that is a parameter."""
        return None

    def relation(self, mu: Tensor, spread: Spread) -> Tensor | None:
        """E(w - mu)², or None where noise of this variance is circular (or real)."""
        return None

    @abstractmethod
    def divergence(self, prior: Prior, mu: Tensor, spread: Spread) -> Tensor:
        """KL of each weight, differentiable."""

    @abstractmethod
    def log_alpha(self, mu: Tensor, spread: Spread) -> Tensor:
        """log(s2/|mu|²): large where the weight can go."""

    def check(self, prior: Prior, mu: Tensor) -> None:  # noqa: B027 - nothing to check by default
        """Refuse what has no meaning or no closed form."""


def _constant(weight: Tensor, value: float) -> Tensor:
    return torch.full_like(weight.detach(), value, dtype=weight.dtype.to_real())


class Circular(Posterior):
    """w ~ N_k(mu, sigma²), circular if complex: what the paper uses."""

    name, initial = "circular", -10.0

    def spread(self, weight: Tensor, initial: float) -> Spread:  # noqa: D102
        return {"log_sigma2": _constant(weight, initial)}

    def variance(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return spread["log_sigma2"].exp()

    def log_variance(self, spread: Spread) -> Tensor | None:  # noqa: D102
        return spread["log_sigma2"]

    def divergence(self, prior: Prior, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return prior.divergence(mu, spread["log_sigma2"])

    def log_alpha(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return -log_snr(mu, spread["log_sigma2"])


class RealScaling(Posterior):
    """w = mu·eps with real eps ~ N(1, alpha): s2 = alpha|mu|², xi = (mu/|mu|)².

    The divergence is the real one at l = -log_alpha and does not depend on mu.
    """

    name, initial = "real-scaling", -4.0

    def spread(self, weight: Tensor, initial: float) -> Spread:  # noqa: D102
        return {"log_alpha": _constant(weight, initial)}

    def variance(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return spread["log_alpha"].exp() * abs2(mu)

    def relation(self, mu: Tensor, spread: Spread) -> Tensor | None:  # noqa: D102
        return mu.square() * spread["log_alpha"].exp() if mu.is_complex() else None

    def divergence(self, prior: Prior, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        log_alpha = spread["log_alpha"]
        return prior.divergence(torch.ones_like(log_alpha), log_alpha)  # scale-free: that of eps itself

    def log_alpha(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return spread["log_alpha"]

    def check(self, prior: Prior, mu: Tensor) -> None:  # noqa: D102
        if not isinstance(prior, SnrPrior):
            raise ArgandError(
                f'The real-scaling posterior needs a scale-free prior ("vd", "ard"), and the prior given is {prior}: '
                'its divergence would depend on mu. Use posterior="circular".'
            )


class Relation(Posterior):
    """w ~ CN(mu, sigma², sigma²·xi) with a learnt xi = tanh(|u|)·u/|u|, u complex, initially 0."""

    name, initial = "relation", -10.0

    def spread(self, weight: Tensor, initial: float) -> Spread:  # noqa: D102
        return {"log_sigma2": _constant(weight, initial), "relation": torch.zeros_like(weight.detach())}

    def variance(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return spread["log_sigma2"].exp()

    def log_variance(self, spread: Spread) -> Tensor | None:  # noqa: D102
        return spread["log_sigma2"]

    def relation(self, mu: Tensor, spread: Spread) -> Tensor | None:  # noqa: D102
        u = spread["relation"]
        size = modulus(u)
        nonzero = size > 0
        shrink = torch.where(nonzero, size.tanh() / torch.where(nonzero, size, torch.ones_like(size)), 1.0)
        return u * (shrink * spread["log_sigma2"].exp())

    def divergence(self, prior: Prior, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        size = modulus(spread["relation"])
        log_cosh = size + torch.log1p(torch.expm1(-2 * size) / 2)  # -½ log(1 - |xi|²)
        return prior.divergence(mu, spread["log_sigma2"]) + log_cosh

    def log_alpha(self, mu: Tensor, spread: Spread) -> Tensor:  # noqa: D102
        return -log_snr(mu, spread["log_sigma2"])

    def check(self, prior: Prior, mu: Tensor) -> None:  # noqa: D102
        if prior != PRIORS["ard"]:
            raise ArgandError(
                f'The "relation" posterior has a divergence in closed form for prior "ard" only, and the prior given '
                f'is {prior}: use prior="ard", or posterior="circular".'
            )
        if not mu.is_complex():
            raise ArgandError(
                'The "relation" posterior is for complex weights, and this weight is real: skip the layer, or use '
                'posterior="circular".'
            )


#: The posteriors by name.
POSTERIORS: dict[str, Posterior] = {p.name: p for p in (Circular(), RealScaling(), Relation())}


def find_posterior(name: str) -> Posterior:
    """The posterior of this name."""
    if name not in POSTERIORS:
        known = ", ".join(f'"{known}"' for known in POSTERIORS)
        raise ArgandError(f"There is no posterior {name!r}: choose {known}.")
    return POSTERIORS[name]
