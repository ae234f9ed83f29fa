"""The pruned network in examples/: what the README says of its size and score is so."""

import re
from pathlib import Path

import pytest
import torch

import argand
from argand.deploy.pack import to_bytes
from argand.study.data import load
from argand.study.features import features, normalise
from argand.study.metrics import accuracy

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def net():
    return argand.load(ROOT / "examples" / "simple_conv.argand")


@pytest.fixture(scope="module")
def test_images():
    images = load("mnist")
    return features(normalise(images.test_images), "raw", "C"), images.test_labels


@torch.inference_mode()
def score(net, test):
    return accuracy(torch.cat([net(x) for x in test[0].split(250)]), test[1])


def test_its_bytes(net):
    report = argand.report(net)
    assert 50 < report.compression < 100
    small = argand.compact(net)
    sizes = {dtype: len(to_bytes(small, dtype)) for dtype in ("fp32", "fp16", "int16", "int8")}
    assert sizes["fp32"] <= report.total.dense_bytes / report.compression / 0.8
    assert sizes["int8"] <= 0.42 * sizes["fp32"]
    row = " | ".join(f"{size:,}" for size in (report.total.dense_bytes, *sizes.values()))
    assert f"| bytes of the file | {row} |" in README


def test_its_score(net, test_images):
    small = argand.compact(net)
    whole = score(small, test_images)
    rounded = score(argand.deploy.unpack.from_bytes(to_bytes(small, "int8")), test_images)
    fast = score(argand.sparse(small), test_images)
    assert abs(whole - rounded) <= 0.002
    assert abs(whole - fast) <= 0.0002
    told = re.search(r"\| test accuracy, % \| ([\d.]+) \| ([\d.]+) \|.*\| ([\d.]+) \|", README)
    assert float(told[1]) == float(told[2]) == pytest.approx(100 * whole, abs=0.011)
    assert float(told[3]) == pytest.approx(100 * rounded, abs=0.011)
