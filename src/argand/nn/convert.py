"""Between real and complex tensors."""

import torch
from torch import Tensor, nn

from argand.errors import ArgandError
from argand.field import laid_out_as
from argand.nn.layers import check_complex


def _check_real(layer: nn.Module, x: Tensor) -> None:
    if x.is_complex():
        raise ArgandError(
            f"{type(layer).__name__} takes a real tensor and was given a complex one of shape {tuple(x.shape)}. "
            "Remove the layer, or put argand.nn.Real() before it."
        )


class ToComplex(nn.Module):
    """x + 0j.

    >>> ToComplex()(torch.tensor([1.0, 2.0]))
    tensor([1.+0.j, 2.+0.j])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Add a zero imaginary part."""
        _check_real(self, input)
        return laid_out_as(torch.complex(input, torch.zeros_like(input)), input)


class Real(nn.Module):
    """The real part, for instance of the logits.

    >>> Real()(torch.tensor([1 + 2j]))
    tensor([1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop the imaginary part."""
        check_complex(self, input)
        return input.real


class Concatenate(nn.Module):
    """C complex channels to 2C real ones, [re; im] along `dim`.

    >>> Concatenate()(torch.tensor([[1 + 2j, 3 + 4j]]))
    tensor([[1., 3., 2., 4.]])
    """

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Lay the parts side by side."""
        check_complex(self, input)
        return torch.cat([input.real, input.imag], self.dim)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"dim={self.dim}"


class Separate(nn.Module):
    """2C real channels [re; im] along `dim` to C complex ones: the inverse of `Concatenate`.

    >>> Separate()(torch.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[1.+2.j, 3.+4.j]])
    """

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Pair the first half of the channels with the second."""
        return torch.complex(*self.parts(input))

    def parts(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """The real and the imaginary channels."""
        _check_real(self, input)
        if input.shape[self.dim] % 2:
            raise ArgandError(
                f"Separate(dim={self.dim}) pairs real channels [re; im] and was given {input.shape[self.dim]} of them "
                f"(shape {tuple(input.shape)}): their number must be even."
            )
        re, im = input.chunk(2, self.dim)
        return re, im

    def extra_repr(self) -> str:
        """The arguments."""
        return f"dim={self.dim}"
