"""Squared moduli, safe roots, noise, conversions."""

import pytest
import torch

import argand
import argand.nn as ann
from argand.field import abs2, keep_field, modulus, noise_like, real_dim, real_views, safe_sqrt
from argand.sampling import improper_noise


def test_abs2_and_modulus_with_gradients():
    z = torch.tensor([3 + 4j, 0j, -1e-3j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(abs2, z)
    torch.testing.assert_close(abs2(z), z.abs().square())
    torch.testing.assert_close(modulus(z), z.abs())
    modulus(z).sum().backward()
    torch.testing.assert_close(z.grad, torch.tensor([0.6 + 0.8j, 0, -1j], dtype=torch.complex128))


def test_modulus_neither_overflows_nor_underflows():
    z = torch.tensor([3e30 + 4e30j, 3e-30 - 4e-30j])
    torch.testing.assert_close(modulus(z), torch.tensor([5e30, 5e-30]), rtol=1e-6, atol=0)


def test_safe_sqrt_has_no_floor_and_a_finite_gradient():
    v = torch.tensor([4.0, 1e-30, 0.0, -1e-12], requires_grad=True)
    root = safe_sqrt(v)
    assert root.tolist() == pytest.approx([2.0, 1e-15, 0.0, 0.0], rel=1e-6)
    root.sum().backward()
    assert v.grad.tolist() == pytest.approx([0.25, 5e14, 0.0, 0.0], rel=1e-6)
    positive = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(safe_sqrt, positive)
    assert safe_sqrt(torch.tensor([float("nan")])).isnan().all()


def test_noise_has_unit_power_and_is_circular():
    torch.manual_seed(0)
    e = noise_like(torch.empty(200_000, dtype=torch.complex128))
    for value, expected in ((e.abs().square(), 1.0), (e.square().real, 0.0), (e.square().imag, 0.0)):
        assert abs(value.mean() - expected) <= 5 * value.std() / len(e) ** 0.5


def test_complex_noise_is_drawn_interleaved():
    """So that native and real arithmetic agree for one seed."""
    torch.manual_seed(0)
    e = noise_like(torch.empty(5, 7, dtype=torch.complex64))
    torch.manual_seed(0)
    assert torch.equal(torch.view_as_real(e), torch.randn(5, 7, 2) * torch.tensor(0.5).sqrt())


@pytest.mark.parametrize("relation", [0, 1, -1, 1j, -0.6 + 0.8j, 0.3 - 0.2j])
def test_improper_noise_has_the_variance_and_relation_asked_for(relation):
    torch.manual_seed(0)
    variance = torch.full((200_000,), 2.0, dtype=torch.float64)
    full = torch.full((200_000,), 2 * relation, dtype=torch.complex128)
    n = improper_noise(full, variance, full)
    power, square = n.abs().square(), n.square()
    checks = (power, 2.0), (square.real, 2 * complex(relation).real), (square.imag, 2 * complex(relation).imag)
    for value, expected in checks:
        assert abs(value.mean() - expected) <= 5 * value.std() / len(n) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_improper_noise_is_finite_where_it_vanishes_or_barely_exists(dtype):
    variance = torch.tensor([0.0, 1e-38, 1e-30, 1.0, 1.0], dtype=dtype, requires_grad=True)
    relation = (variance.detach() * torch.tensor([0, 1, 1j, 1 + 1e-7, 0])).requires_grad_()
    n = improper_noise(relation, variance, relation)
    assert n[0] == 0
    n.abs().square().sum().backward()
    assert n.isfinite().all()
    assert variance.grad.isfinite().all()
    assert relation.grad.isfinite().all()


def test_real_views_share_storage():
    z, x = torch.zeros(2, dtype=torch.complex64), torch.zeros(3)
    views = real_views([z, x])
    views[0][0, 1], views[1][2] = 5.0, 6.0
    assert z[0] == 5j
    assert x[2] == 6.0


CONVERSIONS = {
    "double": (lambda m: m.double(), torch.float64),
    "to float64": (lambda m: m.to(torch.float64), torch.float64),
    "to complex128": (lambda m: m.to(torch.complex128), torch.float64),
    "float": (lambda m: m.double().float(), torch.float32),
    "to float32": (lambda m: m.double().to(torch.float32), torch.float32),
    "to complex64": (lambda m: m.double().to(torch.complex64), torch.float32),
    "to device": (lambda m: m.to("cpu"), torch.float32),
    "to channels last": (lambda m: m.to(memory_format=torch.channels_last), torch.float32),
}


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")  # torch's, on any .to(complex)
@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("posterior", ["circular", "relation", None])
def test_conversions_keep_the_field(name, posterior):
    convert, real = CONVERSIONS[name]
    net = torch.nn.Sequential(ann.Conv2d(2, 3, 3), ann.BatchNorm2d(3), ann.ModReLU(3))
    if posterior:
        argand.sparsify(net, "ard", posterior)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    convert(net)
    for key, value in net.state_dict().items():
        if not before[key].is_floating_point() and not before[key].is_complex():
            assert value.dtype == before[key].dtype
            continue
        assert real_dim(value) == real_dim(before[key]), key
        assert value.dtype.to_real() == real, key
        assert torch.equal(value, before[key].to(value.dtype)), key


@pytest.mark.parametrize("convert", [lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.to(torch.float16)])
def test_half_precision_of_complex_weights_is_refused(convert):
    with pytest.raises(argand.ArgandError, match="complex64"):
        convert(ann.Linear(3, 2))


def test_shared_memory_and_empty_conversions_work():
    layer = ann.Linear(3, 2)
    layer.share_memory()
    assert layer.weight.is_shared()
    layer.to("meta")
    assert layer.weight.is_meta
    assert layer.to_empty(device="cpu").weight.is_complex()


def test_keep_field_leaves_integers_to_the_conversion():
    assert keep_field(lambda t: t.double())(torch.tensor(3)).dtype == torch.float64
