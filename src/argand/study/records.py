"""What a study leaves on disk, read back as records: one `Stage` per directory, one `Cell` per fine-tuned network.

A stage's directory holds config.json (what was asked), history.jsonl (a line per epoch), result.json (written last)
and timing.json (seconds, which no other file holds, so that equal runs leave equal files). Checkpoints aren't read
here: a directory without them, such as a committed one, tells the same story.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from argand.errors import ArgandError

DEPLOYMENT = "deployment.json"  # written by `argand pack`
BAYESIAN = ("vd", "ard", "real-scaling")


@dataclass(frozen=True)
class Stage:
    """One stage's directory: its key, what was asked, and what came out (None while it has not finished)."""

    key: str
    path: Path
    config: Mapping[str, Any]
    result: Mapping[str, Any] | None

    @property
    def status(self) -> str:
        """done, diverged or failed; open before the end."""
        return "open" if self.result is None else str(self.result["status"])

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """A dict per finished epoch."""
        path = self.path / "history.jsonl"
        if not path.exists():
            return []
        try:
            return [dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, TypeError) as error:
            raise ArgandError(f"{path} can't be read ({error}). Expected a JSON object per line.") from None

    @cached_property
    def deployment(self) -> dict[str, Any] | None:
        """What packing it came to, if it was packed."""
        path = self.path / DEPLOYMENT
        return read_json(path) if path.exists() else None

    @cached_property
    def seconds(self) -> float:
        """How long the stage ran, all attempts together; 0 where unknown."""
        path = self.path / "timing.json"
        return float(read_json(path).get("seconds", 0.0)) if path.exists() else 0.0


@dataclass(frozen=True)
class Cell:
    """One fine-tuned network: the settings of its three stages, and what it scored and kept."""

    finetune: Stage
    sparsify: Stage
    pretrain: Stage

    @property
    def key(self) -> str:
        """The key of its last stage."""
        return self.finetune.key

    def setting(self, name: str) -> Any:
        """dataset, features, model, field, width, method, C, threshold, kept, seed: None where it has no meaning."""
        for stage in (self.finetune, self.sparsify, self.pretrain):
            if name in stage.config:
                return stage.config[name]
        return None

    @property
    def group(self) -> tuple[str, ...]:
        """dataset, features, model, field, method: what one trade-off curve shares."""
        return tuple(str(self.setting(name)) for name in ("dataset", "features", "model", "field", "method"))

    def value(self, name: str) -> Any:
        """A value of the last stage's result: score, score_before, compression, bytes, dense_bytes, floats, ..."""
        assert self.finetune.result is not None
        return self.finetune.result.get(name)

    @property
    def baseline(self) -> float:
        """The score of the uncompressed network that it was made from."""
        assert self.pretrain.result is not None
        return float(self.pretrain.result["score"])

    @property
    def metric(self) -> str:
        """What the score is: accuracy, or average precision."""
        return str(self.value("metric"))

    @property
    def seconds(self) -> float:
        """Of its three stages; shared ones count in full."""
        return self.finetune.seconds + self.sparsify.seconds + self.pretrain.seconds


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or an ArgandError that says what is wrong with the file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}.") from None
    except ValueError as error:
        raise ArgandError(f"{path} is not valid JSON ({error}). Expected an object written by argand.") from None
    if not isinstance(content, dict):
        raise ArgandError(f"{path} holds {type(content).__name__}. Expected a JSON object written by argand.")
    return content


def read_stages(runs: Path) -> dict[str, Stage]:
    """Every stage under RUNS/stages, by key."""
    if not runs.is_dir():
        raise ArgandError(f"{runs} is no directory. Expected the runs directory of a study (argand run writes one).")
    return {
        path.name: read_stage(path) for path in sorted((runs / "stages").glob("*")) if (path / "config.json").exists()
    }


def read_stage(path: Path) -> Stage:
    """One stage's directory."""
    result = read_json(path / "result.json") if (path / "result.json").exists() else None
    if result is not None and "status" not in result:
        raise ArgandError(f"{path / 'result.json'} has no status. Expected one that argand wrote.")
    return Stage(path.name, path, read_json(path / "config.json"), result)


def cells(stages: Mapping[str, Stage]) -> list[Cell]:
    """The finished networks among the stages."""
    found = []
    for last in stages.values():
        if last.config.get("stage") != "finetune" or last.status != "done":
            continue
        middle = stages.get(str(last.config.get("parent")))
        first = stages.get(str(middle.config.get("parent"))) if middle else None
        if middle and first and middle.status == "done" and first.status == "done":
            found.append(Cell(last, middle, first))
    return found
