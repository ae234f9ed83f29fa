"""Real matrix products on a CPU, by the faster of the two libraries that torch carries.

torch multiplies float32 matrices through MKL. Its other library, oneDNN, uses the 512-bit units of every CPU that has
them, and was 1.9 to 2.5 times faster on one where MKL does not (`benchmarks/products.py`); small products are better
left to MKL, whose calls cost less. The rule looks at shapes alone, so that equal runs take equal ways.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST = 2**22  # multiplications from which oneDNN's dearer calls pay


def prefers_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether x @ weight.T is one for oneDNN."""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * weight.shape[0] >= SMALLEST
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias over the last axis of x, as `torch.nn.functional.linear`.

    >>> product(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)).shape
    torch.Size([2, 4])
    """
    if not prefers_onednn(x, weight):
        return F.linear(x, weight, bias)
    rows: Tensor = _Product.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return rows.view(*x.shape[:-1], weight.shape[0])


class _Product(torch.autograd.Function):
    """The product of matrices through oneDNN, and its gradients, which are products themselves."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        output: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (grad,) = ctx.saved_tensors, grads
        to_x, to_weight, to_bias = ctx.needs_input_grad
        return (
            product(grad, weight.t()) if to_x else None,
            product(grad.t(), x.t()) if to_weight else None,
            grad.sum(0) if to_bias else None,
        )
