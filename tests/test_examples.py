"""The examples, shortened, and the embedded data they run on."""

import importlib.util
from pathlib import Path

import pytest
import torch

import argand
from argand.study.data import embedded_mnist

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def load(path):
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_run(path, capsys):
    net, masks = load(path).main(epochs=(2, 1, 1), count=600)
    assert len(path.read_text().splitlines()) < 60
    assert 0 < masks.kept <= 1
    for name, mask in masks.items():
        assert not net.get_parameter(name)[~mask].any()
    assert "compression" in capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_refuse_a_loss_that_is_not_finite(path, monkeypatch):
    example = load(path)
    monkeypatch.setattr(example.F, "cross_entropy", lambda *_: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(argand.ArgandError, match="loss became nan"):
        example.main(epochs=(1, 1, 1), count=200)


def test_embedded_mnist_is_the_official_data():
    data = embedded_mnist()
    assert data.train_images.shape == data.test_images.shape == (10_000, 1, 28, 28)
    assert data.train_images.dtype == torch.float32
    assert data.train_images.min() == -1
    assert data.train_images.max() == 1
    pixels = (data.train_images + 1) / 2
    assert pixels.mean().item() == pytest.approx(0.1307, abs=1e-3)
    assert pixels.std().item() == pytest.approx(0.3081, abs=1e-3)
    assert data.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    # stratified: each class has a sixth of its images in the full training set
    full = torch.tensor([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    assert ((data.train_labels.bincount() - full / 6).abs() < 1).all()
