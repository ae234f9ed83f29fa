"""Defects found in other libraries, each held against ours; more of them are tested beside what they concern."""

import pytest
import torch
from torch import nn

import argand
import argand.nn as ann


@pytest.mark.parametrize("log_alpha", [-200.0, -105.0, -90.0, 0.0, 90.0, 105.0, 200.0])
@pytest.mark.parametrize("prior", ["vd", "ard"])
@pytest.mark.parametrize("module", [nn, ann])
def test_divergence_is_finite_and_its_gradient_never_nan(module, prior, log_alpha):
    layer = argand.sparsify(module.Linear(3, 2), prior)
    with torch.no_grad():
        layer.mean.weight.fill_(torch.tensor(-log_alpha / 4).exp().item())
        layer.log_sigma2.fill_(log_alpha / 2)
    value = argand.divergence(layer)
    value.backward()
    assert value.isfinite()
    assert layer.mean.weight.grad.isfinite().all()
    assert layer.log_sigma2.grad.isfinite().all()
    if log_alpha < 0:
        assert (layer.log_sigma2.grad < 0).all()  # the spread is still pushed up


def test_small_inputs_get_small_noise_and_a_gradient():
    """A variance floor of 1e-8 would give a deviation of 1e-4 and no gradient."""
    torch.manual_seed(0)
    layer = argand.sparsify(ann.Linear(4, 3), initial=-10.0)
    x = torch.full((5000, 4), 1e-3 + 0j)
    noise = layer(x) - layer.mean(x)
    expected = 2e-3 * torch.tensor(-5.0).exp()
    assert noise.abs().square().mean().sqrt().item() == pytest.approx(expected.item(), rel=0.03)
    layer(x).abs().square().sum().backward()
    assert (layer.log_sigma2.grad != 0).all()


def test_masks_forget_nothing_of_the_layer():
    """Others lose `conjugate` or `padding_mode` under a mask of ones."""
    layers = [
        (ann.Bilinear(3, 4, 2, conjugate=True), [(3,), (4,)]),
        (ann.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), [(2, 5, 5)]),
        (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), [(2, 5, 5)]),
    ]
    for layer, shapes in layers:
        inputs = [torch.randn(2, *shape, dtype=layer.weight.dtype) for shape in shapes]
        expected = layer(*inputs)
        masks = argand.Masks(weight=torch.ones_like(layer.weight, dtype=torch.bool))
        with masks.pin(layer, torch.optim.SGD(layer.parameters())):
            assert torch.equal(layer(*inputs), expected)


def test_keys_are_those_of_torch():
    assert list(ann.Linear(3, 2).state_dict()) == ["weight", "bias"]
    assert list(argand.collapse(argand.sparsify(ann.Linear(3, 2))).state_dict()) == ["weight", "bias"]


def test_a_misspelt_option_is_an_error():
    with pytest.raises(TypeError):
        argand.sparsify(nn.Linear(2, 2), sigma=1.0)
    with pytest.raises(TypeError):
        argand.masks(argand.sparsify(nn.Linear(2, 2)), treshold=0.0)


def test_there_is_one_variational_class():
    def below(cls):
        return [cls, *(c for child in cls.__subclasses__() for c in below(child))]

    assert below(argand.Variational) == [argand.Variational]
