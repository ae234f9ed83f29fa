"""Maps of (re, im), moments and samples: values by einsum, first and second derivatives by differences."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import argand.nn as ann
from argand.field import abs2
from argand.nn.kernels import to_channels_last
from argand.nn.maps import mapped, moments, statistics
from argand.sampling import perturbed

SHAPES = [(5, 3, 2), (2, 4, 3, 2), (2, 3, 2, 1, 2), (1, 1, 2)]
for_each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture(params=[8, 2**16], ids=["pieces", "whole"])
def _chunk(request, monkeypatch):
    monkeypatch.setattr("argand.nn.maps.CHUNK", request.param)


def numbers(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def inputs(shape):
    """Numbers, a matrix and a shift for each channel, none of them symmetric or equal."""
    channels = shape[-2]
    return numbers(*shape), numbers(channels, 2, 2), numbers(channels, 2)


def naive_map(x, matrix, shift):
    return torch.einsum("cij,...cj->...ci", matrix, x) + shift


def naive_moments(x, y):
    return torch.einsum("nci,ncj->cij", x.flatten(0, -3), y.flatten(0, -3))


def naive_statistics(x):
    mean = x.flatten(0, -3).mean(0)
    return mean, naive_moments(x - mean, x - mean) / (x.numel() / mean.numel())


FUNCTIONS = {
    "mapped": (mapped, naive_map, inputs),
    "mapped-without-shift": (mapped, lambda x, matrix: naive_map(x, matrix, 0), lambda shape: inputs(shape)[:2]),
    "moments": (moments, naive_moments, lambda shape: (numbers(*shape), numbers(*shape))),
    "statistics": (statistics, naive_statistics, lambda shape: (numbers(*shape),)),
}
for_each_function = pytest.mark.parametrize(("function", "naive", "make"), FUNCTIONS.values(), ids=FUNCTIONS)
whole_and_in_pieces = pytest.mark.usefixtures("_chunk")


@for_each_shape
@for_each_function
@whole_and_in_pieces
def test_they_are_the_sums_they_say_with_their_gradients(function, naive, make, shape):
    given = make(shape)
    found, wanted = function(*given), naive(*given)
    torch.testing.assert_close(found, wanted)
    found, wanted = ([x] if isinstance(x, torch.Tensor) else x for x in (found, wanted))
    weights = [torch.randn_like(x) for x in wanted]
    torch.testing.assert_close(*(torch.autograd.grad(outputs, given, weights) for outputs in (found, wanted)))


@for_each_shape
@for_each_function
@whole_and_in_pieces
def test_first_and_second_derivatives(function, naive, make, shape):
    assert gradcheck(function, make(shape))
    assert gradgradcheck(function, make(shape))


@for_each_function
@whole_and_in_pieces
def test_they_are_vectorised(function, naive, make):
    given = [torch.stack(tensors) for tensors in zip(*(make((5, 3, 2)) for _ in range(4)), strict=True)]
    each = [function(*(t[i] for t in given)) for i in range(4)]
    wanted = (
        torch.stack(each) if isinstance(each[0], torch.Tensor) else tuple(map(torch.stack, zip(*each, strict=True)))
    )
    torch.testing.assert_close(torch.func.vmap(function)(*given), wanted)


@pytest.mark.parametrize("learns", range(3))
def test_only_what_needs_a_gradient_gets_one(learns):
    given = [t.requires_grad_(i == learns) for i, t in enumerate(inputs((4, 3, 2)))]
    mapped(*given).square().sum().backward()
    assert [t.grad is not None for t in given] == [i == learns for i in range(3)]
    alone = given[learns].grad
    every = [t.detach().requires_grad_() for t in given]
    mapped(*every).square().sum().backward()
    torch.testing.assert_close(alone, every[learns].grad)
    if learns < 2:
        x, y = (numbers(4, 3, 2).requires_grad_(i == learns) for i in range(2))
        moments(x, y).sum().backward()
        assert [t.grad is not None for t in (x, y)] == [i == learns for i in range(2)]


def test_maps_take_gradients_that_are_not_contiguous():
    x, matrix, shift = inputs((4, 3, 2))
    mapped(x, matrix, shift).sum().backward()  # an expanded one
    torch.testing.assert_close(x.grad, matrix.sum(1).expand(4, 3, 2))
    torch.testing.assert_close(shift.grad, torch.full((3, 2), 4.0, dtype=torch.float64))
    torch.testing.assert_close(matrix.grad, x.detach().sum(0).unsqueeze(1).expand(3, 2, 2))


def test_maps_take_single_numbers_of_each_channel():
    assert gradcheck(mapped, inputs((3, 2)))


@pytest.mark.parametrize("last", [False, True], ids=["usual-order", "channels-last"])
@whole_and_in_pieces
def test_second_derivatives_of_batch_norm(last):
    layer = ann.BatchNorm2d(2, dtype=torch.complex128, track_running_stats=False)
    with torch.no_grad():
        layer.weight.add_(0.3 * torch.randn_like(layer.weight))
    x = numbers(3, 2, 2, 1, dtype=torch.complex128)
    x = to_channels_last(x.detach()).requires_grad_() if last else x
    assert gradgradcheck(layer, x, fast_mode=True)


# samples


def sample(y, variance):
    torch.manual_seed(0)
    return perturbed(y, variance)


DTYPES = {"real": torch.float64, "complex": torch.complex128}


@pytest.mark.parametrize("counted", [1, 2**60], ids=["hashed", "drawn"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_second_derivatives_of_samples(dtype, counted, monkeypatch):
    monkeypatch.setattr("argand.field.COUNTED", counted)
    variance = (0.5 + torch.rand(4, 3, dtype=torch.float64)).requires_grad_()
    given = (numbers(4, 3, dtype=dtype), variance)
    assert gradcheck(sample, given)
    assert gradgradcheck(sample, given)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_both_ways_back_through_a_sample_agree(dtype):
    """With and without a graph of the gradient, variances at and below 0 included."""
    y, variance = numbers(5, 3, dtype=dtype), torch.rand(5, 3, dtype=torch.float64)
    variance[0], variance[1] = 0.0, -0.1
    variance.requires_grad_()
    out = sample(y, variance)
    weight = torch.randn_like(out)
    plain = torch.autograd.grad(out, (y, variance), weight, retain_graph=True)
    graphed = torch.autograd.grad(out, (y, variance), weight, create_graph=True)
    torch.testing.assert_close(plain, graphed)
    assert torch.equal(out[:2], y[:2])
    assert not plain[1][:2].any()
    assert plain[1][2:].all()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_second_derivatives_of_samples_are_finite_without_variance(dtype):
    y, variance = numbers(3, dtype=dtype), torch.tensor([0.0, -0.1, 1.0], dtype=torch.float64, requires_grad=True)
    power = sample(y, variance).abs().square().sum()
    (slope,) = torch.autograd.grad(power, variance, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), variance)
    assert second.isfinite().all()
    assert not second[:2].any()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_samples_are_vectorised(dtype):
    y, variance = torch.randn(5, 3, dtype=dtype), torch.rand(5, 3, dtype=torch.float64)
    each = torch.func.vmap(perturbed, randomness="different")(y, variance)
    assert each.shape == y.shape
    assert (each != y).all()
    assert torch.equal(torch.func.vmap(perturbed, randomness="different")(y, torch.zeros_like(variance)), y)


@pytest.mark.parametrize("last", [False, True], ids=["usual-order", "channels-last"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_second_derivatives_of_squared_moduli(dtype, last):
    x = numbers(2, 3, 2, 2, dtype=dtype)
    x = to_channels_last(x.detach()).requires_grad_() if last else x
    assert gradcheck(abs2, x)
    assert gradgradcheck(abs2, x)
    torch.testing.assert_close(abs2(x), x.abs().square())
    assert abs2(x).stride() == x.stride()
