"""A chart as data: what is drawn, and not by what. `picture` and `interactive` draw the same chart."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Value = float | str | None  # None breaks a line
Style = Literal["points", "line", "dashes", "dots", "steps", "bars"]

#: Okabe and Ito's colours, told apart with any kind of colour vision; the real fields are warm, the complex ones cold.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D31")
FIELD_COLOURS = {"R": "#D55E00", "2R": "#E69F00", "C": "#0072B2", "halfC": "#56B4E9"}
FIELD_WORDS = {"C": "complex", "R": "real", "halfC": "complex, half", "2R": "real, double"}  # in order of display
METHOD_MARKERS = {
    "vd": "circle",
    "ard": "square",
    "real-scaling": "diamond",
    "magnitude": "triangle-up",
    "magnitude-cubic": "triangle-down",
}
PAPER = "paper"
_DEPTHS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#c8b400")  # viridis, its end darkened for white paper


@dataclass(frozen=True)
class Series:
    """Points or a line. Series of one group are switched on and off together; without a label: not in the legend."""

    x: Sequence[Value]
    y: Sequence[Value]
    label: str = ""
    colour: str = PALETTE[0]
    style: Style = "points"
    marker: str = "circle"
    faint: bool = False
    group: str = ""
    notes: Sequence[str] = ()  # one per point, shown under the pointer


@dataclass(frozen=True)
class Band:
    """A horizontal band with its middle: the scores of uncompressed networks."""

    low: float
    middle: float
    high: float
    colour: str
    faint: bool = False


@dataclass(frozen=True)
class Axis:
    """A label, the scale, and where given the range."""

    label: str
    log: bool = False
    compact: bool = False  # 20k, 3M
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    bands: Sequence[Band] = ()
    verticals: Sequence[float] = ()
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """Panels in rows of `columns`, with a title and a caption. The name becomes a file's name."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel] = field(default_factory=list)
    columns: int = 1

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return math.ceil(len(self.panels) / self.columns)

    @property
    def shared(self) -> bool:
        """Whether panels stand one above the other, on one horizontal axis."""
        return self.columns == 1 and self.rows > 1


def slug(*parts: str) -> str:
    """A safe file name, whatever the parts hold.

    >>> slug("trade-off", "../<b>", "SimpleConv")
    'trade-off-b-simpleconv'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:80] or "figure"


def field_colour(name: str) -> str:
    """The colour of a field (R, C, 2R, halfC)."""
    return FIELD_COLOURS.get(name, PALETTE[3])


def field_words(name: str) -> str:
    """A field in words, so that it isn't taken for the weight C of the divergence."""
    return FIELD_WORDS.get(name, name)


def method_marker(name: str) -> str:
    """The marker of a method."""
    return METHOD_MARKERS.get(name, "x")


def palette(index: int) -> str:
    """The colour of the index-th of a few."""
    return PALETTE[index % len(PALETTE)]


def depth_colour(index: int, count: int) -> str:
    """The colour of the index-th of `count` ordered things."""
    place = index / max(count - 1, 1) * (len(_DEPTHS) - 1)
    left = min(int(place), len(_DEPTHS) - 2)
    ends = [[int(_DEPTHS[left + side][at : at + 2], 16) for at in (1, 3, 5)] for side in (0, 1)]
    mixed = (round(a + (b - a) * (place - left)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def finite(values: Iterable[Value]) -> list[float]:
    """The numbers among the values."""
    return [v for v in values if isinstance(v, int | float) and math.isfinite(v)]


def short(value: float | None, digits: int = 3) -> str:
    """A number for a label: few digits, no exponent where it can be helped."""
    return "–" if value is None else f"{value:.{digits}g}"
