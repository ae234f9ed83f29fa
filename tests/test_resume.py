"""Any of the three stages, in a loop of the user's own, goes on from ordinary state_dicts as if never stopped."""

import io

import pytest
import torch
from torch import nn

import argand
import argand.nn as ann

STEPS = 8


def build():
    torch.manual_seed(0)
    return nn.Sequential(ann.Linear(6, 5), ann.BatchNorm1d(5), ann.ReLU(), ann.Linear(5, 3), ann.Real())


def enter(stage, net, masks=None):
    """The network and optimiser as each stage has them."""
    if stage == "sparsify":
        argand.sparsify(net, "vd", initial=-3.0)
        return argand.optim.Adam(net, lr=0.01, divergence_weight=0.01, max_norm=0.5)
    return argand.optim.Adam(net, lr=0.01, max_norm=0.5)


def steps(net, opt, first, last):
    generator = torch.Generator()
    for step in range(first, last):
        generator.manual_seed(step)
        torch.manual_seed(step)
        x, y = torch.randn(16, 6, dtype=torch.complex64, generator=generator), torch.arange(16) % 3
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()


@pytest.mark.parametrize("stage", ["pretrain", "sparsify", "finetune"])
def test_a_stage_resumes_to_the_bit(stage, tmp_path):
    masks = argand.Masks(
        {"0.weight": torch.rand(5, 6) < 0.5, "3.weight": torch.rand(3, 5) < 0.5} if stage == "finetune" else {}
    )
    net = build()
    opt = enter(stage, net)
    with masks.pin(net, opt):
        steps(net, opt, 0, STEPS)
    expected = net.state_dict()

    net = build()
    opt = enter(stage, net)
    with masks.pin(net, opt):
        steps(net, opt, 0, STEPS // 2)
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, file)
    masks.save(tmp_path / "masks.safetensors")

    net = build()
    opt = enter(stage, net)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    net.load_state_dict(saved["net"])
    opt.load_state_dict(saved["opt"])
    with argand.Masks.load(tmp_path / "masks.safetensors").pin(net, opt):
        steps(net, opt, STEPS // 2, STEPS)
    assert all(torch.equal(value, expected[key]) for key, value in net.state_dict().items())


def test_sparsifying_starts_from_saved_plain_weights():
    plain = build()
    steps(plain, enter("pretrain", plain), 0, 2)
    net = argand.sparsify(build())
    net.load_state_dict(plain.state_dict())
    x = torch.randn(4, 6, dtype=torch.complex64)
    assert torch.equal(net.eval()(x), plain.eval()(x))
