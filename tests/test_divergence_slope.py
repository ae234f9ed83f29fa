"""The slope of the divergence three ways: they agree within what each one claims."""

import json
import math

import pytest
import torch

from argand import ArgandError
from argand.priors import PRIORS
from argand.study.divergence_slope import STORED, kl_derivative


@pytest.fixture(scope="module", params=["R", "C"])
def curves(request):
    return request.param, kl_derivative(request.param, draws=60_000, points=101, seed=3)


def test_monte_carlo_is_within_five_standard_errors(curves):
    field, found = curves
    nodes = torch.linspace(-12, 12, 101, dtype=torch.float64)
    divergence = PRIORS["vd"].kl(-nodes, 1 if field == "R" else 2)
    forward = (divergence.diff() / (nodes[1] - nodes[0])).tolist()  # what a forward difference estimates
    for estimate, expected, error in zip(found["monte_carlo"], forward, found["standard_error"], strict=True):
        assert abs(estimate - expected) <= 5 * error


def test_the_standard_error_is_small_and_honest(curves):
    _, found = curves
    assert 0 < max(found["standard_error"]) < 0.03
    scores = [
        (estimate - exact) / error
        for estimate, exact, error in zip(found["monte_carlo"], found["exact"], found["standard_error"], strict=True)
    ]
    assert max(map(abs, scores)) > 0.1, "an error bar that covers everything says nothing"


def test_limits_of_the_exact_slope(curves):
    field, found = curves
    full = -0.5 if field == "R" else -1.0
    assert found["exact"][0] == pytest.approx(full, abs=1e-4)
    assert found["exact"][-1] == pytest.approx(0, abs=1e-4)
    assert found["log_alpha"][0] == pytest.approx(-11.88)


def test_the_fit_deviates_as_the_documentation_says(curves):
    field, found = curves
    log_alpha, relative = found["fit_worst_relative"]
    assert abs(relative) == pytest.approx(0.03755 if field == "R" else 0.0390, abs=5e-4)
    assert log_alpha == pytest.approx(2.64 if field == "R" else 2.87, abs=0.3)
    deviations = [fit - exact for fit, exact in zip(found["fit"], found["exact"], strict=True)]
    assert abs(found["fit_worst"][1]) == pytest.approx(max(map(abs, deviations)), rel=1e-4)


def test_the_exact_slope_belongs_to_the_grid_of_a_seed():
    first = kl_derivative("R", draws=2048, points=9, seed=1)
    assert first == kl_derivative("R", draws=2048, points=9, seed=1)
    other = kl_derivative("R", draws=2048, points=9, seed=2)
    assert first["exact"] == other["exact"]
    assert first["monte_carlo"] != other["monte_carlo"]


def test_products_equal_the_sum_of_logarithms():
    from argand.study.divergence_slope import _draw, _sum_log_modulus

    for k in (1, 2):
        terms = _draw(k, 4096, torch.Generator().manual_seed(0))
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(k, 4096, generator=generator, dtype=torch.float64)
        a = torch.tensor([1e-3, 1.0, 400.0], dtype=torch.float64)
        weight = z[0] if k == 1 else torch.complex(z[0], z[1]) / math.sqrt(2)
        expected = (1 + a[:, None] * weight).abs().log().sum(1)
        torch.testing.assert_close(_sum_log_modulus(a, terms, k), expected, rtol=1e-10, atol=1e-10)


def test_thinned_for_storage_and_json():
    found = kl_derivative("C", draws=1024, points=1500, seed=0)
    assert len(found["log_alpha"]) == len(found["monte_carlo"]) == STORED
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    "change", [{"field": "Q"}, {"draws": 10}, {"points": 2}, {"low": 3.0, "high": 1.0}, {"high": 99.0}]
)
def test_refusals(change):
    with pytest.raises(ArgandError, match=r"Expected"):
        kl_derivative(**({"field": "R", "draws": 2048, "points": 5, "seed": 0} | change))
