"""`argand pack`, `export` and `bench`: from a finished stage to files, measured."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tiny
import torch
from torch import nn

import argand
import argand.nn as ann
from argand.cli import main
from argand.deploy.quantise import quantise
from argand.study.records import read_json


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    specification = tiny.write(folder / "tiny.toml", tiny.TINY.replace("C = [0.01, 1.0]", "C = [1.0]"))
    assert main(["run", str(specification), "--runs", str(folder / "runs"), "--no-report"]) == 0
    return folder / "runs"


def last(runs):
    return next(p for p in (runs / "stages").iterdir() if p.name.startswith("finetune"))


@pytest.mark.parametrize("dtype", ["fp32", "auto"])
def test_a_stage_is_packed_and_measured(runs, tmp_path, capsys, dtype):
    file = tmp_path / "net.argand"
    assert main(["pack", str(last(runs)), "-o", str(file), "--dtype", dtype]) == 0
    said = capsys.readouterr().out
    values = read_json(last(runs) / "deployment.json")
    assert values["bytes"][dtype] == file.stat().st_size
    assert f"{file.stat().st_size:,} bytes ({dtype})" in said
    result = read_json(last(runs) / "result.json")
    assert values["score_before"] == result["score"]
    assert values["compression"] == result["compression"]
    if dtype == "fp32":
        assert values["score"] == result["score"]
    else:
        assert set(values["layers"]) == {"1", "4", "8", "10"}
    assert values["flash_bytes"]["int8"] < values["flash_bytes"]["fp32"]
    assert values["macs"] <= values["dense_macs"]
    assert {"original", "dense", "sparse"} <= set(values["microseconds"])
    assert main(["report", str(runs), "-o", str(tmp_path / "report")]) == 0
    assert f"{values['bytes'][dtype]:,}" in (tmp_path / "report" / "index.html").read_text()
    assert argand.load(file)(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


def test_a_packed_file_is_exported(runs, tmp_path, capsys):
    file = tmp_path / "net.argand"
    assert main(["pack", str(last(runs)), "-o", str(file)]) == 0
    places = tmp_path / "c", tmp_path / "net.onnx", tmp_path / "net.py"
    options = [x for pair in zip(("--c", "--onnx", "--numpy"), map(str, places), strict=True) for x in pair]
    assert main(["export", str(file), *options]) == 0
    said = capsys.readouterr().out
    assert all(str(place) in said for place in places)
    assert sorted(p.name for p in places[0].iterdir()) == ["net.c", "net.h", "net_selftest.c"]
    assert places[1].stat().st_size > 0
    x = torch.randn(2, 1, 28, 28)
    np.save(tmp_path / "x.npy", x.numpy())
    subprocess.run([sys.executable, "net.py", "x.npy", "y.npy"], cwd=tmp_path, check=True)
    with torch.no_grad():
        assert np.abs(np.load(tmp_path / "y.npy") - argand.load(file)(x).numpy()).max() < 1e-4
    assert main(["bench", str(file), "--batch", "2"]) == 0
    assert "sparse" in capsys.readouterr().out


def mistake(capsys, *words):
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def test_mistakes(runs, tmp_path, capsys):
    file = tmp_path / "net.argand"
    argand.save(nn.Sequential(nn.Linear(3, 2)), file)
    assert "is no stage" in mistake(capsys, "pack", tmp_path / "none", "-o", file)
    first = next(p for p in (runs / "stages").iterdir() if p.name.startswith("pretrain"))
    assert "is a pretrain stage" in mistake(capsys, "pack", first, "-o", file)
    assert "at least one of --c" in mistake(capsys, "export", file)
    assert "give --c DIR too" in mistake(capsys, "export", file, "--numpy", tmp_path / "n.py", "--emulate")
    assert "does not tell its input's shape" in mistake(capsys, "bench", file)
    assert "is no shape" in mistake(capsys, "bench", file, "--shape", "3,x")
    assert "can't be read" in mistake(capsys, "bench", tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"\x89ARGAND\n")
    assert "can't be used" in mistake(capsys, "export", tmp_path / "bad", "--c", tmp_path / "c")
    assert main(["export", str(file), "--c", str(tmp_path / "c"), "--shape", "3", "--dtype", "fp16"]) == 2
    assert "'fp16' is not one of 'fp32', 'int16', 'int8'" in capsys.readouterr().err
    assert '"0" (Linear) can\'t be computed for the example' in mistake(capsys, "bench", file, "--shape", "4")
    assert main(["bench", str(file), "--shape", "3"]) == 0
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    (last(copy) / "checkpoint.safetensors").unlink()
    assert "checkpoint.safetensors can't be read" in mistake(capsys, "pack", last(copy), "-o", file)


def test_shapes_of_complex_inputs(tmp_path, capsys):
    net = nn.Sequential(ann.Linear(3, 2))
    argand.save(net, tmp_path / "a", example=torch.zeros(1, 3, dtype=torch.complex64))
    assert argand.load(tmp_path / "a").example(batch=4)[0].shape == (4, 3)
    argand.save(net, tmp_path / "b")
    assert main(["bench", str(tmp_path / "a")]) == main(["bench", str(tmp_path / "b"), "--shape", "3,c64"]) == 0


def posterior(log_sigma2, complex_=True):
    torch.manual_seed(0)
    layer = ann.Linear(60, 40) if complex_ else nn.Linear(60, 40)
    net = argand.sparsify(nn.Sequential(layer), initial=log_sigma2)
    return net, argand.masks(net, threshold=50.0)


def test_bits_come_from_the_spread():
    found = [quantise(*posterior(level)) for level in (-6.0, -18.0, -40.0)]
    assert [choice["0"] for choice in found] == ["int8", "int16", "fp32"]
    assert json.dumps(found[0]) == '{"0": "int8"}'
    assert "int8" in str(found[0])
    net, masks = posterior(-6.0)
    assert quantise(net, masks, share=1e-4)["0"] == "int16"
    with pytest.raises(argand.ArgandError, match="share"):
        quantise(net, masks, share=0)
    with pytest.raises(argand.ArgandError, match="have none for"):
        quantise(net, argand.Masks())


@pytest.mark.parametrize("complex_", [False, True])
def test_the_rounding_that_is_named_is_the_one_that_happens(tmp_path, complex_):
    net, masks = posterior(-6.0, complex_)
    (choice,) = quantise(net, masks).found
    argand.collapse(net)
    argand.save(net, tmp_path / "net", dtype={"0": choice.dtype})
    error = argand.load(tmp_path / "net").get_parameter("0.weight") - net[0].weight
    assert float(error.detach().abs().square().mean().sqrt()) == pytest.approx(choice.rounding, rel=0.1)
    assert choice.spread == pytest.approx(np.exp(-3.0), rel=1e-4)
