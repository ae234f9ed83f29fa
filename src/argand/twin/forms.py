"""What each layer does to complex values held as parts.

A layer's complex tensors are read through `real_view`, so that a layer whose tensors are stored as real views already
(as in `frozen`) works alike.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import argand.nn as ann
from argand.field import abs2, modulus_of, noise_parts_like, real_view, safe_sqrt
from argand.graph import kind_of
from argand.graph.kinds import SILENT
from argand.nn.apply import ordered
from argand.nn.batchnorm import affine_parts, normalised
from argand.nn.conv import transposed_convolution
from argand.nn.pooling import largest, pool_part, taken_at
from argand.sampling import improper_noise_of
from argand.twin.kernels import convolution_of_parts, linear_of_parts
from argand.twin.parts import Parts, Value
from argand.variational import Variational

Form = Callable[..., Value]  # of the layer and its inputs


def form_of(layer: nn.Module, values: list[Value]) -> Form | None:
    """How a layer acts on complex values, or makes them; None where it has no form, or acts on real ones as it is."""
    kind = kind_of(layer)
    name = kind.name if kind else ""
    given = [isinstance(x, Parts) for x in values]
    if any(given) != all(given):
        return None
    if isinstance(layer, Variational) and weighted_form(layer.mean):
        return _variational
    if not any(given):
        return _FROM_REAL.get(name)
    if isinstance(layer, SILENT):
        return _dropout if isinstance(layer, ann.Dropout) else None if layer.training else _same
    return _plain if weighted_form(layer) else _FORMS.get(name)


# Layers linear in their weight: of the layer, its weight and bias as real views, and the inputs


def _linear(layer: Any, weight: Tensor, bias: Tensor | None, x: Parts) -> Parts:
    return Parts(*linear_of_parts(x, weight, bias))


def _bilinear(layer: Any, weight: Tensor, bias: Tensor | None, x: Parts, z: Parts) -> Parts:
    """Linear in the products x_i z_j."""
    if getattr(layer, "conjugate", False):
        x = Parts(x.re, -x.im)
    (a, b), (c, d) = (part.unsqueeze(-1) for part in x), (part.unsqueeze(-2) for part in z)
    products = Parts((a * c - b * d).flatten(-2), (a * d + b * c).flatten(-2))
    return Parts(*linear_of_parts(products, weight.flatten(1, 2), bias))


def _convolution(layer: Any, weight: Tensor, bias: Tensor | None, x: Parts) -> Parts:
    return Parts(*convolution_of_parts(layer._conv_forward, x, *_unbound(weight, bias), layer.groups))


def _transposed(layer: Any, weight: Tensor, bias: Tensor | None, x: Parts) -> Parts:
    convolve = transposed_convolution(layer, x.re)
    return Parts(*convolution_of_parts(convolve, x, *_unbound(weight, bias), layer.groups, transposed=True))


def _unbound(weight: Tensor, bias: Tensor | None) -> tuple[Parts, Parts | None]:
    return Parts(*weight.unbind(-1)), None if bias is None else Parts(*bias.unbind(-1))


_WEIGHTED: dict[str, Callable[..., Parts]] = {
    "Linear": _linear,
    "Bilinear": _bilinear,
    **{f"Conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _transposed for n in (1, 2, 3)},
}
#: the same layers on real tensors, without bias: of the layer, a weight and the inputs
_REAL_WEIGHTED: dict[str, Callable[..., Tensor]] = {
    "Linear": lambda layer, weight, x: F.linear(x, weight),
    "Bilinear": lambda layer, weight, x, z: torch.einsum("...i,oij,...j->...o", x, weight, z),
    **{f"Conv{n}d": lambda layer, weight, x: layer._conv_forward(x, weight, None) for n in (1, 2, 3)},
    **{
        f"ConvTranspose{n}d": lambda layer, weight, x: transposed_convolution(layer, x)(x, weight, None)
        for n in (1, 2, 3)
    },
}


def weighted_form(layer: nn.Module) -> Callable[..., Parts] | None:
    """The form of a layer linear in its weight, argand's or torch's."""
    kind = kind_of(layer)
    return _WEIGHTED.get(kind.word) if kind else None


def _plain(layer: Any, *inputs: Parts) -> Parts:
    form = weighted_form(layer)
    assert form is not None
    return form(layer, real_view(layer.weight), None if layer.bias is None else real_view(layer.bias), *inputs)


def _variational(layer: Variational, *inputs: Value) -> Value:
    """The mean, and in training the noise: its variance and relation are those of |x|² and x² under their weights."""
    mean, mu = layer.mean, layer.weight_mean
    if not mu.is_complex():
        sample: Tensor = layer(*inputs)
        return sample
    output = _plain(mean, *inputs)
    kind = kind_of(mean)
    if not layer.training or kind is None:
        return output
    weight = layer.posterior.variance(mu, layer.spread)
    variance = _REAL_WEIGHTED[kind.word](mean, weight, *(_abs2(x) for x in inputs))
    relation_weight = layer.posterior.relation(mu, layer.spread)
    template = ordered(mean, output.re) if output.re.dim() == mu.dim() else output.re  # as the layer itself draws it
    noise = Parts(*noise_parts_like(template))
    if relation_weight is None:
        noise = _scaled(noise, safe_sqrt(variance))
    else:
        relation = _WEIGHTED[kind.word](mean, real_view(relation_weight), None, *(_square(x) for x in inputs))
        noise = Parts(*improper_noise_of(variance, *relation, *noise))
    return Parts(output.re + noise.re, output.im + noise.im)


def _abs2(x: Value) -> Tensor:
    return torch.addcmul(x.re.square(), x.im, x.im) if isinstance(x, Parts) else abs2(x)


def _square(x: Parts) -> Parts:
    return Parts(x.re.square() - x.im.square(), 2 * x.re * x.im)


# Layers without a weight that multiplies


def _same(layer: Any, x: Parts) -> Parts:
    return x


def _each(layer: Any, x: Parts) -> Parts:
    return x.each(layer)


def _scaled(x: Parts, gain: Tensor) -> Parts:
    return Parts(x.re * gain, x.im * gain)


def _mod_relu(layer: ann.ModReLU, x: Parts) -> Parts:
    return _scaled(x, layer.gain(modulus_of(*x)))


def _cardioid(layer: ann.Cardioid, x: Parts) -> Parts:
    return _scaled(x, layer.gain(x.re, modulus_of(*x)))


def _z_relu(layer: ann.ZReLU, x: Parts) -> Parts:
    passes = layer.passes(*x)
    return x.each(lambda part: torch.where(passes, part, 0.0))


def _dropout(layer: ann.Dropout, x: Parts) -> Parts:
    return _scaled(x, layer.mask(x.re)) if layer.training and layer.p else x


def _normalise(layer: nn.Module, x: Parts) -> Parts:
    numbers = torch.stack([part.movedim(1, -1) for part in x], -1)
    return Parts(*(part.movedim(-1, 1) for part in normalised(layer, numbers).unbind(-1)))


def _pool(layer: nn.Module, x: Parts) -> Parts:
    return x.each(lambda part: pool_part(layer, part))


def _pool_by_modulus(layer: Any, x: Parts) -> Parts:
    indices = largest(layer, _abs2(x).detach())
    return x.each(lambda part: taken_at(indices, part, layer.dimensions))


_FORMS: dict[str, Form] = {
    "nn.Flatten": _each,
    "ann.Split": lambda layer, x: x.each(layer.activation),
    "ann.ReLU": lambda layer, x: x.each(F.relu),
    "ann.ModReLU": _mod_relu,
    "ann.Cardioid": _cardioid,
    "ann.ZReLU": _z_relu,
    "ann.Real": lambda layer, x: x.re,
    "ann.Concatenate": lambda layer, x: torch.cat(x, layer.dim),
    "ann.Affine": lambda layer, x: Parts(*affine_parts(x.re, x.im, layer.weight, real_view(layer.bias))),
    **{f"ann.BatchNorm{n}d": _normalise for n in (1, 2, 3)},
    **{f"ann.ModMaxPool{n}d": _pool_by_modulus for n in (1, 2, 3)},
    **{f"ann.{word}Pool{n}d": _pool for word in ("Avg", "Max", "AdaptiveAvg", "AdaptiveMax") for n in (1, 2, 3)},
}
_FROM_REAL: dict[str, Form] = {
    "ann.ToComplex": lambda layer, x: Parts(x, torch.zeros_like(x)),
    "ann.Separate": lambda layer, x: Parts(*layer.parts(x)),
}
