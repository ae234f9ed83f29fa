"""The packed file: round trips, sizes, the numpy runtime, old files, and hostile ones."""

import json
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from deploy_cases import CASES
from torch import nn

import argand
import argand.nn as ann
from argand.accounting import stored_bytes
from argand.deploy import reader
from argand.deploy.export_numpy import export_numpy
from argand.deploy.numpy_runtime import Model, load
from argand.deploy.pack import to_bytes
from argand.deploy.tensors import DTYPES, encode
from argand.deploy.unpack import from_bytes
from argand.field import real_dim, real_view

DATA = Path(__file__).parent / "data"
MUTATIONS = int(os.environ.get("ARGAND_FUZZ", "20000"))
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def tupled(y):
    return y if isinstance(y, tuple) else (y,)


@each_case
def test_round_trips_are_bit_equal_and_numpy_agrees(case):
    net, inputs = case.make(), case.inputs(3)
    content = to_bytes(net)
    again = from_bytes(content)
    assert not again.training
    assert to_bytes(again) == content
    with torch.no_grad():
        expected = tupled(net(*inputs))
        found = tupled(again(*inputs))
    numpys = tupled(Model(*reader.read(content))(*(x.numpy() for x in inputs)))
    for a, b, c in zip(expected, found, numpys, strict=True):
        assert torch.equal(a, b)
        assert (c.shape, c.dtype) == (tuple(a.shape), a.numpy().dtype)
        assert np.abs(c - a.numpy()).max() <= 1e-5 * max(float(a.abs().max()), 1e-6)


def sparse_net(kept=0.02, seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(
        ann.ToComplex(), ann.Conv2d(1, 8, 5), ann.ReLU(), ann.AvgPool2d(2), nn.Flatten(), ann.Linear(1152, 60),
        ann.ReLU(), ann.Linear(60, 10), ann.Real(),
    ).eval()  # fmt: skip
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("weight"):
                p.mul_(torch.rand(p.shape) < kept)
    return net


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_as_near_as_their_type_says(dtype):
    net = sparse_net()
    again = from_bytes(to_bytes(net, dtype))
    for name, weight in net.named_parameters():
        found = again.get_parameter(name)
        parts, theirs = real_view(weight.detach()), real_view(found.detach())
        if name.endswith("bias"):
            error = {"fp32": 0, "fp16": 2**-11, "int16": 0, "int8": 2**-11}[dtype]
            assert ((parts - theirs).abs() <= error * parts.abs() + 1e-7 * bool(error)).all()
        elif dtype.startswith("int"):
            step = parts.abs().flatten(1).amax(1) / (127 if dtype == "int8" else 32767)
            assert ((parts - theirs).abs() <= 0.51 * step.view(-1, *(1,) * (parts.dim() - 1))).all()
        else:
            assert ((parts - theirs).abs() <= (2**-11 if dtype == "fp16" else 0) * parts.abs() + 1e-7).all()
        assert ((weight != 0) | (found == 0)).all()  # zeros stay zeros


@pytest.mark.parametrize("density", [0.0, 1e-5, 0.001, 0.02, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_sections_have_the_size_that_the_report_says(density, dtype):
    torch.manual_seed(1)
    weight = torch.randn(300, 401, dtype=dtype) * (torch.rand(300, 401) < density)
    entry, section = encode(weight, "fp32")
    assert len(section) == stored_bytes(weight != 0, real_dim(weight))
    assert torch.equal(torch.from_numpy(reader._tensor(entry, reader._claims(entry)[0], section)), weight)


def test_one_dtype_for_each_layer():
    net = sparse_net()
    sizes = [len(to_bytes(net, dtype)) for dtype in ("fp32", {"5": "int8"}, "int8")]
    assert sizes[0] > sizes[1] > sizes[2]
    again = from_bytes(to_bytes(net, {"5": "int8"}))
    assert torch.equal(again.get_parameter("7.weight"), net[7].weight)
    assert not torch.equal(again.get_parameter("5.weight"), net[5].weight)


def test_the_loaded_network_is_an_ordinary_one(tmp_path):
    net = sparse_net()
    path = tmp_path / "net.argand"
    assert argand.save(net, path) == path.stat().st_size
    again = argand.load(str(path))
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in net.named_parameters()]
    net.load_state_dict(again.state_dict())
    report = argand.report(again)
    assert report.compression == argand.report(net).compression
    assert path.stat().st_size <= report.bytes + 1500
    argand.sparsify(again)
    argand.collapse(again)
    assert argand.compact(again)(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


class Shares(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"inner": nn.Linear(4, 4)})
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.body["inner"](x))
        return self.head(self.body["inner"](x) + 0.5 * x)


def test_shared_layers_are_stored_once_and_stay_shared():
    net = Shares().eval()
    again = from_bytes(to_bytes(net))
    x = torch.randn(3, 4)
    assert torch.equal(net(x), again(x))
    assert len(reader.read(to_bytes(net))[1]) == 4
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in net.named_parameters()]


def test_numpy_in_one_file(tmp_path):
    net = sparse_net()
    path = tmp_path / "runs.py"
    export_numpy(net, path)
    x = torch.randn(2, 1, 28, 28)
    np.save(tmp_path / "x.npy", x.numpy())
    # -I: nothing of argand is within reach
    command = [sys.executable, "-I", "-c", "import sys; sys.modules['torch'] = sys.modules['argand'] = None; "
               "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
               str(path), "x.npy", "y.npy"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=False)
    with torch.no_grad():
        assert np.abs(np.load(tmp_path / "y.npy") - net(x).numpy()).max() < 1e-5
    argand.save(net, tmp_path / "net.argand", example=x)
    for bad in (x[0], x.to(torch.complex64)):
        with pytest.raises(ValueError, match=r"expected \(batch, 1, 28, 28\) float32"):
            load(tmp_path / "net.argand")(bad.numpy())
    assert load(tmp_path / "net.argand")(x.numpy()).shape == (2, 10)


def test_a_file_of_the_first_version_is_read_for_ever():
    expected = json.loads((DATA / "format-1.json").read_text())
    x = torch.tensor(expected["input"])
    for net in (argand.load(DATA / "format-1.argand"), load(DATA / "format-1.argand")):
        y = net(x if isinstance(net, nn.Module) else x.numpy())
        y = y.detach().numpy() if isinstance(y, torch.Tensor) else y
        assert np.abs(y - np.array(expected["output"])).max() < 1e-5


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(argand.ArgandError, match="collapse"):
        argand.save(argand.sparsify(nn.Sequential(nn.Linear(2, 2))), tmp_path / "x")
    with pytest.raises(argand.ArgandError, match=r'"0" \(LSTM\)'):
        argand.save(nn.Sequential(nn.LSTM(2, 2)), tmp_path / "x")
    with pytest.raises(argand.ArgandError, match="float64"):
        argand.save(nn.Linear(2, 2).double(), tmp_path / "x")
    with pytest.raises(argand.ArgandError, match="fp8"):
        argand.save(nn.Linear(2, 2), tmp_path / "x", dtype="fp8")
    with pytest.raises(argand.ArgandError, match="names 'nine'"):
        argand.save(nn.Sequential(nn.Linear(2, 2)), tmp_path / "x", dtype={"nine": "int8"})
    broken = nn.Linear(2, 2)
    nn.init.constant_(broken.weight, float("nan"))
    with pytest.raises(argand.ArgandError, match="not finite"):
        argand.save(broken, tmp_path / "x")
    with pytest.raises(argand.ArgandError, match=r"Split\(cos\)"):
        argand.save(nn.Sequential(ann.Split(torch.cos)), tmp_path / "x")
    with pytest.raises(argand.ArgandError, match="exp"):
        argand.save(Exponential(), tmp_path / "x")
    assert not (tmp_path / "x").exists()


class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x)


# Hostile files


def sealed(header, sections, version=reader.VERSION):
    """A file with right checksums, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    packed = zlib.compress(text)
    front = reader.PREFIX.pack(reader.MAGIC, version, len(packed), 0)[:16]
    return front + struct.pack("<I", zlib.crc32(packed, zlib.crc32(front))) + packed + sections


def parts(content):
    length = reader.PREFIX.unpack_from(content)[2]
    cut = reader.PREFIX.size + length
    return json.loads(zlib.decompress(content[reader.PREFIX.size : cut])), content[cut:]


@pytest.fixture(scope="module")
def small():
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        net[0].weight[torch.rand(4, 6) < 0.6] = 0
    return to_bytes(net)


def change(header, path, value):
    *keys, last = path
    for key in keys:
        header = header[key]
    header[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("tensors", 0, "shape"), [2**30, 2**30], "far more weights"),
        (("tensors", 0, "shape"), [4, -6], "impossible"),
        (("tensors", 0, "shape"), [4, 7], "Linear|layer needs|positions"),
        (("tensors", 0, "count"), 10**9, "claims"),
        (("tensors", 0, "bytes"), -1, "claims"),
        (("tensors", 0, "bytes"), 2**40, "cut off"),
        (("tensors", 0, "axis"), 5, "impossible"),
        (("tensors", 0, "values"), "pickle", "pickle"),
        (("tensors", 0, "complex"), 1, "wrong kind"),
        (("tensors", 0, "complex"), True, "can't hold|fit"),
        (("tensors", 0), {}, "other fields"),
        (("steps", 0, "kind"), "os.system", "no layer or function"),
        (("steps", 0, "kind"), "ann.Linear", "not the one"),
        (("steps", 0, "options"), {"in_features": 10**12, "out_features": 10**6}, "not the one|do not make"),
        (("steps", 0, "options"), {"in_features": "six", "out_features": 4}, "not those"),
        (("steps", 0, "options"), {"in_features": 6, "out_features": 4, "device": "cpu"}, "not those"),
        (("steps", 0, "path"), "../up", "no path"),
        (("steps", 0, "path"), "__class__", ""),
        (("steps", 0, "path"), "forward", ""),
        (("steps", 0, "path"), "_modules", ""),
        (("steps", 0, "path"), "2.inner", "one inside another"),
        (("steps", 0, "path"), "a." * 40 + "b", "more than 32 parts"),
        (("steps", 0, "path"), "training", ""),
        (("steps", 1, "inputs"), ["_0", "_0"], "has 2 inputs, and takes 1"),
        (("steps", 1, "options"), {"inplace": True}, "not those"),
        (("extra",), [[]] * 9, "unknown fields"),
        (("steps", 0, "name"), "import os", "no name"),
        (("steps", 0, "inputs"), ["later"], "no step before"),
        (("steps", 0, "inputs"), [], "no step before"),
        (("steps", 0, "tensors"), {"weight": 99}, "does not hold"),
        (("steps", 0, "tensors"), {"weight": True}, "does not hold"),
        (("steps", 0), 7, "other fields"),
        (("steps", 2, "path"), "0", "two different layers"),
        (("steps", 2, "name"), "_0", "two values"),
        (("outputs",), [], "inputs or outputs"),
        (("outputs",), ["nothing"], "inputs or outputs"),
        (("single",), 0, "truth value"),
        (("steps",), {}, "lacks"),
    ],
)
def test_hostile_headers(small, tmp_path, path, value, words):
    header, sections = parts(small)
    change(header, path, value)
    file = tmp_path / "bad.argand"
    file.write_bytes(sealed(header, sections))
    if not words:
        argand.load(file)
        return
    with pytest.raises(argand.ArgandError, match=words) as caught:
        argand.load(file)
    assert str(file) in str(caught.value)


def test_hostile_files(small, tmp_path):
    header, sections = parts(small)
    bomb = zlib.compress(b" " * 2**26)
    front = reader.PREFIX.pack(reader.MAGIC, 1, len(bomb), 0)[:16]
    cases = {
        "begin": b"PK\x03\x04" + small,
        "version 2": sealed(header, sections, version=2),
        "1 MiB": front + struct.pack("<I", zlib.crc32(bomb, zlib.crc32(front))) + bomb,
        "can't be read": sealed(b"{", sections),
        "recursion|can't be read": sealed(b"[" * 100_000, sections),
        "lacks": sealed(b"[]", sections),
        "follow": small + b"x",
        "cut off": small[:-1],
        "header is cut": small[:40],
        "does not begin": b"",
    }
    for words, content in cases.items():
        with pytest.raises(argand.ArgandError, match=words):
            from_bytes(content)
    with pytest.raises(argand.ArgandError, match="No such file"):
        argand.load(tmp_path / "missing")
    (tmp_path / "big").write_bytes(small)
    with pytest.raises(argand.ArgandError, match="max_bytes"):
        argand.load(tmp_path / "big", max_bytes=10)


def linears(count, side, **extra):
    """A file of many layers that share one empty weight, in a few hundred bytes."""
    entry, section = encode(torch.zeros(side, side), "fp32")
    options = {"in_features": side, "out_features": side, "bias": False}
    steps = [
        {"name": f"v{i + 1}", "kind": "nn.Linear", "path": f"a.b{i}", "inputs": [f"v{i}"], "options": options,
         "tensors": {"weight": 0}}
        for i in range(count)
    ]  # fmt: skip
    header = {"inputs": ["v0"], "outputs": [f"v{count}"], "steps": steps, "tensors": [entry], **extra}
    return header, section


def test_a_weight_of_many_layers_is_there_once():
    net = from_bytes(sealed(*linears(100, 1500)))
    assert len({layer.weight.data_ptr() for layer in net.a.children()}) == 1
    assert net(torch.zeros(1, 1500)).shape == (1, 1500)


def test_what_a_file_may_not_hold():
    header, section = linears(1, 4)
    unused = dict(header, tensors=header["tensors"] * 2)
    many, section_of_many = linears(10_001, 4)
    deep = dict(header, steps=[dict(header["steps"][0], path=".".join("a" * 100_000))])
    for (bad, sections), words in (
        ((unused, section * 2), "tensors that no step uses"),
        ((many, section_of_many), "1 MiB|10000 steps"),
        ((deep, section), "more than 32 parts"),
        ((dict(header, tensors=[dict(header["tensors"][0], shape=[40_000, 40_000])]), section), "far more weights"),
    ):
        with pytest.raises(argand.ArgandError, match=words):
            from_bytes(sealed(bad, sections))


def mutated(content: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, cut out, doubled or cut off."""
    data = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(data)) if data else 0
        kind = dice.randrange(5)
        if kind == 0 and data:
            data[place] ^= 1 << dice.randrange(8)
        elif kind == 1 and data:
            data[place] = dice.randrange(256)
        elif kind == 2:
            del data[place : place + dice.randint(1, 30)]
        elif kind == 3:
            data[place:place] = data[place : place + dice.randint(1, 30)] or b"\0"
        else:
            del data[dice.randint(place, len(data)) :]
    return bytes(data)


def test_mutated_files_raise_or_are_right():
    """Half are damaged as they lie on a disk; half have right checksums, and so reach the checks behind them."""
    dice = random.Random(20250611)
    nets = [sparse_net(0.1), Shares().eval(), *(case.make() for case in CASES[:: len(CASES) // 12])]
    contents = [to_bytes(net, dtype) for net in nets for dtype in ("fp32", "int8")]
    torch.manual_seed(0)
    whole = [sorted(map(str, from_bytes(content).state_dict().items())) for content in contents[2:]]
    outcomes = {"refused": 0, "loaded": 0}
    for turn in range(MUTATIONS):
        which = dice.randrange(2, len(contents))
        content = contents[which]
        if turn % 2:
            header, sections = parts(content)
            text = mutated(json.dumps(header).encode(), dice) if dice.random() < 0.7 else json.dumps(header).encode()
            sections = mutated(sections, dice) if dice.random() < 0.3 else sections
            try:  # checksums of the sections that the header describes
                header, place = json.loads(text), 0
                for entry in header["tensors"]:
                    entry["crc"] = zlib.crc32(sections[place : place + entry["bytes"]])
                    place += entry["bytes"]
                text = json.dumps(header).encode()
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                pass
            bad = sealed(text, sections)
        else:
            bad = mutated(content, dice)
        try:
            net = from_bytes(bad)
        except argand.ArgandError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        if turn % 2 == 0:  # only by undoing its own change may a damaged file be read
            assert sorted(map(str, net.state_dict().items())) == whole[which - 2]
    assert outcomes["refused"] > MUTATIONS // 3
    assert outcomes["loaded"] > 0
