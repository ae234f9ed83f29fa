"""argand.nn: drop-in for torch.nn, on native complex tensors."""

import inspect
import itertools

import pytest
import torch
from tables import LAYERS
from torch import nn

import argand
import argand.nn as ann
from argand.nn.kernels import channels_last
from argand.nn.product import prefers_onednn, product

Z64, Z128 = torch.complex64, torch.complex128


def randn(*shape, dtype=Z128):
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("case", [c for c in LAYERS if not c.complex_only], ids=lambda c: c.name)
def test_weighted_layers_are_those_of_torch(case):
    ours, theirs = case.make(ann), case.make(nn, dtype=Z64)
    assert ours.weight.dtype == Z64
    assert isinstance(ours, type(theirs))
    theirs.load_state_dict(ours.state_dict(), strict=True)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    inputs = [randn(3, *shape, dtype=Z64) for shape in case.shapes]
    theirs.requires_grad_(False)  # torch's complex Bilinear has no backward
    torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", [n for n in ann.__all__ if hasattr(nn, n) and not n.endswith("ReLU")])
def test_signatures_are_those_of_torch(name):
    ours = list(inspect.signature(getattr(ann, name).__init__).parameters.values())
    theirs = list(inspect.signature(getattr(nn, name).__init__).parameters.values())
    assert [(p.name, p.default) for p in ours][: len(theirs)] == [(p.name, p.default) for p in theirs]


@pytest.mark.parametrize("last", [False, True], ids=["usual-order", "channels-last"])
@pytest.mark.parametrize("case", [c for c in LAYERS if "conv" in c.name or "transpose" in c.name], ids=lambda c: c.name)
def test_real_and_native_convolutions_agree_with_gradients(case, last, monkeypatch):
    layer, x = case.make(ann, dtype=Z128), randn(2, *case.shapes[0])
    x = (x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x).requires_grad_()
    results = []
    for real in (True, False):
        monkeypatch.setattr("argand.nn.kernels.prefers_real_convolution", lambda *_, real=real: real)
        output = layer(x)
        results.append([output, *torch.autograd.grad(output.abs().square().sum(), [x, *layer.parameters()])])
        if real:
            assert channels_last(output) == channels_last(x)
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("rows", [3, 50], ids=["more-outputs", "more-rows"])
def test_real_and_native_products_agree_with_gradients(rows, monkeypatch):
    layer, x = ann.Linear(7, 20, dtype=Z128), randn(2, rows, 7).requires_grad_()
    results = []
    for real in (True, False):
        monkeypatch.setattr("argand.nn.kernels.prefers_real_product", lambda *_, real=real: real)
        output = layer(x)
        results.append([output, *torch.autograd.grad(output.abs().square().sum(), [x, *layer.parameters()])])
    torch.testing.assert_close(*results)


def test_large_products_go_to_the_other_library_and_are_the_same():
    shapes = (3, 100, 400), (200, 400), (200,)
    x, weight, bias = (torch.randn(s).div_(20).requires_grad_() for s in shapes)
    results = []
    for compute in (product, torch.nn.functional.linear):
        output = compute(x, weight, bias)
        results.append([output, *torch.autograd.grad(output.sin().sum(), [x, weight, bias])])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert not prefers_onednn(x.double(), weight.double())
    assert not prefers_onednn(x[:1, :1], weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, weight, bias).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["AvgPool2d", "MaxPool2d", "ReLU", "BatchNorm2d"])
def test_the_order_in_memory_is_kept(name):
    layer = getattr(ann, name)(*([2] if name != "ReLU" else []))
    x = torch.randn(3, 2, 6, 6, dtype=torch.complex64)
    last = x.to(memory_format=torch.channels_last)
    ours, theirs = layer(last), layer(x)
    assert channels_last(ours)
    assert theirs.is_contiguous()
    torch.testing.assert_close(ours, theirs)


def test_convolutions_take_unbatched_inputs_and_output_sizes():
    conv, x = ann.Conv2d(2, 3, 3), randn(2, 5, 5, dtype=Z64)
    torch.testing.assert_close(conv(x), conv(x[None])[0])
    up = ann.ConvTranspose1d(1, 1, 3, stride=2)
    x = randn(1, 1, 4, dtype=Z64)
    assert up(x, output_size=[10]).shape == (1, 1, 10)
    assert argand.sparsify(up)(x, output_size=[10]).shape == (1, 1, 10)
    assert up(x, [9]).shape == (1, 1, 9)


def test_linear_bias_bound_uses_the_inputs():
    """A rival swaps fan-in and fan-out: 0.316 instead of 0.032 here."""
    layer = ann.Linear(1000, 10)
    assert layer.bias.abs().max() <= 0.0317
    assert layer.weight.real.abs().max() <= 0.0317 / 2**0.5


def test_bilinear_has_gradients_and_a_conjugate_form():
    for conjugate in (False, True):
        layer = ann.Bilinear(3, 4, 2, dtype=Z128, conjugate=conjugate)
        x, z = randn(5, 3).requires_grad_(), randn(5, 4).requires_grad_()
        first = x.conj() if conjugate else x
        expected = torch.stack([(first @ w * z).sum(-1) for w in layer.weight], -1) + layer.bias
        torch.testing.assert_close(layer(x, z), expected)
        assert torch.autograd.gradcheck(layer, (x, z))


def test_dtype_and_device_arguments():
    assert ann.Linear(3, 2, dtype=Z128).weight.dtype == Z128
    assert ann.Conv1d(3, 2, 1, device="meta").weight.is_meta
    assert ann.Linear(3, 2, dtype=torch.float32).weight.dtype == torch.float32
    assert ann.BatchNorm1d(3, dtype=Z128).running_mean.dtype == Z128
    assert ann.BatchNorm1d(3, dtype=Z128).running_var.dtype == torch.float64


def test_default_dtype_follows_torch():
    torch.set_default_dtype(torch.float64)
    try:
        assert ann.Linear(3, 2).weight.dtype == Z128
    finally:
        torch.set_default_dtype(torch.float32)


# activations


def test_split_activations():
    z = randn(4, 3)
    for layer, real in ((ann.ReLU(), nn.ReLU()), (ann.Split(nn.Softmax(-1)), nn.Softmax(-1))):
        torch.testing.assert_close(layer(z), torch.complex(real(z.real), real(z.imag)))
    before = z.clone()
    ann.ReLU()(z)
    assert torch.equal(z, before)  # a rival's mutates its input
    ann.ReLU(inplace=True)(z)
    assert torch.equal(z, ann.ReLU()(before))


def test_phase_activations_against_their_formulas():
    z = randn(50)
    polar = z / z.abs()
    modrelu = ann.ModReLU(init=-0.5).double()
    torch.testing.assert_close(modrelu(z), (z.abs() - 0.5).relu() * polar)
    torch.testing.assert_close(ann.Cardioid()(z), 0.5 * (1 + z.angle().cos()) * z)
    quadrant = (z.angle() >= 0) & (z.angle() <= torch.pi / 2)
    torch.testing.assert_close(ann.ZReLU()(z), torch.where(quadrant, z, 0))


def test_modrelu_is_per_channel_on_axis_one():
    layer = ann.ModReLU(2)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([-10.0, 0.0]))
    out = layer(torch.ones(1, 2, 3, dtype=Z64))
    assert out.real.tolist() == [[[0.0] * 3, [1.0] * 3]]


@pytest.mark.parametrize("layer", [ann.ReLU(), ann.ModReLU(), ann.ModReLU(init=0.5), ann.Cardioid(), ann.ZReLU()])
def test_activations_have_finite_gradients_at_zero(layer):
    z = torch.zeros(3, 2, dtype=Z64, requires_grad=True)
    out = layer(z)
    assert torch.equal(out, torch.zeros_like(out))
    out.abs().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [z, *layer.parameters()])


@pytest.mark.parametrize("layer", [ann.ModReLU(init=0.3), ann.Cardioid(), ann.Split(torch.tanh)])
def test_activation_gradients(layer):
    assert torch.autograd.gradcheck(layer.double(), randn(6).requires_grad_())


def test_dropout_has_one_mask_for_both_parts():
    torch.manual_seed(0)
    z = torch.full((4000,), 1 + 2j)
    out = ann.Dropout(0.25)(z)
    assert torch.equal(out.real == 0, out.imag == 0)
    torch.testing.assert_close(out[out != 0], z[out != 0] / 0.75)
    assert abs((out == 0).float().mean() - 0.25) < 5 * (0.25 * 0.75 / 4000) ** 0.5
    assert ann.Dropout(0.25).eval()(z) is z
    inplace = z.clone()
    assert ann.Dropout(0.25, inplace=True)(inplace) is inplace


# pooling


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AvgPool", {"kernel_size": 2, "padding": 1}),
        ("MaxPool", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
        ("AdaptiveAvgPool", {"output_size": 3}),
        ("AdaptiveMaxPool", {"output_size": 2}),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling_is_that_of_the_parts(name, options, n):
    z = randn(2, 3, *[6] * n)
    ours, theirs = getattr(ann, f"{name}{n}d")(**options), getattr(nn, f"{name}{n}d")(**options)
    torch.testing.assert_close(ours(z), torch.complex(theirs(z.real), theirs(z.imag)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pooling_by_modulus_takes_whole_entries(n):
    z = randn(2, 3, *[4] * n).requires_grad_()
    pooled, indices = getattr(ann, f"ModMaxPool{n}d")(2, return_indices=True)(z)
    largest = getattr(nn, f"MaxPool{n}d")(2)(z.abs())
    torch.testing.assert_close(pooled.abs(), largest)
    assert torch.equal(z.flatten(2).gather(2, indices.flatten(2)), pooled.flatten(2))
    pooled.real.sum().backward()
    assert (z.grad != 0).sum() == pooled.numel()


def test_split_max_pooling_has_no_indices():
    with pytest.raises(argand.ArgandError, match="ModMaxPool"):
        ann.MaxPool1d(2, return_indices=True)(randn(1, 1, 4))


# conversion


def test_concatenate_and_separate_are_inverse():
    z = randn(2, 3, 4)
    for dim in (1, -1):
        both = ann.Concatenate(dim)(z)
        assert torch.equal(both, torch.cat([z.real, z.imag], dim))
        assert torch.equal(ann.Separate(dim)(both), z)
    with pytest.raises(argand.ArgandError, match="even"):
        ann.Separate()(torch.zeros(2, 3))
    assert torch.equal(ann.Real()(ann.ToComplex()(z.real)), z.real)


# batch norm


def whitened(x):
    """Reference: eigendecomposition of each channel's covariance."""
    flat = x.transpose(0, 1).flatten(1)
    parts = torch.view_as_real(flat - flat.mean(1, keepdim=True))
    out = []
    for channel in parts:
        covariance = channel.t() @ channel / len(channel) + 1e-5 * torch.eye(2, dtype=channel.dtype)
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors @ torch.diag(values.rsqrt()) @ vectors.t()
        out.append(torch.view_as_complex((channel @ root).contiguous()))
    return torch.stack(out).unflatten(1, (x.shape[0], *x.shape[2:])).transpose(0, 1)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_batch_norm_whitens(n):
    x = randn(8, 3, *[4] * n)
    x = torch.complex(x.real + 0.7 * x.imag, 3 * x.imag) + 5
    layer = getattr(ann, f"BatchNorm{max(n, 1)}d")(3, dtype=Z128)
    torch.testing.assert_close(layer(x), whitened(x))
    assert sum(p.numel() * (1 + p.is_complex()) for p in layer.parameters()) == 6 * 3


def test_batch_norm_tracks_the_statistics_it_evaluates_with():
    torch.manual_seed(0)
    layer = ann.BatchNorm1d(2, momentum=None, dtype=Z128)
    x = randn(20_000, 2) * torch.tensor([1, 3 + 1j]) + torch.tensor([0, 2 - 1j])
    trained = layer(x)
    torch.testing.assert_close(layer.eval()(x), trained, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(layer.running_mean, x.mean(0))
    expected = torch.stack([torch.cov(torch.view_as_real(channel).t()) for channel in x.t()])
    torch.testing.assert_close(layer.running_var, expected)
    assert layer.num_batches_tracked == 1


def test_batch_norm_options_and_state():
    layer = ann.BatchNorm2d(3, affine=False, track_running_stats=False)
    assert list(layer.state_dict()) == []
    x = randn(4, 3, 5, 5, dtype=Z64)
    assert torch.equal(layer(x), layer.eval()(x))
    ours, theirs = ann.BatchNorm2d(3), nn.BatchNorm2d(3)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == ["weight", "bias"]
    with pytest.raises(ValueError, match="expected 4D"):
        ours(x[0])
    assert ann.BatchNorm2d(3, bias=False)(x).shape == x.shape


def test_batch_norm_gradients():
    layer = ann.BatchNorm1d(2, dtype=Z128)
    with torch.no_grad():
        layer.weight.add_(0.3 * torch.randn_like(layer.weight))
    assert torch.autograd.gradcheck(layer, randn(5, 2, 3).requires_grad_(), fast_mode=True)


HARD_INPUTS = {
    "one channel": lambda: randn(8, 1, 4, 4, dtype=Z64),
    "batch of one": lambda: randn(1, 3, 4, 4, dtype=Z64),
    "purely real": lambda: randn(8, 3, 4, 4, dtype=Z64).real + 0j,
    "scales 1e4 apart": lambda: torch.complex(torch.randn(8, 3, 4, 4), 1e4 * torch.randn(8, 3, 4, 4)),
    "channels 1e4 apart": lambda: randn(8, 3, 4, 4, dtype=Z64) * torch.tensor([1.0, 1e4, 1e-4]).view(3, 1, 1),
    "equal parts": lambda: (1e4 + 1e4j) * torch.randn(8, 3, 4, 4),
    "constant": lambda: torch.full((8, 3, 4, 4), 2 - 1j),
    "a single value": lambda: randn(1, 3, 1, 1, dtype=Z64),
}


@pytest.mark.parametrize("name", HARD_INPUTS)
def test_batch_norm_survives_two_thousand_steps(name):
    torch.manual_seed(0)
    x = HARD_INPUTS[name]()
    net = nn.Sequential(ann.BatchNorm2d(x.shape[1]), ann.Conv2d(x.shape[1], 2, 1), ann.BatchNorm2d(2), ann.ReLU())
    opt = argand.optim.Adam(net, lr=1e-2, max_norm=1.0)
    for step in range(2000):
        if step % 200 == 0:
            x = HARD_INPUTS[name]()
        opt.zero_grad()
        loss = (net(x) - 1).abs().square().mean()
        loss.backward()
        opt.step()
    assert loss.isfinite()
    assert all(p.isfinite().all() for p in itertools.chain(net.parameters(), net.buffers()))
    assert net.eval()(x).isfinite().all()


# misuse


def modules_that_need_complex():
    layers = [ann.ReLU(), ann.ModReLU(), ann.Cardioid(), ann.ZReLU(), ann.Dropout(), ann.Split(torch.tanh), ann.Real()]
    layers += [ann.AvgPool1d(2), ann.MaxPool1d(2), ann.ModMaxPool1d(2), ann.BatchNorm1d(2), ann.Concatenate()]
    return [*layers, ann.Conv1d(2, 2, 1), ann.Linear(4, 2), ann.ConvTranspose1d(2, 2, 1)]


@pytest.mark.parametrize("layer", modules_that_need_complex(), ids=lambda m: type(m).__name__)
def test_complex_layers_refuse_real_input_and_name_the_cure(layer):
    with pytest.raises(argand.ArgandError, match=r"ToComplex\(\)"):
        layer(torch.zeros(3, 2, 4))


def test_real_layers_refuse_complex_input_and_name_the_cure():
    z = torch.zeros(3, 2, 4, dtype=Z64)
    layers = [ann.ToComplex(), ann.Separate(), ann.Linear(4, 2, dtype=torch.float32), argand.sparsify(nn.Linear(4, 2))]
    for layer in layers:
        with pytest.raises(argand.ArgandError, match=r"Real\(\)"):
            layer(z)
    with pytest.raises(argand.ArgandError, match=r"ToComplex\(\)"):
        argand.sparsify(nn.Linear(4, 2, dtype=Z64))(z.real)
