"""Activations and dropout of complex tensors."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from argand.field import complex_view, modulus, real_view, scaled
from argand.nn.layers import apply_keeping_field, check_complex


class Split(nn.Module):
    """f(re) + j·f(im) for any real activation f: a module or a function.

    >>> Split(nn.Tanh())(torch.tensor([1 - 1j]))
    tensor([0.7616-0.7616j])
    """

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to both parts."""
        check_complex(self, input)
        return torch.complex(self.activation(input.real), self.activation(input.imag))


class ReLU(nn.ReLU):
    """max(re, 0) + j·max(im, 0), the split ReLU.

    >>> ReLU()(torch.tensor([1 - 1j, -2 + 3j]))
    tensor([1.+0.j, 0.+3.j])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Clip both parts at zero."""
        check_complex(self, input)
        return complex_view(F.relu(real_view(input), self.inplace))


class ModReLU(nn.Module):
    """max(|z| + b, 0)·z/|z| with a learnt real b, one or one per channel (axis 1); 0 at z = 0.

    >>> ModReLU(init=-1.0)(torch.tensor([[3 + 4j, 0.5j]])).detach()
    tensor([[2.4000+3.2000j, 0.0000+0.0000j]])
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = -0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        real = dtype.to_real() if dtype is not None else None
        self.bias = nn.Parameter(torch.full((num_parameters,), init, device=device, dtype=real))

    _apply = apply_keeping_field

    def forward(self, input: Tensor) -> Tensor:
        """Shrink the moduli and keep the phases."""
        check_complex(self, input)
        return scaled(input, self.gain(modulus(input)))

    def gain(self, size: Tensor) -> Tensor:
        """What entries of these moduli are multiplied by."""
        shape = [1, -1] + [1] * (size.dim() - 2) if self.num_parameters > 1 else [1]
        return _mod_relu_gain(size, self.bias.view(shape))

    def extra_repr(self) -> str:
        """The arguments."""
        return f"num_parameters={self.num_parameters}, init={self.init}"


def _mod_relu_gain(size: Tensor, bias: Tensor) -> Tensor:
    """max(1 + b/|z|, 0), and 0 at z = 0, with finite gradients everywhere."""
    nonzero = size > 0
    gain = F.relu(1 + bias / torch.where(nonzero, size, 1.0))
    return torch.where(nonzero, gain, 0.0)


class Cardioid(nn.Module):
    """z·(1 + cos(arg z))/2: passes the positive real axis, blocks the negative one.

    >>> Cardioid()(torch.tensor([2 + 0j, 2j, -2 + 0j]))
    tensor([2.+0.j, 0.+1.j, -0.+0.j])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Scale by half of one plus the cosine of the phase."""
        check_complex(self, input)
        return scaled(input, self.gain(input.real, modulus(input)))

    def gain(self, re: Tensor, size: Tensor) -> Tensor:
        """What entries of these real parts and moduli are multiplied by."""
        return 0.5 + 0.5 * re / torch.where(size > 0, size, 1.0)


class ZReLU(nn.Module):
    """z where both parts are at least 0, else 0.

    >>> ZReLU()(torch.tensor([1 + 2j, 1 - 2j, -1 + 2j]))
    tensor([1.+2.j, 0.+0.j, 0.+0.j])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Keep the first quadrant."""
        check_complex(self, input)
        return torch.where(self.passes(input.real, input.imag), input, torch.zeros_like(input))

    def passes(self, re: Tensor, im: Tensor) -> Tensor:
        """Which entries of these parts pass."""
        return (re >= 0) & (im >= 0)


class Dropout(nn.Dropout):
    """Zeroes whole complex entries: one mask for both parts. Arguments as `torch.nn.Dropout`.

    >>> Dropout(0.5).eval()(torch.tensor([1 + 2j]))
    tensor([1.+2.j])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop entries with probability p in training, and scale the others by 1/(1 - p)."""
        check_complex(self, input)
        if not self.training or self.p == 0:
            return input
        mask = self.mask(input.real)
        return input.mul_(mask) if self.inplace else scaled(input, mask)

    def mask(self, re: Tensor) -> Tensor:
        """What entries of these real parts are multiplied by in training."""
        return F.dropout(torch.ones_like(re, memory_format=torch.contiguous_format), self.p)
