"""Adam for complex and variational networks: divergence gradient, clipping and update in one step."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from argand.errors import ArgandError
from argand.field import real_views
from argand.gradient import Squares, add_divergence_gradient, resolved_grad
from argand.loops import can_compile, compiling
from argand.variational import Variational, named_layers

_FUSED_DEVICES = {"cpu", "cuda", "mps", "xpu"}


class Adam(torch.optim.Optimizer):
    """Adam whose `step` adds the divergence's gradient, clips the global norm, and updates; for any network.

    The update and the state are those of `torch.optim.Adam` (state_dicts are interchangeable). Complex parameters
    are stepped through real views, which the fused kernel takes: real and imaginary parts have separate second
    moments, as in torch. Call `loss.backward()` on the mean negative log-likelihood alone.

    Args:
        net: the network; its parameters are optimised unless `params` names groups of them.
        lr, betas, eps, weight_decay: as in torch.
        divergence_weight: what the divergence is multiplied by, C/N; 0 for a network that is not variational.
        max_norm: clip all gradients, the divergence's included, to this global norm; None to leave them.
        params: parameters or groups, as torch takes them.
        compiled: whether the divergence's gradient is compiled, at the first step that needs it. That takes seconds
            once, is kept on the disk by torch, and makes the pass over the weights several times faster; the results
            agree to rounding. By default for networks of 2^18 variational weights, where a compiler is found.

    `divergence_weight` and `max_norm` are attributes and may change between steps. `grad_norm` is the norm that the
    last step found before clipping (None without clipping).

    >>> net = argand.sparsify(nn.Linear(3, 2))
    >>> opt = Adam(net, lr=1e-3, divergence_weight=1e-4, max_norm=0.5)
    >>> net(torch.ones(5, 3)).square().mean().backward()
    >>> opt.step(); opt.zero_grad()
    """

    def __init__(
        self,
        net: nn.Module,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        divergence_weight: float = 0.0,
        max_norm: float | None = None,
        params: Iterable[Any] | None = None,
        compiled: bool | None = None,
    ) -> None:
        if not isinstance(net, nn.Module):
            raise ArgandError(
                f"argand.optim.Adam takes the network (its divergence is needed), and was given {type(net).__name__}. "
                "Name parameters or groups by params=."
            )
        in_range = lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)
        if not in_range:
            raise ArgandError(
                "Adam needs lr, eps and weight_decay of at least 0 and betas in [0, 1), and was given "
                f"lr={lr}, betas={betas}, eps={eps}, weight_decay={weight_decay}."
            )
        if max_norm is not None and not max_norm > 0:
            raise ArgandError(f"max_norm must be positive, or None for no clipping, and {max_norm} was given.")
        if not (math.isfinite(divergence_weight) and divergence_weight >= 0):
            raise ArgandError(f"divergence_weight must be finite and at least 0, and {divergence_weight} was given.")
        if divergence_weight:
            named_layers(net)  # raises on a network without any
        if compiled and not all(can_compile(p.device.type) for p in net.parameters()):
            raise ArgandError(
                "compiled=True needs a C++ compiler (g++, clang++ or the one that CXX names), on a GPU Triton, and "
                "none was found: install one, or leave compiled=None, which does without where there is none."
            )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(net.parameters() if params is None else params, defaults)
        self._net = net
        self.divergence_weight, self.max_norm, self.compiled = divergence_weight, max_norm, compiled
        self.grad_norm: Tensor | None = None

    def add_new_parameters(self, **options: Any) -> None:
        """Add the parameters the network has gained, by `sparsify` for instance, as a group with these options.

        >>> net = nn.Linear(3, 2)
        >>> opt = Adam(net)
        >>> _ = argand.sparsify(nn.Sequential(net))  # gives the layer a log_sigma2 outside `net` itself
        >>> net = nn.Sequential(nn.Linear(3, 2))
        >>> opt = Adam(net)
        >>> _ = argand.sparsify(net)
        >>> opt.add_new_parameters()
        >>> [len(group["params"]) for group in opt.param_groups]
        [2, 1]
        """
        known = {id(p) for group in self.param_groups for p in group["params"]}
        new = [p for p in self._net.parameters() if id(p) not in known]
        if not new:
            raise ArgandError(
                "The network has no parameters that the optimiser lacks. (A bare layer is not sparsified in place: "
                "make the optimiser of the wrapper that sparsify returns.)"
            )
        self.add_param_group({"params": new, **options})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Add the divergence's gradient, clip, update."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    resolved_grad(p)
        squares: Squares = []
        if self.divergence_weight:
            self._check_spread()
            with compiling(self.compiled):
                squares = add_divergence_gradient(self._net, self.divergence_weight)
        with torch.no_grad():
            divisor = None if self.max_norm is None else self._clip_divisor(self.max_norm, squares)
            for group in self.param_groups:
                self._update(group, divisor)
        return loss

    def _check_spread(self) -> None:
        """Refuse to add a divergence that the network can't learn from."""
        layers = [module for module in self._net.modules() if isinstance(module, Variational)]
        if not layers:
            raise ArgandError(
                f"divergence_weight is {self.divergence_weight}, and {type(self._net).__name__} has no variational "
                "layers. After collapse make a new optimiser, or set divergence_weight to 0."
            )
        stepped = {id(p) for group in self.param_groups for p in group["params"]}
        if not any(id(p) in stepped for layer in layers for p in layer.spread.values()):
            raise ArgandError(
                "The network was sparsified after the optimiser was made, so nothing would learn the spread of its "
                "weights: call optimizer.add_new_parameters() first."
            )

    def _clip_divisor(self, max_norm: float, squares: Squares) -> Tensor:
        """What all gradients are divided by to have at most this norm: torch's rule, (norm + 1e-6)/max_norm or 1."""
        learnt = {id(p): p for group in self.param_groups for p in group["params"] if p.grad is not None}
        norms = []
        for params, square in squares:  # summed already
            if all(id(p) in learnt for p in params):
                norms.append(square.sqrt())
                for p in params:
                    del learnt[id(p)]
        norms += torch._foreach_norm(real_views(p.grad for p in learnt.values())) if learnt else []
        device = norms[0].device if norms else torch.device("cpu")
        self.grad_norm = torch.linalg.vector_norm(torch.stack([norm.to(device) for norm in norms] or [torch.zeros(())]))
        return ((self.grad_norm + 1e-6) / max_norm).clamp(min=1.0)

    def _update(self, group: dict[str, Any], divisor: Tensor | None) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.is_sparse:
                raise ArgandError("Adam does not take sparse gradients: use an embedding with sparse=False.")
            if not self.state[p]:
                self.state[p]["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
                self.state[p]["exp_avg"], self.state[p]["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        fused = all(p.device.type in _FUSED_DEVICES for p in params)
        in_kernel = fused and divisor is not None and divisor.dtype == torch.float32  # all that the kernel takes
        if divisor is not None and not in_kernel:
            torch._foreach_div_(real_views(p.grad for p in params), divisor)
        states = [self.state[p] for p in params]
        beta1, beta2 = group["betas"]
        adam(
            real_views(params),
            real_views(p.grad for p in params),
            real_views(state["exp_avg"] for state in states),
            real_views(state["exp_avg_sq"] for state in states),
            [],
            [state["step"] for state in states],
            fused=fused,
            grad_scale=divisor if in_kernel else None,  # divides the gradients, in place
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
