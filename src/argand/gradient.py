"""The divergence's gradient in closed form, added to `.grad` in one pass that also sums the squares of the result.

On a large network this pass is bound by memory, so it is compiled where it can be: all its operations become one loop.
Without a compiler it goes through the weights in pieces that stay in the cache. Both call `snr_gradient_of`.
"""

import math
from collections.abc import Callable
from functools import cache, reduce

import torch
from torch import Tensor, nn

from argand.chunks import pieces
from argand.errors import ArgandError
from argand.field import components, real_view
from argand.loops import attempt, from_words, same_order, should_compile, to_words, words
from argand.posteriors import Circular
from argand.priors import LogSnrFunction, SnrPrior, snr_gradient_of
from argand.variational import Variational, named_layers

Squares = list[tuple[list[Tensor], Tensor]]  # parameters, and the sum of their gradients' squares


def divergence_backward(net: nn.Module, weight: float) -> None:
    """Add weight · d divergence(net)/d parameter to each `.grad`, in closed form and without the forward value.

    >>> net = argand.sparsify(nn.Linear(3, 2))
    >>> argand.divergence_backward(net, 1e-4)
    >>> net.log_sigma2.grad.shape
    torch.Size([2, 3])
    """
    if not math.isfinite(weight):
        raise ArgandError(f"The weight of the divergence must be a finite number, and {weight} was given.")
    add_divergence_gradient(net, weight)


def add_divergence_gradient(net: nn.Module, weight: float) -> Squares:
    """`divergence_backward`, telling the squares of the gradients it has gone through."""
    squares: Squares = []
    for layer in named_layers(net).values():
        mu, spread = layer.weight_mean, layer.spread
        if isinstance(layer.prior, SnrPrior) and isinstance(layer.posterior, Circular):
            log_sigma2 = spread["log_sigma2"]
            add = _compiled if should_compile(mu.device, mu.numel()) else _in_pieces
            squares.append(([mu, log_sigma2], add(mu, log_sigma2, layer.prior.slope, weight)))
        else:
            _add_by_autograd(layer, weight)
    return squares


def _add_by_autograd(layer: Variational, weight: float) -> None:
    """For priors and posteriors without a closed form."""
    with torch.enable_grad():
        total = layer.divergence().sum()
    learnt = [p for p in (layer.weight_mean, *layer.spread.values()) if p.requires_grad]
    for p, grad in zip(learnt, torch.autograd.grad(total, learnt, allow_unused=True), strict=True):
        if grad is not None:
            _grad(p).add_(grad, alpha=weight)


def _grad(p: Tensor) -> Tensor:
    """The parameter's .grad, created as zeros where missing."""
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    return resolved_grad(p)


def resolved_grad(p: Tensor) -> Tensor:
    """The parameter's .grad, which autograd may leave as a conjugate view: real views of that would be copies."""
    assert p.grad is not None
    if p.grad.is_conj() or p.grad.is_neg():
        p.grad = p.grad.resolve_conj().resolve_neg()
    return p.grad


# In pieces


@torch.no_grad()
def _in_pieces(mu: Tensor, log_sigma2: Tensor, slope: LogSnrFunction, weight: float) -> Tensor:
    """Add the closed form to the gradients of those that learn; returns the sum of their squares."""
    learnt = [p for p in (mu, log_sigma2) if p.requires_grad]
    squares = torch.zeros((), dtype=log_sigma2.dtype, device=mu.device)
    for piece_mu, piece_log_sigma2, *grads in pieces(mu, log_sigma2, *(_grad(p) for p in learnt)):
        parts = [x.contiguous() for x in components(piece_mu)]  # strided ones defeat vectorisation
        *to_mu, to_log_sigma2 = snr_gradient_of(parts, piece_log_sigma2, slope)
        added = [terms for p, terms in ((mu, to_mu), (log_sigma2, [to_log_sigma2])) if p.requires_grad]
        for grad, terms in zip(grads, added, strict=True):
            for component, term in zip(components(grad), terms, strict=True):
                component.add_(term, alpha=weight)
            squares += torch.linalg.vector_norm(real_view(grad)).square()
    return squares


# Compiled


def _compiled(mu: Tensor, log_sigma2: Tensor, slope: LogSnrFunction, weight: float) -> Tensor:
    """`_in_pieces` as one compiled loop, where that is possible."""
    if not (mu.requires_grad and log_sigma2.requires_grad):
        return _in_pieces(mu, log_sigma2, slope, weight)
    tensors = [t.detach() for t in (mu, log_sigma2, _grad(mu), _grad(log_sigma2))]
    if not same_order(*tensors):
        return _in_pieces(mu, log_sigma2, slope, weight)
    scale = torch.full((), weight, dtype=log_sigma2.dtype, device=mu.device)
    squares: Tensor | None = attempt(_loop(slope), *map(words, tensors), scale)
    return _in_pieces(mu, log_sigma2, slope, weight) if squares is None else squares


@cache
def _loop(slope: LogSnrFunction) -> Callable[..., Tensor]:
    """One pass over mu, log_sigma2 and their gradients, in words."""

    def add(mu: Tensor, log_sigma2: Tensor, to_mu: Tensor, to_log_sigma2: Tensor, weight: Tensor) -> Tensor:
        terms = snr_gradient_of(from_words(mu), log_sigma2, slope)
        sums = [g + weight * t for g, t in zip([*from_words(to_mu), to_log_sigma2], terms, strict=True)]
        to_mu.copy_(to_words(sums[:-1]))
        to_log_sigma2.copy_(sums[-1])
        return reduce(torch.add, [x.square() for x in sums]).sum()

    add.__code__ = add.__code__.replace(co_name=f"add_{id(slope)}")  # torch counts recompilations by the code
    return add
