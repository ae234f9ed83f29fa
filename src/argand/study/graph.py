"""From a specification to the stages it needs: each named by the hash of its configuration and of its parent's name.

Equal configurations have equal names, so one pre-training serves every C, one sparsified network every threshold, and
a stage that has finished is never computed again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from argand.study.config import Grid, Specification, Table
from argand.study.records import BAYESIAN

#: Grows when a change makes equal configurations give other numbers.
METHOD_VERSION = 2


@dataclass(frozen=True)
class Node:
    """A stage to compute."""

    key: str
    config: Mapping[str, Any]

    @property
    def parent(self) -> str | None:
        """The key of the stage that must be done before."""
        return self.config.get("parent")


@dataclass
class Plan:
    """The stages of a specification, parents first."""

    name: str
    nodes: dict[str, Node] = field(default_factory=dict)

    def add(self, stage: str, config: Mapping[str, Any]) -> str:
        """Add a stage unless it is there; returns its key."""
        full = {"stage": stage, "version": METHOD_VERSION, **config}
        key = f"{stage}-{digest_of(full)}"
        self.nodes.setdefault(key, Node(key, full))
        return key


def digest_of(config: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of the canonical configuration's SHA-256."""
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def plan(specification: Specification, device: str, digest: Callable[[str], str]) -> Plan:
    """All stages of a specification on a kind of device; `digest` names a data set's content."""
    made = Plan(specification.study.name)
    slope = specification.divergence_slope
    for name in slope.field if slope else []:
        made.add("kl-derivative", {**_values(slope), "field": name})  # type: ignore[arg-type]
    grid = specification.grid
    if grid is None:
        return made
    digests = {name: digest(name) for name in grid.dataset}
    for cell in _cells(grid):
        sparse = {name: cell[name] for name in ("method", "C")}
        if cell["method"] == "magnitude-cubic":
            sparse["kept"] = cell["kept"]
        base = {name: cell[name] for name in ("dataset", "features", "model", "field", "width", "seed")}
        run = specification.run
        base |= {"digest": digests[cell["dataset"]], "device": device, "planar": run.planar, "threads": run.threads}
        if run.precision != "fp32":
            base["precision"] = run.precision
        base |= _data(specification, cell["dataset"]) | _values(specification.stages.pretrain)
        if not specification.study.share:
            base["replica"] = sparse
        pretrain = made.add("pretrain", base)
        options, parent = _values(specification.stages.sparsify), pretrain
        if options["warm_start"] and cell["method"] in BAYESIAN:
            for smaller in sorted(scale for scale in grid.scales if scale < cell["C"]):
                parent = made.add("sparsify", {"parent": parent, **sparse, "C": smaller, **options})
        sparsify = made.add("sparsify", {"parent": parent, **sparse, **options})
        last = {"threshold": cell["threshold"], "kept": cell["kept"]}
        made.add("finetune", {"parent": sparsify, **last, **_values(specification.stages.finetune)})
    return made


def _cells(grid: Grid) -> Iterator[dict[str, Any]]:
    """The grid multiplied out: C and threshold for the Bayesian methods, kept for the others."""
    axes = product(grid.seed, grid.dataset, grid.features, grid.model, grid.field, grid.width, grid.method)
    names = ("seed", "dataset", "features", "model", "field", "width", "method")
    for values in axes:
        cell = dict(zip(names, values, strict=True))
        if cell["method"] in BAYESIAN:
            for scale, threshold in product(grid.scales, grid.threshold):
                yield {**cell, "C": scale, "threshold": threshold, "kept": None}
        else:
            for kept in grid.kept:
                yield {**cell, "C": None, "threshold": None, "kept": kept}


def _data(specification: Specification, dataset: str) -> dict[str, Any]:
    options = _values(specification.data)
    if options["augment"] is None:
        options["augment"] = dataset == "cifar10"
    return options


def _values(table: Table) -> dict[str, Any]:
    """A table as plain JSON values."""
    return table.model_dump(mode="json")
