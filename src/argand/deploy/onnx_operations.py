"""Operations that torch's ONNX exporter lacks or gets wrong, in terms of those that it knows."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def hypot(x: Tensor, y: Tensor) -> Tensor:
    """sqrt(x² + y²), scaled by the larger, so that the squares neither overflow nor vanish."""
    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = small / torch.where(large > 0, large, 1.0)
    return large * torch.sqrt(1 + ratio * ratio)


def windows(size: int, count: int) -> list[tuple[int, int]]:
    """The starts and ends of adaptive pooling's windows along one axis.

    >>> windows(5, 3)
    [(0, 2), (1, 4), (3, 5)]
    """
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive(x: Tensor, output_size: list[int], reduce: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Adaptive pooling of the last axes, one at a time."""
    for axis, count in zip(range(-len(output_size), 0), output_size, strict=True):
        if count == x.shape[axis]:
            continue
        slices = [x.narrow(axis, start, end - start) for start, end in windows(x.shape[axis], count)]
        x = torch.cat([reduce(part, axis) for part in slices], axis)
    return x


def adaptive_average(x: Tensor, output_size: list[int]) -> Tensor:
    """Windows are boxes, so averages may be taken axis by axis."""
    return _adaptive(x, output_size, lambda part, axis: part.mean(axis, keepdim=True))


def adaptive_maximum(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """The values, and zeros for the indices, which no network here reads."""
    values = _adaptive(x, output_size, lambda part, axis: part.amax(axis, keepdim=True))
    return values, torch.zeros_like(values, dtype=torch.long)


def _average(name: str) -> Callable[..., Any]:
    """Average pooling without the divisor, which the exporter forgets; an uneven last window has another count."""

    def pool(
        x: Tensor,
        kernel_size: list[int],
        stride: list[int] = [],  # noqa: B006 - torch's signature
        padding: list[int] = [0],  # noqa: B006
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if divisor_override is None:
            return NotImplemented
        if ceil_mode:
            raise NotImplementedError("average pooling with ceil_mode and divisor_override")
        dimensions = int(name[-2])
        kernel = list(kernel_size) * (dimensions // len(kernel_size))
        average = getattr(_aten, name)(x, kernel_size, stride, padding, False, True)
        return average * (math.prod(kernel) / divisor_override)

    return pool


#: for `ExportedProgram.run_decompositions`
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.hypot.default: hypot,
    _aten._adaptive_avg_pool3d.default: adaptive_average,
    _aten.adaptive_avg_pool3d.default: adaptive_average,
    _aten.adaptive_max_pool1d.default: adaptive_maximum,
    _aten.adaptive_max_pool2d.default: adaptive_maximum,
    _aten.adaptive_max_pool3d.default: adaptive_maximum,
    _aten.avg_pool2d.default: _average("avg_pool2d"),
    _aten.avg_pool3d.default: _average("avg_pool3d"),
}
