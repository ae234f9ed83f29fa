"""The published points: complete, well-formed, and never where they don't belong."""

import csv
import statistics
from pathlib import Path

import pytest

from argand.study import paper

FOLDER = Path(paper.__file__).parent
SIMPLE = ("mnist", "raw", "SimpleConv", "C", "vd")
MUSIC = ("musicnet", "fft", "DeepConvNet", "C", "vd")


def groups(name):
    with (FOLDER / f"{name}.csv").open() as file:
        return {tuple(list(row.values())[:5]) for row in csv.DictReader(file)}


def test_every_group_is_whole():
    counts = {group: len(paper.paper_points(*group)) for group in groups("points")}
    assert sorted(counts.values()) == sorted([185] * 24 + [45] * 4 + [65] * 2 + [117])
    assert groups("points") == groups("bands")


@pytest.mark.parametrize("group", sorted(groups("points")), ids="-".join)
def test_points_are_possible(group):
    band = paper.paper_band(*group)
    assert 0.5 < band.low <= band.median <= band.high < 1
    for point in paper.paper_points(*group):
        assert 1 <= point.compression < band.floats
        assert 0.3 < point.score < 1
        assert point.C is None or 1e-6 < point.C <= 1.5


def test_known_cells():
    """EXPERIMENTS.md states these ranges: read off the same figure by eye."""
    conv = paper.paper_points_at(paper.paper_points(*SIMPLE), 1.5 * 2 ** (-12 / 2))
    assert len(conv) == 5
    assert 63.5 < min(p.compression for p in conv) < max(p.compression for p in conv) < 71.5
    dense = paper.paper_points_at(paper.paper_points("mnist", "raw", "TwoLayerDense", "C", "vd"), 1.5 * 2 ** (-10 / 2))
    assert 280 < statistics.median(p.compression for p in dense) < 300
    assert paper.paper_band(*SIMPLE).median == pytest.approx(0.9883, abs=2e-4)


def test_every_weight_of_the_grid_is_found():
    points = paper.paper_points(*SIMPLE)
    assert sum(len(paper.paper_points_at(points, 1.5 * 2 ** (-k / 2))) for k in range(2, 39)) == 185
    points = paper.paper_points("cifar10", "raw", "VGG16", "R", "ard")
    assert [len(paper.paper_points_at(points, 1.5 * 2 ** (-k / 2))) for k in range(7, 16)] == [5] * 9
    assert all(p.C is None for p in paper.paper_points("musicnet", "fft", "DeepConvNet-k3", "C", "vd"))


def test_thresholds_and_early_stopping():
    rows = paper.paper_thresholds(*MUSIC)
    assert {row.C for row in rows} == {0.005, 0.05}
    assert len(rows) == 2 * 49
    half = next(row for row in rows if row.C == 0.005 and row.threshold == -0.5)
    assert half.compression > 50
    assert half.after == pytest.approx(0.72, abs=0.02)
    assert len(paper.paper_stopping(*MUSIC)) == 65
    assert paper.paper_stopping_by_weight(*MUSIC)[0].at == 1e-4


@pytest.mark.parametrize("dataset", ["rendered-music", "kmnist", "<script>"])
def test_other_data_sets_have_no_points(dataset):
    group = (dataset, *MUSIC[1:])
    assert paper.paper_band(*group) is None
    for find in (paper.paper_points, paper.paper_thresholds, paper.paper_stopping, paper.paper_stopping_by_weight):
        assert find(*group) == []


def test_the_data_are_small_and_attributed():
    assert sum(path.stat().st_size for path in FOLDER.glob("*.csv")) < 1_000_000
    note = (FOLDER / "README.md").read_text()
    assert "Nazarov" in note
    assert "inferred" in note
