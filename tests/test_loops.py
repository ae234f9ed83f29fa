"""Loops compiled where there is a compiler: the same numbers as without, and nothing lost where there is none."""

import contextlib
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from unittest import mock

import pytest
import torch
from reference import DIVERGENCE_WEIGHT, LR, MAX_NORM, batches, network
from torch import nn

import argand
import argand.nn as ann
from argand import loops
from argand.field import real_view
from argand.gradient import add_divergence_gradient
from argand.loops import can_compile, compiling, from_words, pairs, should_compile, to_words, words
from argand.nn.kernels import to_channels_last
from argand.priors import PRIORS, SnrPrior, snr_gradient
from argand.sampling import perturbed

CPU = torch.device("cpu")
FIELDS = {"real": torch.float32, "complex": torch.complex64}
compiles = pytest.mark.usefixtures("_compiler")
for_each_field = pytest.mark.parametrize("dtype", FIELDS.values(), ids=FIELDS)
for_each_prior = pytest.mark.parametrize("prior", ["vd", "ard"])


@pytest.fixture
def _compiler(monkeypatch):
    """A compiler that has not failed yet, and has compiled nothing: torch refuses after eight variants."""
    if not can_compile("cpu"):
        pytest.skip("needs a C++ compiler")
    monkeypatch.setattr(loops, "_failed", set())
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def _every_noise_hashed(monkeypatch):
    monkeypatch.setattr("argand.field.COUNTED", 2)


@pytest.fixture
def _look_for_compilers_anew():
    can_compile.cache_clear()
    yield
    can_compile.cache_clear()


# whether


@compiles
def test_loops_are_compiled_by_size_unless_asked_for_or_against():
    sizes = 1, loops.SMALLEST - 1, loops.SMALLEST
    assert [should_compile(CPU, n) for n in sizes] == [False, False, True]
    with compiling(True):
        assert all(should_compile(CPU, n) for n in sizes)
        with compiling(False):
            assert not any(should_compile(CPU, n) for n in sizes)
            with compiling(None):  # leaves it as it is
                assert not any(should_compile(CPU, n) for n in sizes)
        with contextlib.suppress(ZeroDivisionError), compiling(False):
            raise ZeroDivisionError
        assert should_compile(CPU, 1)
        assert not should_compile(torch.device("meta"), 10**9)
    assert not should_compile(CPU, 1)


@pytest.mark.usefixtures("_look_for_compilers_anew")
def test_compilers_are_looked_for_on_the_path_and_in_cxx(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert not can_compile("cpu")
    assert can_compile("cuda") == (find_spec("triton") is not None)
    assert not can_compile("mps")
    with compiling(True):
        assert not should_compile(CPU, 10**9)
    with pytest.raises(argand.ArgandError, match="compiled=True needs a C"):
        argand.optim.Adam(nn.Linear(2, 2), compiled=True)
    can_compile.cache_clear()
    monkeypatch.setenv("CXX", sys.executable)  # some program
    assert can_compile("cpu")


@pytest.mark.parametrize("value", ["0", "1", None])
def test_the_environment_turns_compiling_off(value):
    code = "import torch; from argand.loops import should_compile; print(should_compile(torch.device('cpu'), 10**9))"
    environment = {k: v for k, v in os.environ.items() if k != "ARGAND_COMPILE"}
    environment |= {} if value is None else {"ARGAND_COMPILE": value}
    out = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert out.stdout.strip() == str(value != "0" and can_compile("cpu"))


# words

HARD = [0.0, -0.0, 1.5, -1e-45, 3e38, math.inf, -math.inf, math.nan]
PAYLOADS = [0x7F800001, 0xFFC12345 - 2**32, 0x7FFFFFFF, -1]  # signalling and quiet NaN of either sign


def bits(x):
    return real_view(x.contiguous()).view(torch.int32)


def hard_numbers(dtype):
    """(2, 12, 24) numbers with every hard component, beside every other one if complex."""
    parts = torch.cat([torch.tensor(HARD), torch.tensor(PAYLOADS, dtype=torch.int32).view(torch.float32)])
    bit_patterns = torch.stack(torch.meshgrid(parts.view(torch.int32), parts.view(torch.int32), indexing="ij"), -1)
    numbers = bit_patterns.view(torch.float32)
    numbers = torch.view_as_complex(numbers) if dtype.is_complex else numbers.flatten(1)
    return numbers.expand(2, *numbers.shape).clone()


def through_words(x, out, row=words):
    row(out).copy_(to_words(from_words(row(x))))
    return out


@for_each_field
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)], ids=str)
def test_words_keep_every_bit_in_every_order(dtype, order):
    x = hard_numbers(dtype).permute(order)
    assert torch.equal(bits(through_words(x, torch.empty_like(x))), bits(x))
    if not dtype.is_complex:
        assert torch.equal(bits(through_words(x, torch.empty_like(x), pairs)), bits(x))
        assert pairs(x).dtype == torch.int64


def test_words_are_views_and_hold_the_parts():
    z = torch.tensor([[1 + 2j, 3 - 4j]])
    words(z)[0] = words(torch.tensor([5 - 6j]))[0]
    assert z.tolist() == [[5 - 6j, 3 - 4j]]
    assert [part.tolist() for part in from_words(words(z))] == [[5.0, 3.0], [-6.0, -4.0]]
    assert [part.tolist() for part in from_words(pairs(torch.tensor([1.0, 2.0, 3.0, 4.0])))] == [[1.0, 3.0], [2.0, 4.0]]


def _turned(x, out):
    """Compiled below: the bits of each number through words, and all its components negated."""
    return out.copy_(to_words([-component for component in from_words(x)]))


@compiles
def test_compiled_words_keep_every_bit():
    x = hard_numbers(torch.complex64)
    out = torch.empty_like(x)
    assert loops.attempt(_turned, words(x), words(out)) is not None
    assert torch.equal(bits(out), bits(x) ^ -(2**31))


# failure


def _broken_slope(log_snr, k):
    """ARD's, with what no compiler takes."""
    torch._dynamo.graph_break()
    return PRIORS["ard"].slope(log_snr, k)


@compiles
@for_each_field
def test_what_cannot_be_compiled_is_told_once_and_computed_without(dtype):
    prior = SnrPrior("broken", PRIORS["ard"].kl, _broken_slope)
    layers = [variational(dtype, p, (5, 7), initial=-2.0) for p in ("ard", prior)]
    layers[1].load_state_dict(layers[0].state_dict())
    with compiling(False):
        argand.divergence_backward(layers[0], 0.5)
    with compiling(True):
        with pytest.warns(argand.ArgandWarning, match="could not compile a loop .*ARGAND_COMPILE=0") as told:
            argand.divergence_backward(layers[1], 0.5)
        assert len(told) == 1
        for found, wanted in zip(layers[1].parameters(), layers[0].parameters(), strict=True):
            assert torch.equal(found.grad, wanted.grad)
        argand.divergence_backward(layers[1], -0.5)  # silent now, and computed all the same
    assert not any(p.grad.any() for p in layers[1].parameters())


@compiles
@for_each_field
@pytest.mark.usefixtures("_every_noise_hashed")
def test_samples_that_cannot_be_compiled_are_those_without_a_compiler(dtype, monkeypatch):
    def _perturb(*tensors):
        torch._dynamo.graph_break()

    def _pull(*tensors):
        torch._dynamo.graph_break()

    monkeypatch.setattr("argand.sampling._perturb", _perturb)
    monkeypatch.setattr("argand.sampling._pull", _pull)
    y, variance = torch.randn(6, 4, dtype=dtype), torch.rand(6, 4)
    wanted = sampled(False, y, variance)
    with pytest.warns(argand.ArgandWarning, match="could not compile") as told:
        found = sampled(True, y, variance)
    assert len(told) == 2
    assert all(map(torch.equal, found, wanted))
    assert all(map(torch.equal, sampled(True, y, variance), wanted))


# the sample


def sampled(compiled, y, variance, grad=None):
    """A sample and the gradients of both, by a given gradient of the sample."""
    y, variance = y.clone().requires_grad_(), variance.clone().requires_grad_()
    grad = torch.ones_like(y) * (2 + 1j if y.is_complex() else 2) if grad is None else grad
    with compiling(compiled):
        torch.manual_seed(3)
        sample = perturbed(y, variance)
        sample.backward(grad)
    return sample.detach(), y.grad, variance.grad


def spied(name):
    """Records what a module's `attempt` returns: None where it did not compile."""
    returned = []
    return returned, mock.patch(name, lambda *args: returned.append(loops.attempt(*args)) or returned[-1])


SHAPES = {"small": (2, 1), "tails": (5, 3, 7, 2), "large": (3, 5, 40, 41)}


@compiles
@for_each_field
@pytest.mark.parametrize("last", [False, True], ids=["usual-order", "channels-last"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.usefixtures("_every_noise_hashed")
def test_compiled_samples_are_the_others_to_rounding(shape, last, dtype):
    y, variance = torch.randn(shape, dtype=dtype), torch.rand(shape)
    variance.view(-1)[1::3] = 0.0
    variance.view(-1)[2::7] = -0.1
    grad = torch.randn(shape, dtype=dtype)
    if last and len(shape) > 2:
        y, variance, grad = map(to_channels_last, (y, variance, grad))
    returned, spy = spied("argand.sampling.attempt")
    with spy:
        found = sampled(True, y, variance, grad)
    assert [result is not None for result in returned] == [True, True]
    wanted = sampled(False, y, variance, grad)
    # of a number of 32 random bits, float32 may round 2^-24 away, whose root is the error
    torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=4e-6)
    torch.testing.assert_close(found[1], wanted[1], rtol=0, atol=0)
    torch.testing.assert_close(found[2], wanted[2], rtol=1e-5, atol=1e-5)
    off = variance <= 0
    assert torch.equal(found[0][off], y[off])
    assert not found[2][off].any()
    assert (found[0][~off] != y[~off]).any()
    assert all(map(torch.equal, found, sampled(True, y, variance, grad)))


def _transposed(shape, dtype):
    return torch.randn(*shape[:-2], shape[-1], shape[-2], dtype=dtype).mT


OTHER_GRADIENTS = {
    "expanded": lambda shape, dtype: torch.randn((), dtype=dtype).expand(shape),
    "in-another-order": _transposed,
    "conjugate": lambda shape, dtype: torch.randn(shape, dtype=dtype).conj(),
    "negated": lambda shape, dtype: torch._neg_view(torch.randn(shape, dtype=dtype)),
    "offset": lambda shape, dtype: torch.randn(1 + shape[0] * shape[1], dtype=dtype)[1:].view(shape),
}


@compiles
@for_each_field
@pytest.mark.parametrize("kind", OTHER_GRADIENTS)
@pytest.mark.usefixtures("_every_noise_hashed")
def test_gradients_that_lie_otherwise_are_taken(kind, dtype):
    y, variance = torch.randn(4, 6, dtype=dtype), torch.rand(4, 6)
    grad = OTHER_GRADIENTS[kind](y.shape, dtype)
    wanted = sampled(False, y, variance, grad.resolve_conj().resolve_neg().contiguous())
    torch.testing.assert_close(sampled(True, y, variance, grad), wanted, rtol=1e-5, atol=1e-5)


@compiles
@for_each_field
@pytest.mark.parametrize("kind", ["conjugate", "negated", "offset"])
@pytest.mark.usefixtures("_every_noise_hashed")
def test_means_that_lie_otherwise_are_taken(kind, dtype):
    y, variance = OTHER_GRADIENTS[kind]((4, 6), dtype), torch.rand(4, 6)
    wanted = sampled(False, y.resolve_conj().resolve_neg(), variance)
    with compiling(True):
        torch.manual_seed(3)
        torch.testing.assert_close(perturbed(y, variance), wanted[0], rtol=0, atol=1e-5)


@compiles
@for_each_field
@pytest.mark.usefixtures("_every_noise_hashed")
def test_the_sample_does_not_depend_on_the_threads(dtype):
    y, variance = torch.randn(100, 200, dtype=dtype), torch.rand(100, 200)
    wanted = sampled(False, y, variance)
    for threads in (1, 2):
        torch._dynamo.reset()  # so that it is compiled for so many
        torch.set_num_threads(threads)
        torch.testing.assert_close(sampled(True, y, variance), wanted, rtol=1e-5, atol=1e-5)


WEIGHTS = [(30, 50), (40, 40), (4, 6, 3, 3), (6, 6, 3, 3), (4, 1, 5, 5), (8, 3, 7), (50, 1)]


@compiles
@for_each_field
@pytest.mark.usefixtures("_every_noise_hashed")
def test_one_loop_serves_every_shape(dtype):
    """A deep network has more shapes than the eight variants of a loop that torch compiles."""
    with compiling(True), mock.patch("torch._dynamo.config.error_on_recompile", True):
        for shape in WEIGHTS:
            sampled(True, torch.randn(shape, dtype=dtype), torch.rand(shape))
            layer = variational(dtype, "ard", (2, 2))
            layer.mean.weight = nn.Parameter(torch.randn(shape, dtype=dtype))
            layer.log_sigma2 = nn.Parameter(torch.randn(shape))
            argand.divergence_backward(layer, 0.1)


# the divergence's gradient


def variational(dtype, prior, shape, **options):
    namespace = ann if dtype.is_complex else nn
    return argand.sparsify(namespace.Linear(*shape, bias=False, dtype=dtype), prior, **options)


@compiles
@for_each_field
@for_each_prior
@pytest.mark.parametrize("compiled", [False, True], ids=["pieces", "compiled"])
def test_the_divergences_gradient_is_exact_for_every_ratio(prior, dtype, compiled, monkeypatch):
    """For l from -200 to 200, at small and at large variances."""
    monkeypatch.setattr("argand.chunks.CHUNK", 1000)
    log_snr = torch.linspace(-200, 200, 1601, dtype=torch.float64)
    shift = torch.tensor([[-40.0], [40.0]], dtype=torch.float64)
    log_sigma2 = shift - log_snr / 2
    layer = variational(dtype, prior, (len(log_snr), 2))
    with torch.no_grad():
        layer.log_sigma2.copy_(log_sigma2)
        size = ((log_snr + layer.log_sigma2.double()) / 2).exp()
        mu = torch.polar(size, 7 * log_snr.expand_as(size)) if dtype.is_complex else size * torch.sign(log_sigma2)
        layer.mean.weight.copy_(mu)
    returned, spy = spied("argand.gradient.attempt")
    with compiling(compiled), spy:
        ((learnt, squares),) = add_divergence_gradient(layer, 1.0)
    assert [result is not None for result in returned] == [True] * compiled
    exact = [p.detach().to(torch.promote_types(p.dtype, torch.float64)) for p in learnt]
    for p, wanted in zip(learnt, snr_gradient(*exact, layer.prior.slope), strict=True):
        normal = wanted.abs() > torch.finfo(torch.float32).tiny
        assert normal.float().mean() > 0.5
        assert ((p.grad - wanted).abs() / wanted.abs())[normal].max() <= 4e-6
    assert squares.item() == pytest.approx(sum(p.grad.abs().double().square().sum().item() for p in learnt), rel=1e-5)


@compiles
@for_each_field
@for_each_prior
@pytest.mark.parametrize("shape", [(30, 50), (90, 60)], ids=str)
def test_the_divergences_gradient_is_added(prior, dtype, shape):
    results = []
    for compiled in (True, False):
        torch.manual_seed(0)
        layer = variational(dtype, prior, shape, initial=-4.0)
        for p in layer.parameters():
            p.grad = torch.randn_like(p)
            p.data.add_(torch.randn_like(p))
        with compiling(compiled):
            ((learnt, squares),) = add_divergence_gradient(layer, 0.125)
        results.append([squares, *(p.grad for p in learnt)])
        assert squares.sqrt().item() == pytest.approx(
            nn.utils.get_total_norm([p.grad for p in learnt]).item(), rel=1e-5
        )
    torch.testing.assert_close(*results, rtol=2e-5, atol=1e-6)


@compiles
def test_what_does_not_learn_gets_no_gradient_from_a_loop():
    for frozen in ("mean.weight", "log_sigma2"):
        layer = variational(torch.complex64, "vd", (30, 50))
        layer.get_parameter(frozen).requires_grad_(False)
        with compiling(True):
            ((learnt, _),) = add_divergence_gradient(layer, 0.125)
        assert layer.get_parameter(frozen).grad is None
        assert [p.requires_grad for p in learnt]


# training


def train(field, prior, compiled):
    net = network("dense", field, prior, torch.float32)
    opt = argand.optim.Adam(net, lr=LR, divergence_weight=DIVERGENCE_WEIGHT, max_norm=MAX_NORM)
    torch.manual_seed(7)
    with compiling(compiled):
        for x, labels in batches("dense", field, torch.float32):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), labels).backward()
            opt.step()
    return [p.detach().clone() for p in net.parameters()]


@compiles
@pytest.mark.parametrize("field", FIELDS)
@for_each_prior
@pytest.mark.usefixtures("_every_noise_hashed")
def test_compiled_training_is_the_other_to_rounding_and_repeats_itself(prior, field):
    """Each step rounds a parameter near -5 by 3e-7, and all of them move by 0.08: 4e-6 of it, half of that was seen."""
    start = [p.detach() for p in network("dense", field, prior, torch.float32).parameters()]
    first, again, eager = (train(field, prior, compiled) for compiled in (True, True, False))
    assert all(map(torch.equal, first, again))
    assert not all(map(torch.equal, first, eager))
    for found, wanted, begun in zip(first, eager, start, strict=True):
        assert (found - wanted).norm() <= 2e-5 * (wanted - begun).norm()
