"""The special functions, the priors and their gradients against 40-digit references."""

import math

import mpmath as mp
import pytest
import reference
import scipy.special
import torch
from torch import nn

import argand
import argand.nn as ann
from argand.priors import PRIORS, Prior, kept_probability, snr_gradient
from argand.special import dawson, dawson_integral, ein, softplus

TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-12}
DTYPES = list(TOLERANCE)
GRID = [i / 4 for i in range(-800, 801)]


def worst(found, expected, dtype):
    """Largest relative error over the entries whose true value is a normal number of this type."""
    limits = torch.finfo(dtype)
    pairs = zip(found, expected, strict=True)
    return max(float(abs(f - e) / abs(e)) for f, e in pairs if limits.tiny < abs(e) < limits.max)


def numbers(tensor):
    return [mp.mpc(complex(x)) for x in tensor]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", ["vd", "ard"])
def test_kl_and_slope_are_exact(name, k, dtype):
    log_snr = torch.tensor(GRID, dtype=dtype)
    for function, truth in ((PRIORS[name].kl, reference.kl), (PRIORS[name].slope, reference.slope)):
        found = function(log_snr, k)
        assert found.dtype == dtype
        assert worst(numbers(found), [truth(name, k, x) for x in GRID], dtype) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("function", "truth"),
    [(ein, reference.ein), (dawson, reference.dawson), (dawson_integral, reference.dawson_integral)],
)
def test_special_functions(function, truth, dtype):
    x = torch.logspace(-17, 17, 300, dtype=dtype)
    assert worst(numbers(function(x)), [truth(float(v)) for v in x], dtype) <= TOLERANCE[dtype]
    assert function(torch.tensor([0.0], dtype=dtype)) == 0


def test_dawson_is_odd_and_agrees_with_scipy():
    x = torch.linspace(-30, 30, 1001, dtype=torch.float64)
    torch.testing.assert_close(dawson(x), torch.from_numpy(scipy.special.dawsn(x.numpy())), rtol=1e-12, atol=0)
    assert dawson(torch.tensor([math.inf, -math.inf])).tolist() == [0.0, 0.0]


def test_reference_values_of_thirty_digits():
    zero = torch.zeros(1, dtype=torch.float64)
    vd = PRIORS["vd"]
    found = [f(zero, k).item() for k in (2, 1) for f in (vd.kl, vd.slope)]
    assert found == pytest.approx([0.796599599297, 0.632120558829, 0.426685604296, 0.362389229504], abs=6e-13)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("log_snr", [-2.0, 0.5, 3.0])
def test_vd_is_the_expected_log_of_a_noncentral_chi_square(k, log_snr):
    """KL_k = (k/2)(E log chi'²_k(kr) - E log chi²_k), by mixing central ones over a Poisson count."""
    rate = k * math.exp(log_snr) / 2
    weights = [mp.exp(-rate) * mp.mpf(rate) ** n / mp.factorial(n) for n in range(200)]
    noncentral = mp.fsum(w * mp.digamma(mp.mpf(k) / 2 + n) for n, w in enumerate(weights))
    expected = k / 2 * (noncentral - mp.digamma(mp.mpf(k) / 2))
    found = PRIORS["vd"].kl(torch.tensor([log_snr], dtype=torch.float64), k)
    assert found.item() == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("k", "most", "where"), [(1, 0.03755, 2.64), (2, 0.0390, 2.87)])
def test_the_fits_are_as_far_from_exact_as_published(k, most, where):
    log_alpha = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    error = PRIORS["vd-fit"].slope(-log_alpha, k) / PRIORS["vd"].slope(-log_alpha, k) - 1
    assert error.abs().max().item() == pytest.approx(most, rel=5e-3)
    assert log_alpha[error.abs().argmax()].item() == pytest.approx(where, abs=0.02)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", sorted(PRIORS))
def test_slope_is_the_derivative_of_kl(name, k):
    log_snr = torch.linspace(-12, 12, 25, dtype=torch.float64)
    h = 1e-5
    numeric = (PRIORS[name].kl(log_snr + h, k) - PRIORS[name].kl(log_snr - h, k)) / (2 * h)
    torch.testing.assert_close(PRIORS[name].slope(log_snr, k), numeric, rtol=1e-6, atol=1e-10)


def extreme_weights(dtype, spread):
    """Weights and log variances over the whole range that the type holds, with the hard corners."""
    generator = torch.Generator().manual_seed(0)
    real = dtype.to_real()
    log_sigma2 = spread * (2 * torch.rand(400, dtype=real, generator=generator) - 1)
    size = torch.exp(spread * (torch.rand(400, dtype=real, generator=generator) - 0.5))
    mu = torch.sgn(torch.randn(400, dtype=dtype, generator=generator)) * size
    corners = [(m, s) for m in (0.0, 1e-23, -1e-23, 1.0) for s in (-110.0, -100.0, 0.0, 110.0)]
    mu[: len(corners)] = torch.tensor([m for m, _ in corners], dtype=dtype)
    log_sigma2[: len(corners)] = torch.tensor([s for _, s in corners], dtype=real)
    return mu, log_sigma2


ALL_DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("name", ["vd", "ard"])
def test_gradient_is_exact_for_every_representable_weight(name, dtype):
    mu, log_sigma2 = extreme_weights(dtype, spread=150.0)
    k, real = (2 if dtype.is_complex else 1), dtype.to_real()
    to_mu, to_log_sigma2 = snr_gradient(mu, log_sigma2, PRIORS[name].slope)
    assert to_mu.isfinite().all()
    assert to_log_sigma2.isfinite().all()
    truth = [reference.gradient(name, k, m.item(), s.item()) for m, s in zip(mu, log_sigma2, strict=True)]
    for found, expected in zip((to_mu, to_log_sigma2), zip(*truth, strict=True), strict=True):
        assert worst(numbers(found), expected, real) <= TOLERANCE[real]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("name", ["vd", "ard"])
def test_divergence_backward_and_optimizer_agree_with_the_closed_form(name, dtype):
    mu, log_sigma2 = extreme_weights(dtype, spread=120.0)
    layers = []
    for _ in range(3):
        namespace = ann if dtype.is_complex else nn
        layer = argand.sparsify(namespace.Linear(20, 20, bias=False, dtype=dtype), name)
        with torch.no_grad():
            layer.mean.weight.copy_(mu.view(20, 20))
            layer.log_sigma2.copy_(log_sigma2.view(20, 20))
        layers.append(layer)
    first, second, third = layers
    (0.125 * argand.divergence(first)).backward()
    argand.divergence_backward(second, 0.125)
    for p in third.parameters():
        p.grad = torch.zeros_like(p)
    argand.optim.Adam(third, lr=0.0, divergence_weight=0.125).step()
    closed = snr_gradient(mu.view(20, 20), log_sigma2.view(20, 20), PRIORS[name].slope)
    for layer in layers:
        torch.testing.assert_close(layer.mean.weight.grad, 0.125 * closed[0], rtol=1e-6, atol=0)
        torch.testing.assert_close(layer.log_sigma2.grad, 0.125 * closed[1], rtol=1e-6, atol=0)


def test_small_signals_keep_learning():
    """A slope that is 0 in absolute terms but right relatively: the spread can still shrink."""
    tiny = PRIORS["vd"].slope(torch.tensor([-60.0]), 2)
    assert 0 < tiny.item() == pytest.approx(math.exp(-60), rel=1e-5)


def test_large_tensors_are_computed_in_pieces_with_the_same_result():
    torch.manual_seed(0)
    layer = argand.sparsify(ann.Linear(700, 300))
    whole = layer.prior.kl(argand.priors.log_snr(layer.mean.weight.detach(), layer.log_sigma2.detach()), 2)
    assert torch.equal(layer.divergence(), whole)
    expected = snr_gradient(layer.mean.weight.detach(), layer.log_sigma2.detach(), layer.prior.slope)
    argand.divergence_backward(layer, 1.0)
    torch.testing.assert_close(layer.mean.weight.grad, expected[0], rtol=1e-6, atol=0)
    layer.mean.weight.data = layer.mean.weight.data.t().contiguous().t()  # not contiguous
    layer.zero_grad()
    argand.divergence_backward(layer, 1.0)
    torch.testing.assert_close(layer.mean.weight.grad, expected[0], rtol=1e-6, atol=0)


class PowerPrior(Prior):
    """Density proportional to |w|^(-beta), complex: the log-uniform one is beta = 2."""

    def __init__(self, beta):
        self.beta = beta

    def divergence(self, mu, log_sigma2):
        # E log|w|² = log sigma² + Ein(r) - γ, so KL - KL_vd = (beta-2)/2 · E log|w|² up to a constant
        vd = PRIORS["vd"].divergence(mu, log_sigma2)
        return vd + (self.beta - 2) / 2 * (log_sigma2 + vd)


class FixedGaussian(Prior):
    """N_k(0, 1)."""

    def divergence(self, mu, log_sigma2):
        k = 2 if mu.is_complex() else 1
        return k / 2 * (mu.abs().square() + log_sigma2.exp() - log_sigma2 - 1)


@pytest.mark.parametrize("prior", [PowerPrior(2.5), FixedGaussian()])
def test_a_prior_of_ones_own_runs_through_everything(prior):
    net = argand.sparsify(nn.Sequential(ann.Linear(4, 3), ann.Real()), prior, initial=-3.0)
    argand.divergence(net).backward()
    expected = net[0].mean.weight.grad.clone(), net[0].log_sigma2.grad.clone()
    net.zero_grad()
    argand.divergence_backward(net, 1.0)
    torch.testing.assert_close((net[0].mean.weight.grad, net[0].log_sigma2.grad), expected)
    net.zero_grad()
    opt = argand.optim.Adam(net, divergence_weight=0.1, max_norm=1.0)
    net(torch.ones(2, 4, dtype=torch.complex64)).square().sum().backward()
    opt.step()
    assert argand.masks(net).count()[1] == 12
    with pytest.raises(argand.ArgandError, match="scale-free"):
        argand.sparsify(ann.Linear(4, 3), prior, "real-scaling")


def test_fixed_gaussian_divergence_against_sampling():
    torch.manual_seed(0)
    mu, log_sigma2 = torch.tensor([0.3 - 0.4j], dtype=torch.complex128), torch.tensor([-1.0], dtype=torch.float64)
    w = mu + (0.5 * log_sigma2).exp() * torch.randn(400_000, dtype=torch.complex128)
    log_ratio = -log_sigma2 - (w - mu).abs().square() * (-log_sigma2).exp() + w.abs().square()
    found = FixedGaussian().divergence(mu, log_sigma2)
    assert abs(found - log_ratio.mean()) <= 5 * log_ratio.std() / len(w) ** 0.5


def test_relation_divergence_against_its_formula():
    layer = argand.sparsify(ann.Linear(5, 4, dtype=torch.complex128), "ard", "relation", initial=-2.0)
    with torch.no_grad():
        layer.relation.copy_(torch.randn_like(layer.relation))
    r = layer.mean.weight.abs().square() / layer.log_sigma2.exp()
    xi = layer.relation.abs().tanh()
    torch.testing.assert_close(layer.divergence(), r.log1p() - 0.5 * (1 - xi * xi).log())
    argand.divergence_backward(layer, 1.0)
    direction = layer.relation.detach() / layer.relation.detach().abs()
    torch.testing.assert_close(layer.relation.grad, xi.detach() * direction)


def test_real_scaling_divergence_is_the_real_one_and_leaves_mu_alone():
    layer = argand.sparsify(ann.Linear(5, 4), "vd", "real-scaling", initial=-1.0)
    torch.testing.assert_close(layer.divergence(), PRIORS["vd"].kl(torch.ones(4, 5), 1))
    argand.divergence_backward(layer, 1.0)
    assert layer.mean.weight.grad is None or not layer.mean.weight.grad.any()
    torch.testing.assert_close(layer.log_alpha.grad, -PRIORS["vd"].slope(torch.ones(4, 5), 1))


def test_softplus_is_relatively_exact():
    x = torch.linspace(-80, 80, 321, dtype=torch.float64)
    assert worst(numbers(softplus(x)), [mp.log1p(mp.e ** mp.mpf(float(v))) for v in x], torch.float64) <= 1e-15


def test_levels_of_the_threshold():
    """MATHS: the 90 % levels, and what the default threshold means."""
    at = torch.tensor([-2.3816, -0.5, 3.0], dtype=torch.float64)
    assert kept_probability(at, 0.5, 1).tolist() == pytest.approx([0.9, 0.479, 0.089], abs=1e-3)
    at[0] = -2.2203
    assert kept_probability(at, 0.5, 2).tolist() == pytest.approx([0.9, 0.338, 0.012], abs=1e-3)
