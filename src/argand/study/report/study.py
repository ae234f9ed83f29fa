"""A study in memory: its stages and finished networks, and the choices that several figures share."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from argand.errors import ArgandError
from argand.study.records import Cell, Stage, cells, read_stages
from argand.study.report.chart import FIELD_WORDS, field_words, short
from argand.study.report.checks import check

USUAL_THRESHOLD = -0.5
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Study:
    """The stages by key, and the networks that went through all three."""

    runs: Path
    stages: dict[str, Stage]
    cells: list[Cell]

    @cached_property
    def curves(self) -> list[Cell]:
        """The networks of the trade-off: per sparsified network only that with the threshold nearest to -1/2."""
        thresholded = [cell for cell in self.cells if cell.setting("threshold") is not None]
        nearest = [
            min(group, key=lambda cell: abs(cell.setting("threshold") - USUAL_THRESHOLD))
            for group in by(thresholded, lambda cell: cell.sparsify.key).values()
        ]
        rest = [cell for cell in self.cells if cell.setting("threshold") is None]
        return sorted(nearest + rest, key=_order)

    @cached_property
    def families(self) -> dict[tuple[str, ...], list[Cell]]:
        """The trade-off's networks by dataset, features and model: one figure each."""
        return by(self.curves, lambda cell: cell.group[:3])

    def of_kind(self, kind: str) -> list[Stage]:
        """The stages of one kind."""
        return [stage for stage in self.stages.values() if stage.config.get("stage") == kind]


def read(runs: Path) -> Study:
    """The study in a runs directory, its files checked."""
    stages = read_stages(runs)
    if not stages:
        raise ArgandError(f"{runs} holds no stage. Expected {runs / 'stages'} with a directory per stage (argand run).")
    for stage in stages.values():
        check(stage)
    return Study(runs, stages, sorted(cells(stages), key=_order))


def _order(cell: Cell) -> tuple[object, ...]:
    known = list(FIELD_WORDS)
    field = known.index(cell.group[3]) if cell.group[3] in known else len(known)
    return (*cell.group[:3], field, *cell.group[3:], _weight(cell), cell.value("compression"), cell.key)


def _weight(cell: Cell) -> float:
    value = cell.setting("C")
    return float(value) if value is not None else -1.0


def by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items grouped by their key, in order of first appearance."""
    found: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return dict(found)


def baselines(group: Iterable[Cell]) -> list[float]:
    """The scores of the distinct uncompressed networks that these came from."""
    return list({cell.pretrain.key: cell.baseline for cell in group}.values())


def representatives(group: Sequence[Cell], limit: int = 6) -> list[Cell]:
    """At most `limit` networks that stand for the group: of each field and method the median C, and with room also
    the smallest and the largest; the first seed of each."""
    kinds = list(by(group, lambda cell: cell.group).values())
    room = 3 if 3 * len(kinds) <= limit else 1
    chosen = []
    for kind in kinds:
        ordered = sorted(by(kind, _place).items())
        places = [0, len(ordered) // 2, len(ordered) - 1] if room == 3 else [len(ordered) // 2]
        chosen += [ordered[place][1][0] for place in dict.fromkeys(places)]
    return chosen[:limit]


def _place(cell: Cell) -> tuple[float, float]:
    return _weight(cell), 0.0 if cell.setting("C") is not None else float(cell.value("compression"))


def family_title(group: Sequence[str]) -> str:
    """Dataset, features and model in words."""
    return f"{group[0]}, {group[1]} features, {group[2]}"


def kind_label(cell: Cell) -> str:
    """Field and method: complex · vd."""
    return f"{field_words(cell.group[3])} · {cell.group[4]}"


def cell_label(cell: Cell) -> str:
    """Field, method and C (or share kept): complex · vd · C = 0.0234."""
    if cell.setting("C") is not None:
        return f"{kind_label(cell)} · C = {short(cell.setting('C'))}"
    return f"{kind_label(cell)} · kept {short(cell.setting('kept'))}"


def cell_note(cell: Cell) -> str:
    """What a point shows under the pointer, a line each."""
    threshold = cell.setting("threshold")
    lines = [
        f"{cell_label(cell)} · seed {cell.setting('seed')}" + (f" · threshold {threshold:g}" if threshold else ""),
        f"compression ×{cell.value('compression'):.4g}, {cell.value('bytes'):,} bytes",
        f"{cell.metric} {cell.value('score'):.4f}, before fine-tuning {cell.value('score_before'):.4f}",
        f"uncompressed {cell.baseline:.4f}",
    ]
    return "\n".join(lines)


def training(cell: Cell) -> str:
    """The epochs of its three stages, and how many training examples if not all of them."""
    stages, part = (cell.pretrain, cell.sparsify, cell.finetune), cell.setting("train")
    epochs = "/".join(str(stage.config.get("epochs", "?")) for stage in stages)
    return epochs if part is None else f"{epochs}, {part} examples"


def count(number: int, word: str) -> str:
    """1 network, 2 networks."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def spread(values: Sequence[float], form: str = ".4f") -> str:
    """median [lowest–highest]."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{statistics.median(values):{form}} [{min(values):{form}}–{max(values):{form}}]"
