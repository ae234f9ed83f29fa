"""Turning a network's layers variational and back: the only walk over a module tree."""

from collections.abc import Callable, Iterable

from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import is_parametrized

import argand.nn as ann
from argand.errors import ArgandError
from argand.posteriors import find_posterior
from argand.priors import Prior, find_prior
from argand.variational import Variational, named_layers

#: The layers that are linear in their weight. A subclass counts if it keeps the forward of one of these; add a class
#: of your own here if its forward is linear in `weight`, adds `bias` last, and works with a real weight on real input.
LINEAR_IN_WEIGHT: set[type[nn.Module]] = {
    getattr(module, name)
    for module in (nn, ann)
    for name in (
        "Linear",
        "Bilinear",
        *(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)),
    )
}


def replace(net: nn.Module, convert: Callable[[str, nn.Module], nn.Module | None], path: str = "") -> nn.Module:
    """Replace, in place, each module for which `convert(path, module)` gives another; the others are entered.

    A module that occurs several times is converted once, under its first path, and stays shared.
    """
    done: dict[nn.Module, nn.Module] = {}

    def visit(path: str, module: nn.Module) -> nn.Module:
        if module not in done:
            done[module] = convert(path, module) or module
            if done[module] is module:
                for name, child in module._modules.items():
                    if child is not None:
                        module._modules[name] = visit(f"{path}.{name}" if path else name, child)
        return done[module]

    return visit(path, net)


def sparsify(
    net: nn.Module,
    prior: str | Prior = "vd",
    posterior: str = "circular",
    *,
    skip: Iterable[str] = (),
    only: Iterable[str] | None = None,
    initial: float | None = None,
) -> nn.Module:
    """Make each layer linear in its weight variational, in place; return the network (the wrapper of a bare layer).

    Parameters keep their identity, so an optimiser carries on: give it the new ones by `add_param_group`.

    Args:
        net: any module, real, complex or mixed.
        prior: "vd" (log-uniform), "ard", or a Prior.
        posterior: "circular", "real-scaling" or "relation".
        skip: paths of modules left alone, with all below them.
        only: paths of the modules converted, with all below them; by default all.
        initial: start of log_sigma2 (-10 by default) or, for real-scaling, of log_alpha (-4).

    >>> argand.sparsify(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), "ard", skip=["2"])
    Sequential(
      (0): Variational(
        prior=ard, posterior=circular
        (mean): Linear(in_features=4, out_features=3, bias=True)
      )
      (1): ReLU()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    chosen_prior, chosen_posterior = find_prior(prior), find_posterior(posterior)
    _refuse_containers(net)
    chosen = _choose(net, skip, only)
    _refuse(net, chosen)
    for path, layer in chosen.items():
        try:
            chosen_posterior.check(chosen_prior, layer.weight)  # type: ignore[arg-type]
        except ArgandError as error:
            raise ArgandError(f"{_at(path)}: {error}") from None
    layers = set(chosen.values())

    def convert(path: str, module: nn.Module) -> nn.Module | None:
        if isinstance(module, Variational):
            return module
        return Variational(module, chosen_prior, chosen_posterior, initial) if module in layers else None

    return replace(net, convert)


def collapse(net: nn.Module) -> nn.Module:
    """Undo `sparsify`, in place: the plain layers again, with the mean weights. The same objects, the same Parameters.

    >>> layer = nn.Linear(3, 2)
    >>> argand.collapse(argand.sparsify(layer)) is layer
    True
    """
    named_layers(net)
    return replace(net, lambda path, module: module.mean if isinstance(module, Variational) else None)


def _choose(net: nn.Module, skip: Iterable[str], only: Iterable[str] | None) -> dict[str, nn.Module]:
    """The layers to convert, by their first path; refuses unknown paths and an empty choice."""
    paths = dict(net.named_modules(remove_duplicate=False))
    skipped = _known_paths("skip", skip, paths)
    wanted = [""] if only is None else _known_paths("only", only, paths)
    inside = [module for path, module in paths.items() if isinstance(module, Variational)]
    means = {layer.mean for layer in inside}
    barred = {paths[path] for path in paths if _covered(path, skipped)}
    chosen: dict[str, nn.Module] = {}
    for path, module in paths.items():
        new = module not in means and module not in barred and module not in chosen.values()
        if new and _covered(path, wanted) and is_linear_in_weight(module):
            chosen[path] = module
    if not chosen:
        reason = (
            f"all {len(set(inside))} layers that could be are variational already"
            if inside
            else "none of its layers is linear in its weight (Linear, Bilinear, Conv, ConvTranspose)"
        )
        extra = " among those left by skip= and only=" if only is not None or skipped else ""
        raise ArgandError(f"There is nothing to sparsify in {type(net).__name__}{extra}: {reason}.")
    return chosen


def is_linear_in_weight(module: nn.Module) -> bool:
    """Whether the module is one of the known layers, or a subclass with the same forward."""
    return any(isinstance(module, cls) and type(module).forward is cls.forward for cls in LINEAR_IN_WEIGHT)


def _known_paths(argument: str, paths: Iterable[str], known: Iterable[str]) -> list[str]:
    if isinstance(paths, str):
        raise ArgandError(f'{argument}= takes a list of paths: write {argument}=["{paths}"].')
    paths, known = list(paths), set(known)
    unknown = [path for path in paths if path not in known]
    if unknown:
        near = ", ".join(sorted(known - {""})[:12]) or "none: the network is a single layer"
        raise ArgandError(f"{argument}= names {unknown[0]!r}, and the network has no such module. It has: {near}.")
    return paths


def _covered(path: str, prefixes: list[str]) -> bool:
    return any(prefix in ("", path) or path.startswith(prefix + ".") for prefix in prefixes)


def _at(path: str) -> str:
    return f'Layer "{path}"' if path else "The layer"


def _refuse(net: nn.Module, chosen: dict[str, nn.Module]) -> None:
    """Refuse the layers that would be bypassed or broken by a wrapper, naming their path."""
    parents = {child: parent for parent in net.modules() for child in parent.children()}
    owners: dict[int, str] = {}
    for path, module in net.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            own = f"{path}.{name}" if path else name
            other = owners.setdefault(id(parameter), own)
            tied = {other.rpartition(".")[0], path} & set(chosen)
            if other != own and tied:
                raise ArgandError(
                    f'"{other}" and "{own}" are one Parameter in two modules: each would get a spread of its own. '
                    "Untie them, share the module itself, or name the modules in skip=."
                )
    for path, layer in chosen.items():
        parent = parents.get(layer)
        reads = _reads_weights(parent, layer)
        if reads:
            raise ArgandError(
                f"{_at(path)} can't be wrapped: its parent {type(parent).__name__} {reads}, so the noise would be "
                f'bypassed. Leave it out: skip=["{path}"].'
            )
        if is_parametrized(layer) or "weight" not in layer._parameters:
            raise ArgandError(
                f"{_at(path)} computes its weight from other parameters (parametrize, weight_norm, ...). Remove the "
                f'parametrisation, or leave the layer out: skip=["{path}"].'
            )
        if type(layer).forward is nn.Bilinear.forward and layer.get_parameter("weight").is_complex():
            raise ArgandError(
                f"{_at(path)} is a complex torch.nn.Bilinear, which has no gradient in torch: use argand.nn.Bilinear."
            )
        if isinstance(layer._parameters["weight"], UninitializedParameter):
            raise ArgandError(f"{_at(path)} is lazy and has no weight yet: run one batch through the network first.")


def _reads_weights(parent: nn.Module | None, layer: nn.Module) -> str:
    """How a parent takes the layer's weight without calling it; empty if it doesn't."""
    if isinstance(parent, nn.MultiheadAttention):
        return "reads its weight directly"
    if isinstance(parent, nn.TransformerEncoderLayer):
        return "reads its weight directly in its fused evaluation path"
    return ""


def _refuse_containers(net: nn.Module) -> None:
    """Refuse what is no module, or one whose layers can't be replaced."""
    if not isinstance(net, nn.Module):
        raise ArgandError(f"sparsify takes a torch.nn.Module, and was given {type(net).__name__}.")
    from torch.jit import ScriptModule

    for path, module in net.named_modules():
        if isinstance(module, ScriptModule):
            raise ArgandError(f'"{path}" is a compiled ScriptModule, whose layers can\'t change: sparsify before it.')
        if isinstance(module, nn.parallel.DistributedDataParallel):
            raise ArgandError(
                "The network is wrapped in DistributedDataParallel, which would not synchronise the new parameters: "
                "sparsify the network first, then wrap it."
            )
