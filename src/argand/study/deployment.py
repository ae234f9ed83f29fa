"""From a finished stage to a packed file, with what that costs and gains: the report's section on deployment.

`argand pack RUNS/STAGE` writes the file, and deployment.json beside the stage's result.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import argand
from argand import ArgandError
from argand.deploy.c import export_c
from argand.deploy.measure import bench
from argand.deploy.pack import to_bytes
from argand.deploy.quantise import Choices, quantise
from argand.deploy.tensors import DTYPES, check_dtype
from argand.files import write_atomically
from argand.study.records import DEPLOYMENT, read_json
from argand.study.stage import finished_state, first_config, write_json
from argand.study.tasks import Task, make_task
from argand.summary import format_table

AUTO = "auto"


@dataclass(frozen=True)
class Packed:
    """A packed stage: where, and what was measured."""

    path: Path
    values: Mapping[str, Any]

    def __str__(self) -> str:
        v = self.values
        rows = [
            ["compression in floats", f"x{v['compression']:.4g}"],
            ["dense bytes", f"{v['dense_bytes']:,}"],
            [f"{self.path}", f"{v['bytes'][v['dtype']]:,} bytes ({v['dtype']})"],
            *([f"as {name}", f"{size:,} bytes"] for name, size in v["bytes"].items() if name != v["dtype"]),
            [f"{v['metric']} before", f"{100 * v['score_before']:.2f} %"],
            [f"{v['metric']} of the file", f"{100 * v['score']:.2f} %"],
            ["multiply-accumulates", f"{v['dense_macs']:,} -> {v['macs']:,}"],
        ]
        rows += [[f"C program, {name}", f"{size:,} bytes of flash"] for name, size in v["flash_bytes"].items()]
        rows.append(["its scratch memory", f"{v['scratch_bytes']:,} bytes"])
        rows += [[f"one call, {name}", f"{value:.1f} µs"] for name, value in v["microseconds"].items()]
        return format_table(["", "value"], rows)


def pack_stage(stage: Path, output: Path, dtype: str = "fp32", *, fold_batchnorm: bool = False,
               root: Path | None = None) -> Packed:  # fmt: skip
    """Make a fine-tuned network compact, pack it as `dtype` ("auto" asks the posterior), and measure it."""
    if dtype != AUTO:
        check_dtype(dtype)
    directory = _directory(stage)
    config = read_json(directory / "config.json")
    if config.get("stage") != "finetune":
        raise ArgandError(
            f"{directory} is a {config.get('stage')} stage. Expected a finetune one: pruned and collapsed."
        )
    first = first_config(directory.parent, config)
    torch.set_num_threads(int(first["threads"]))
    task = make_task(first, root, torch.device("cpu"))
    state = finished_state(directory, task)
    net = state.net.eval()
    sample = task.sample().unsqueeze(0)
    dense = argand.report(net, state.masks, example=sample)
    small = argand.compact(net, fold_batchnorm=fold_batchnorm)
    chosen = _from_posterior(directory, config, task) if dtype == AUTO else dtype
    content = to_bytes(small, chosen, sample)
    write_atomically(output, content)
    loaded = argand.load(output)
    costs = _costs(small, sample)
    values = {
        "dtype": dtype, "layers": dict(chosen) if isinstance(chosen, Choices) else None,
        "compression": dense.compression, "dense_bytes": dense.total.dense_bytes,
        "bytes": {dtype: len(content)} | {name: len(to_bytes(small, name)) for name in DTYPES if name != dtype},
        "metric": task.metric, "score_before": task.score(net)[0], "score": task.score(loaded)[0],
        "dense_macs": dense.total.dense_macs, **costs,
        "microseconds": bench(small, sample, original=net).microseconds,
    }  # fmt: skip
    write_json(directory / DEPLOYMENT, values)
    return Packed(output, values)


def _directory(stage: Path) -> Path:
    """A stage's directory, also by RUNS/KEY without the folder between."""
    for found in (stage, stage.parent / "stages" / stage.name):
        if (found / "config.json").exists():
            return found
    raise ArgandError(f"{stage} is no stage. Expected a folder RUNS/stages/finetune-..., as argand run leaves it.")


def _from_posterior(directory: Path, config: Mapping[str, Any], task: Task) -> Choices:
    """The stored types that the sparsified parent's spread allows."""
    if config.get("threshold") is None:
        raise ArgandError(f"{directory} was pruned by magnitude and has no posterior: choose a dtype yourself.")
    parent = finished_state(directory.parent / str(config["parent"]), task)
    return quantise(parent.net, argand.masks(parent.net, config["threshold"]))


def _costs(net: torch.nn.Module, sample: torch.Tensor) -> dict[str, Any]:
    """What the C program of the compact network needs."""
    with tempfile.TemporaryDirectory() as folder:
        program = export_c(net, sample, folder, check=False)
        small = export_c(net, sample, folder, check=False, dtype="int8")
    flash = {"fp32": program.flash_bytes, "int8": small.flash_bytes}
    return {"flash_bytes": flash, "scratch_bytes": program.scratch_bytes, "macs": program.macs}
