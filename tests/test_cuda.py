"""On a GPU, where there is one: a network learns as on the CPU, the loops compile, a study runs."""

import copy

import pytest
import tiny
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import nn

import argand
import argand.nn as ann
from argand.loops import compiling
from argand.study.config import load_specification
from argand.study.session import run_specification

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def network():
    torch.manual_seed(0)
    layers = ann.Conv2d(1, 6, 3), ann.BatchNorm2d(6), ann.ReLU(), ann.AvgPool2d(2), nn.Flatten(), ann.Linear(54, 40)
    return nn.Sequential(*layers, ann.ReLU(), ann.Linear(40, 5), ann.Real()).double()


def train(net, device, compiled=None, steps=10):
    """Steps without noise, whose generator differs between devices: the spread is zero to rounding."""
    net = argand.sparsify(net.to(device), "vd", initial=-80.0)
    opt = argand.optim.Adam(net, lr=1e-3, divergence_weight=1e-3, max_norm=0.5, compiled=compiled)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(16, 1, 8, 8, dtype=next(net.parameters()).dtype.to_complex(), generator=generator).to(device)
        opt.zero_grad()
        F.cross_entropy(net(x), torch.arange(16, device=device) % 5).backward()
        opt.step()
    return [p.detach().cpu() for p in net.parameters()]


def test_training_is_that_of_the_cpu():
    net = network()
    found, expected = train(copy.deepcopy(net), "cuda"), train(net, "cpu")
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_compiled_loops_agree_with_eager_ones():
    net = network().float()
    found = [train(copy.deepcopy(net), "cuda", compiled) for compiled in (True, False)]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_noise_is_standard(dtype):
    layer = argand.sparsify(nn.Linear(3, 2) if not dtype.is_complex else ann.Linear(3, 2)).cuda()
    for wanted in (True, False):
        with compiling(wanted), torch.no_grad():
            x = torch.ones(400_000, 3, dtype=dtype, device="cuda")
            noise = layer(x) - layer.mean(x)
        variance = layer.log_sigma2.exp().sum(1)
        assert torch.allclose(noise.abs().square().mean(0), variance, rtol=0.02)


@pytest.mark.parametrize("settings", [(), ("run.planar=true", 'run.precision="bf16"')], ids=["fp32", "bf16"])
def test_several_stages_share_a_card(tmp_path, settings):
    asked = load_specification(tiny.write(tmp_path / "spec.toml"), settings=['run.device="cuda"', *settings])
    options = {"jobs": 3, "root": None, "report": False, "console": Console(stderr=True)}
    assert run_specification(asked, tmp_path / "runs", **options) == 0
