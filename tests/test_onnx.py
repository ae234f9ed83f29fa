"""ONNX files in ONNX Runtime: every layer and function, batches of any size, refusals."""

import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from deploy_cases import CASES, Case
from torch import Tensor, nn

import argand
import argand.nn as ann
from argand.deploy.onnx import export_onnx
from argand.errors import ArgandError
from argand.graph import Graph, Network, trace
from argand.twin.frozen import real_parts

TOGETHER = 24  # cases in one file: most of an export's time is the exporter's own


def side_by_side(cases: list[Case]) -> nn.Module:
    """One network that holds several, each with inputs and outputs of its own."""
    inputs, steps, outputs = [], [], []
    for i, case in enumerate(cases):
        graph = trace(case.make())
        inputs += [f"{name}_{i}" for name in graph.inputs]
        outputs += [f"{name}_{i}" for name in graph.outputs]
        for step in graph.steps:
            names = {"name": f"{step.name}_{i}", "inputs": tuple(f"{name}_{i}" for name in step.inputs)}
            steps.append(replace(step, path=f"case{i}.{step.path}" if step.path else "", **names))
    return Network(Graph(tuple(inputs), tuple(steps), tuple(outputs), single=False)).eval()


def in_onnx_runtime(path, inputs: tuple[Tensor, ...]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    return session.run(None, {name: x.numpy() for name, x in zip(names, real_parts(inputs), strict=True)})


def contiguous(values) -> tuple[Tensor, ...]:
    values = values if isinstance(values, tuple) else (values,)
    return tuple(part.detach().contiguous() for part in real_parts(values))


@pytest.mark.parametrize("start", range(0, len(CASES), TOGETHER))
def test_every_layer_and_function(start, tmp_path):
    cases = CASES[start : start + TOGETHER]
    net = side_by_side(cases)
    examples = tuple(x for case in cases for x in case.inputs(1))
    file = export_onnx(net, examples, tmp_path / "net.onnx")
    assert file.dynamic
    assert file.error < 1e-5
    outputs = [y for case in cases for y in contiguous(case.make()(*case.inputs(3, seed=1)))]
    inputs = tuple(x for case in cases for x in case.inputs(3, seed=1))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of shapes that it inferred otherwise for ceil_mode
    session = onnxruntime.InferenceSession(file.path, options, providers=["CPUExecutionProvider"])
    given = dict(zip(file.inputs, (x.numpy() for x in contiguous(inputs)), strict=True))
    for theirs, ours, name in zip(outputs, session.run(None, given), file.outputs, strict=True):
        assert np.abs(ours - theirs.numpy()).max() <= 1e-5 * max(theirs.abs().max().item(), 1e-3), name


def test_a_file_says_what_it_is(tmp_path):
    net, x = nn.Sequential(ann.Linear(3, 2), ann.ReLU()), torch.randn(1, 3, dtype=torch.complex64)
    file = export_onnx(net, x, str(tmp_path / "net.onnx"))
    assert file.inputs == ("input_1_re", "input_1_im")
    assert file.outputs == ("output_re", "output_im")
    assert file.bytes == file.path.stat().st_size
    assert str(file).startswith(f"{tmp_path}/net.onnx: input_1_re, input_1_im -> output_re, output_im, any batch size")
    model = onnx.load(file.path)
    assert "X_re and X_im: input_1, output" in model.doc_string
    assert {p.key: p.value for p in model.metadata_props}["argand.field.input_1"] == "complex"
    assert str(tmp_path.home()).encode() not in file.path.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_a_pruned_compact_network(tmp_path):
    torch.manual_seed(0)
    net = argand.sparsify(nn.Sequential(ann.Linear(30, 40), ann.ModReLU(), ann.Linear(40, 10), ann.Real()))
    masks = argand.masks(net, kept=0.2)
    small = argand.compact(masks.apply_(argand.collapse(net)).eval())
    x = torch.randn(7, 30, dtype=torch.complex64)
    file = export_onnx(small, x[:1], tmp_path / "net.onnx")
    (found,) = in_onnx_runtime(file.path, (x,))
    np.testing.assert_allclose(found, small(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_double_precision_and_an_older_opset(tmp_path):
    net, x = nn.Sequential(nn.Linear(3, 2), nn.Tanh()).double(), torch.randn(2, 3, dtype=torch.float64)
    file = export_onnx(net, x, tmp_path / "net.onnx", opset=18)
    assert onnx.load(file.path).opset_import[0].version == 18
    (found,) = in_onnx_runtime(file.path, (x,))
    np.testing.assert_allclose(found, net(x).detach().numpy(), rtol=1e-12)


def test_the_network_is_left_as_it_was(tmp_path):
    net = nn.Sequential(ann.Linear(3, 2), ann.BatchNorm1d(2), ann.Dropout(0.9), ann.Real())
    before = {key: value.clone() for key, value in net.state_dict().items()}
    export_onnx(net, torch.randn(1, 3, dtype=torch.complex64), tmp_path / "net.onnx")
    assert all(module.training for module in net.modules())
    assert all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_variational_networks_are_refused(tmp_path):
    net = argand.sparsify(nn.Sequential(nn.Flatten(), ann.Linear(3, 2)))
    with pytest.raises(ArgandError, match=r'Layer "1" is variational.*collapse'):
        export_onnx(net, torch.randn(1, 3, dtype=torch.complex64), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_a_layer_that_onnx_lacks_is_named(tmp_path):
    net = nn.Sequential(nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True, divisor_override=5))
    with pytest.raises(ArgandError, match=r'Layer "1" \(AvgPool2d\).*ceil_mode and divisor_override'):
        export_onnx(net, torch.randn(1, 1, 8, 8), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ArgandError, match=r"onnxscript: pip install argand\[onnx\]"):
        export_onnx(nn.Linear(3, 2), torch.randn(1, 3), tmp_path / "net.onnx")


def test_a_wrong_result_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("argand.deploy.onnx.TOLERANCE", -1.0)
    with pytest.raises(ArgandError, match="Nothing was written"):
        export_onnx(nn.Linear(3, 2), torch.randn(1, 3), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
