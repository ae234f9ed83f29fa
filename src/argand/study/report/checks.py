"""What the report needs of a stage's files: a file that lacks it is named, before anything is drawn."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from argand.errors import ArgandError
from argand.study.records import Stage


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Pretrain(_Part):
    dataset: str
    features: str
    model: str
    field: str


class _Sparsify(_Part):
    parent: str
    method: str
    C: float | None = None


class _Finetune(_Part):
    parent: str
    threshold: float | None = None
    kept: float | None = None


class _Slope(_Part):
    field: str
    draws: int
    points: int


class _Scored(_Part):
    score: float
    metric: str


class _Histogram(_Part):
    low: float
    high: float
    counts: list[int]


class _Sparsified(_Part):
    log_alpha: dict[str, _Histogram] | None = None


class _Layer(_Part):
    name: str
    weights: int
    kept: int


class _Finetuned(_Scored):
    score_before: float
    kept: float
    compression: float
    floats: int
    bytes: int
    dense_bytes: int
    layers: list[_Layer] = []
    evaluations: int | None = None


class _Curves(_Part):
    log_alpha: list[float]
    exact: list[float]
    fit: list[float]
    monte_carlo: list[float]
    standard_error: list[float]
    fit_worst: list[float]
    fit_worst_relative: list[float]
    monte_carlo_worst: list[float]
    monte_carlo_rms: list[float]


class _Sloped(_Part):
    curves: _Curves


_CONFIGS: Mapping[str, type[_Part]] = {
    "pretrain": _Pretrain,
    "sparsify": _Sparsify,
    "finetune": _Finetune,
    "kl-derivative": _Slope,
}
_RESULTS: Mapping[str, type[_Part]] = {
    "pretrain": _Scored,
    "sparsify": _Sparsified,
    "finetune": _Finetuned,
    "kl-derivative": _Sloped,
}


KINDS = tuple(_CONFIGS)


def check(stage: Stage) -> None:
    """Raise unless the stage's config.json, and its result.json where it is done, hold what is drawn from them."""
    kind = str(stage.config.get("stage"))
    if kind not in _CONFIGS:
        known = ", ".join(_CONFIGS)
        raise ArgandError(f"{stage.path / 'config.json'} is of a stage {kind!r}. Expected one of {known}.")
    _fits(stage, "config.json", _CONFIGS[kind], stage.config)
    if stage.status == "done":
        _fits(stage, "result.json", _RESULTS[kind], stage.result or {})


def _fits(stage: Stage, name: str, model: type[_Part], content: Mapping[str, Any]) -> None:
    try:
        model.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ArgandError(
            f"{stage.path / name} doesn't fit: {place}: {first['msg']}. Expected a file that argand wrote."
        ) from None


def history(stage: Stage) -> list[dict[str, Any]]:
    """The stage's epochs, or an ArgandError that names the file."""
    path = stage.path / "history.jsonl"
    try:
        lines = stage.history
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArgandError(f"{path} is not valid JSON lines ({error}). Expected an object per epoch.") from None
    if not all(isinstance(line, dict) and isinstance(line.get("epoch"), int) for line in lines):
        raise ArgandError(f"{path} holds a line without an epoch. Expected an object per epoch.")
    return lines
