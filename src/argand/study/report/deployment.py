"""What networks came to when they were packed: bytes, flash, work, latency."""

from collections.abc import Mapping
from typing import Any

from argand.errors import ArgandError
from argand.study.records import DEPLOYMENT, Cell
from argand.study.report.study import Study, cell_label, family_title
from argand.study.report.table import Entry, Table, number, words

_HEADER = [
    "network", "", "compression", "dense bytes", "file", "stored as", "fp32 bytes", "int8 bytes", "score before",
    "score", "flash, fp32", "flash, int8", "scratch", "MACs", "dense MACs", "original µs", "sparse µs", "C µs", "stage",
]  # fmt: skip
_EMPTY = "No network has been packed: argand pack RUNS/stages/finetune-... -o net.argand fills this."


def deployments(study: Study) -> Table:
    """A row per packed network."""
    rows = [_row(cell, cell.finetune.deployment) for cell in study.cells if cell.finetune.deployment]
    caption = "A row per packed network, made compact first. Flash: constants of the C program. Microseconds: one call "
    caption += "at batch 1 with one thread, of the network before it was made compact, of the compact one on sparse "
    caption += "kernels, and of the C program, on the machine that packed it."
    return Table(_HEADER, rows, caption, _EMPTY)


def _row(cell: Cell, found: Mapping[str, Any]) -> list[Entry]:
    try:
        sizes, flash, times = found["bytes"], found["flash_bytes"], found["microseconds"]
        return [
            words(family_title(cell.group)), words(cell_label(cell)), number(found["compression"], ".4g", "×"),
            number(found["dense_bytes"], ",d"), number(sizes[found["dtype"]], ",d"), words(found["dtype"]),
            number(sizes.get("fp32"), ",d"), number(sizes.get("int8"), ",d"),
            number(found["score_before"], ".4f"), number(found["score"], ".4f"),
            number(flash.get("fp32"), ",d"), number(flash.get("int8"), ",d"), number(found["scratch_bytes"], ",d"),
            number(found["macs"], ",d"), number(found["dense_macs"], ",d"),
            *(number(times.get(name), ".1f") for name in ("original", "sparse", "C")), words(cell.key),
        ]  # fmt: skip
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArgandError(
            f"{cell.finetune.path / DEPLOYMENT} has no usable {error}. Expected what argand pack wrote."
        ) from None
