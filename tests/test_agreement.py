"""Training by argand and by the textbook (`reference.trained`) gives the same numbers, whichever ways are taken."""

import functools
from contextlib import ExitStack
from pkgutil import resolve_name
from unittest import mock

import pytest
import reference
import torch
from reference import DIVERGENCE_WEIGHT, LR, MAX_NORM, NETWORKS, batches, network
from torch import nn

import argand
import argand.nn as ann
from argand.nn.kernels import channels_last, to_channels_last

TOLERANCE = 1e-9  # of the largest entry of each tensor

# ways that are taken by shape or size, each forced
DRAWN, HASHED = ({"argand.field.COUNTED": size} for size in (2**60, 2**5))
REAL, NATIVE = ({"argand.nn.kernels.prefers_real_convolution": lambda *_, real=real: real} for real in (True, False))
PRODUCTS = {"argand.nn.kernels.prefers_real_product": lambda *_: True}
ONEDNN = {  # takes single precision alone
    "argand.nn.product.prefers_onednn": lambda *_: True,
    "torch.ops.mkldnn._linear_pointwise": lambda x, weight, bias, *_: nn.functional.linear(x, weight, bias),
}
PIECES = {f"argand.{name}.CHUNK": 131 for name in ("chunks", "field", "nn.maps")}
WAYS = {
    "default": DRAWN,
    "native-convolutions": DRAWN | NATIVE,
    "real-convolutions": DRAWN | REAL,
    "real-products": DRAWN | NATIVE | PRODUCTS,
    "onednn-products": DRAWN | NATIVE | PRODUCTS | ONEDNN,
    "channels-last": DRAWN | NATIVE,
    "pieces": DRAWN | NATIVE | PIECES,
    "hashed-noise": HASHED | NATIVE,
    "all": HASHED | REAL | PRODUCTS | ONEDNN | PIECES,
}
BLOCK, ROWS, PRODUCT = (f"argand.nn.kernels.{name}" for name in ("block", "rows", "product"))
LIBRARY = "torch.ops.mkldnn._linear_pointwise"
PIECE, HASH = "argand.chunks.in_memory_order", "argand.field.normal_pairs"


def cases():
    """Every network with every way that could change it."""
    for kind, (shape, *_) in NETWORKS.items():
        for field in ("real", "complex"):
            for prior in ("plain", "vd", "ard"):
                unused = set()
                if len(shape) == 1:
                    unused |= {"native-convolutions", "real-convolutions", "channels-last"}
                if field == "real":
                    unused |= {"native-convolutions", "real-convolutions", "real-products"}
                if prior == "plain":
                    unused |= {"hashed-noise"} | (set() if kind in ("VGG", "DeepConvNet") else {"pieces"})
                for way in WAYS:
                    if way not in unused:
                        yield pytest.param(kind, field, prior, way, id=f"{kind}-{field}-{prior}-{way}")


def called(way, kind, field, prior):
    """What is called on a way, and not on others."""
    shape, takes_complex, _ = NETWORKS[kind]
    is_complex, samples, convolves = field == "complex", prior != "plain", len(shape) > 1
    multiplies = way in ("real-products", "onednn-products", "all")
    by_real = way in ("real-convolutions", "all") if convolves else multiplies
    calls = {
        BLOCK: is_complex and (multiplies or by_real),
        ROWS: is_complex and by_real and not takes_complex,
        PRODUCT: is_complex and multiplies,
        LIBRARY: (is_complex or samples) and way in ("onednn-products", "all"),
        PIECE: samples and way in ("pieces", "all"),
        HASH: samples and way in ("hashed-noise", "all"),
    }
    return {name for name, expected in calls.items() if expected}


def state(net):
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


@functools.cache
def expected(kind, field, prior, counted):
    """The textbook's parameters, statistics and norms after all steps."""
    net = network(kind, field, prior)
    torch.manual_seed(7)
    with mock.patch("argand.field.COUNTED", counted):
        norms = reference.trained(net, batches(kind, field))
    return state(net), norms


def train(net, data, last=False):
    """Argand's training: the norms before clipping."""
    sampled = any(isinstance(layer, argand.Variational) for layer in net)
    opt = argand.optim.Adam(net, lr=LR, divergence_weight=DIVERGENCE_WEIGHT * sampled, max_norm=MAX_NORM)
    norms = []
    for x, labels in data:
        given = to_channels_last(x) if last else x
        assert channels_last(given) == last
        opt.zero_grad()
        nn.functional.cross_entropy(net(given), labels).backward()
        opt.step()
        norms.append(opt.grad_norm)
    return torch.stack(norms)


def distance(found, expected):
    """The largest difference of entries, in units of the largest entry of their tensor."""
    assert found.keys() == expected.keys()
    return max(float((found[k] - expected[k]).abs().max() / expected[k].abs().max()) for k in expected)


def farthest(found, expected, start):
    """The largest distance of a tensor, in units of how far it has come from its start."""

    def norm(x):
        return torch.linalg.vector_norm(x.to(torch.complex128))

    return max(
        float(norm(found[k].to(expected[k].dtype) - expected[k]) / norm(expected[k] - start[k])) for k in expected
    )


@pytest.mark.parametrize(("kind", "field", "prior", "way"), list(cases()))
def test_training_is_that_of_the_textbook(kind, field, prior, way):
    wanted, norms = expected(kind, field, prior, WAYS[way]["argand.field.COUNTED"])
    net = network(kind, field, prior)
    start = state(net)
    with ExitStack() as stack:
        for name, value in WAYS[way].items():
            stack.enter_context(mock.patch(name, value))
        spies = {
            n: stack.enter_context(mock.patch(n, wraps=resolve_name(n)))
            for n in (BLOCK, ROWS, PRODUCT, LIBRARY, PIECE, HASH)
        }
        torch.manual_seed(7)
        found = train(net, batches(kind, field), way in ("channels-last", "all") and len(NETWORKS[kind][0]) > 1)
    if way != "default":
        assert {name for name, spy in spies.items() if spy.called} == called(way, kind, field, prior)
    assert (norms > MAX_NORM).all()  # so that clipping is tested
    assert all((value != start[name]).any() for name, value in wanted.items())
    assert (found / norms - 1).abs().max() <= TOLERANCE
    assert distance(state(net), wanted) <= TOLERANCE


@pytest.mark.parametrize("prior", ["plain", "vd"])
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_single_precision_is_that_of_the_textbook_to_its_rounding(kind, field, prior):
    """With oneDNN's products and the clipping in Adam's kernel, which float64 does not take.

    Parameters near -5 are stored to 3e-7 at each of 20 steps and move by 0.08: 4e-6 of the way, and 1e-5 was seen.
    """
    wanted, norms = expected(kind, field, prior, 2)
    net = network(kind, field, prior, torch.float32)
    start = state(network(kind, field, prior))
    with mock.patch("argand.field.COUNTED", 2), mock.patch("argand.nn.product.SMALLEST", 0):
        torch.manual_seed(7)
        found = train(net, batches(kind, field, torch.float32))
    assert (found / norms - 1).abs().max() <= 2e-6
    assert farthest(state(net), wanted, start) <= 5e-5


@pytest.mark.parametrize(("field", "k"), [("real", 1), ("complex", 2)])
@pytest.mark.parametrize("prior", ["vd", "ard"])
def test_the_textbooks_divergence_is_exact(prior, field, k):
    layer = network("dense", field, prior)[1]
    for log_snr in (-20.0, -3.0, 0.0, 2.0, 4.9):
        with torch.no_grad():
            layer.log_sigma2.copy_(reference.abs2(layer.mean.weight).log() - log_snr)
        found = reference.divergence(layer).item() / layer.log_sigma2.numel()
        assert found == pytest.approx(float(reference.kl(prior, k, log_snr)), rel=1e-11)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("weight", [0.0, 0.1], ids=["plain", "with-divergence"])
def test_gradients_that_autograd_left_conjugate_are_used(weight, dtype):
    """As that of w is, in the product of conj(w) and something."""
    results = []
    for resolve in (False, True):
        torch.manual_seed(0)
        layer = argand.sparsify(ann.Linear(3, 2, dtype=dtype), initial=-2.0)
        opt = argand.optim.Adam(layer, lr=LR, divergence_weight=weight, max_norm=MAX_NORM)
        for p in layer.parameters():
            p.grad = torch.randn_like(p).conj()
            p.grad = p.grad.resolve_conj() if resolve else p.grad
        opt.step()
        results.append([*layer.parameters(), *(opt.state[p]["exp_avg_sq"] for p in layer.parameters())])
    torch.testing.assert_close(*results)
