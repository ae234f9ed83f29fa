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


def product_of_exp(x: Tensor, log_weight: Tensor) -> Tensor:
    """x @ exp(log_weight).T over the last axis of x.

    >>> product_of_exp(torch.ones(1, 3), torch.zeros(2, 3))
    tensor([[3., 3.]])
    """
    if not prefers_onednn(x, log_weight):
        return F.linear(x, log_weight.exp())
    rows: Tensor = _ProductOfExp.apply(x.flatten(0, -2), log_weight)[0]  # type: ignore[no-untyped-call]
    return rows.view(*x.shape[:-1], log_weight.shape[0])


class _ProductOfExp(torch.autograd.Function):
    """The product and the exponentials; the gradient by the logarithm is scaled where it lies."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
        weight = log_weight.exp()
        return product(x, weight), weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (x, weight), (grad, to_weight) = ctx.saved_tensors, grads
        to_x, to_log = ctx.needs_input_grad
        if grad is None:
            return None, None if to_weight is None else to_weight * weight
        by_x = product(grad, weight.t()) if to_x else None
        by_log = product(grad.t(), x.t()) if to_log else None
        if by_log is not None and to_weight is not None:
            by_log = by_log + to_weight
        if by_log is not None:
            by_log = by_log * weight if torch.is_grad_enabled() else by_log.mul_(weight)
        return by_x, by_log


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
