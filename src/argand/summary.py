"""What pruning gained, layer by layer: kept weights, floats and bytes side by side, work, dead units."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from argand.accounting import VALUE_BYTES, count_uses, dead_units, real_products, stored_bytes
from argand.errors import ArgandError
from argand.field import field_name, real_dim
from argand.pruning import Masks, plain_parameters
from argand.surgery import is_linear_in_weight
from argand.variational import Variational


@dataclass(frozen=True)
class Row:
    """One layer, or the total. Counts of floats take a complex number as two; MACs are real ones."""

    name: str
    field: str
    weights: int  # maskable ones; a complex weight is one
    kept: int
    floats: int  # of all parameters: weights, biases, norms
    kept_floats: int
    dense_bytes: int
    bytes: int
    dense_macs: int | None = None
    macs: int | None = None
    dead_outputs: int | None = None
    dead_inputs: int | None = None

    @property
    def compression(self) -> float:
        """Floats over kept floats."""
        return self.floats / self.kept_floats if self.kept_floats else float("inf")


@dataclass(frozen=True)
class Report:
    """Rows by layer and their total; prints as a table."""

    layers: list[Row]
    total: Row

    @property
    def compression(self) -> float:
        """Floats of all parameters over those kept."""
        return self.total.compression

    @property
    def bytes(self) -> int:
        """Bytes of the stored weights, positions and statistics."""
        return self.total.bytes

    def __str__(self) -> str:
        return format_table(_HEADER, [_cells(row) for row in [*self.layers, self.total]])


def report(net: nn.Module, masks: Masks | None = None, example: Tensor | tuple[Tensor, ...] | None = None) -> Report:
    """Count what a network keeps, per layer and in total, as floats and as bytes of the stored file.

    Without masks a weight counts as kept where it is not zero. With an example (a batch of one) multiply-accumulates
    and dead units are counted too. Bytes are those of fp32 values, of their positions where weights are missing, and
    of batch-norm statistics; the file adds a header.

    >>> net = nn.Sequential(nn.Linear(100, 10))
    >>> masks = Masks({"0.weight": torch.arange(1000).view(10, 100) < 10})
    >>> print(argand.report(net, masks))
    layer field weights kept   kept % floats compression dense bytes bytes gain
    0     real     1000   10   1.00 %   1010       x50.5        4040    90 x44.9
    total real     1000   10   1.00 %   1010       x50.5        4040    90 x44.9
    """
    if masks is not None:
        masks._matched(net)  # raises on a wrong name or shape
    uses = None if example is None else count_uses(net, example)
    names = {id(p): name for name, p in plain_parameters(net).items()}
    rows = []
    for module in net.modules():
        own = [(names[id(p)], p) for p in module.parameters(recurse=False) if id(p) in names]
        if own and not isinstance(module, Variational):
            rows.append(_row(module, own, masks, uses))
    if not rows:
        raise ArgandError(f"{type(net).__name__} has no parameters to report.")
    return Report(rows, _total(rows))


def _row(
    module: nn.Module, own: Sequence[tuple[str, Tensor]], masks: Masks | None, uses: dict[nn.Module, int] | None
) -> Row:
    floats = sum(p.numel() * real_dim(p) for _, p in own)
    statistics = sum(b.numel() * real_dim(b) for b in module.buffers(recurse=False) if not _is_count(b))
    dense = (floats + statistics) * VALUE_BYTES
    name = own[0][0].rpartition(".")[0] or type(module).__name__
    weight_name, weight = own[0]
    if not is_linear_in_weight(module) and weight_name not in (masks or {}):
        return Row(name, field_name(weight), 0, 0, floats, floats, dense, dense)
    mask = (weight != 0) if masks is None else masks.get(weight_name, torch.ones_like(weight, dtype=torch.bool))
    mask, k = mask.detach().cpu(), real_dim(weight)
    kept = int(mask.sum())
    gone = (mask.numel() - kept) * k
    size = stored_bytes(mask, k) + dense - mask.numel() * k * VALUE_BYTES
    row = Row(name, field_name(weight), mask.numel(), kept, floats, floats - gone, dense, size)
    if uses is None:
        return row
    products = uses.get(module, 0) * real_products(weight)
    outputs, inputs = dead_units(module, mask)
    dense_macs, macs = products * mask.numel(), products * kept
    return replace(row, dense_macs=dense_macs, macs=macs, dead_outputs=outputs, dead_inputs=inputs)


def _is_count(buffer: Tensor) -> bool:
    return not (buffer.is_floating_point() or buffer.is_complex())


def _values(row: Row) -> list[object]:
    return [getattr(row, field.name) for field in fields(row)]


def _total(rows: list[Row]) -> Row:
    kinds = {row.field for row in rows}
    sums = []
    for column in list(zip(*map(_values, rows), strict=True))[2:]:
        counted = [value for value in column if isinstance(value, int)]
        sums.append(sum(counted) if counted else None)
    return Row("total", kinds.pop() if len(kinds) == 1 else "mixed", *sums)  # type: ignore[arg-type]


_HEADER = ["layer", "field", "weights", "kept", "kept %", "floats", "compression", "dense bytes", "bytes", "gain"]
_HEADER += ["dense MACs", "MACs", "dead out", "dead in"]


def _cells(row: Row) -> list[str]:
    share = f"{100 * row.kept / row.weights:.2f} %" if row.weights else "-"
    cells = [row.name, row.field, str(row.weights), str(row.kept), share, str(row.floats)]
    cells += [f"x{row.compression:.4g}", str(row.dense_bytes), str(row.bytes), f"x{row.dense_bytes / row.bytes:.3g}"]
    return cells + ["" if value is None else str(value) for value in _values(row)[8:]]


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first left, the others right unless they are words; empty columns are left out."""
    used = [i for i in range(len(header)) if any(row[i] for row in rows)]
    words = {i for i in used if all(row[i][:1].isalpha() and not row[i].startswith("x") for row in rows)} | {0}
    table = [[row[i] for i in used] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    align = ["<" if i in words else ">" for i in used]
    lines = (
        " ".join(f"{cell:{a}{w}}" for cell, a, w in zip(line, align, widths, strict=True)).rstrip() for line in table
    )
    return "\n".join(lines)
