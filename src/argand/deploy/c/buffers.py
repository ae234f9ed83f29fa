"""Where values lie: in the input, in the output, or in scratch memory, which values share one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from argand.deploy.c.program import Call, Program


@dataclass(frozen=True)
class Plan:
    """The pointer in C to each value that is no view, and the floats of scratch memory."""

    places: dict[str, str]
    scratch: int


@dataclass(eq=False)
class _Cell:
    """Memory that values hold one after the other, from call `first` to call `last`."""

    floats: int
    first: int
    last: int
    place: str = ""
    offset: int = 0


def plan(program: Program) -> Plan:
    """Inputs and outputs are where the caller has them; the rest is placed from the largest to the smallest."""
    cells = _cells(program)
    for name, place in _in_sequence(program, "output", program.outputs).items():
        cells[name].place = place
    free = dict.fromkeys(cell for cell in cells.values() if not cell.place)
    placed: list[_Cell] = []
    for cell in sorted(free, key=lambda cell: -cell.floats):
        cell.offset = _lowest(cell, placed)
        cell.place = pointer("scratch", cell.offset)
        placed.append(cell)
    places = _in_sequence(program, "input", program.inputs) | {name: cell.place for name, cell in cells.items()}
    return Plan(places, max((cell.offset + cell.floats for cell in placed), default=0))


def pointer(area: str, offset: int) -> str:
    """An expression in C."""
    return f"{area} + {offset}" if offset else area


def _in_sequence(program: Program, area: str, names: Sequence[str]) -> dict[str, str]:
    """Values one after the other."""
    places, offset = {}, 0
    for name in names:
        places[name] = pointer(area, offset)
        offset += program.values[name].floats
    return places


def _cells(program: Program) -> dict[str, _Cell]:
    """A cell for each value that is written; the input's when the call may write over it and nothing reads it later."""
    last: dict[str, int] = {}
    for i, call in enumerate(program.calls):
        last.update(dict.fromkeys((*call.reads, call.write), i))
    last.update(dict.fromkeys(program.outputs, len(program.calls)))
    cells: dict[str, _Cell] = {}
    for i, call in enumerate(program.calls):
        name = call.write
        if name not in cells:
            cells[name] = _written_over(program, call, i, last, cells) or _Cell(program.values[name].floats, i, i)
        cells[name].last = max(cells[name].last, last[name])
    return cells


def _written_over(program: Program, call: Call, i: int, last: dict[str, int], cells: dict[str, _Cell]) -> _Cell | None:
    """The cell of an input that dies in this call; one that becomes an output must have the output's size."""
    floats = program.values[call.write].floats  # at most the input's: kernels that work in place don't widen
    for name in (call.reads[k] for k in call.in_place):
        cell = cells.get(name)
        fits = cell is not None and (cell.floats == floats or call.write not in program.outputs)
        if fits and last[name] == i:
            return cell
    return None


def _lowest(cell: _Cell, placed: Sequence[_Cell]) -> int:
    """The lowest offset at which the cell meets no other that lives at the same time."""
    at = 0
    for other in sorted(placed, key=lambda other: other.offset):
        together = cell.first <= other.last and other.first <= cell.last
        if together and at < other.offset + other.floats and other.offset < at + cell.floats:
            at = other.offset + other.floats
    return at
