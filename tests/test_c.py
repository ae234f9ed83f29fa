"""The C program against PyTorch: every kind of layer and function, whole networks, memory, costs, misuse."""

import copy
import re
import subprocess
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from c_driver import SANITIZERS, compile_driver, has_sanitizers, largest_error, needs_cc
from deploy_cases import CASES, One, Two, randomise
from torch import nn
from torch.nn.utils import parametrizations, prune

import argand
import argand.nn as ann
from argand.deploy.c import export_c
from argand.errors import ArgandError
from argand.graph import FUNCTIONS, KINDS

TOLERANCE = 1e-5


def test_the_table_of_cases_is_complete():
    found = set().union(*(case.features() for case in CASES))
    assert found == set(KINDS) | set(FUNCTIONS)
    assert len({case.name for case in CASES}) == len(CASES)


@needs_cc
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_kind_equals_pytorch(case, tmp_path):
    net = case.make()
    program = export_c(net, case.inputs(1), tmp_path, check=False)
    assert program.error is None
    samples = [case.inputs(1, seed) for seed in range(1, 6)]
    assert largest_error(net, compile_driver(tmp_path), samples) < TOLERANCE


def _sparse(net, kept, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in net.modules():
            randomise(module, kept)
    return net.eval()


def _dense():
    layers = ann.Linear(60, 80), ann.ReLU(), ann.Linear(80, 40), ann.ModReLU(40), ann.Linear(40, 7), ann.Real()
    return _sparse(nn.Sequential(*layers), 0.1), (60,), torch.complex64


def _conv2d():
    body = ann.ToComplex(), ann.Conv2d(1, 8, 5, padding=2, stride=2), ann.ReLU(), ann.Conv2d(8, 12, 3, padding=1)
    tail = ann.Cardioid(), ann.AvgPool2d(2), nn.Flatten(), ann.Linear(12 * 49, 10), ann.Real()
    return _sparse(nn.Sequential(*body, *tail), 0.05), (1, 28, 28), torch.float32


def _conv1d():
    first = ann.Conv1d(2, 8, 7, stride=2, bias=False), ann.BatchNorm1d(8), ann.ReLU(), ann.AvgPool1d(2)
    then = ann.Conv1d(8, 16, 3), ann.BatchNorm1d(16), ann.ZReLU(), ann.MaxPool1d(3, 2, 1), nn.Flatten()
    return _sparse(nn.Sequential(*first, *then, ann.Linear(16 * 11, 5)), 0.3), (2, 100), torch.complex64


def _grouped():
    layers = ann.Conv2d(8, 16, 3, groups=4, padding=1, dilation=2), ann.ReLU(), ann.Conv2d(16, 16, 3, groups=16)
    last = ann.ConvTranspose2d(16, 6, 2, stride=2, groups=2), ann.Split(nn.Tanh())
    return _sparse(nn.Sequential(*layers, *last), 0.3), (8, 9, 11), torch.complex64


def _real():
    layers = nn.Conv2d(3, 8, 3, padding="same"), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3)
    tail = nn.PReLU(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 9), nn.LogSoftmax(1)
    return _sparse(nn.Sequential(*layers, *tail), 0.2), (3, 16, 16), torch.float32


def _mixed():
    def forward(x, real, head, last):
        hidden = head(x)
        return last(torch.cat([hidden.abs(), real(hidden.real)], 1)) + 0.5 * hidden.mean(1, keepdim=True)

    net = One(forward, nn.Linear(20, 30), ann.Linear(50, 20), nn.Linear(50, 6))
    return _sparse(net, 0.2), (50,), torch.complex64


NETWORKS = {"dense": _dense, "conv2d": _conv2d, "conv1d": _conv1d, "grouped": _grouped, "real": _real, "mixed": _mixed}


@needs_cc
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "sanitized"])
def test_networks_equal_pytorch_on_many_inputs(name, sanitized, tmp_path):
    if sanitized and not has_sanitizers(tmp_path):
        pytest.skip("the compiler has no sanitizers")
    net, shape, dtype = NETWORKS[name]()
    export_c(net, torch.zeros(1, *shape, dtype=dtype), tmp_path, check=False)
    program = compile_driver(tmp_path, *(SANITIZERS if sanitized else ()))
    generator = torch.Generator().manual_seed(1)
    samples = [(torch.randn(1, *shape, dtype=dtype, generator=generator),) for _ in range(100)]
    assert largest_error(net, program, samples) < TOLERANCE


@needs_cc
@pytest.mark.parametrize("dtype", ["int8", "int16", "fp32"])
@pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(("linear", "bilinear", "conv2", "transpose2"))],
                         ids=lambda case: case.name)  # fmt: skip
def test_every_stored_type_equals_the_dequantised_network(case, dtype, tmp_path):
    net = case.make()
    program = export_c(net, case.inputs(1), tmp_path, dtype=dtype)
    assert program.checked
    assert program.error < TOLERANCE
    rounded = _dequantised(net, {"int8": 127, "int16": 32767, "fp32": None}[dtype])
    samples = [case.inputs(1, seed) for seed in range(1, 4)]
    assert largest_error(rounded, compile_driver(tmp_path), samples) < TOLERANCE


def _dequantised(net, top):
    """Each output channel's weights as whole multiples of its largest part over `top`."""
    net = copy.deepcopy(net)
    for layer in net.modules():
        if top is None or not hasattr(layer, "weight"):
            continue
        weight = layer.weight.detach()
        if getattr(layer, "transposed", False):  # (inputs, outputs of the group, ...): channels to the front
            grouped = weight.reshape(layer.groups, -1, *weight.shape[1:]).transpose(1, 2)
        else:
            grouped = weight[None]
        parts = torch.view_as_real(grouped) if grouped.is_complex() else grouped
        scale = parts.abs().flatten(2).amax(2).clamp_min(1e-30) / top
        scale = scale.reshape(*scale.shape, *[1] * (parts.dim() - 2))
        parts = (parts / scale).round() * scale
        grouped = torch.view_as_complex(parts.contiguous()) if grouped.is_complex() else parts
        restored = grouped.transpose(1, 2) if getattr(layer, "transposed", False) else grouped
        layer.weight.data = restored.reshape(weight.shape)
    return net


@needs_cc
def test_stored_types_by_layer(tmp_path):
    net = _sparse(nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 10)), 1.0)
    x = torch.zeros(1, 30)
    flash = {
        str(dtype): export_c(net, x, tmp_path, dtype=dtype).flash_bytes for dtype in ("fp32", {"0": "int8"}, "int8")
    }
    assert list(flash.values()) == [3200 + 120, 600 + 80 + 800 + 120, 800 + 120 + 120]
    assert "static const int8_t" in (tmp_path / "net.c").read_text()


def test_sparse_or_dense_by_bytes(tmp_path):
    layer = nn.Linear(300, 4, bias=False)
    for kept, sparse in ((100, True), (900, False)):
        layer.weight.data = (torch.arange(1200) < kept).float().reshape(4, 300)
        program = export_c(layer, torch.zeros(1, 300), tmp_path, check=False)
        assert ("_columns" in (tmp_path / "net.c").read_text()) is sparse
        assert program.flash_bytes == (kept * 6 + 4 * 2 if sparse else 4800)
        assert program.macs == (kept if sparse else 1200)


@needs_cc
@pytest.mark.parametrize("name", NETWORKS)
def test_flash_bytes_are_those_of_the_object_file(name, tmp_path):
    net, shape, dtype = NETWORKS[name]()
    program = export_c(net, torch.zeros(1, *shape, dtype=dtype), tmp_path, check=False)
    command = ["cc", "-std=c99", "-O0", "-c", "net.c", "-o", "net.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-S", "net.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    constants = [line.split() for line in symbols.splitlines() if re.search(r" r net_", line)]
    assert sum(int(size, 16) for _, size, _, _ in constants) == program.flash_bytes
    assert not [line for line in symbols.splitlines() if re.search(r" [bBdDC] ", line)], "a global that is written"


def test_macs_of_a_padded_convolution(tmp_path):
    layer = _sparse(nn.Conv2d(2, 3, 3, padding=2, stride=2, dilation=2, bias=False), 0.2)
    kept = (layer.weight != 0).float()
    inside = F.conv2d(torch.ones(1, 2, 7, 6), kept, padding=2, stride=2, dilation=2)  # products at each position
    assert export_c(layer, torch.zeros(1, 2, 7, 6), tmp_path, check=False).macs == int(inside.sum())
    with torch.no_grad():
        twin = ann.Conv2d(2, 3, 3, padding=2, stride=2, dilation=2, bias=False)
        twin.weight.copy_(layer.weight.to(torch.complex64))
    example = torch.zeros(1, 2, 7, 6, dtype=torch.complex64)
    assert export_c(twin, example, tmp_path, check=False).macs == 4 * int(inside.sum())


def _scratch(directory):
    return int(re.search(r"NET_SCRATCH_FLOATS (\d+)\n", (directory / "net.h").read_text())[1])


def test_elementwise_steps_and_views_take_no_memory(tmp_path):
    net = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Flatten(), nn.Tanh())
    program = export_c(net, torch.zeros(1, 10), tmp_path, check=False)
    assert _scratch(tmp_path) == 1  # the least that C allows: all is done in the output
    assert program.scratch_bytes == 4
    text = (tmp_path / "net.c").read_text()
    assert "net_tanh(output, output, 12)" in text


def test_a_chain_needs_the_two_largest_neighbours(tmp_path):
    sizes = 5, 40, 10, 30, 20, 6
    net = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))
    export_c(net, torch.zeros(1, 5), tmp_path, check=False)
    assert _scratch(tmp_path) == 50


def test_a_value_read_late_is_kept(tmp_path):
    def forward(x, layer):
        first = layer(x)
        return torch.relu(layer(torch.relu(layer(torch.relu(first))))) + first

    program = export_c(_sparse(One(forward, nn.Linear(6, 6)), 0.9), torch.randn(1, 6), tmp_path)
    assert program.error is None or program.error < TOLERANCE
    assert 12 <= _scratch(tmp_path) <= 18


@needs_cc
def test_outputs_that_share_memory_are_copied(tmp_path):
    def forward(x, z):
        flat = x.reshape(x.shape[0], -1)
        hidden = x * 2
        return x, flat, hidden, hidden.transpose(1, 2), torch.relu(hidden), z

    net = Two(forward).eval()
    samples = [(torch.randn(1, 2, 3), torch.randn(1, 4, dtype=torch.complex64)) for _ in range(3)]
    export_c(net, samples[0], tmp_path)
    assert largest_error(net, compile_driver(tmp_path), samples) < 1e-7
    header = (tmp_path / "net.h").read_text()
    assert "#define NET_INPUT_FLOATS 14\n" in header
    assert "#define NET_OUTPUT_FLOATS 38\n" in header
    assert " * input + 6: input 2 of 2, complex (4), 8 floats" in header
    assert " * output + 12: output 3 of 6, real (2, 3), 6 floats" in header


@needs_cc
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_same_padding_with_an_even_kernel(tmp_path):
    net = _sparse(ann.Conv1d(2, 3, 4, padding="same"), 0.7)
    samples = [(torch.randn(1, 2, 9, dtype=torch.complex64),) for _ in range(3)]
    export_c(net, samples[0], tmp_path)
    assert largest_error(net, compile_driver(tmp_path), samples) < TOLERANCE


@needs_cc
@pytest.mark.parametrize("kind", ["nothing kept", "one row kept"])
def test_weights_without_kept_ones(kind, tmp_path):
    net = nn.Sequential(ann.Conv1d(2, 3, 3), nn.Flatten(), ann.Linear(12, 2))
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.weight[1:] = 0
            if kind == "nothing kept":
                layer.weight.zero_()
    samples = [(torch.randn(1, 2, 6, dtype=torch.complex64),) for _ in range(3)]
    for dtype in ("fp32", "int8"):
        export_c(net, samples[0], tmp_path, dtype=dtype)
        assert largest_error(net.eval(), compile_driver(tmp_path), samples) < (1e-5 if dtype == "fp32" else 0.02)


@needs_cc
@pytest.mark.parametrize("kind", [ann.Linear, nn.Linear])
def test_wide_layers_need_wide_columns(kind, tmp_path):
    layer = kind(70_000, 2)
    with torch.no_grad():
        layer.weight.mul_(torch.arange(70_000) % 5_000 == 1)
    samples = [(torch.randn(1, 70_000, dtype=layer.weight.dtype),)]
    export_c(layer, samples[0], tmp_path)
    assert "static const uint32_t" in (tmp_path / "net.c").read_text()
    assert largest_error(layer, compile_driver(tmp_path), samples) < TOLERANCE


@needs_cc
def test_the_source_is_self_contained(tmp_path):
    net, shape, dtype = NETWORKS["mixed"]()
    export_c(net, torch.zeros(1, *shape, dtype=dtype), tmp_path / "new" / "folder", check=False)
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == ["net.c", "net.h", "net_selftest.c"]
    text = (folder / "net.c").read_text()
    assert not re.search(r"stdio|malloc|complex\.h|stdlib|\bdouble\b", text)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wvla", "-Wshadow", "-Wstrict-prototypes"]
    subprocess.run(["cc", *flags, "-c", "net.c", "-o", "/dev/null"], cwd=folder, check=True)
    # one function and no more is seen from outside
    found = re.findall(r"^(?!static|typedef|#|void net_run)\w[^\n;]*\(", text, re.M)
    assert found == []


@needs_cc
def test_the_selftest_prints_the_outputs_of_the_example_and_finds_errors(tmp_path):
    net, shape, dtype = NETWORKS["dense"]()
    x = torch.randn(1, *shape, dtype=dtype)
    export_c(net, x, tmp_path)

    def run():
        command = ["cc", "-O2", "net.c", "net_selftest.c", "-lm", "-o", "selftest"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return subprocess.run(["./selftest"], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run()
    assert done.returncode == 0
    *numbers, last = done.stdout.splitlines()
    torch.testing.assert_close(torch.tensor([float(word) for word in numbers]), net(x).detach()[0], rtol=0, atol=1e-4)
    assert last.startswith("largest error")
    source = tmp_path / "net.c"
    spoilt = re.sub(r"(net_4_bias\[14\] = \{\s+)[^,]+", r"\g<1>9.5f", source.read_text())
    source.write_text(spoilt)
    assert run().returncode == 1


def test_the_network_is_untouched(tmp_path):
    net = nn.Sequential(ann.Linear(4, 3), ann.BatchNorm1d(3), ann.ReLU()).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    program = export_c(net, torch.randn(1, 4, dtype=torch.complex64), tmp_path, dtype="int8")
    assert net.training
    assert net[1].training
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert "bytes of constants" in str(program)
    assert str(tmp_path) in str(program)


@needs_cc
def test_double_precision_and_gradients_are_no_obstacle(tmp_path):
    net = nn.Sequential(ann.Linear(4, 3), ann.ModReLU(3), ann.Real(), nn.Linear(3, 2)).double()
    x = torch.randn(1, 4, dtype=torch.complex128, requires_grad=True)
    assert export_c(net, x, tmp_path).error < TOLERANCE


def _refused(words, net, example, directory, **options):
    with pytest.raises(ArgandError, match=words):
        export_c(net, example, directory / "out", **options)
    assert not (directory / "out").exists()


def test_misuse_is_refused_in_words(tmp_path):
    z = torch.zeros(1, 4, dtype=torch.complex64)
    linear = nn.Sequential(ann.Linear(4, 4))
    _refused(r"shape \(2, 4\).*batch of one", linear, z.repeat(2, 1), tmp_path)
    _refused("holds torch.int64", linear, torch.zeros(1, 4, dtype=torch.long), tmp_path)
    _refused('"0".*[Cc]ollapse', argand.sparsify(nn.Sequential(ann.Linear(4, 4)), "vd"), z, tmp_path)
    for activation in (nn.Tanh(), nn.ReLU(), nn.Sigmoid(), nn.GELU(), nn.Softmax(1)):
        words = rf'"1" \({type(activation).__name__}\).*argand.nn.Split'
        _refused(words, nn.Sequential(*linear, activation), z, tmp_path)
    _refused('dtype names "2".*"0"', linear, z, tmp_path, dtype={"2": "int8"})
    _refused("'int4' is unknown.*fp32, int16, int8", linear, z, tmp_path, dtype="int4")
    _refused(r'"0" \(Linear\).*complex weights.*ToComplex', linear, torch.zeros(1, 4), tmp_path)
    _refused("takes 1 inputs", linear, (z, z), tmp_path)
    _refused("can't be written down", nn.Sequential(nn.LSTM(4, 4)), torch.zeros(1, 4), tmp_path)


def test_weights_that_are_no_plain_parameters_are_refused(tmp_path):
    x = torch.zeros(1, 4)
    pruned = prune.random_unstructured(nn.Linear(4, 4), "weight", 0.5)
    _refused("prune.remove", nn.Sequential(pruned), x, tmp_path)
    _refused("parametrize.remove", nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4))), x, tmp_path)
    _refused("has no weight yet", nn.Sequential(nn.LazyLinear(4)), x, tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(value, tmp_path):
    net = nn.Sequential(nn.Linear(4, 4))
    with torch.no_grad():
        net[0].weight[1, 2] = value
    _refused(r'"0" \(Linear\) has a weight that isn\'t finite', net, torch.zeros(1, 4), tmp_path)
    _refused("example isn't finite", nn.Sequential(nn.Linear(4, 4)), torch.full((1, 4), value), tmp_path)


@pytest.mark.parametrize(
    ("words", "function", "shape"),
    [
        ("batch axis", lambda x: torch.cat([x, x], 0).mean(0, keepdim=True), (2, 3)),
        ("batch axis", lambda x: x.transpose(0, 1), (1, 3)),
        ("batch axis", lambda x: torch.softmax(x, 0), (4,)),
        ("numbers of axes", lambda x: x + x.mean(1), (4, 4)),
        ("division by 0", lambda x: x / 0, (4,)),
        ("has no dim", nn.Softmax(), (4,)),
        ("statistics from the batch", nn.BatchNorm1d(2, track_running_stats=False), (2, 3)),
        ("channels and 1 axes", nn.Conv1d(1, 1, 3), (5,)),
    ],
)
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_what_no_program_can_do_is_refused(words, function, shape, tmp_path):
    net = nn.Sequential(function) if isinstance(function, nn.Module) else One(function)
    _refused(words, net, torch.randn(1, *shape), tmp_path)


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    program = export_c(nn.Linear(3, 2), torch.zeros(1, 3), tmp_path)
    assert not program.checked
    assert program.error is None
    assert "not checked" in str(program)
    assert (tmp_path / "net.c").exists()


@needs_cc
def test_a_program_that_fails_its_check_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "cc -Dfloat=int")
    _refused("The C program .*exit status", nn.Linear(3, 2), torch.zeros(1, 3), tmp_path)


def test_a_directory_that_can_not_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgandError, match="can't be made"):
        export_c(nn.Linear(3, 2), torch.zeros(1, 3), tmp_path / "file" / "out", check=False)
