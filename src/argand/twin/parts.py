"""Complex values as pairs of real tensors, and the functions of a graph on them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from argand.field import modulus_of, parts
from argand.graph import FUNCTIONS


class Parts(NamedTuple):
    """A complex tensor as its real and imaginary parts."""

    re: Tensor
    im: Tensor

    def each(self, function: Callable[[Tensor], Tensor]) -> "Parts":
        """A real function of both parts, the real one first."""
        return Parts(function(self.re), function(self.im))


Value = Any  # Parts for a complex tensor; a real tensor, or whatever else a layer returns, is itself


def split(value: Any) -> Value:
    """A complex tensor as its parts; anything else as it is."""
    return Parts(*parts(value)) if isinstance(value, Tensor) and value.is_complex() else value


def join(value: Value) -> Any:
    """The complex tensor of the parts; anything else as it is."""
    return torch.complex(value.re, value.im) if isinstance(value, Parts) else value


def call(kind: str, values: list[Value], options: dict[str, Any]) -> Value:
    """A function of `argand.graph.FUNCTIONS`, or "detach", of real and complex values."""
    if kind == "detach":
        (x,) = values
        return x.each(lambda part: part.detach()) if isinstance(x, Parts) else x.detach()
    if not any(isinstance(x, Parts) for x in values):
        return FUNCTIONS[kind](*values, **options)
    function = _OF_PARTS.get(kind) or _of_each(kind)
    return function(*values, **options)


def _complete(x: Value) -> Parts:
    return x if isinstance(x, Parts) else Parts(x, torch.zeros_like(x))


def _of_each(kind: str) -> Callable[..., Parts]:
    """A function that acts on both parts alike."""

    def apply(*values: Value, **options: Any) -> Parts:
        pairs = [_complete(x) for x in values]
        re, im = (FUNCTIONS[kind](*(x[i] for x in pairs), **options) for i in (0, 1))
        return Parts(re, im)

    return apply


def _sum(kind: str) -> Callable[..., Parts]:
    """A sum or difference; a number counts for the real part alone."""

    def apply(*values: Value, value: float | None = None) -> Parts:
        if value is None:
            return _of_each(kind)(*values)
        (x,) = values
        return Parts(FUNCTIONS[kind](x.re, value=value), x.im)

    return apply


def _product(*values: Value, value: float | None = None) -> Parts:
    if value is not None:
        return _of_each("mul")(*values, value=value)
    x, z = values
    if not isinstance(x, Parts):
        x, z = z, x
    if not isinstance(z, Parts):
        return Parts(x.re * z, x.im * z)
    return Parts(x.re * z.re - x.im * z.im, x.re * z.im + x.im * z.re)


_OF_PARTS: dict[str, Callable[..., Value]] = {
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": _product,
    "abs": lambda x: modulus_of(x.re, x.im),
    "real": lambda x: x.re,
}
