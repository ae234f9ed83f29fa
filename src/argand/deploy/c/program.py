"""A program while it is being written: values, constant tables, and calls of kernels in order."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from argand.deploy.c.kernels import Kernel
from argand.deploy.c.weights import C_TYPES, Weight
from argand.field import real_dim, real_view

#: entries of a table on one line of C
PER_LINE = 8


@dataclass(frozen=True)
class Value:
    """An array in the program's memory: its shape without the batch axis, and the floats of one number."""

    name: str
    shape: tuple[int, ...]
    parts: int

    @property
    def floats(self) -> int:
        """How many floats it takes."""
        return math.prod(self.shape) * self.parts

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.parts == 2

    def __str__(self) -> str:
        """Its field and shape, for comments."""
        shape = ", ".join(map(str, self.shape)) if self.shape else "one number"
        return f"{'complex' if self.is_complex else 'real'} ({shape})"


@dataclass(frozen=True)
class Table:
    """A constant array or struct in C, and its bytes."""

    definition: str
    size: int


@dataclass(frozen=True)
class Call:
    """One call of a kernel: f(reads..., write + offset, arguments...).

    It may write over those of its inputs that `in_place` lists, once no later call reads them.
    """

    kernel: Kernel
    reads: tuple[str, ...]
    write: str
    offset: int
    arguments: tuple[str, ...]
    in_place: tuple[int, ...]
    comment: str  # the step that it belongs to


@final
@dataclass
class Program:
    """What has been written so far. A value that is only a view of another has that one as its root."""

    weights: dict[nn.Module, Weight]
    values: dict[str, Value] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # roots, each another one
    macs: int = 0
    comment: str = ""  # of the step that is being written
    _views: dict[str, str] = field(default_factory=dict)
    _written: dict[Any, tuple[str, ...]] = field(default_factory=dict)

    def add(self, name: str, example: Tensor) -> Value:
        """A value for a tensor with a leading batch axis of one."""
        self.values[name] = Value(name, tuple(example.shape[1:]), real_dim(example))
        return self.values[name]

    def temporary(self, shape: Sequence[int], parts: int) -> Value:
        """A value between two calls of one step."""
        name = f"temporary {len(self.values)}"
        self.values[name] = Value(name, tuple(shape), parts)
        return self.values[name]

    def view(self, value: Value, of: Value) -> None:
        """The value has the same floats in the same order as another one."""
        assert value.floats == of.floats
        self._views[value.name] = self.root(of.name)

    def root(self, name: str) -> str:
        """The value whose memory this one is."""
        return self._views.get(name, name)

    def call(
        self,
        kernel: str | Kernel,
        reads: Sequence[Value],
        write: Value,
        *arguments: int | float | str,
        in_place: tuple[int, ...] = (),
        offset: int = 0,
    ) -> None:
        """Append a call; floats among the arguments get C's notation."""
        kernel = Kernel(kernel) if isinstance(kernel, str) else kernel
        words = tuple(literal(a) if isinstance(a, float) else str(a) for a in arguments)
        names = tuple(self.root(value.name) for value in reads)
        self.calls.append(Call(kernel, names, write.name, offset, words, in_place, self.comment))

    def elementwise(self, kernel: str, x: Value, y: Value, *arguments: int | float | str) -> None:
        """Append a call that may write over its input."""
        self.call(kernel, [x], y, *arguments, in_place=(0,))

    def table(self, name: str, entries: NDArray[Any] | Tensor) -> str:
        """A constant array, of floats for a tensor (complex numbers interleaved), else of the entries' own type."""
        if isinstance(entries, Tensor):
            entries = real_view(entries.detach()).float().numpy()
        flat = np.ravel(entries)
        c_type = C_TYPES[flat.dtype.name]
        name = self._free(name)
        definition = f"static const {c_type} {name}[{flat.size}] = {{\n{_lines(flat)}\n}};"
        self.tables[name] = Table(definition, flat.nbytes)
        return name

    def struct(self, name: str, c_type: str, members: Sequence[int | Sequence[int]]) -> str:
        """A constant struct of ints, one level of structs inside it; for use as an argument."""
        name = self._free(name)
        words = [str(m) if isinstance(m, int) else "{" + ", ".join(map(str, m)) + "}" for m in members]
        count = sum(1 if isinstance(m, int) else len(m) for m in members)
        definition = f"static const {c_type} {name} = {{\n    {', '.join(words)}\n}};"
        self.tables[name] = Table(definition, 4 * count)
        return "&" + name

    def once(self, key: Any, write: Any) -> tuple[str, ...]:
        """The tables that `write()` names, written at the first use of the key: shared layers are stored once."""
        if key not in self._written:
            self._written[key] = write()
        return self._written[key]

    def kernels(self) -> Iterator[Kernel]:
        """The kernels called, each once."""
        yield from dict.fromkeys(call.kernel for call in self.calls)

    def _free(self, name: str) -> str:
        """The name in C, unlike all before."""
        name = "net_" + re.sub(r"\W", "_", name).strip("_")
        count = sum(1 for other in self.tables if re.fullmatch(re.escape(name) + r"(_\d+)?", other))
        return f"{name}_{count + 1}" if count else name


def literal(x: float) -> str:
    """A float in C such that reading it gives the same fp32 number.

    >>> literal(1.0), literal(0.1), literal(-2e-10)
    ('1.0f', '0.100000001f', '-2.00000003e-10f')
    """
    return _word(float(np.float32(x)))


def _word(x: float) -> str:
    word = f"{x:.9g}"
    return word + ("f" if "." in word or "e" in word else ".0f")


def _lines(flat: NDArray[Any]) -> str:
    """The entries, several on a line."""
    words = [_word(x) for x in flat.tolist()] if flat.dtype.kind == "f" else [str(x) for x in flat.tolist()]
    return ",\n".join("    " + ", ".join(words[i : i + PER_LINE]) for i in range(0, len(words), PER_LINE))
