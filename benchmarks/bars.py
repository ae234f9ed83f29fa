"""What the figures are held against, and their tables."""

from dataclasses import dataclass
from typing import Any

VD, PLAIN, TWICE_REAL = "argand complex vd", "argand complex plain", "torch real 2R"
EXACT, GRADIENT_ALONE, TORCH_VD = "cplxmodule vd-exact", "cplxmodule vd", "complextorch vd"


@dataclass(frozen=True)
class Bar:
    """A ratio of two figures, and the least or the most that it may be."""

    above: str
    below: str
    least: float | None = None
    most: float | None = None

    def held_against(self, figures: dict[str, float]) -> dict[str, Any] | None:
        """The ratio, the bar and whether it is met; None without both figures."""
        if not (figures.get(self.above) and figures.get(self.below)):
            return None
        ratio = figures[self.above] / figures[self.below]
        met = (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)
        bar = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return {"ratio": f"{self.above} / {self.below}", "value": ratio, "bar": bar, "met": met}


def _small(exact: float, native: float, vd: float, plain: float) -> list[Bar]:
    """The bars of the paper's two MNIST networks."""
    return [
        Bar(EXACT, VD, least=exact),
        Bar(TORCH_VD, VD, least=native),
        Bar(VD, TWICE_REAL, most=vd),
        Bar(PLAIN, TWICE_REAL, most=plain),
        Bar("argand real vd", "real plain", most=1.7),
        Bar("argand real ard", "real plain", most=1.7),
    ]


_FASTER = [Bar(rival, VD, least=1) for rival in (EXACT, GRADIENT_ALONE, TORCH_VD)]
STEP = {
    "dense": _small(exact=15, native=10, vd=1.7, plain=1.25),
    "conv": _small(exact=3.5, native=3, vd=1.6, plain=1.1),
    "vgg16": _FASTER,
    "deepconv": _FASTER,
}
NORM = [Bar("complextorch", "argand", least=2)]
MEMORY = [Bar(VD, rival, most=1) for rival in (EXACT, GRADIENT_ALONE, TORCH_VD)]


def held(bars: list[Bar], figures: dict[str, float]) -> list[dict[str, Any]]:
    """Every bar that the figures allow to be judged, printed and told."""
    found = [judged for bar in bars if (judged := bar.held_against(figures))]
    for judged in found:
        verdict = "met" if judged["met"] else "NOT MET"
        print(f"  {judged['ratio']:<42} {judged['value']:>7.2f}  {judged['bar']:<13} {verdict}")
    return found


def show_steps(network: str, size: int, medians: dict[str, float]) -> None:
    """Print the medians with their ratios to our variational step and to the real network of the same floats."""
    print(f"\n{f'{network}, batch {size}':<32} {'ms':>8} {'/ argand vd':>12} {'/ 2R':>7}")
    for name, ms in sorted(medians.items(), key=lambda item: item[1]):
        print(f"{name:<32} {ms:>8.1f} {ms / medians[VD]:>12.2f} {ms / medians[TWICE_REAL]:>7.2f}")
