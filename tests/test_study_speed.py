"""What makes a study faster leaves its results what they are: live parts, warm starts, twins, profiles."""

import copy
import json

import pytest
import tiny
import torch
import torch.nn.functional as F
from test_study_stages import Killed, compute, kill_after, prepare
from torch import nn

import argand
import argand.nn as ann
from argand import ArgandError
from argand.deploy.live import live_part
from argand.study.config import load_specification
from argand.study.graph import plan
from argand.study.live import narrow, settle
from argand.study.models import network
from argand.study.records import read_json
from argand.study.session import run_specification
from argand.study.stage import run_stage
from argand.study.state import State
from argand.twin import Planar


def pruned(model, field, shape, kept=0.03):
    """A masked network in float64, with units that nothing reads."""
    torch.manual_seed(0)
    net = network(model, field, torch.zeros(shape), 10, width=0.25).double()
    masks = argand.Masks({
        name: torch.rand(p.shape) < kept for name, p in net.named_parameters() if p.dim() > 1 and "weight" in name
        and not isinstance(net.get_submodule(name.rpartition(".")[0]), nn.BatchNorm2d)
    })  # fmt: skip
    masks.apply_(net)
    return net, masks


def train(state, steps, shape):
    """Steps on changing batches, clipped."""
    generator = torch.Generator().manual_seed(1)
    net, optimizer, masks = state.trained
    net.train()
    with masks.pin(net, optimizer):
        for _ in range(steps):
            x = torch.randn(6, *shape, dtype=torch.float64, generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(net(x), torch.arange(6)).backward()
            optimizer.step()
    settle(state)


CASES = [("SimpleConv", "C", (1, 28, 28)), ("TwoLayerDense", "R", (1, 28, 28)), ("VGG16", "C", (3, 32, 32))]


@pytest.mark.parametrize(("model", "field", "shape"), CASES)
def test_training_the_live_part_is_training_the_network(model, field, shape):
    net, masks = pruned(model, field, shape)
    states = [State(n, argand.optim.Adam(n, lr=1e-3, max_norm=0.05), masks) for n in (net, copy.deepcopy(net))]
    narrow(states[1])
    small = argand.report(states[1].trained[0]).total.floats
    assert small < 0.9 * argand.report(net).total.floats, "something is dead"
    for _ in range(2):  # epochs: moments and values go back and forth in between
        for state in states:
            train(state, 5, shape)
    (whole, live), x = (state.net.eval() for state in states), torch.randn(9, *shape, dtype=torch.float64)
    torch.testing.assert_close(live(x), whole(x), rtol=1e-9, atol=1e-9)
    names = [name for name, _ in net.named_parameters()]
    for name in names:
        ours, theirs = live.get_parameter(name), whole.get_parameter(name)
        if not isinstance(whole.get_submodule(name.rpartition(".")[0]), nn.BatchNorm2d):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
            for key in ("exp_avg", "exp_avg_sq"):
                a, b = (
                    s.optimizer.state[n.get_parameter(name)][key] for s, n in zip(states, (whole, live), strict=True)
                )
                torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-14)


def test_constants_stay_in_the_live_part():
    """A unit without kept weights still gives its bias, which learns: only what nothing reads goes."""
    net = nn.Sequential(ann.Linear(3, 4), ann.ReLU(), ann.Linear(4, 2), ann.Real())
    masks = argand.Masks({"0.weight": torch.ones(4, 3) > 0, "2.weight": torch.ones(2, 4) > 0})
    masks["0.weight"][0] = False  # a constant, and read
    masks["2.weight"][:, 3] = False  # alive, and not read
    masks.apply_(net)
    part = live_part(net, masks)
    assert part is not None
    assert part.net[0].weight.shape == (3, 3)
    assert not part.masks["0.weight"][0].any()


def test_nothing_dead_and_nothing_readable_are_left_alone():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    masks = argand.Masks({"0.weight": torch.ones(4, 3) > 0})
    assert live_part(net, masks) is None

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x) if x.sum() > 0 else x

    assert live_part(Own(), argand.Masks({"layer.weight": torch.zeros(2, 3) > 0})) is None


@pytest.mark.parametrize("live", ["true", "false"])
def test_fine_tuning_resumes_either_way(tmp_path, live):
    settings = (f"stages.finetune.live={live}", "stages.finetune.epochs=3", "grid.threshold=[-4.0]")
    straight, stopped = (prepare(tmp_path / name, *settings) for name in "ab")
    compute(straight)
    compute(stopped[:-1])
    with pytest.raises(Killed):
        run_stage(stopped[-1], None, kill_after(1))
    run_stage(stopped[-1], None)
    for name in ("result.json", "history.jsonl", "checkpoint.safetensors"):
        assert (straight[-1] / name).read_bytes() == (stopped[-1] / name).read_bytes()


def test_a_warm_start_goes_from_each_c_to_the_next(tmp_path):
    path = tiny.write(tmp_path / "spec.toml")
    settings = ["grid.C=[0.3, 0.1, 0.2]", "stages.sparsify.warm_start=true"]
    nodes = plan(load_specification(path, settings=settings), "cpu", lambda name: "digest").nodes
    sparsified = {node.config["C"]: node for node in nodes.values() if node.config["stage"] == "sparsify"}
    assert sparsified[0.3].parent == sparsified[0.2].key
    assert sparsified[0.2].parent == sparsified[0.1].key
    assert nodes[sparsified[0.1].parent].config["stage"] == "pretrain"
    assert len(nodes) == 7
    with pytest.raises(ArgandError, match="share"):
        load_specification(path, settings=[*settings, "study.share=false"])


def test_warm_started_stages_run(tmp_path):
    runs = compute(prepare(tmp_path, "grid.C=[0.1, 0.2]", "stages.sparsify.warm_start=true"))
    results = [read_json(path) for path in runs.glob("stages/*/result.json")]
    assert [r["status"] for r in results] == ["done"] * 5


@pytest.mark.parametrize("settings", [("run.planar=true",), ("run.planar=true", 'run.precision="bf16"')])
def test_the_twin_trains_too(tmp_path, settings, monkeypatch):
    twins = []
    monkeypatch.setattr(argand, "planar", lambda net: twins.append(Planar(net)) or twins[-1])
    runs = compute(prepare(tmp_path, *settings))
    assert twins
    plain = compute(prepare(tmp_path / "plain"))
    losses = []
    for place in (runs, plain):
        (history,) = place.glob("stages/pretrain-*/history.jsonl")
        losses.append([json.loads(line)["loss"] for line in history.read_text().splitlines()])
    assert (losses[0] != losses[1]) or len(settings) == 1, "bfloat16 rounds"
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_bfloat16_needs_the_twin(tmp_path):
    with pytest.raises(ArgandError, match=r"run\.planar = true"):
        load_specification(tiny.write(tmp_path / "spec.toml"), settings=['run.precision="bf16"'])


def test_the_profile_adds_up(tmp_path):
    directories = prepare(tmp_path)
    compute(directories)
    for directory in directories:
        timing = read_json(directory / "timing.json")
        assert sum(timing["parts"].values()) == pytest.approx(timing["seconds"], abs=0.1)
        assert timing["parts"]["forward"] > 0


def test_run_prints_the_profile(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("ARGAND_PROFILE", raising=False)
    from rich.console import Console

    specification = load_specification(tiny.write(tmp_path / "spec.toml"))
    options = {"jobs": 1, "root": None, "report": False, "profile": True}
    assert run_specification(specification, tmp_path / "runs", console=Console(stderr=True), **options) == 0
    monkeypatch.delenv("ARGAND_PROFILE")
    shown = capsys.readouterr().out
    assert "backward" in shown
    assert "pretrain" in shown
