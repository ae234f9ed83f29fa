"""Linear and bilinear layers, and what every layer with complex weights shares."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.field import complex_dtype, field_name, keep_field
from argand.nn.kernels import complex_linear
from argand.nn.product import product

Layer = TypeVar("Layer", bound=nn.Module)


def complex_layer(cls: type[Layer]) -> type[Layer]:
    """Class decorator for subclasses of torch's layers with weights: the same arguments, complex by default.

    `dtype=None` means the complex type of torch's default precision. The initial weights and biases have the second
    moment E|w|² of the real layer (torch's complex ones have twice that). `.double()`, `.float()` and `.to(dtype)`
    change the precision and keep the field.
    """
    torch_init: Callable[..., None] = cls.__init__
    torch_reset: Callable[[Any], None] = cls.reset_parameters  # type: ignore[attr-defined]
    signature = inspect.signature(torch_init)

    @functools.wraps(torch_init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(self, *args, **kwargs)
        if bound.arguments.get("dtype") is None:
            bound.arguments["dtype"] = complex_dtype()
        torch_init(*bound.args, **bound.kwargs)

    def reset_parameters(self: nn.Module) -> None:
        torch_reset(self)
        with torch.no_grad():
            for parameter in self.parameters(recurse=False):
                if parameter.is_complex():
                    parameter.mul_(math.sqrt(0.5))

    cls.__init__ = __init__  # type: ignore[method-assign]
    cls.reset_parameters = reset_parameters  # type: ignore[attr-defined]
    cls._apply = apply_keeping_field  # type: ignore[method-assign]
    return cls


def apply_keeping_field(self: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """A `Module._apply` under which complex tensors stay complex and real ones real."""
    nn.Module._apply(self, keep_field(fn), recurse)  # type: ignore[no-untyped-call]
    return self


def check_field(layer: nn.Module, weight: Tensor, *inputs: Tensor) -> None:
    """Refuse real inputs to complex weights, and the reverse."""
    for given in inputs:
        if given.is_complex() != weight.is_complex():
            missing = "ToComplex" if weight.is_complex() else "Real"
            raise ArgandError(
                f"{type(layer).__name__}({layer.extra_repr()}) has {field_name(weight)} weights and was given a "
                f"{field_name(given)} tensor of shape {tuple(given.shape)}. Put argand.nn.{missing}() before it."
            )


def check_complex(layer: nn.Module, x: Tensor) -> None:
    """Refuse a real input to a layer without weights that acts on complex numbers."""
    if not x.is_complex():
        raise ArgandError(
            f"{type(layer).__name__} acts on complex tensors and was given a real one of shape {tuple(x.shape)}. Put "
            "argand.nn.ToComplex() before it, or use the layer of torch.nn."
        )


@complex_layer
class Linear(nn.Linear):
    """y = Wx + b over the complex numbers; arguments and state as `torch.nn.Linear`.

    >>> Linear(3, 2)(torch.zeros(5, 3, dtype=torch.complex64)).shape
    torch.Size([5, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer to the last axis."""
        check_field(self, self.weight, input)
        compute = complex_linear if input.is_complex() else product
        return compute(input, self.weight, self.bias)


@complex_layer
class Bilinear(nn.Bilinear):
    """y_o = Σ_ij W_oij x_i z_j + b_o, or with conj(x_i) if `conjugate`; otherwise as `torch.nn.Bilinear`.

    >>> x, z = torch.zeros(5, 3, dtype=torch.complex64), torch.zeros(5, 4, dtype=torch.complex64)
    >>> Bilinear(3, 4, 2, conjugate=True)(x, z).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        conjugate: bool = False,
    ) -> None:
        super().__init__(in1_features, in2_features, out_features, bias, device, dtype)
        self.conjugate = conjugate

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Apply the form to the last axes of both inputs."""
        check_field(self, self.weight, input1, input2)
        first = input1.conj() if self.conjugate else input1
        output = torch.einsum("...i,oij,...j->...o", first, self.weight, input2)
        return output if self.bias is None else output + self.bias

    def extra_repr(self) -> str:
        """The arguments."""
        return super().extra_repr() + (", conjugate=True" if self.conjugate else "")
