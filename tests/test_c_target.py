"""The C program on a microcontroller: cross-compiled for a Cortex-M4 and run in an emulator."""

import re
import shutil

import pytest
import torch
from deploy_cases import randomise
from torch import nn

import argand.nn as ann
from argand.deploy.c import export_c
from argand.deploy.c.target import COMPILER, EMULATOR, run_on_cortex_m4
from argand.errors import ArgandError

needs_tools = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None, reason="no cross-compiler or emulator"
)


def _network():
    torch.manual_seed(0)
    net = nn.Sequential(
        *(ann.ToComplex(), ann.Conv2d(1, 6, 5, stride=2, padding=2), ann.BatchNorm2d(6), ann.ModReLU(6)),
        *(ann.Conv2d(6, 8, 3, padding=1, padding_mode="circular"), ann.AvgPool2d(2), ann.Cardioid()),
        *(nn.Flatten(), ann.Linear(8 * 16, 10), ann.Concatenate(), nn.GELU(), nn.Linear(20, 4), nn.LogSoftmax(1)),
    )
    for module in net.modules():
        randomise(module, kept=0.2)
    return net.eval(), torch.randn(1, 1, 16, 16)


@needs_tools
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_the_program_runs_on_a_cortex_m4(dtype, tmp_path):
    net, x = _network()
    export_c(net, x, tmp_path, dtype=dtype, check=False)
    *numbers, last = run_on_cortex_m4(tmp_path).splitlines()  # raises unless the exit status is 0
    with torch.no_grad():
        expected = net(x)[0]
    found = torch.tensor([float(word) for word in numbers])
    assert found.shape == expected.shape
    allowed = 1e-5 if dtype == "fp32" else 0.05
    assert (found - expected).abs().max() < allowed * expected.abs().max()
    assert float(re.search(r"largest error (\S+)", last)[1]) < 1e-5


@needs_tools
def test_a_failing_selftest_is_reported(tmp_path):
    export_c(nn.Linear(3, 2), torch.randn(1, 3), tmp_path, check=False)
    source = tmp_path / "net.c"
    source.write_text(re.sub(r"(bias\[2\] = \{\s+)[^,]+", r"\g<1>9.5f", source.read_text()))
    with pytest.raises(ArgandError, match=r"fails its selftest.*exit status 1"):
        run_on_cortex_m4(tmp_path)
    source.write_text("this is not C")
    with pytest.raises(ArgandError, match="can't be compiled"):
        run_on_cortex_m4(tmp_path)


@needs_tools
def test_a_directory_without_a_program_is_refused(tmp_path):
    with pytest.raises(ArgandError, match=r"has no net\.h"):
        run_on_cortex_m4(tmp_path)


def test_missing_tools_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArgandError, match=rf"{COMPILER} isn't on the PATH"):
        run_on_cortex_m4(tmp_path)
