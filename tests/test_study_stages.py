"""Stages: the loop, its stops, and going on exactly where one stopped."""

import json

import pytest
import tiny
import torch
from torch import nn

import argand
from argand import ArgandError
from argand.study import stage, stages
from argand.study.config import load_specification
from argand.study.data import digest
from argand.study.fit import fit, learning_rate, ramp, should_stop
from argand.study.graph import plan
from argand.study.records import cells, read_stages
from argand.study.stage import run_stage, write_json
from argand.study.state import DivergedError, State, load_checkpoint, save_checkpoint
from argand.study.tasks import make_task


def prepare(tmp_path, *settings):
    """The directories of a tiny study, in the order in which they can be computed."""
    tmp_path.mkdir(exist_ok=True)
    specification = load_specification(tiny.write(tmp_path / "spec.toml"), settings=settings)
    directories = []
    for key, node in plan(specification, "cpu", digest).nodes.items():
        directory = tmp_path / "runs" / "stages" / key
        directory.mkdir(parents=True)
        write_json(directory / "config.json", node.config)
        directories.append(directory)
    return directories


def compute(directories):
    for directory in directories:
        run_stage(directory, None)
    return directories[0].parent.parent


class Killed(BaseException):
    """What a kill looks like from inside."""


def kill_after(count):
    """A progress listener that kills at the end of the given epoch."""
    ends = []

    def tick(epoch, share, loss):
        if share == 1.0:
            ends.append(epoch)
            if len(ends) == count:
                raise Killed

    return tick


def test_the_three_stages_leave_cells(tmp_path):
    runs = compute(prepare(tmp_path))
    found = cells(read_stages(runs))
    assert [cell.setting("C") for cell in sorted(found, key=lambda c: c.setting("C"))] == [0.01, 1.0]
    for cell in found:
        assert cell.metric == "accuracy"
        assert cell.value("compression") == cell.value("floats") / cell.value("kept_floats")
        assert cell.value("bytes") == sum(row["bytes"] for row in cell.value("layers"))
        histogram = cell.sparsify.result["log_alpha"]
        assert sum(sum(h["counts"]) for h in histogram.values()) == sum(row["weights"] for row in cell.value("layers"))
        assert [line["epoch"] for line in cell.finetune.history] == [1, 2]
        kept = cell.sparsify.history[-1]["kept"]
        assert cell.value("kept") == kept  # the threshold of the history is the default one
    small, large = sorted(found, key=lambda c: c.setting("C"))
    assert large.value("compression") > small.value("compression") > 1
    assert small.baseline == large.baseline


@pytest.mark.parametrize("settings", [(), ('grid.method=["magnitude-cubic"]', "grid.kept=[0.1]")], ids=["vd", "cubic"])
def test_a_stage_killed_after_any_epoch_ends_as_if_it_had_not_been(tmp_path, settings):
    early_stopping = "stages.finetune.early_stopping={patience=5}"
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = prepare(tmp_path / "whole", *settings, early_stopping)
    cut = prepare(tmp_path / "cut", *settings, early_stopping)
    compute(whole)
    for directory in cut:
        with pytest.raises(Killed):  # before the first checkpoint
            run_stage(directory, None, kill_after(1))
        (directory / ".checkpoint.safetensors.abc").write_bytes(b"half")
        assert not (directory / "result.json").exists()
        with pytest.raises(Killed):
            run_stage(directory, None, kill_after(2))
        assert run_stage(directory, None) == "done"
        assert not list(directory.glob(".*"))
    assert tiny.outcome(tmp_path / "cut" / "runs") == tiny.outcome(tmp_path / "whole" / "runs")


def test_a_finished_stage_is_not_computed_again(tmp_path, monkeypatch):
    first = prepare(tmp_path)[0]
    run_stage(first, None)
    monkeypatch.setattr(stage, "_compute", lambda *_: pytest.fail("computed again"))
    assert run_stage(first, None) == "done"


def test_stages_go_on_from_what_they_should(tmp_path):
    pretrain, sparsify, *_ = directories = prepare(tmp_path)
    compute(directories[:2])
    config = json.loads((pretrain / "config.json").read_text())
    task = make_task(config, None, torch.device("cpu"))
    before = stage.finished_state(pretrain, task)
    moments = {name: before.optimizer.state[p]["exp_avg_sq"] for name, p in before.net.named_parameters()}
    assert all(value.any() for value in moments.values())
    state = stage.open_stage(pretrain.parent, json.loads((sparsify / "config.json").read_text()), task)
    for name, parameter in argand.pruning.plain_parameters(state.net).items():
        torch.testing.assert_close(state.optimizer.state[parameter]["exp_avg_sq"], moments[name], rtol=0, atol=0)
        assert state.optimizer.state[parameter]["step"] == 4  # 2 epochs of 2 batches
    spreads = [p for name, p in state.net.named_parameters() if name.endswith("log_sigma2")]
    assert all((p == -6).all() and not state.optimizer.state[p] for p in spreads)
    fresh = stages.sparsify(before, {**json.loads((sparsify / "config.json").read_text()), "carry_moments": False})
    assert not fresh.optimizer.state


def test_a_learning_rate_and_a_weight_follow_their_schedules(tmp_path):
    schedule = {"lr": 2.0, "schedule": [[5, 0.1], [10, 0.05], [20, 0.01]]}
    assert [learning_rate(schedule, epoch) for epoch in (0, 4, 5, 9, 10, 19, 20, 49)] == pytest.approx(
        [2, 2, 0.2, 0.2, 0.1, 0.1, 0.02, 0.02]
    )
    assert [ramp({"warmup": 4}, epoch) for epoch in (0, 1, 2.5, 4, 9)] == [0, 0.25, 0.625, 1, 1]
    assert ramp({"warmup": 0}, 0) == ramp({}, 0) == 1
    sparsify = {"method": "vd", "C": 0.5, "divergence_weight": "C/N"}
    task = make_task(json.loads((prepare(tmp_path)[0] / "config.json").read_text()), None, torch.device("cpu"))
    assert task.size == 64  # 96 training images, 32 of them held out
    assert stages.divergence_weight(sparsify, task) == 0.5 / 64
    assert stages.divergence_weight({**sparsify, "divergence_weight": 1e-4}, task) == 0.5e-4
    assert stages.divergence_weight({**sparsify, "method": "magnitude"}, task) == 0


class Scripted:
    """A task whose validation scores are given."""

    def __init__(self, scores):
        self.scores = list(scores)

    def score(self, net, part):
        assert part == "validation"
        return self.scores.pop(0), 0.0


@pytest.mark.parametrize(
    ("scores", "patience", "epochs"),
    [
        ([0.5, 0.6, 0.6, 0.7], 3, 4),  # never stops
        ([0.5, 0.49, 0.49, 0.49], 3, 3),  # three within the tolerance use the patience up
        ([0.5, 0.49, 0.5, 0.49, 0.49, 0.49], 3, 5),  # not worse than the best starts it anew
        ([0.5, 0.47, 0.6], 3, 2),  # a fall beyond the tolerance ends it one epoch later
    ],
)
def test_early_stopping_is_the_papers(scores, patience, epochs):
    state = State(nn.Linear(1, 1), None)
    task, config = Scripted(scores), {"early_stopping": {"patience": patience, "tolerance": 0.02}}
    total = len(scores)
    while state.epoch < total and not should_stop(state, config, task):
        state.history.append({})
    assert state.epoch == epochs


def test_early_stopping_needs_validation_data(tmp_path):
    directory = prepare(tmp_path, "data.validation=0", "stages.pretrain.early_stopping={}")[0]
    with pytest.raises(ArgandError, match=r"stages.pretrain.early_stopping needs validation data.*data.validation"):
        run_stage(directory, None)


def test_a_loss_that_is_no_number_ends_the_stage_as_diverged(tmp_path):
    directory = prepare(tmp_path, "stages.pretrain.lr=1e30", "stages.pretrain.max_norm=1e30")[0]
    assert run_stage(directory, None) == "diverged"
    result = json.loads((directory / "result.json").read_text())
    assert "the loss became" in result["reason"]
    config = json.loads((directory / "config.json").read_text())
    task = make_task(config, None, torch.device("cpu"))
    state = stages.pretrain(config, task)
    with pytest.raises(DivergedError, match=r"the loss became .* in epoch [12]"):
        fit(state, config, task, seed="x")


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    directories = prepare(tmp_path)
    compute(directories)
    whole = tiny.outcome(tmp_path / "runs")
    (tmp_path / "again").mkdir()
    directory = prepare(tmp_path / "again")[0]
    real, written = argand.files.os.fsync, []

    def full(handle):
        written.append(handle)
        if len(written) > 4:  # three files an epoch: this is the second epoch's checkpoint or history
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(argand.files.os, "fsync", full)
    with pytest.raises(ArgandError, match="can't be written: No space left on device"):
        run_stage(directory, None)
    monkeypatch.undo()
    assert sorted(p.name for p in directory.iterdir() if p.name.startswith(".")) == []
    assert (directory / "checkpoint.safetensors").exists()
    assert run_stage(directory, None) == "done"
    name = f"{directory.name}/checkpoint.safetensors"
    assert (directory / "checkpoint.safetensors").read_bytes() == whole[name]


def test_changed_data_and_foreign_checkpoints_are_refused(tmp_path):
    directory = prepare(tmp_path)[0]
    config = json.loads((directory / "config.json").read_text())
    with pytest.raises(ArgandError, match="data set mnist has changed"):
        make_task({**config, "digest": "0" * 64}, None, torch.device("cpu"))
    (directory / "checkpoint.safetensors").write_bytes(b"\x10" * 100)
    with pytest.raises(ArgandError, match="not a whole safetensors file"):
        run_stage(directory, None)
    other = State(nn.Sequential(nn.Linear(2, 2)), None)
    other.optimizer = argand.optim.Adam(other.net)
    save_checkpoint(directory / "checkpoint.safetensors", other)
    with pytest.raises(ArgandError, match="is of another network"):
        run_stage(directory, None)
    argand.files.save_tensor_file(directory / "checkpoint.safetensors", {"net.x": torch.zeros(1)}, "checkpoint")
    with pytest.raises(ArgandError, match="no record of its epochs"):
        run_stage(directory, None)


def test_a_checkpoint_of_a_variational_network_returns_bit_for_bit(tmp_path):
    def fresh():
        net = argand.sparsify(nn.Sequential(argand.nn.Linear(3, 2)), "ard")
        return State(net, argand.optim.Adam(net, divergence_weight=1e-3))

    state = fresh()
    state.net(torch.randn(4, 3, dtype=torch.complex64)).abs().sum().backward()
    state.optimizer.step()
    state.history.append({"epoch": 1, "loss": 0.1})
    save_checkpoint(tmp_path / "c.safetensors", state)
    other = fresh()
    load_checkpoint(tmp_path / "c.safetensors", other)
    assert other.history == state.history
    for (name, p), (_, q) in zip(state.net.named_parameters(), other.net.named_parameters(), strict=True):
        assert torch.equal(p, q), name
        for key in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.equal(state.optimizer.state[p][key], other.optimizer.state[q][key])


def test_cubic_magnitude_reaches_its_share_and_keeps_zeros(tmp_path):
    directories = prepare(tmp_path, 'grid.method=["magnitude-cubic"]', "grid.kept=[0.05]", "stages.sparsify.epochs=4")
    compute(directories)
    sparse, last = (json.loads((d / "history.jsonl").read_text().splitlines()[-1]) for d in directories[1:])
    assert sparse["kept"] == pytest.approx(0.05, abs=1e-3)
    shares = [json.loads(line)["kept"] for line in (directories[1] / "history.jsonl").read_text().splitlines()]
    assert shares == pytest.approx([stages.cubic(0.05, n / 4) for n in (1, 2, 3, 4)], abs=1e-3)
    result = json.loads((directories[2] / "result.json").read_text())
    assert result["kept"] == pytest.approx(0.05, abs=1e-3)
    assert last["kept"] == result["kept"]


def test_features_and_fields_run_through_all_stages(tmp_path):
    directories = prepare(tmp_path, 'grid.features=["fft"]', 'grid.field=["R", "C"]', 'grid.method=["real-scaling"]',
                          "stages.sparsify.initial=1.0", "data.augment=true")  # fmt: skip
    assert len(cells(read_stages(compute(directories)))) == 4
