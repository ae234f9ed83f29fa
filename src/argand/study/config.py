"""Specifications: a TOML file, checked, with the paper's values as defaults.

[study] name, share · [grid] lists that are multiplied · [data] · [stages.pretrain | sparsify | finetune] · [run]
[divergence_slope] the figure of the derivative · [quick] what --quick changes, in the same tables
"""

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from argand.errors import ArgandError
from argand.study.data import NAMES
from argand.study.features import FEATURES
from argand.study.models import MODELS, WIDTHS
from argand.study.records import BAYESIAN

METHODS = (*BAYESIAN, "magnitude", "magnitude-cubic")

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Table(BaseModel):
    """A table of the file: unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Study(Table):
    """What it is called, and whether equal stages are computed once (the paper trained every cell anew)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    share: bool = True


class Halvings(Table):
    """A geometric grid: scale · 2^(-h) for each h."""

    scale: Positive
    halvings: Annotated[list[Number], Field(min_length=1)]

    def values(self) -> list[float]:
        """The numbers themselves."""
        return [self.scale * 2.0**-h for h in self.halvings]


class Grid(Table):
    """The lists are multiplied; C and threshold belong to the Bayesian methods, kept to the magnitude ones."""

    dataset: Annotated[list[str], Field(min_length=1)]
    features: Annotated[list[str], Field(min_length=1)] = ["raw"]
    model: Annotated[list[str], Field(min_length=1)]
    field: Annotated[list[str], Field(min_length=1)] = ["C"]
    width: Annotated[list[Positive], Field(min_length=1)] = [1.0]
    method: Annotated[list[str], Field(min_length=1)] = ["vd"]
    C: Annotated[list[Positive], Field(min_length=1)] | Halvings = [1.0]
    threshold: Annotated[list[Number], Field(min_length=1)] = [-0.5]
    kept: list[Share] = []
    seed: Annotated[list[Amount], Field(min_length=1)] = [0]

    @model_validator(mode="after")
    def _known(self) -> "Grid":
        known: dict[str, Iterable[str]] = {
            "dataset": NAMES, "features": FEATURES, "model": MODELS, "field": WIDTHS, "method": METHODS,
        }  # fmt: skip
        for name, names in known.items():
            for value in getattr(self, name):
                if value not in names:
                    raise ValueError(f"{name}: {value!r} is unknown{_did_you_mean(value, names)}")
        if not self.kept and any(method not in BAYESIAN for method in self.method):
            raise ValueError("kept: the magnitude methods need the shares of weights to keep, such as [0.1, 0.02].")
        return self

    @property
    def scales(self) -> list[float]:
        """The values of C."""
        return self.C.values() if isinstance(self.C, Halvings) else self.C


class Data(Table):
    """How much of the data is used, and how it is fed."""

    train: Count | None = None  # images: the first so many; recordings: likewise
    test: Count | None = None
    validation: Amount = 0  # images held out of the training ones, at their end; recordings bring their own
    augment: bool | None = None  # random crops and flips; by default for CIFAR10
    window: Annotated[int, Field(ge=16)] = 4096  # samples of sound
    stride: Count = 128  # between the windows that are scored
    steps: Count = 1000  # batches in an epoch of sound: one window of every recording each


class EarlyStopping(Table):
    """Scored on validation before every epoch: patience without a new best, or a fall below tolerance, ends it."""

    patience: Count = 20
    tolerance: NotNegative = 0.02


class Training(Table):
    """What the three stages have in common."""

    epochs: Amount
    lr: Positive = 1e-3
    schedule: list[Annotated[tuple[Amount, Positive], Field(strict=False)]] = [(10, 0.1)]  # from this epoch, lr times
    batch: Count = 128
    max_norm: Positive | None = 0.5  # of the gradient, the divergence's included
    score_every: Amount = 5  # epochs between scores for the history; 0: only at the end
    early_stopping: EarlyStopping | None = None


class Pretrain(Training):
    """Training as ever."""

    epochs: Amount = 40


class Sparsify(Training):
    """Training with the divergence; without it, and with growing masks, for the magnitude methods."""

    epochs: Amount = 75
    divergence_weight: Literal["C/N"] | Positive = "C/N"  # or a number, which multiplies C
    carry_moments: bool = True  # Adam's, from the end of pre-training
    warmup: Amount = 0  # epochs in which the divergence's weight grows linearly from 0
    warm_start: bool = False  # from the network at the next smaller C, not from the pre-trained one: another method
    initial: Number | None = None  # log_sigma2 (log_alpha for real-scaling) at the start; None: the posterior's own


class Finetune(Training):
    """Training of what is left."""

    epochs: Amount = 40
    live: bool = True  # leave the units that nothing reads out of the training: the same steps, up to rounding


class Stages(Table):
    """The three stages."""

    pretrain: Pretrain = Pretrain()
    sparsify: Sparsify = Sparsify()
    finetune: Finetune = Finetune()


class Run(Table):
    """How it is computed."""

    threads: Count = 1  # per stage; a change of it changes results in their last digits
    device: Literal["auto", "cpu", "cuda"] = "auto"
    planar: bool = False  # train the twin in real arithmetic
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: products in bfloat16, through the twin

    @model_validator(mode="after")
    def _bf16_is_planar(self) -> "Run":
        if self.precision == "bf16" and not self.planar:
            raise ValueError("planar: bfloat16 needs the twin in real arithmetic: set run.planar = true.")
        return self


class DivergenceSlope(Table):
    """The figure of the divergence's derivative: exact, fitted, and by Monte Carlo."""

    field: list[Literal["R", "C"]] = ["R", "C"]
    draws: Count = 10_000_000
    points: Annotated[int, Field(ge=16, le=100_000)] = 4096
    seed: Amount = 0


class Specification(Table):
    """A whole file."""

    study: Study
    grid: Grid | None = None
    data: Data = Data()
    stages: Stages = Stages()
    run: Run = Run()
    divergence_slope: DivergenceSlope | None = None

    @model_validator(mode="after")
    def _something(self) -> "Specification":
        if self.grid is None and self.divergence_slope is None:
            raise ValueError("grid: the file needs a [grid] (or a [divergence_slope]) that says what to compute.")
        if self.stages.sparsify.warm_start and not self.study.share:
            raise ValueError("stages.sparsify.warm_start: needs study.share, since it goes on from another cell.")
        return self


def load_specification(path: Path, *, quick: bool = False, settings: Iterable[str] = ()) -> Specification:
    """Read and check a file; `settings` are changes such as "grid.seed=[0, 1]"."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}. Expected a specification in TOML.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgandError(f"{path} is not valid TOML: {error}.") from None
    changes = content.pop("quick", None)
    if quick:
        if not isinstance(changes, dict):
            raise ArgandError(f"{path} has no [quick] table, so there is no quick variant of it.")
        content = _merge(content, changes)
        if isinstance(content.get("study"), dict):
            content["study"] = {**content["study"], "name": f"{content['study'].get('name', '')}-quick"}
    elif changes is not None:
        parse_specification(_merge(content, changes if isinstance(changes, dict) else {"quick": changes}), path)
    for setting in settings:
        content = _merge(content, _parse_setting(setting))
    return parse_specification(content, path)


def parse_specification(content: Mapping[str, Any], path: Path) -> Specification:
    """The checked specification, or an ArgandError that names the key."""
    try:
        return Specification.model_validate(content)
    except ValidationError as error:
        raise ArgandError(f"{path}: {_describe(error.errors()[0])}") from None


#: what a key takes that may be of two kinds
_EITHER = {
    "C": "a list of positive numbers, or a table such as { scale = 1.5, halvings = [1, 2.5] }",
    "divergence_weight": '"C/N", or a positive number',
}


def _describe(error: ErrorDetails) -> str:
    """One of pydantic's findings as a sentence."""
    shown = [str(part) for part in error["loc"]]
    for i, part in enumerate(shown):
        if part in _EITHER and i + 1 < len(shown):
            value = "" if error["type"] == "missing" else f" {error['input']!r}"
            return f"{'.'.join(shown[: i + 1])} can't hold{value or ' that table'}: expected {_EITHER[part]}."
    place = ".".join(shown)
    if error["type"] == "extra_forbidden":
        return f"{place} is no key of a specification{_did_you_mean(shown[-1], _keys(shown[:-1]))}"
    if error["type"] == "value_error":
        return f"{place}{'.' if place else ''}{error['ctx']['error']}"
    if error["type"] == "missing":
        return f"{place} is missing."
    return f"{place} is {error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}."


def _keys(path: list[str]) -> list[str]:
    """The keys of the table at this path."""
    table: type[BaseModel] | None = Specification
    for part in path:
        found = table.model_fields[part].annotation if table and part in table.model_fields else None
        options = [found, *getattr(found, "__args__", ())]
        table = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
    return list(table.model_fields) if table else []


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    known = list(known)
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f": did you mean {near[0]!r}?"
    return f" (known: {', '.join(known)})." if known else "."


def _merge(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The tables with the changes laid over them, key by key."""
    merged = dict(content)
    for name, value in changes.items():
        old = merged.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[name] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _parse_setting(setting: str) -> dict[str, Any]:
    """One --set: a dotted key and a TOML value, or a bare word."""
    name, equals, value = setting.partition("=")
    if not equals or not name.strip():
        raise ArgandError(f"--set {setting}: expected key=value, such as grid.seed=[0,1] or stages.pretrain.epochs=10.")
    for text in (value, f'"{value}"'):
        try:
            return tomllib.loads(f"{name} = {text}")
        except tomllib.TOMLDecodeError:
            continue
    raise ArgandError(f"--set {setting}: {value!r} is no TOML value.")
