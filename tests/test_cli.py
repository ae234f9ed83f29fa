"""The command line as a newcomer meets it: every mistake is one line, every success says where things are."""

import csv
import json
import shutil

import fake_runs
import pytest
import tiny

from argand.cli import main


def mistake(capsys, *words):
    """Run a command that must fail as the user's mistake; returns what it says."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return said.err.strip()


@pytest.fixture
def runs(tmp_path):
    fake_runs.whole_runs(tmp_path / "runs")
    return tmp_path / "runs"


def stage_of(runs, kind):
    """The directory of some stage of this kind."""
    return next(p for p in (runs / "stages").iterdir() if json.loads((p / "config.json").read_text())["stage"] == kind)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (tiny.TINY.replace("epochs", "epoch", 1), "stages.pretrain.epoch is no key"),
        (tiny.TINY.replace('"mnist"', '"mnits"'), "'mnits' is unknown: did you mean 'mnist'?"),
        (tiny.TINY.replace("seed = [0]", 'seed = ["a"]'), "grid.seed.0 is 'a': input should be a valid integer"),
        (tiny.TINY.replace('"mnist"', '"kmnist"'), "argand data get kmnist"),
        (tiny.TINY.replace('"SimpleConv"', '"VGG16"'), "VGG16 takes samples of (channels, height, width), at least 32"),
        (tiny.TINY.replace("train = 96", "train = 96000"), "data.train is 96000"),
    ],
)
def test_mistakes_in_a_specification_are_one_line(text, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ARGAND_DATA", str(tmp_path / "nothing"))
    said = mistake(capsys, "run", tiny.write(tmp_path / "spec.toml", text), "--runs", tmp_path / "runs")
    assert said.startswith("argand: ")
    assert words in said
    assert len(said.splitlines()) == 1


def test_other_mistakes(tmp_path, capsys, runs):
    assert "can't be read: No such file" in mistake(capsys, "run", tmp_path / "none.toml")
    assert "no [quick] table" in mistake(capsys, "run", tiny.write(tmp_path / "s.toml"), "--quick")
    assert "No such option" in mistake(capsys, "run", tmp_path / "s.toml", "--bogus")
    assert "Missing argument" in mistake(capsys, "run")
    assert "no directory" in mistake(capsys, "report", tmp_path / "none", "-o", tmp_path / "out")
    assert "has no index" in mistake(capsys, "status", tmp_path)
    assert "at least one of --csv" in mistake(capsys, "export-results", runs)
    (tmp_path / "stages").mkdir()
    assert "nothing to export" in mistake(capsys, "export-results", tmp_path, "--csv", tmp_path / "x.csv")
    (tmp_path / "file").touch()
    assert "can't be written" in mistake(
        capsys, "run", tiny.write(tmp_path / "s.toml"), "--runs", tmp_path / "file" / "runs"
    )
    assert "no CUDA device" in mistake(capsys, "run", tmp_path / "s.toml", "--device", "cuda", "--runs", tmp_path / "r")


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("argand 0.")
    assert main(["run", "--help"]) == 0
    assert "--quick" in capsys.readouterr().out


def test_results_are_exported(runs, tmp_path, capsys):
    table, parquet, events = tmp_path / "out.csv", tmp_path / "out.parquet", tmp_path / "events"
    code = main(
        ["export-results", str(runs), "--csv", str(table), "--parquet", str(parquet), "--tensorboard", str(events)]
    )
    assert code == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert f"{table}: {len(rows)} networks" in capsys.readouterr().out
    assert len(rows) == len({row["key"] for row in rows}) > 10
    stage = json.loads((runs / "stages" / rows[0]["key"] / "result.json").read_text())
    assert float(rows[0]["compression"]) == stage["compression"]
    assert float(rows[0]["score"]) == stage["score"]
    from pyarrow import parquet as reader

    assert reader.read_table(parquet).num_rows == len(rows)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = events / stage_of(runs, "pretrain").name
    accumulator = EventAccumulator(str(folder)).Reload()
    history = (runs / "stages" / folder.name / "history.jsonl").read_text().splitlines()
    assert [event.value for event in accumulator.Scalars("loss")] == pytest.approx(
        [json.loads(line)["loss"] for line in history]
    )


def test_a_broken_result_is_named(runs, capsys, tmp_path):
    victim = stage_of(runs, "finetune") / "result.json"
    victim.write_text("{")
    assert str(victim) in mistake(capsys, "report", runs, "-o", tmp_path / "out")
    assert str(victim) in mistake(capsys, "export-results", runs, "--csv", tmp_path / "x.csv")


def test_the_demo_ends_in_a_table_and_a_report(tmp_path, capsys, monkeypatch):
    """The real one with fewer images and epochs."""
    from argand.study import session

    real = session.load_specification
    small = ["data.train=128", "data.test=100", "grid.width=[0.2]", "grid.C=[0.2]"]
    small += [f"stages.{stage}.epochs=1" for stage in ("pretrain", "sparsify", "finetune")]
    monkeypatch.setattr(session, "load_specification", lambda path: real(path, settings=small))
    assert main(["demo", "--runs", str(tmp_path / "demo"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "SimpleConv" in out
    assert f"report: {tmp_path / 'demo' / 'report' / 'index.html'}" in out
    page = (tmp_path / "demo" / "report" / "index.html").read_text()
    assert "<html" in page
    shutil.rmtree(tmp_path / "demo" / "report")
    assert main(["demo", "--runs", str(tmp_path / "demo")]) == 0
    assert "0 stages computed, 3 were finished before" in capsys.readouterr().out
