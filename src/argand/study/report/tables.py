"""The tables: every network, every group, the state of the stages, and what ran them."""

import statistics
from collections import Counter
from collections.abc import Sequence

from argand.study.paper import paper_band, paper_points
from argand.study.records import Cell
from argand.study.report.chart import finite, short
from argand.study.report.checks import KINDS
from argand.study.report.study import Study, baselines, by, count, spread
from argand.study.report.table import Table, number, words
from argand.study.report.tradeoff import within_half_point

STATES = ("done", "open", "diverged", "failed")
_CELLS = [
    "data set", "features", "model", "field", "method", "C or kept", "threshold", "seed", "compression",
    "bytes", "byte gain", "kept %", "score before", "score", "uncompressed", "difference", "seconds", "stage",
]  # fmt: skip
_GROUPS = [
    "data set", "features", "model", "field", "method", "networks", "uncompressed", "best score", "compression",
    "byte gain", "within 0.005", "paper's within 0.005",
]  # fmt: skip


def all_cells(study: Study) -> Table:
    """Every network."""
    rows = []
    for cell in study.cells:
        weight, kept, difference = cell.setting("C"), cell.setting("kept"), cell.value("score") - cell.baseline
        gain = cell.value("dense_bytes") / cell.value("bytes") if cell.value("bytes") else float("inf")
        chosen = number(weight) if weight is not None else number(kept, ".3g", "kept ")
        row = [*map(words, cell.group), chosen, number(cell.setting("threshold"), "g")]
        seed = cell.setting("seed")
        row.append(number(seed, "d") if isinstance(seed, int) else words(seed))
        row += [number(cell.value("compression"), ".4g", "×"), number(cell.value("bytes"), ",d")]
        row += [number(gain, ".3g", "×"), number(100 * cell.value("kept"), ".3g")]
        row += [number(value, ".4f") for value in (cell.value("score_before"), cell.value("score"), cell.baseline)]
        row += [number(difference, "+.4f"), number(cell.seconds, ".0f"), words(cell.key)]
        rows.append(row)
    caption = "A row per network. Difference: its score less that of the uncompressed network it was made from. "
    caption += "Seconds: of its three stages; a shared stage counts in full. Click a heading to sort."
    return Table(_CELLS, rows, caption, "No network has gone through all three stages yet.")


def groups(study: Study) -> Table:
    """What each curve came to."""
    rows = []
    for group, cells in by(study.curves, lambda cell: cell.group).items():
        scores = finite(baselines(cells))
        sizes = [cell.value("compression") for cell in cells]
        gains = [cell.value("dense_bytes") / cell.value("bytes") for cell in cells if cell.value("bytes")]
        middle = statistics.median(scores) if scores else None
        ours = within_half_point([(cell.value("compression"), cell.value("score")) for cell in cells], middle or 0.0)
        best = max(finite(cell.value("score") for cell in cells), default=None)
        row = [*map(words, group), number(len(cells)), words(spread(scores) if scores else None), number(best, ".4f")]
        row += [words(_range(sizes)), words(_range(gains)), number(ours, ".4g", "×")]
        rows.append([*row, number(_paper_within(group), ".4g", "×")])
    caption = (
        "A row per curve. Uncompressed: median [lowest–highest]. Within 0.005: the largest compression of a network "
    )
    caption += "whose score is at most 0.005 below that median; for the paper, of its points and its own median."
    return Table(_GROUPS, rows, caption, "No network has gone through all three stages yet.")


def _paper_within(group: tuple[str, ...]) -> float | None:
    band = paper_band(*group)
    pairs = [(point.compression, point.score) for point in paper_points(*group)]
    return within_half_point(pairs, band.median) if band else None


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"×{low:.3g}" if low == high else f"×{low:.3g}–×{high:.3g}"


def states(study: Study) -> Table:
    """How many stages of each kind are done, open, diverged, failed."""
    rows = []
    for kind in KINDS:
        stages = study.of_kind(kind)
        if not stages:
            continue
        counts = Counter(stage.status for stage in stages)
        rows.append([words(kind), *(number(counts[state]) for state in STATES)])
    return Table(["stage", *STATES], rows)


def troubles(study: Study) -> Table:
    """The stages that diverged or failed, and why."""
    rows = []
    for stage in study.stages.values():
        if stage.status not in ("done", "open"):
            asked = {name: value for name, value in stage.config.items() if name in _ASKED and value is not None}
            what = ", ".join(f"{name} {short(v) if isinstance(v, float) else v}" for name, v in asked.items())
            reason = (stage.result or {}).get("reason")
            rows.append([words(stage.config["stage"]), words(what), *map(words, (stage.status, reason, stage.key))])
    return Table(["stage", "asked for", "state", "reason", "key"], rows, empty="No stage diverged or failed.")


_ASKED = ("dataset", "features", "model", "field", "method", "C", "threshold", "kept", "seed")


def machines(study: Study) -> Table:
    """The versions, devices and threads that the finished stages report."""
    found: Counter[tuple[str, ...]] = Counter()
    for stage in study.stages.values():
        if stage.result is not None and isinstance(stage.result.get("versions"), dict):
            versions = stage.result["versions"]
            names = (versions.get("argand"), versions.get("torch"), versions.get("python"))
            found[*map(str, (*names, stage.result.get("device"), stage.result.get("threads")))] += 1
    rows = [[*map(words, key), number(count)] for key, count in found.most_common()]
    header = ["argand", "torch", "python", "device", "threads", "stages"]
    return Table(header, rows, empty="No finished stage reports its versions.")


def sharing(cells: Sequence[Cell]) -> str:
    """A sentence on networks made from the same pre-training, empty where there are none."""
    shared = [group for group in by(cells, lambda cell: cell.pretrain.key).values() if len(group) > 1]
    if not shared:
        return ""
    networks = sum(map(len, shared))
    return (
        f"Pre-training was shared: {networks} of the networks come from {count(len(shared), 'uncompressed one')}. "
        "Sharing narrows the band of uncompressed scores and correlates the networks; the paper pre-trained each anew."
    )
