"""The report: one page that stands alone, tells the truth about the stages, and escapes what files say."""

import html.parser
import json
import re
import subprocess
import sys

import fake_runs
import pytest

from argand import ArgandError
from argand.study.records import cells, read_stages
from argand.study.report import build
from argand.study.report.comparison import in_words, pairs
from argand.study.report.study import read
from argand.study.report.tradeoff import within_half_point

HOSTILE = "<script>alert(1)</script>\"'</script>${7*7}$\\frac{"
SECTIONS = [
    "groups",
    "trade-off",
    "bytes",
    "paper",
    "thresholds",
    "early-stopping",
    "kl-derivative",
    "layers",
    "log-alpha",
]
SECTIONS += ["training", "deployment", "networks", "stages"]


class Page(html.parser.HTMLParser):
    """What a browser would see: tags with attributes, and the text of scripts, styles and the rest."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.inside = [], {"script": [], "style": [], "": []}, ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""
        if self.inside:
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside][-1] += data
        else:
            self.texts[""].append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts[""]).split())

    @property
    def plots(self):
        kinds = [attrs.get("type") for tag, attrs in self.tags if tag == "script"]
        return [
            json.loads(t) for t, kind in zip(self.texts["script"], kinds, strict=True) if kind == "application/json"
        ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    fake_runs.whole_runs(folder / "runs")
    return build(folder / "runs", folder / "out" / "deep")


@pytest.fixture(scope="module")
def page(whole):
    return Page(whole)


def test_every_section_is_there_and_filled(page):
    assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == SECTIONS
    assert {attrs.get("href") for tag, attrs in page.tags if tag == "a"} >= {f"#{name}" for name in SECTIONS}
    assert "class" not in {key for tag, attrs in page.tags if tag == "a" for key in attrs}, "no section is empty"


def test_nothing_is_fetched(page):
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name) or ""
            assert value.startswith(("data:", "#", "figures/")) or not value, f"<{tag} {name}={value[:80]}>"
        assert "url(" not in (attributes.get("style") or "")
    assert not re.search(r"@import|url\(", " ".join(page.texts["style"]))
    assert not [tag for tag, _ in page.tags if tag in ("iframe", "object", "embed", "base")]


def test_each_figure_is_drawn_three_ways(page, whole):
    plots = page.plots
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    files = sorted((whole.parent / "figures").iterdir())
    assert len(plots) == len(images) == len(files) / 2 > 20
    for attributes in images:
        assert attributes["src"].startswith("data:image/png;base64,iVBOR")
        assert attributes["alt"]
    for path in files:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG") if path.suffix == ".png" else b"<svg" in content
        assert len(content) > 5000
    linked = {attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs["href"].startswith("figures/")}
    assert linked == {f"figures/{path.name}" for path in files}


def test_plots_are_what_plotly_takes(page):
    from plotly import graph_objects

    for plot in page.plots:
        graph_objects.Figure(plot)  # raises on an unknown attribute or value
        assert plot["data"]


def test_published_points_lie_only_where_they_belong(page, whole):
    for figure, expected in (
        ("trade-off-mnist-raw-simpleconv", True),
        ("trade-off-musicnet-fft-deepconvnet", True),
        ("trade-off-rendered-music-fft-deepconvnet", False),
        ("trade-off-kmnist-fft-simpleconv", False),
        ("bytes-mnist-raw-simpleconv", False),
        ("early-stopping-musicnet-fft-deepconvnet", True),
        ("early-stopping-rendered-music-fft-deepconvnet", False),
        ("thresholds-musicnet-fft-deepconvnet-c", True),
    ):
        svg = (whole.parent / "figures" / f"{figure}.svg").read_text()
        assert ("<!-- paper: " in svg) is expected, figure
    assert page.text.count("The paper has no points for this data set") == 2


def test_the_page_says_how_the_stages_ended(page):
    assert "266 networks went through all three stages." in page.text
    assert "413 done, 1 diverged, 1 failed, 1 open" in page.text
    assert "the loss is nan at epoch 3" in page.text
    assert "MemoryError: <b>out of memory</b>" in page.text
    assert "Pre-training was shared: 266 of the networks come from 12 uncompressed ones." in page.text
    assert "2.13.0+cpu" in page.text


def test_the_table_has_a_row_per_network(page, whole):
    rows = whole.read_text().split('id="networks"')[1].split("</section>")[0].count("<tr>")
    assert rows == 266 + 1


def test_the_comparison_is_at_equal_weight_and_size(tmp_path):
    fake = fake_runs.small_runs(tmp_path)
    group = ("mnist", "raw", "SimpleConv", "C", "vd")
    parent = fake.sparsify(fake.pretrain(group, 5), "vd", 1.5 * 2**-3)
    fake.finetune(parent, group, -0.5, compression=50.0, floats=1000)  # another network
    fake.finetune(parent, group, 2.0, compression=40.0)  # another threshold
    off = fake.sparsify(fake.pretrain(group, 6), "vd", 0.123)  # another C
    fake.finetune(off, group, -0.5, compression=30.0)
    found = pairs(read(tmp_path))
    assert len(found) == 4
    assert {len(pair.ours) for pair in found} == {2}
    assert all(abs(pair.log_ratio) < 0.2 for pair in found)
    assert "At equal C, 4 settings can be laid beside the paper" in in_words(found)
    assert {pair.training for pair in found} == {"40/75/40"}
    quick = fake.sparsify(fake.pretrain(group, 8), "vd", 1.5 * 2**-3, changes={"epochs": 3})
    fake.finetune(quick, group, -0.5, compression=20.0)
    found = pairs(read(tmp_path))
    assert [pair.training for pair in found].count("40/3/40") == 1
    assert "In 1 of them the epochs or the training examples aren't the paper's." in in_words(found)


def test_half_a_point():
    pairs_ = [(10.0, 0.99), (50.0, 0.985), (90.0, 0.97)]
    assert within_half_point(pairs_, 0.9899) == 50.0
    assert within_half_point(pairs_, 1.0) is None


def test_equal_runs_give_equal_pages(tmp_path):
    for name in ("one", "two"):
        fake_runs.small_runs(tmp_path / name / "runs")
        build(tmp_path / name / "runs", tmp_path / name / "out")
    for path in (tmp_path / "one" / "out").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path.name


def test_hostile_names_are_text(tmp_path):
    fake = fake_runs.FakeRuns(tmp_path / "<b>runs")
    group = (HOSTILE, "../../fft", HOSTILE, HOSTILE, HOSTILE)
    parent = fake.sparsify(fake.pretrain(group, HOSTILE), HOSTILE, 0.1)
    rows = [{"name": HOSTILE, "weights": 10, "kept": 3}]
    for threshold in (-0.5, 1.0):
        fake.finetune(parent, group, threshold, compression=5.0, layers=rows)
    fake.sparsify(parent, HOSTILE, 0.2, status="failed", reason=HOSTILE)
    built = build(tmp_path / "<b>runs", tmp_path / "out")
    page = Page(built)
    assert "<script>alert" not in built.read_text()
    assert HOSTILE in page.text
    assert not [tag for tag, _ in page.tags if tag == "b"]
    scripts = [attrs.get("type") for tag, attrs in page.tags if tag == "script"]
    assert scripts.count(None) == 2
    assert len(page.plots) == len(scripts) - 2 > 4
    assert "<" not in json.dumps(page.plots), "plotly.js reads tags in labels"
    assert all(path.parent == tmp_path / "out" / "figures" for path in tmp_path.rglob("*.svg"))


def test_one_network_is_enough(tmp_path):
    fake = fake_runs.FakeRuns(tmp_path)
    group = ("mnist", "raw", "SimpleConv", "C", "vd")
    parent = fake.sparsify(fake.pretrain(group, 0), "vd", 0.1, log_alpha={})
    fake.finetune(parent, group, 0.0, compression=float("inf"), kept=0.0, layers=[], score=float("nan"))
    text = Page(build(tmp_path, tmp_path / "out")).text
    assert "∞" in text
    assert "no number" in text
    assert "No finished network lists its layers yet; argand run fills this." in text


def test_without_networks_each_section_says_what_fills_it(tmp_path):
    fake = fake_runs.FakeRuns(tmp_path)
    fake.pretrain(("mnist", "raw", "SimpleConv", "C", "vd"), 0)
    page = Page(build(tmp_path, tmp_path / "out"))
    assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == SECTIONS
    assert sum(attrs.get("class") == "empty" for tag, attrs in page.tags if tag == "p") >= 11
    assert "with a list of thresholds in its [grid] fills this" in page.text


def test_no_stage_at_all(tmp_path):
    with pytest.raises(ArgandError, match=r"holds no stage\. Expected .*stages"):
        build(tmp_path, tmp_path / "out")
    with pytest.raises(ArgandError, match="is no directory"):
        build(tmp_path / "missing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", '{"status": "done"'),
        ("result.json", '{"status": "done", "score": "high"}'),
        ("result.json", "[]"),
        ("result.json", '{"status": "done", "score": 0.9, "metric": "accuracy"}'),
        ("config.json", '{"stage": "finetune"}'),
        ("config.json", '{"stage": "cooking", "parent": "x"}'),
        ("config.json", '{"stage": "finetune", "parent": "x", "threshold": "low"}'),
        ("history.jsonl", '{"epoch": 1, "lo'),
        ("history.jsonl", "[1]\n"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, content):
    fake_runs.small_runs(tmp_path)
    found = cells(read_stages(tmp_path))
    for cell in found if name == "history.jsonl" else found[:1]:
        (cell.finetune.path / name).write_text(content)
    with pytest.raises(ArgandError, match=rf"stages.*{re.escape(name)} .*Expected"):
        build(tmp_path, tmp_path / "out")


def test_a_place_that_cannot_be_written(tmp_path):
    fake_runs.small_runs(tmp_path / "runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgandError, match="can't be made"):
        build(tmp_path / "runs", tmp_path / "file")


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib", "plotly"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, missing):
    fake_runs.small_runs(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ArgandError, match=rf"{missing}.*install argand\[report\]"):
        build(tmp_path, tmp_path / "out")


def test_importing_is_light():
    code = "import argand, argand.study.report, sys; print({'matplotlib', 'plotly', 'jinja2'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "set()"


def test_packed_networks_have_a_row(whole, tmp_path):
    text = whole.read_text()
    table = text[text.index('id="deployment"') : text.index('id="networks"')]
    assert table.count("<tr") == 3  # a header and two networks
    for cell in ("×100", "3,448,640", "12,773", "int8", "0.9879", "655.0", "62.0"):
        assert cell in table, cell
    runs = fake_runs.FakeRuns(tmp_path / "runs")
    runs.curve(("mnist", "raw", "SimpleConv", "C", "vd"), (0.1,), (0,))
    stage = next(p for p in (tmp_path / "runs" / "stages").iterdir() if "finetune" in (p / "config.json").read_text())
    (stage / "deployment.json").write_text('{"bytes": {}}')
    with pytest.raises(ArgandError, match=r"deployment\.json has no usable 'flash_bytes'"):
        build(tmp_path / "runs", tmp_path / "out")
