"""Samples around a mean: local reparameterisation, with noise of a given variance and, if improper, relation."""

from typing import Any

import torch
from torch import Tensor

from argand.chunks import is_batched, map_pieces, pieces
from argand.field import dot, is_counted, noise_like, parts, real_dim, real_view, safe_sqrt, scaled, twice
from argand.loops import attempt, from_words, is_paired, pairs, same_order, should_compile, to_words, words
from argand.noise import draw_key, normal_pairs


class _Perturbed(torch.autograd.Function):
    """y + e·sqrt(max(v, 0)) and e; the gradient by v is Re(conj(dL/dy)·e)/(2 sqrt(v)), and 0 where v is."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        if is_batched(y) or is_batched(variance):
            noise = noise_like(y)
            return y + scaled(noise, variance.clamp_min(0).sqrt()), noise
        y, variance = y.resolve_conj().resolve_neg(), variance.resolve_neg()
        wanted = is_counted(y) and is_paired(y) and is_paired(variance) and should_compile(y.device, y.numel())
        if wanted and same_order(y, variance):
            total, noise, generator = torch.empty_like(y), torch.empty_like(y), torch.get_rng_state()
            rows = [pairs(t) if not y.is_complex() else words(t) for t in (y, variance, total, noise)]
            if attempt(_perturb, *rows, draw_key(), torch.tensor(2.0 / real_dim(y))) is not None:
                return total, noise
            torch.set_rng_state(generator)  # the key is drawn again
        noise, total = noise_like(y), torch.empty_like(y)
        for e, mean, v, out in pieces(noise, y, variance, total):
            root = v.clamp_min(0).sqrt_()
            factor = twice(root) if e.is_complex() else root
            torch.addcmul(real_view(mean), real_view(e), factor, out=real_view(out))
        return total, noise

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        grad, (noise, variance) = grads[0], ctx.saved_tensors
        if grad is None:
            return None, None
        if torch.is_grad_enabled():  # for second derivatives
            return grad, dot(grad, noise) * _half_over_root(variance)
        given = grad.resolve_conj().resolve_neg(), noise, variance.resolve_neg()
        if should_compile(grad.device, grad.numel()) and same_order(*given):
            slope = torch.empty_like(given[2])
            if attempt(_pull, *map(words, (*given, slope))) is not None:
                return grad, slope
        return grad, map_pieces(lambda g, e, v: dot(g, e) * _half_over_root(v), *given)


def _half_over_root(variance: Tensor) -> Tensor:
    positive = variance > 0
    return torch.where(positive, 0.5 * torch.where(positive, variance, 1.0).rsqrt(), 0.0)


def _perturb(y: Tensor, variance: Tensor, total: Tensor, noise: Tensor, key: Tensor, power: Tensor) -> Tensor:
    """The sample and its noise, two real numbers at a time, in one loop; `power` is that of such a pair."""
    roots = [v.clamp_min(0).sqrt() for v in (from_words(variance) if variance.dtype == torch.int64 else [variance])]
    drawn = normal_pairs(torch.arange(len(y)), key, power, torch.float32)
    noise.copy_(to_words(drawn))
    both = roots * (2 // len(roots))
    return total.copy_(to_words([m + e * root for m, e, root in zip(from_words(y), drawn, both, strict=True)]))


def _pull(grad: Tensor, noise: Tensor, variance: Tensor, slope: Tensor) -> Tensor:
    """dL/dv from dL/dy, in one loop."""
    products = [g * e for g, e in zip(from_words(grad), from_words(noise), strict=True)]
    return slope.copy_(sum(products) * _half_over_root(variance))


def perturbed(y: Tensor, variance: Tensor) -> Tensor:
    """y + e·sqrt(variance) with standard noise e; where the variance is 0 (or below) exactly y, with a finite gradient.

    >>> perturbed(torch.ones(2), torch.zeros(2))
    tensor([1., 1.])
    """
    sample: Tensor = _Perturbed.apply(y, variance)[0]  # type: ignore[no-untyped-call]
    return sample


def improper_noise(y: Tensor, variance: Tensor, relation: Tensor) -> Tensor:
    """Complex noise for y, Gaussian with E|n|² = variance (real) and E n² = relation (complex, of modulus <= variance).

    Its formula is that of `improper_noise_of`, on the parts.
    """
    return torch.complex(*improper_noise_of(variance, *parts(relation), *parts(noise_like(y))))


def improper_noise_of(variance: Tensor, p: Tensor, q: Tensor, e: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of the noise with relation p + jq, from the parts of standard noise e + jf.

    With c = relation/variance and d = 1 + sqrt(1 - |c|²), and standard noise e, this is
    sqrt(variance)·(sqrt(d/2)·e + c/sqrt(2d)·conj(e)): the symmetric root of the 2x2 covariance. It needs no angle, and
    unlike the half-angle form it is differentiable at relation = 0.
    """
    positive = variance > torch.finfo(variance.dtype).tiny
    scale = torch.where(positive, variance, torch.ones_like(variance))
    c, s = p / scale, q / scale  # a reciprocal's square could overflow
    d = 1 + safe_sqrt(1 - torch.addcmul(c.square(), s, s))
    root, plain, turned = safe_sqrt(variance), (d / 2).sqrt(), (2 * d).rsqrt()
    return (e * plain + (c * e + s * f) * turned) * root, (f * plain + (s * e - c * f) * turned) * root
