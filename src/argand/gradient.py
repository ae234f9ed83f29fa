"""The divergence's gradient in closed form, added to `.grad` in one pass that also sums the squares of the result.

On a large network this pass is bound by memory, so it is compiled where it can be: all its operations become one loop.
Without a compiler it goes through the weights in pieces that stay in the cache. Both call `snr_gradient_of`.
"""

import math
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from argand.chunks import in_memory_order, memory_order, pieces
from argand.errors import ArgandError, ArgandWarning
from argand.field import components, real_view
from argand.posteriors import Circular
from argand.priors import LogSnrFunction, SnrPrior, snr_gradient_of
from argand.variational import Variational, named_layers

SMALLEST = 2**20  # weights of a network from which compiling pays by itself
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


def add_divergence_gradient(net: nn.Module, weight: float, *, compiled: bool = False) -> Squares:
    """`divergence_backward`, telling the squares of the gradients it has gone through."""
    squares: Squares = []
    for layer in named_layers(net).values():
        mu, spread = layer.weight_mean, layer.spread
        if isinstance(layer.prior, SnrPrior) and isinstance(layer.posterior, Circular):
            log_sigma2 = spread["log_sigma2"]
            add = _compiled if compiled and _fits(mu, log_sigma2) else _in_pieces
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


def can_compile(device: torch.device) -> bool:
    """Whether torch finds what it needs to compile for this device: a C++ compiler, or Triton."""
    if device.type == "cuda":
        return find_spec("triton") is not None
    compilers = (os.environ.get("CXX"), "g++", "clang++")
    return device.type == "cpu" and os.name == "posix" and any(name and shutil.which(name) for name in compilers)


def pays(net: nn.Module) -> bool:
    """Whether a network is large enough to compile for unasked: the first step then takes seconds."""
    layers = [module for module in net.modules() if isinstance(module, Variational)]
    return sum(layer.weight_mean.numel() for layer in layers) >= SMALLEST and can_compile(layers[0].weight_mean.device)


def _fits(mu: Tensor, log_sigma2: Tensor) -> bool:
    """Whether the compiled loop takes these: float32, all four in one order in memory, both learning."""
    grads = [_grad(p) for p in (mu, log_sigma2) if p.requires_grad]
    order = memory_order(mu)
    dense = all(t.permute(order).is_contiguous() for t in (mu, log_sigma2, *grads))
    return len(grads) == 2 and dense and log_sigma2.dtype == torch.float32 and not _broken


_broken: list[str] = []  # why compiling has failed


def _compiled(mu: Tensor, log_sigma2: Tensor, slope: LogSnrFunction, weight: float) -> Tensor:
    """`_in_pieces` as one compiled loop, or `_in_pieces` from the first failure to compile on."""
    tensors = [_words(t.detach()) for t in (mu, log_sigma2, _grad(mu), _grad(log_sigma2))]
    scale = torch.full((), weight, dtype=log_sigma2.dtype, device=mu.device)
    try:
        with torch.no_grad():
            return _loop(slope, mu.is_complex())(*tensors, scale)
    except Exception as error:  # whatever a compiler, its cache or its linker may raise; nothing has been added yet
        _broken.append(str(error))
        warnings.warn(
            "The divergence's gradient could not be compiled and is computed without, several times slower: "
            f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}",
            ArgandWarning,
            stacklevel=2,
        )
        return _in_pieces(mu, log_sigma2, slope, weight)


def _words(x: Tensor) -> Tensor:
    """The numbers in a row as they lie; complex64 as 64-bit words, which the compiler's loops read whole."""
    row = in_memory_order(x, memory_order(x))
    return row.view(torch.int64) if x.is_complex() else row


def _halves(words: Tensor) -> list[Tensor]:
    """(re, im) of words."""
    return [half.to(torch.int32).view(torch.float32) for half in (words, words >> 32)]


def _joined(re: Tensor, im: Tensor) -> Tensor:
    """Words of (re, im)."""
    low, high = (part.view(torch.int32).to(torch.int64) for part in (re, im))
    return (low & 0xFFFFFFFF) | (high << 32)


@cache
def _loop(slope: LogSnrFunction, is_complex: bool) -> Callable[..., Tensor]:
    """One pass over mu, log_sigma2 and their gradients."""

    def add(mu: Tensor, log_sigma2: Tensor, to_mu: Tensor, to_log_sigma2: Tensor, weight: Tensor) -> Tensor:
        split: Callable[[Tensor], Sequence[Tensor]] = _halves if is_complex else lambda x: [x]
        terms = snr_gradient_of(split(mu), log_sigma2, slope)
        sums = [g + weight * t for g, t in zip([*split(to_mu), to_log_sigma2], terms, strict=True)]
        to_mu.copy_(_joined(*sums[:-1]) if is_complex else sums[0])
        to_log_sigma2.copy_(sums[-1])
        return torch.stack([x.square() for x in sums]).sum()

    return torch.compile(add, dynamic=True, fullgraph=True)
