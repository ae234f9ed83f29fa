"""The slope of the log-uniform divergence: exact, by the fit of the literature, and by Monte Carlo.

With z ~ N_k(0, 1) and alpha = 1/r, KL = (k/2)(-log alpha + E log|1 + sqrt(alpha) z|² - E log|z|²). The Monte-Carlo
slope is the forward difference of that mean over a grid of log alpha, every grid point seeing the same draws. It is
plain Monte Carlo (no strata, no control variate). A sum of logarithms is taken as the logarithm of a product, which
is the same number and leaves one logarithm per 32 draws.
"""

import math

import torch
from torch import Tensor

from argand.errors import ArgandError
from argand.priors import PRIORS

STORED = 512  # points that are returned; all of them are computed
BATCHES = 32  # of draws, for the standard error
_FACTORS = 32  # to a product: each is below 1e8 (|z| < 20, log alpha <= 12), so their product fits a float64
_DRAWS, _POINTS = 1024, 128  # of one block: a megabyte, which stays in the cache
_DIMENSION = {"R": 1, "C": 2}


def kl_derivative(
    field: str, *, draws: int, points: int, seed: int, low: float = -12.0, high: float = 12.0
) -> dict[str, list[float]]:
    """dKL/dlog_alpha of the log-uniform prior for field "R" or "C", at the middles of a grid of log alpha.

    All `points` - 1 slopes are computed; at most 512 of them, evenly thinned, are returned, as log_alpha, exact, fit,
    monte_carlo and standard_error (of monte_carlo, from 32 batches of equal size: draws are rounded down to a multiple
    of 1,024). A forward difference is stated at the middle of its interval, where its bias is of second order.
    Over all points: fit_worst is [log alpha, fit - exact] where that is largest, fit_worst_relative the same of
    fit/exact - 1; monte_carlo_worst is [log alpha, monte_carlo - exact, standard error], monte_carlo_rms the root mean
    square of that deviation. 10⁷ draws on 4,096 points take about a minute on one core.

    >>> curves = kl_derivative("C", draws=4096, points=64, seed=0)
    >>> len(curves["log_alpha"]), round(curves["exact"][0], 4)
    (63, -1.0)
    """
    _check(field, draws, points, low, high)
    k = _DIMENSION[field]
    nodes = torch.linspace(low, high, points, dtype=torch.float64)
    middles, step = (nodes[1:] + nodes[:-1]) / 2, (high - low) / (points - 1)
    exact, fit = (-PRIORS[name].slope(-middles, k) for name in ("vd", "vd-fit"))
    means = _mean_log_modulus(nodes, k, draws, torch.Generator().manual_seed(seed))
    slopes = k * (means.diff(dim=1) / step - 0.5)
    estimate, error = slopes.mean(0), slopes.std(0) / math.sqrt(BATCHES)
    rest, relative = estimate - exact, fit / exact - 1
    fit_at, relative_at, rest_at = (int(curve.abs().argmax()) for curve in (fit - exact, relative, rest))
    curves = {"log_alpha": middles, "exact": exact, "fit": fit, "monte_carlo": estimate, "standard_error": error}
    shown = torch.linspace(0, points - 2, min(STORED, points - 1)).round().long()
    stored = {name: [_short(value) for value in curve[shown].tolist()] for name, curve in curves.items()}
    worst = {
        "fit_worst": [middles[fit_at], (fit - exact)[fit_at]],
        "fit_worst_relative": [middles[relative_at], relative[relative_at]],
        "monte_carlo_worst": [middles[rest_at], rest[rest_at], error[rest_at]],
        "monte_carlo_rms": [rest.square().mean().sqrt()],
    }
    return stored | {name: [_short(float(value)) for value in values] for name, values in worst.items()}


def _check(field: str, draws: int, points: int, low: float, high: float) -> None:
    if field not in _DIMENSION:
        raise ArgandError(f'There is no slope for the field {field!r}. Expected "R" or "C".')
    if draws < BATCHES * _FACTORS:
        raise ArgandError(f"{draws} draws are too few. Expected at least {BATCHES * _FACTORS}.")
    if points < 3:
        raise ArgandError(f"{points} grid points are too few. Expected at least 3.")
    if not -12.0 <= low < high <= 12.0:
        raise ArgandError(f"The grid of log alpha runs from {low} to {high}. Expected -12 <= low < high <= 12.")


def _mean_log_modulus(log_alpha: Tensor, k: int, draws: int, generator: torch.Generator) -> Tensor:
    """The mean of log|1 + sqrt(alpha) z| over each batch of draws: batches x points."""
    means = torch.empty(BATCHES, len(log_alpha), dtype=torch.float64)
    share = draws // (BATCHES * _FACTORS) * _FACTORS  # the same for every batch; whole products
    for batch in range(BATCHES):
        total = torch.zeros(len(log_alpha), dtype=torch.float64)
        for start in range(0, share, 64 * _DRAWS):
            terms = _draw(k, min(64 * _DRAWS, share - start), generator)
            for first in range(0, len(log_alpha), _POINTS):
                here = slice(first, first + _POINTS)
                total[here] += _sum_log_modulus((log_alpha[here] / 2).exp(), terms, k)
        means[batch] = total / share
    return means


def _draw(k: int, count: int, generator: torch.Generator) -> Tensor:
    """The polynomial in a = sqrt(alpha) that is 1 + a·z (real) or |1 + a·z|² (complex): its coefficients 1, ..., k."""
    z = torch.randn(k, count, generator=generator, dtype=torch.float64)
    return z if k == 1 else torch.stack([math.sqrt(2) * z[0], z.square().sum(0) / 2])


def _sum_log_modulus(a: Tensor, terms: Tensor, k: int) -> Tensor:
    """The sum of log|1 + a z| over the draws, for each a."""
    powers = torch.stack([a**power for power in range(1, k + 1)], dim=1)
    one = torch.ones((), dtype=torch.float64)
    total = torch.zeros(len(a), dtype=torch.float64)
    for block in torch.split(terms, _DRAWS, dim=1):
        value = torch.addmm(one, powers, block)
        width = value.shape[1]
        while width > block.shape[1] // _FACTORS:  # the last fold leaves 32 factors in each column
            width //= 2
            value = value[:, :width] * value[:, width:]
        total += value.abs_().clamp_min_(1e-300).log_().sum(1)
    return total / k


def _short(value: float) -> float:
    """Seven digits: what a figure needs."""
    return float(f"{value:.7g}")
