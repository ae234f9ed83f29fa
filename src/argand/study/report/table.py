"""A table as data: what each cell says, and by what it is sorted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Sortable = str | float | int | None


@dataclass(frozen=True)
class Entry:
    """A cell: its text, its sort value, and whether it is a number."""

    text: str
    value: Sortable

    @property
    def numeric(self) -> bool:
        """Numbers are aligned to the right."""
        return not isinstance(self.value, str)


@dataclass(frozen=True)
class Table:
    """A header and rows, with the sentence shown above them, or in their place when there are none."""

    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""
    empty: str = ""


def words(value: object) -> Entry:
    """Text, a dash for None."""
    return Entry("–", "") if value is None else Entry(str(value), str(value))


def number(value: float | None, form: str = ".4g", prefix: str = "") -> Entry:
    """A formatted number, a dash for None."""
    if value is None:
        return Entry("–", None)
    if math.isnan(value):
        return Entry("no number", None)
    if math.isinf(value):
        return Entry("∞", 1e300)
    return Entry(f"{prefix}{value:{form}}", value)
