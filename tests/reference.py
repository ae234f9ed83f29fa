"""What the fast code is tested against: divergences to 40 digits, and training steps by textbook formulas."""

import mpmath as mp
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import argand
import argand.nn as ann
from argand.field import noise_like

mp.mp.dps = 40

# Divergences, written from their definitions for mpmath


def ein(r):
    """∫0^r (1 - e^-t)/t dt."""
    r = mp.mpf(r)
    if r < mp.mpf("1e-3"):
        return mp.fsum((-1) ** (n + 1) * r**n / (n * mp.factorial(n)) for n in range(1, 15))
    return mp.euler + mp.log(r) + (mp.e1(r) if r < 200 else 0)


def dawson(s):
    """e^(-s²) ∫0^s e^(t²) dt."""
    s = mp.mpf(s)
    if s > 25:
        return (1 + mp.fsum(mp.fac2(2 * j - 1) / (2 * s * s) ** j for j in range(1, 20))) / (2 * s)
    return mp.sqrt(mp.pi) / 2 * mp.exp(-s * s) * mp.erfi(s)


def dawson_integral(s):
    """∫0^s of Dawson's integral."""
    s2 = mp.mpf(s) ** 2
    if s2 > 400:
        tail = mp.fsum(mp.fac2(2 * j - 1) / (2 ** (j + 1) * s2**j) / j for j in range(1, 15))
        return (mp.log(s2) / 2 + mp.euler / 2 + mp.log(2) - tail) / 2
    return s2 * mp.hyp2f2(1, 1, 1.5, 2, -s2) / 2


def kl(prior, k, log_snr):
    """KL of a weight with this log r."""
    r = mp.e ** mp.mpf(log_snr)
    if prior == "ard":
        return mp.log1p(r) * k / 2
    return ein(r) if k == 2 else 2 * dawson_integral(mp.sqrt(r / 2))


def slope(prior, k, log_snr):
    """dKL/dl."""
    r = mp.e ** mp.mpf(log_snr)
    if prior == "ard":
        return r / (1 + r) * k / 2
    s = mp.sqrt(r / 2)
    return -mp.expm1(-r) if k == 2 else s * dawson(s)


def gradient(prior, k, mu, log_sigma2):
    """(dKL/dmu as re + j·im of the partials, dKL/dlog_sigma2)."""
    mu = mp.mpc(complex(mu))
    if mu == 0:
        return mp.mpc(0), mp.mpf(0)
    g = slope(prior, k, 2 * mp.log(abs(mu)) - mp.mpf(log_sigma2))
    return 2 * g * mu / abs(mu) ** 2, -g


# Training: native operations of double precision and plain autograd. Of argand's own only `noise_like` is called, so
# that one seed gives the same noise.

# Each kind from torch.nn or argand.nn, with the shape of an input, and whether complex networks are given complex
# ones: those of images see real ones, made complex. Before a norm there is no bias: its gradient is 0,
# and Adam would make steps of the rounding errors.
NETWORKS = {
    "dense": ((24,), False, lambda n: [n.Linear(24, 40), n.ReLU(), n.Linear(40, 10)]),
    "SimpleConv": (
        (1, 14, 14),
        False,
        lambda n: [
            *(n.Conv2d(1, 4, 3), n.ReLU(), n.AvgPool2d(2), n.Conv2d(4, 6, 3), n.AvgPool2d(2), n.ReLU()),
            *(nn.Flatten(), n.Linear(24, 16), n.ReLU(), n.Linear(16, 10)),
        ],
    ),
    "VGG": (
        (2, 8, 8),
        False,
        lambda n: [
            *(n.Conv2d(2, 4, 3, padding=1, bias=False), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(2)),
            *(n.Conv2d(4, 6, 3, padding=1, bias=False), n.BatchNorm2d(6), n.MaxPool2d(2), n.ReLU()),
            *(nn.Flatten(), n.Linear(24, 10)),
        ],
    ),
    "DeepConvNet": (
        (2, 40),
        True,
        lambda n: [
            *(n.Conv1d(2, 4, 6, stride=2, bias=False), n.BatchNorm1d(4), n.ReLU(), n.AvgPool1d(2)),
            *(n.Conv1d(4, 6, 3, dilation=2), n.ReLU(), nn.Flatten(), n.Linear(30, 12), n.ReLU(), n.Linear(12, 10)),
        ],
    ),
}
BATCH, STEPS = 14, 20
DIVERGENCE_WEIGHT, MAX_NORM, LR = 1e-3, 0.1, 1e-2
NODES, WEIGHTS = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(40))
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2  # on [0, 1]


def network(kind, field, prior, dtype=torch.float64):
    """A network of this kind with real or complex weights, variational unless the prior is "plain"."""
    torch.manual_seed(0)
    _, takes_complex, make = NETWORKS[kind]
    begin = [nn.Identity() if takes_complex else ann.ToComplex()]
    layers = [*begin, *make(ann), ann.Real()] if field == "complex" else [nn.Identity(), *make(nn)]
    net = nn.Sequential(*layers).double()
    if prior != "plain":
        argand.sparsify(net, prior, initial=-5.0)
    return net.to(dtype)


def batches(kind, field, dtype=torch.float64):
    """Another batch for every step."""
    generator = torch.Generator().manual_seed(1)
    shape, takes_complex, _ = NETWORKS[kind]
    field_type = torch.complex128 if takes_complex and field == "complex" else torch.float64
    for _ in range(STEPS):
        x = torch.randn(BATCH, *shape, dtype=field_type, generator=generator)
        labels = torch.randint(10, (BATCH,), generator=generator)
        yield x.to(dtype.to_complex() if x.is_complex() else dtype), labels


def trained(net, data):
    """The norms before clipping of each step of the textbook's training."""
    optimizer = torch.optim.Adam(net.parameters(), lr=LR, foreach=False, fused=False)
    norms = []
    for x, labels in data:
        optimizer.zero_grad()
        layers = [layer for layer in net.modules() if isinstance(layer, argand.Variational)]
        loss = F.cross_entropy(output(net, x), labels) + DIVERGENCE_WEIGHT * sum(map(divergence, layers))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM))
        optimizer.step()
    return torch.stack(norms)


def abs2(x):
    return x.real.square() + x.imag.square() if x.is_complex() else x.square()


def divergence(layer):
    """The sum of KL, the log-uniform prior's as an integral: ∫ (1 - e^-rt)/t, or ∫ (1 - e^-r(1-t²)/2)/(1-t²)."""
    mu = layer.mean.weight
    r = abs2(mu) / layer.log_sigma2.exp()
    if str(layer.prior) == "ard":
        return (torch.log1p(r) if mu.is_complex() else 0.5 * torch.log1p(r)).sum()
    assert r.max() < 150  # or the integrand wants more nodes
    t = NODES if mu.is_complex() else 1 - NODES**2
    rate = t if mu.is_complex() else t / 2
    return ((1 - torch.exp(-r.unsqueeze(-1) * rate)) / t * WEIGHTS).sum()


def output(layer, x):
    """What the layer makes of x in training."""
    if isinstance(layer, nn.Sequential):
        for child in layer:
            x = output(child, x)
        return x
    if isinstance(layer, argand.Variational):
        return sample(layer, x)
    if hasattr(layer, "weight") and not isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return linear(layer, x, layer.weight, layer.bias)
    return next(rule for kind, rule in RULES.items() if isinstance(layer, kind))(layer, x)


def linear(layer, x, weight, bias):
    if isinstance(layer, nn.Linear):
        return F.linear(x, weight, bias)
    convolve = F.conv1d if isinstance(layer, nn.Conv1d) else F.conv2d
    return convolve(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


def sample(layer, x):
    """Mean + noise·sqrt(variance). The noise of convolutions is drawn with the channels innermost."""
    mean = linear(layer.mean, x, layer.mean.weight, layer.mean.bias)
    variance = linear(layer.mean, abs2(x), layer.log_sigma2.exp(), None)
    like = mean.detach().movedim(1, -1).contiguous().movedim(-1, 1)
    root = torch.where(variance > 0, torch.where(variance > 0, variance, 1.0).sqrt(), 0.0)
    return mean + noise_like(like) * root


def on_parts(function):
    def apply(layer, x):
        return torch.complex(function(layer, x.real), function(layer, x.imag)) if x.is_complex() else function(layer, x)

    return apply


def normalised(layer, x):
    """Batch norm of the k components of each channel, by the inverse root of their covariance."""
    channels = x.movedim(1, 0).flatten(1)
    numbers = torch.stack([channels.real, channels.imag], 1) if x.is_complex() else channels.unsqueeze(1)
    count, mean = numbers.shape[2], numbers.mean(2, keepdim=True)
    covariance = (numbers - mean) @ (numbers - mean).mT / count
    values, vectors = torch.linalg.eigh(covariance + layer.eps * torch.eye(numbers.shape[1], dtype=numbers.dtype))
    whitening = vectors @ torch.diag_embed(values.rsqrt()) @ vectors.mT
    result = layer.weight.view(len(numbers), *covariance.shape[1:]) @ whitening @ (numbers - mean)
    row = torch.complex(result[:, 0], result[:, 1]) if x.is_complex() else result[:, 0]
    with torch.no_grad():
        new_mean = channels.mean(1)
        new_variance = (covariance * count / (count - 1)).view_as(layer.running_var)
        for running, new in ((layer.running_mean, new_mean), (layer.running_var, new_variance)):
            running.copy_((1 - layer.momentum) * running + layer.momentum * new)
        layer.num_batches_tracked += 1
    return (row + layer.bias.unsqueeze(1)).unflatten(1, (len(x), *x.shape[2:])).movedim(0, 1)


RULES = {
    nn.Identity: lambda _, x: x,
    nn.Flatten: lambda _, x: x.reshape(len(x), -1),
    ann.ToComplex: lambda _, x: torch.complex(x, torch.zeros_like(x)),
    ann.Real: lambda _, x: x.real,
    nn.ReLU: on_parts(lambda _, x: x.clamp_min(0)),
    nn.AvgPool1d: on_parts(lambda layer, x: F.avg_pool1d(x, layer.kernel_size, layer.stride)),
    nn.AvgPool2d: on_parts(lambda layer, x: F.avg_pool2d(x, layer.kernel_size, layer.stride)),
    nn.MaxPool2d: on_parts(lambda layer, x: F.max_pool2d(x, layer.kernel_size, layer.stride)),
    nn.modules.batchnorm._BatchNorm: normalised,
}
