"""The kernels: C functions and types, one in a file of its own name, of which a program takes those that it calls.

In the text FIELD is "real" or "complex", PARTS the floats of a number, WEIGHT and INDEX types; SUFFIX names the types.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SHORT = {"float": "f32", "int16_t": "i16", "int8_t": "i8", "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32"}
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Kernel:
    """A file of this folder, for a field and for types of weights and indices where its text has them."""

    file: str
    parts: int = 0
    weight: str = ""
    index: str = ""

    @property
    def name(self) -> str:
        """The function's name in C."""
        field = {0: "", 1: "_real", 2: "_complex"}[self.parts]
        types = "".join(f"_{_SHORT[t]}" for t in (self.weight, self.index) if t)
        return f"net_{self.file.removesuffix(field)}{field}{types}"

    @property
    def source(self) -> str:
        """The text."""
        text = _text(self.file)
        words = {
            "FIELD": {0: "", 1: "real", 2: "complex"}[self.parts],
            "PARTS": str(self.parts),
            "SUFFIX": "_".join(_SHORT[t] for t in (self.weight, self.index) if t),
            "WEIGHT": self.weight,
            "INDEX": self.index,
        }
        for token, word in words.items():
            text = re.sub(rf"\b{token}\b|(?<=_){token}\b|(?<=_){token}(?=_)", word, text)
        return text.strip()

    def needs(self) -> list["Kernel"]:
        """The other files that the text refers to."""
        found = []
        for word in dict.fromkeys(re.findall(r"\bnet_(\w+)", _text(self.file))):
            stem = word.removesuffix("_SUFFIX").removesuffix("_FIELD")
            # a file for both fields, or one for each
            for file in (stem, stem + {1: "_real", 2: "_complex"}.get(self.parts, "")):
                if file != self.file and (_FOLDER / f"{file}.c").exists():
                    both = "FIELD" in _text(file) or file != stem
                    found.append(Kernel(file, self.parts if both else 0))
                    break
        return found


@cache
def _text(file: str) -> str:
    return (_FOLDER / f"{file}.c").read_text()


def in_order(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The kernels and all that they need, each after what it needs."""
    done: dict[str, Kernel] = {}

    def visit(kernel: Kernel) -> None:
        if kernel.name not in done:
            for other in kernel.needs():
                visit(other)
            done[kernel.name] = kernel

    for kernel in kernels:
        visit(kernel)
    return list(done.values())
