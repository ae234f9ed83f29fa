"""One wrapper that makes any layer linear in its weight Bayesian, and what is asked of a network of such layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from argand.errors import ArgandError
from argand.field import abs2, field_name, keep_field
from argand.modes import evaluation
from argand.nn.apply import applied, is_hooked, is_linear, knows, ordered
from argand.nn.product import product_of_exp
from argand.posteriors import Circular, Posterior
from argand.priors import Prior
from argand.sampling import improper_noise, perturbed


class Variational(nn.Module):
    """A layer with Gaussian weights: in training its output is a sample, in evaluation that of the mean weights.

    `mean` is the layer itself, whose weight is mu. The noise is drawn on the output (local reparameterisation): its
    variance is the same layer applied to |x|² with weights s2, in real arithmetic.

    >>> layer = Variational(nn.Linear(3, 2), argand.priors.PRIORS["vd"])
    >>> sorted(name for name, _ in layer.named_parameters())
    ['log_sigma2', 'mean.bias', 'mean.weight']
    """

    mean: nn.Module

    def __init__(
        self, mean: nn.Module, prior: Prior, posterior: Posterior | None = None, initial: float | None = None
    ) -> None:
        super().__init__()
        self.mean, self.prior, self.posterior = mean, prior, posterior or Circular()
        self.posterior.check(prior, self.weight_mean)
        start = self.posterior.initial if initial is None else initial
        for name, value in self.posterior.spread(self.weight_mean, start).items():
            self.register_parameter(name, nn.Parameter(value))
        self.train(mean.training)
        self.register_load_state_dict_pre_hook(_accept_plain_weights)  # type: ignore[no-untyped-call]

    @property
    def weight_mean(self) -> Tensor:
        """mu, the wrapped layer's weight."""
        weight: Tensor = self.mean.weight  # type: ignore[assignment]
        return weight

    @property
    def spread(self) -> dict[str, Tensor]:
        """The posterior's own parameters by name: log_sigma2, or log_alpha, or log_sigma2 and relation."""
        return {name: p for name, p in self._parameters.items() if p is not None}

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """A sample of the output in training; the output of the mean layer, bit for bit, in evaluation."""
        mu = self.weight_mean
        for x in inputs:
            if isinstance(x, Tensor) and x.is_complex() != mu.is_complex():
                missing = "ToComplex" if mu.is_complex() else "Real"
                raise ArgandError(
                    f"{type(self.mean).__name__}({self.mean.extra_repr()}) has {field_name(mu)} weights and was given "
                    f"a {field_name(x)} tensor of shape {tuple(x.shape)}. Put argand.nn.{missing}() before it."
                )
        if not self.training:
            output: Tensor = self.mean(*inputs, **options)
            return output
        if not knows(self.mean, inputs, options) or is_hooked(self.mean):
            return self._perturb(self.mean(*inputs, **options), inputs, options)
        x = ordered(self.mean, inputs[0])
        output = ordered(self.mean, applied(self.mean, mu, self.mean._parameters.get("bias"), x))
        sample = self._perturb(output, (x,), options)
        return sample.contiguous() if x is not inputs[0] else sample

    def _perturb(self, output: Tensor, inputs: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
        """A sample around the mean output."""
        mu = self.weight_mean
        log_variance = self.posterior.log_variance(self.spread)
        if log_variance is not None and is_linear(self.mean):
            variance = product_of_exp(abs2(inputs[0]), log_variance)
        else:
            variance = self._linear(self.posterior.variance(mu, self.spread), abs2, inputs, options)
        relation_weight = self.posterior.relation(mu, self.spread)
        if relation_weight is None:
            return perturbed(output, variance)
        return output + improper_noise(output, variance, self._linear(relation_weight, torch.square, inputs, options))

    def _linear(
        self, weight: Tensor, function: Callable[[Tensor], Tensor], inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> Tensor:
        """What the layer, without its hooks and its bias, makes of function(inputs) with another weight."""
        if knows(self.mean, inputs, options):
            return applied(self.mean, weight, None, function(inputs[0]))
        replaced = {"layer.weight": weight}
        bias = self.mean._parameters.get("bias")
        if bias is not None:
            replaced["layer.bias"] = torch.zeros_like(bias, dtype=weight.dtype)
        arguments = tuple(function(x) if isinstance(x, Tensor) else x for x in inputs)
        output: Tensor = functional_call(_Unhooked(self.mean), replaced, arguments, options)
        return output

    def divergence(self) -> Tensor:
        """KL(q‖p) of each weight: exact, differentiable, of the weight's shape."""
        return self.posterior.divergence(self.prior, self.weight_mean, self.spread)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        super()._apply(keep_field(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """The prior and the posterior."""
        return f"prior={self.prior}, posterior={self.posterior.name}"


class _Unhooked(nn.Module):
    """Reaches a layer's forward past its hooks."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.layer.forward(*inputs, **options)


def _accept_plain_weights(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Let a plain layer's state load: its weights become the means, and the spread stays as it is."""
    if f"{prefix}weight" not in state or f"{prefix}mean.weight" in state:
        return
    for name in [key for key in state if key.startswith(prefix)]:
        state[f"{prefix}mean.{name.removeprefix(prefix)}"] = state.pop(name)
    for name, value in module.named_parameters(recurse=False):
        state.setdefault(f"{prefix}{name}", value.detach())


def named_layers(net: nn.Module) -> dict[str, Variational]:
    """The variational layers by the name that their weight has in the collapsed network ("weight" for a bare one)."""
    found = {
        f"{path}.weight" if path else "weight": module
        for path, module in net.named_modules()
        if isinstance(module, Variational)
    }
    if not found:
        raise ArgandError(
            f"{type(net).__name__} has no variational layers (they may have been collapsed): call "
            "argand.sparsify(net) first."
        )
    return found


def divergence(net: nn.Module) -> Tensor:
    """KL(q‖p) of all weights of a network: exact, a differentiable scalar.

    >>> net = argand.sparsify(nn.Linear(3, 2), "ard", initial=0.0)
    >>> nn.init.ones_(net.mean.weight) is not None, argand.divergence(net)
    (True, tensor(2.0794, grad_fn=...))
    """
    layers = list(named_layers(net).values())
    device = layers[0].weight_mean.device
    return torch.stack([layer.divergence().sum().to(device) for layer in layers]).sum()


def log_alpha(net: nn.Module) -> dict[str, Tensor]:
    """log(s2/|mu|²) of each weight, under the names of the collapsed network: high where the weight is noise.

    It is +inf where mu = 0.

    >>> list(argand.log_alpha(argand.sparsify(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))))
    ['1.weight']
    """
    with torch.no_grad():
        layers = named_layers(net).items()
        return {name: layer.posterior.log_alpha(layer.weight_mean, layer.spread).clone() for name, layer in layers}


@dataclass(frozen=True)
class Prediction:
    """Outputs under the posterior: mean, standard deviation sqrt(E|y - mean|²), and the samples, stacked first."""

    mean: Tensor
    std: Tensor
    samples: Tensor


def predict(net: nn.Module, x: Tensor | tuple[Tensor, ...], samples: int = 32) -> Prediction:
    """The network's outputs for weights drawn from the posterior; dropout and batch norm stay in evaluation.

    >>> argand.predict(argand.sparsify(nn.Linear(3, 2)), torch.ones(5, 3), samples=4).samples.shape
    torch.Size([4, 5, 2])
    """
    if samples < 1:
        raise ArgandError(f"predict draws at least one sample, and samples={samples} was given.")
    inputs = x if isinstance(x, tuple) else (x,)
    with evaluation(net, but=named_layers(net).values()), torch.no_grad():
        drawn = torch.stack([net(*inputs) for _ in range(samples)])
    mean = drawn.mean(0)
    return Prediction(mean, abs2(drawn - mean).mean(0).sqrt(), drawn)
