"""Real and complex numbers: the only file that tells them apart.

Every formula of the package is written once, for a field of real dimension k. What differs between k = 1 and k = 2
is here: the squared modulus, the dimension, the noise, and how a tensor is seen as real numbers.
"""

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from argand.chunks import CHUNK, in_memory_order, inverse, is_batched, memory_order
from argand.errors import ArgandError
from argand.noise import draw_key, normal_pairs


def real_dim(x: Tensor) -> int:
    """k: how many real numbers one entry of the tensor holds.

    >>> real_dim(torch.zeros(3)), real_dim(torch.zeros(3, dtype=torch.complex64))
    (1, 2)
    """
    return 2 if x.is_complex() else 1


def field_name(x: Tensor) -> str:
    """The word "real" or "complex", for messages and tables."""
    return "complex" if x.is_complex() else "real"


def real_view(x: Tensor) -> Tensor:
    """The same memory as real numbers: itself, or with a last axis (re, im)."""
    if not x.is_complex():
        return x
    if x.is_contiguous():
        return torch.view_as_real(x.resolve_conj())
    order = memory_order(x)  # torch's own gradients of the views would put the axes back into their usual order
    return torch.view_as_real(x.resolve_conj().permute(order)).permute([*inverse(order), x.dim()])


def complex_view(x: Tensor) -> Tensor:
    """The same memory as complex numbers, where the last axis is (re, im): undoes `real_view` of a complex tensor."""
    order = memory_order(x[..., 0])
    return torch.view_as_complex(x.permute([*order, x.dim() - 1])).permute(inverse(order))


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """(re, im) of a complex tensor, as views."""
    re, im = real_view(x).unbind(-1)
    return re, im


def components(x: Tensor) -> tuple[Tensor, ...]:
    """The k real numbers of each entry: (re, im), or (x,)."""
    return parts(x) if x.is_complex() else (x,)


def real_views(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Real views that share storage with the tensors, for kernels that refuse complex ones (fused Adam, scalers)."""
    return [real_view(x.detach()) for x in tensors]


def is_real_valued(x: Tensor) -> bool:
    """Whether complex numbers that need no gradient, such as a network's input, are all real: asked on a CPU only."""
    if x.requires_grad or x.device.type != "cpu" or torch.compiler.is_compiling() or is_batched(x):
        return False
    first = x[:1]  # tells most that are not
    return not bool(first.imag.any()) and not bool(x.imag.any())


def laid_out_as(y: Tensor, x: Tensor) -> Tensor:
    """y with the strides of x, where that is another name for the same order.

    With one channel, channels last and torch's usual order are the same numbers in memory; what is asked for is told
    by the strides alone, and elementwise operations forget them.
    """
    if y.stride() == x.stride() or not (y.is_contiguous() and x.is_contiguous()):
        return y
    return y.as_strided(y.shape, x.stride())


class _Abs2(torch.autograd.Function):
    """|z|² of complex numbers, with derivative 2z."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        return torch.addcmul(z.real.square(), z.imag, z.imag)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return scaled(ctx.saved_tensors[0], 2 * grads[0])


def abs2(x: Tensor) -> Tensor:
    """|x|², elementwise and real.

    >>> abs2(torch.tensor([3.0, -2.0])), abs2(torch.tensor([3 + 4j]))
    (tensor([9., 4.]), tensor([25.]))
    """
    size: Tensor = _Abs2.apply(x) if x.is_complex() else x.square()  # type: ignore[no-untyped-call]
    return laid_out_as(size, x)


def twice(x: Tensor) -> Tensor:
    """A real tensor with a last axis (x, x): once for each part of a complex one."""
    return torch.view_as_real(torch.complex(x, x))


def scaled(x: Tensor, factor: Tensor) -> Tensor:
    """x times a real factor. (torch would make the factor complex first, and take ten times as long.)

    >>> scaled(torch.tensor([1 + 2j]), torch.tensor([3.0]))
    tensor([3.+6.j])
    """
    return complex_view(real_view(x) * twice(factor)) if x.is_complex() else x * factor


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Re(conj(x)·y), elementwise: the inner product of two numbers as real vectors.

    >>> dot(torch.tensor([1 + 2j]), torch.tensor([3 + 4j]))
    tensor([11.])
    """
    products = real_view(x) * real_view(y)
    return products[..., 0] + products[..., 1] if x.is_complex() else products


class _Modulus(torch.autograd.Function):
    """|z| by hypot of the parts, several times faster than `abs`, with derivative 0 at 0 (hypot's is NaN)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        return torch.hypot(z.real.contiguous(), z.imag.contiguous())  # strided parts defeat vectorisation

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        z, size = ctx.saved_tensors
        return scaled(z, torch.where(size > 0, grads[0] / size, torch.zeros_like(size)))


def modulus(x: Tensor) -> Tensor:
    """|x|, without overflow or underflow of the squares; the gradient at 0 is 0.

    >>> modulus(torch.tensor([3e-30 + 4e-30j]))
    tensor([5.0000e-30])
    """
    size: Tensor = _Modulus.apply(x) if x.is_complex() else x.abs()  # type: ignore[no-untyped-call]
    return size


def modulus_of(re: Tensor, im: Tensor) -> Tensor:
    """`modulus` from the parts, in operations that exporters and compilers know."""
    zero = (re == 0) & (im == 0)
    size = torch.hypot(torch.where(zero, 1.0, re), im)  # away from 0, where its derivative is NaN
    return torch.where(zero, 0.0, size)


COUNTED = 2**12  # numbers of noise, on a CPU, from which hashing beats torch's generator


def noise_like(x: Tensor) -> Tensor:
    """Standard noise e with E|e|² = 1: N(0, 1), or CN(0, 1), in the order of memory, (re, im) interleaved."""
    noise = torch.empty_like(x)
    order = memory_order(noise)
    if not is_counted(x):
        noise.permute(order).normal_()  # into other orders torch draws slowly, and other numbers
        return noise
    key, start = draw_key(), 0
    row = real_view(in_memory_order(noise, order)).view(-1, 2)
    for piece in torch.split(row, CHUNK):
        drawn = normal_pairs(torch.arange(start, start + len(piece)), key, 2 / real_dim(x), piece.dtype)
        for component, values in zip(piece.unbind(-1), drawn, strict=True):
            component.copy_(values)
        start += len(piece)
    return noise


def is_counted(x: Tensor) -> bool:
    """Whether noise of this shape is hashed, two real numbers at a time, rather than drawn by torch."""
    even = x.is_complex() or x.numel() % 2 == 0
    return even and x.device.type == "cpu" and x.numel() >= COUNTED and not torch.compiler.is_compiling()


def noise_parts_like(re: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of `noise_like` of a complex tensor with these real parts: the same for one seed, up to rounding."""
    if not torch.compiler.is_compiling():
        template = torch.empty_like(re, dtype=re.dtype.to_complex())
        if is_counted(template):
            return parts(noise_like(template))
    order = memory_order(re)
    drawn = math.sqrt(0.5) * torch.randn([*(re.shape[i] for i in order), 2], dtype=re.dtype, device=re.device)
    re, im = (part.permute(inverse(order)) for part in drawn.unbind(-1))
    return re, im


class _SafeSqrt(torch.autograd.Function):
    """Square root of max(v, 0), whose derivative at 0 is taken as 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(v: Tensor) -> Tensor:
        return v.clamp_min(0).sqrt_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return torch.where(root > 0, 0.5 * grads[0] / root, torch.zeros_like(root))


def safe_sqrt(v: Tensor) -> Tensor:
    """Square root that is exactly 0 at 0 (and below) with a finite gradient there, and no floor anywhere else.

    >>> v = torch.tensor([4.0, 0.0, -1e-9], requires_grad=True)
    >>> root = safe_sqrt(v)
    >>> root.sum().backward()
    >>> root.detach(), v.grad
    (tensor([2., 0., 0.]), tensor([0.2500, 0.0000, 0.0000]))
    """
    root: Tensor = _SafeSqrt.apply(v)  # type: ignore[no-untyped-call]
    return root


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision of one part: float32 for float32 and for complex64."""
    return dtype.to_real()


def complex_dtype(dtype: torch.dtype | None = None) -> torch.dtype:
    """The complex type of the same precision; by default that of torch's default type (complex64)."""
    return (dtype or torch.get_default_dtype()).to_complex()


def keep_field(convert: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A conversion of modules (`.double()`, `.to(...)`) that changes precision and place, never the field.

    torch leaves complex tensors alone in `.double()`, drops their imaginary parts in `.to(float64)`, and turns real
    ones complex in `.to(complex128)`. Here complex stays complex and real stays real, at the precision asked for.
    """

    def converted(x: Tensor) -> Tensor:
        if not (x.is_complex() or x.is_floating_point()):
            return convert(x)
        asked = [_converted_dtype(convert, part, x.device) for part in (x.dtype, x.dtype.to_real())]
        if asked[1] == x.dtype.to_real() and asked[0].is_complex == x.dtype.is_complex:
            return convert(x)
        target = real_dtype(asked[1])
        if not x.is_complex():
            return convert(x.to(target)) if not asked[1].is_complex else x.to(target)
        if target in (torch.float16, torch.bfloat16):
            raise ArgandError(
                f"A complex parameter was to be converted to {target}, and torch has no usable complex type of that "
                "precision. Keep complex64."
            )
        if asked[0].is_complex and asked[1].is_complex:
            return convert(x)
        return torch.complex(convert(x.real), convert(x.imag))

    return converted


def _converted_dtype(convert: Callable[[Tensor], Tensor], dtype: torch.dtype, device: torch.device) -> torch.dtype:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an empty probe lost its imaginary part
        return convert(torch.empty(0, dtype=dtype, device=device)).dtype
