"""`sparse`: the original's outputs from real arithmetic on kept weights."""

import pytest
import torch
from deploy_cases import CASES
from torch import nn

import argand
import argand.deploy.sparse as module
import argand.nn as ann
from argand.deploy.sparse import GatheringConv, SparseLinear

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def same(net, other, inputs):
    with torch.inference_mode():
        expected, found = net(*inputs), other(*inputs)
    for a, b in zip(*((y if isinstance(y, tuple) else (y,)) for y in (expected, found)), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert (a - b).abs().max() <= 1e-5 * a.abs().max().clamp_min(1e-6)


@each_case
def test_outputs_are_the_originals(case, monkeypatch):
    net = case.make()
    monkeypatch.setattr(module, "LARGEST_SHARE", {"linear": 1.0, "conv": 1.0})  # every kernel that there is
    for batch in (1, 3):
        same(net, argand.sparse(net), case.inputs(batch))


@pytest.mark.parametrize("batch", [1, 5])
def test_what_is_timed_gives_the_same(batch):
    for case in CASES[::9]:
        net, inputs = case.make(), case.inputs(batch)
        same(net, argand.sparse(net, inputs), case.inputs(batch, seed=1))


def networks():
    torch.manual_seed(0)
    conv = nn.Sequential(
        ann.ToComplex(), ann.Conv2d(1, 6, 5), ann.ReLU(), ann.AvgPool2d(2), ann.Conv2d(6, 8, 3, groups=2, padding=1),
        ann.Split(nn.Tanh()), ann.MaxPool2d(2), nn.Flatten(), ann.Linear(72, 20), ann.ModReLU(), ann.Linear(20, 4),
        ann.Real(),
    ).eval()  # fmt: skip
    with torch.no_grad():
        for p in conv.parameters():
            if p.dim() > 1:
                p.mul_(torch.rand(p.shape) < 0.03)
    return conv


def test_complex_layers_become_real_ones_on_stacked_parts():
    net = networks()
    fast = argand.sparse(net)
    assert not any(p.is_complex() for p in fast.parameters())
    kinds = [type(m).__name__ for m in fast.modules()]
    assert kinds.count("SparseLinear") == 2
    assert kinds.count("GatheringConv") == 2
    # joined and stacked again around the one layer that has no form on parts
    assert kinds.count("Separate") == kinds.count("Concatenate") == 1
    assert "ToComplex" not in kinds
    for size in (16, 20):  # positions are found anew for another size
        same(net[:7], argand.sparse(net[:7]), [torch.randn(2, 1, size, size)])
    same(net, fast, [torch.randn(3, 1, 16, 16)])


def test_dense_where_a_timing_says_so(monkeypatch):
    net = networks()
    monkeypatch.setattr(
        module, "_seconds", lambda layer, x: 1.0 if isinstance(layer, SparseLinear | GatheringConv) else 0.5
    )
    assert not any(
        isinstance(m, SparseLinear | GatheringConv) for m in argand.sparse(net, torch.randn(1, 1, 16, 16)).modules()
    )
    monkeypatch.setattr(module, "_seconds", lambda layer, x: 0.1 if isinstance(layer, SparseLinear) else 0.5)
    fast = argand.sparse(net, torch.randn(1, 1, 16, 16))
    assert sum(isinstance(m, SparseLinear) for m in fast.modules()) == 2


def test_positions_and_shared_layers_and_no_weights_at_all():
    torch.manual_seed(0)
    layer = ann.Linear(6, 6)
    net = nn.Sequential(layer, ann.ReLU(), layer).eval()
    with torch.no_grad():
        layer.weight[:, 1:] = 0
    same(net, argand.sparse(net), [torch.randn(2, 4, 6, dtype=torch.complex64)])
    for empty in (nn.Linear(4, 3), ann.Conv1d(2, 3, 3)):
        nn.init.zeros_(empty.weight)
        x = torch.randn(2, 2, 4, dtype=empty.weight.dtype)
        same(nn.Sequential(empty), argand.sparse(nn.Sequential(empty)), [x])


def test_unbatched_convolutions():
    layer = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1)).eval()
    nn.init.sparse_(layer[0].weight.data.view(3, -1), 0.95)
    same(layer, argand.sparse(layer), [torch.randn(2, 7)])


def test_misuse():
    with pytest.raises(argand.ArgandError, match="collapse"):
        argand.sparse(argand.sparsify(nn.Sequential(nn.Linear(2, 2))))
    with pytest.raises(argand.ArgandError, match="was given str"):
        argand.sparse("net")
