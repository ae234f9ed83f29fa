"""Specifications: what they accept, and in what words they refuse."""

from pathlib import Path

import pytest
import tiny

from argand import ArgandError
from argand.study.config import load_specification
from argand.study.graph import plan

EXPERIMENTS = sorted((Path(__file__).parent.parent / "experiments").glob("*.toml"))


def read(tmp_path, text, **options):
    return load_specification(tiny.write(tmp_path / "spec.toml", text), **options)


def nodes(specification, device="cpu"):
    return plan(specification, device, lambda name: f"digest of {name}").nodes


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_every_experiment_is_valid_and_has_a_quick_variant(path):
    full, quick = load_specification(path), load_specification(path, quick=True)
    assert full.study.name == path.stem
    assert quick.study.name == f"{path.stem}-quick"
    assert 1 <= len(nodes(quick)) <= 30
    assert len(nodes(quick)) <= len(nodes(full))


def test_there_is_an_experiment_for_every_figure():
    names = {path.stem for path in EXPERIMENTS}
    for data in ("mnist", "kmnist", "fashion-mnist", "emnist-letters"):
        assert {f"{data}-{features}-{method}" for features in ("raw", "fft") for method in ("vd", "ard")} <= names
    assert {f"musicnet-{kernel}-{method}" for kernel in ("k3", "k6") for method in ("vd", "ard")} <= names
    assert {"cifar10", "threshold", "early-stopping", "divergence-slope"} <= names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("epochs = 2", "epoch = 2"), "stages.pretrain.epoch is no key of a specification: did you mean 'epochs'?"),
        (("epochs = 2", 'epochs = "2"'), "stages.pretrain.epochs is '2': input should be a valid integer"),
        (("epochs = 2", "epochs = -1"), "stages.pretrain.epochs is -1"),
        (('["mnist"]', '["mnst"]'), "grid.dataset: 'mnst' is unknown: did you mean 'mnist'?"),
        (('["SimpleConv"]', '["LeNet"]'), "grid.model: 'LeNet' is unknown"),
        (("C = [0.01, 1.0]", "C = [-1.0]"), "grid.C can't hold -1.0: expected a list of positive numbers, or a table"),
        (("C = [0.01, 1.0]", 'C = "1"'), "grid.C can't hold '1'"),
        (("C = [0.01, 1.0]", "C = {scale = 1.5}"), "grid.C can't hold"),
        (("C = [0.01, 1.0]", "C = [nan]"), "grid.C can't hold nan"),
        (("C = [0.01, 1.0]", "C = []"), "grid.C can't hold []"),
        (("[data]", "[dat]"), "dat is no key of a specification: did you mean 'data'?"),
        (("[grid]", "[grid"), "is not valid TOML"),
        (('name = "tiny"', 'name = "../tiny"'), "study.name is '../tiny'"),
        (('name = "tiny"', ""), "study.name is missing"),
        (('["SimpleConv"]', '["SimpleConv"]\nmethod = ["magnitude"]'), "grid.kept: the magnitude methods need"),
        (("initial = -6.0", 'divergence_weight = "C"'), "divergence_weight can't hold 'C': expected \"C/N\", or a"),
        (("initial = -6.0", "schedule = [[1]]"), "stages.sparsify.schedule"),
        (("train = 96", "train = 96\n[quick.grid]\nsead = [1]"), "grid.sead is no key of a specification"),
    ],
)
def test_mistakes_are_named_with_their_key(tmp_path, change, words):
    assert change[0] in tiny.TINY
    with pytest.raises(ArgandError) as error:
        read(tmp_path, tiny.TINY.replace(*change, 1))
    assert words in str(error.value)
    assert str(tmp_path / "spec.toml") in str(error.value)
    assert "\n" not in str(error.value).split("is not valid TOML")[0]


def test_a_missing_file_and_a_missing_quick_table_are_said(tmp_path):
    with pytest.raises(ArgandError, match="can't be read: No such file"):
        load_specification(tmp_path / "none.toml")
    with pytest.raises(ArgandError, match=r"no \[quick\] table"):
        read(tmp_path, tiny.TINY, quick=True)


def test_settings_change_keys(tmp_path):
    changed = read(
        tmp_path, tiny.TINY, settings=["grid.seed=[3, 4]", "grid.C={scale=2.0, halvings=[0, 1]}", "run.device=cpu"]
    )
    assert changed.grid.seed == [3, 4]
    assert changed.grid.scales == [2.0, 1.0]
    assert changed.run.device == "cpu"
    for wrong, words in (
        ("grid.seed", "expected key=value"),
        ("grid.sead=[1]", "did you mean 'seed'"),
        ("a=\n]", "no TOML"),
    ):
        with pytest.raises(ArgandError, match=words):
            read(tmp_path, tiny.TINY, settings=[wrong])


def test_a_grid_shares_its_parents(tmp_path):
    shared = nodes(read(tmp_path, tiny.TINY, settings=["grid.threshold=[-1.0, 0.0]"]))
    assert [key.partition("-")[0] for key in shared] == ["pretrain", *(["sparsify", "finetune", "finetune"] * 2)]
    alone = nodes(read(tmp_path, tiny.TINY, settings=["grid.threshold=[-1.0, 0.0]", "study.share=false"]))
    kinds = [key.partition("-")[0] for key in alone]
    assert (kinds.count("pretrain"), kinds.count("sparsify"), kinds.count("finetune")) == (2, 2, 4)
    for node in shared.values():
        assert node.parent is None or node.parent in shared


def test_a_key_covers_what_changes_numbers_and_nothing_else(tmp_path):
    def keys(*settings, device="cpu"):
        return set(nodes(read(tmp_path, tiny.TINY, settings=settings), device))

    base = keys()
    for same in ("study.name=other", "study.title=other", "run.device=cpu"):
        assert keys(same) == base
    for other in ("run.threads=2", "data.train=95", "stages.pretrain.lr=0.1", "grid.seed=[1]", "grid.width=[0.2]"):
        assert not keys(other) & base
    assert not keys(device="cuda") & base
    assert len(keys("stages.finetune.epochs=3") & base) == 3
    grown = plan(read(tmp_path, tiny.TINY), "cpu", lambda name: "another digest").nodes
    assert not set(grown) & base


def test_magnitude_methods_take_kept_and_share_what_they_can(tmp_path):
    made = nodes(
        read(
            tmp_path,
            tiny.TINY,
            settings=['grid.method=["vd", "magnitude", "magnitude-cubic"]', "grid.kept=[0.1, 0.02]"],
        )
    )
    sparse = [node.config for node in made.values() if node.config["stage"] == "sparsify"]
    assert [c["method"] for c in sparse] == ["vd", "vd", "magnitude", "magnitude-cubic", "magnitude-cubic"]
    assert sum(key.startswith("pretrain") for key in made) == 1
    last = [node.config for node in made.values() if node.config["stage"] == "finetune"]
    assert [(c["threshold"], c["kept"]) for c in last] == [(-0.5, None)] * 2 + [(None, 0.1), (None, 0.02)] * 2
