"""Writing the packed file: a pruned network, its architecture included, in few bytes. docs/format.md describes it."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.reader import MAGIC, MOST_HEADER, PREFIX, VERSION
from argand.deploy.tensors import DTYPES, check_dtype, encode
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.graph import (
    Graph,
    Step,
    activation_of,
    kind_of,
    options_of,
    trace,
    values_of,
)
from argand.graph.steps import STILL_VARIATIONAL
from argand.surgery import is_linear_in_weight


def save(
    net: nn.Module,
    path: str | Path,
    dtype: str | Mapping[str, str] = "fp32",
    *,
    example: Tensor | tuple[Tensor, ...] | None = None,
) -> int:
    """Write a plain network as one small file; returns its bytes.

    Weights that are zero are not stored. The architecture goes into the file, so `load` needs none of your code.

    Args:
        net: a plain float32 network that can be read as a graph of known layers; `compact` it first.
        path: where to write.
        dtype: how kept weights are stored, "fp32", "fp16", "int16" or "int8"; or a dict from the paths of layers to
            these, the others being fp32 (`quantise` chooses one). Biases are fp32, or fp16 beside fp16 and int8.
        example: inputs (a batch) whose shape and field are noted in the file: `argand export` and `argand bench` need
            them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = argand.save(nn.Sequential(nn.Linear(100, 10)), f"{folder}/net.argand")
    ...     net = argand.load(f"{folder}/net.argand")
    >>> net(torch.zeros(1, 100)).shape
    torch.Size([1, 10])
    """
    content = to_bytes(net, dtype, example)
    write_atomically(path, content)
    return len(content)


def to_bytes(
    net: nn.Module, dtype: str | Mapping[str, str] = "fp32", example: Tensor | tuple[Tensor, ...] | None = None
) -> bytes:
    """The file's content."""
    graph = trace(net)
    chosen = _dtypes(graph, dtype)
    entries: list[dict[str, Any]] = []
    sections: list[bytes] = []
    places: dict[int, int] = {}  # of tensors already stored

    def place(tensor: Tensor, stored: str, axis: int) -> int:
        if id(tensor) not in places:
            entry, section = encode(tensor, stored, axis)
            places[id(tensor)] = len(entries)
            entries.append(entry)
            sections.append(section)
        return places[id(tensor)]

    steps = []
    for step in graph.steps:
        tensors = {name: place(tensor, *_form(step, name, chosen)) for name, tensor in _tensors(step).items()}
        kind, options = _described(step)
        steps.append({"name": step.name, "kind": kind, "path": step.path, "inputs": list(step.inputs),
                      "options": options, "tensors": tensors})  # fmt: skip
    header = {"inputs": list(graph.inputs), "outputs": list(graph.outputs), "single": graph.single,
              "examples": _examples(graph, example),
              "steps": steps, "tensors": entries}  # fmt: skip
    packed = zlib.compress(_text(header), 9)
    front = PREFIX.pack(MAGIC, VERSION, len(packed), 0)[:16]
    checksum = zlib.crc32(packed, zlib.crc32(front))
    return front + checksum.to_bytes(4, "little") + packed + b"".join(sections)


def _text(header: dict[str, Any]) -> bytes:
    """The header as JSON; numbers of other libraries as Python's."""
    try:
        text = json.dumps(header, separators=(",", ":"), allow_nan=False, default=lambda number: number.item()).encode()
    except (ValueError, TypeError, AttributeError) as error:
        raise ArgandError(f"The network has an option that can't be stored: {error}.") from None
    if len(text) > MOST_HEADER:
        raise ArgandError(f"The network's description has {len(text)} bytes, and a file holds at most {MOST_HEADER}.")
    return text


def _examples(graph: Graph, example: Tensor | tuple[Tensor, ...] | None) -> list[dict[str, Any]]:
    """The shape without the batch axis, and the field, of each input; nothing without an example."""
    if example is None:
        return []
    given = example if isinstance(example, tuple) else (example,)
    values_of(graph, example)  # raises where they don't fit
    return [{"shape": list(x.shape[1:]), "complex": x.is_complex()} for x in given]


def _dtypes(graph: Graph, dtype: str | Mapping[str, str]) -> dict[str, str]:
    """How each layer's weight is stored, by its path."""
    paths = [step.path for step in graph.steps if step.layer is not None]
    if isinstance(dtype, str):
        return dict.fromkeys(paths, check_dtype(dtype))
    if not isinstance(dtype, Mapping):
        raise ArgandError(
            f"dtype= takes one of {', '.join(DTYPES)}, or a dict from paths to these, and was given {dtype!r}."
        )
    unknown = [path for path in dtype if path not in paths]
    if unknown:
        raise ArgandError(
            f"dtype= names {unknown[0]!r}, and the network's layers are at {', '.join(filter(None, paths))}."
        )
    return dict.fromkeys(paths, "fp32") | {path: check_dtype(name) for path, name in dtype.items()}


def _tensors(step: Step) -> dict[str, Tensor]:
    """What inference needs of a layer."""
    if step.layer is None:
        return {}
    named = {**dict(step.layer.named_parameters()), **dict(step.layer.named_buffers())}
    kept = {name: tensor for name, tensor in named.items() if name.rpartition(".")[2] != "num_batches_tracked"}
    for name, tensor in kept.items():
        if tensor.dtype not in (torch.float32, torch.complex64):
            raise ArgandError(
                f"{step.at} has a {name} of {str(tensor.dtype).removeprefix('torch.')}. A packed network is float32 or "
                "complex64: call net.float() first."
            )
        if not torch.isfinite(tensor).all():
            raise ArgandError(f"{step.at} has a {name} with values that are not finite: the training has diverged.")
    return kept


def _form(step: Step, name: str, chosen: Mapping[str, str]) -> tuple[str, int]:
    """A tensor's stored type, and the axis of its scales."""
    dtype, layer = chosen.get(step.path, "fp32"), step.layer
    assert layer is not None
    if name == "weight" and is_linear_in_weight(layer):
        return dtype, int(bool(getattr(layer, "transposed", False)))
    return ("fp16" if name == "bias" and dtype in ("fp16", "int8") else "fp32"), 0


def _described(step: Step) -> tuple[str, dict[str, Any]]:
    """The kind's full name and the options, as JSON has them."""
    if step.layer is None:
        return step.kind, dict(step.options)
    if step.kind == "Variational":
        raise ArgandError(f"{step.at} {STILL_VARIATIONAL}")
    kind, options = kind_of(step.layer), options_of(step.layer)
    assert kind is not None
    if kind.word == "Split":
        inner = activation_of(step.layer)
        inner_kind = kind_of(inner)
        assert inner_kind is not None
        options["activation"] = {"kind": inner_kind.name, "options": options_of(inner)}
    return kind.name, options
