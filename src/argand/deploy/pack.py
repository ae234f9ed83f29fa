"""The packed file: a pruned network, its architecture included, in few bytes. docs/format.md describes it."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.reader import MAGIC, PREFIX, VERSION, Array, FormatError, read
from argand.deploy.tensors import check_dtype, encode
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.graph import (
    FUNCTIONS,
    KINDS,
    Graph,
    Network,
    Step,
    activation_of,
    build,
    kind_of,
    options_of,
    trace,
    values_of,
)
from argand.graph.steps import layer_step
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
    packed = zlib.compress(json.dumps(header, separators=(",", ":"), allow_nan=False).encode(), 9)
    front = PREFIX.pack(MAGIC, VERSION, len(packed), 0)[:16]
    checksum = zlib.crc32(packed, zlib.crc32(front))
    return front + checksum.to_bytes(4, "little") + packed + b"".join(sections)


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
        raise ArgandError(f"{step.at} is variational: apply the masks and call argand.collapse(net) first.")
    kind, options = kind_of(step.layer), options_of(step.layer)
    assert kind is not None
    if kind.word == "Split":
        inner = activation_of(step.layer)
        inner_kind = kind_of(inner)
        assert inner_kind is not None
        options["activation"] = {"kind": inner_kind.name, "options": options_of(inner)}
    return kind.name, options


def load(path: str | Path, *, max_bytes: int = 2**28) -> Network:
    """Read what `save` wrote: a network in evaluation mode. No code of the file is run.

    Args:
        path: of the file.
        max_bytes: the largest file that is read.

    Any damage ends in an `ArgandError` that names the path.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise ArgandError(f"{path} has {size} bytes, and at most {max_bytes} are read: give max_bytes=.")
        content = path.read_bytes()
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}. Expected a file written by argand.save.") from None
    return from_bytes(content, str(path))


def from_bytes(content: bytes, name: str = "The packed network") -> Network:
    """The network of a file's content; `name` is for messages."""
    try:
        header, arrays = read(content)
        steps = _steps(header, arrays)
        graph = Graph(tuple(header["inputs"]), tuple(steps), tuple(header["outputs"]), bool(header.get("single", True)))
        if graph.single and len(graph.outputs) != 1:
            raise FormatError(f"it has {len(graph.outputs)} outputs and claims one")
        examples = tuple((tuple(e["shape"]), bool(e["complex"])) for e in header.get("examples", ()))
        return Network(graph, examples).eval()
    except FormatError as error:
        raise ArgandError(f"{name} can't be used: {error}. Expected a file written by argand.save.") from None


def _steps(header: dict[str, Any], arrays: list[Array]) -> list[Step]:
    layers: dict[str, tuple[dict[str, Any], nn.Module]] = {}
    steps = []
    for entry in header["steps"]:
        name, path, inputs = entry["name"], entry["path"], tuple(entry["inputs"])
        if entry["kind"] in FUNCTIONS:
            steps.append(Step(name, entry["kind"], inputs, options=_function_options(entry)))
            continue
        if not all(part.isidentifier() or part.isdecimal() for part in path.split(".")) and path:
            raise FormatError(f"{path[:60]!r} is no path of a layer")
        place = path or name
        if place not in layers:
            layers[place] = (entry, _layer(entry, arrays))
        first, layer = layers[place]
        if any(first[field] != entry[field] for field in ("kind", "options", "tensors")):
            raise FormatError(f"two different layers are at {place!r}")
        steps.append(layer_step(name, layer, inputs, path))
    _check_places(list(layers))
    return steps


def _check_places(places: list[str]) -> None:
    """No layer may lie inside another, nor take the name of a module's attribute."""
    for place in places:
        parts = place.split(".")
        if any(".".join(parts[:i]) in places for i in range(1, len(parts))) or any(
            hasattr(nn.Module, p) for p in parts
        ):
            raise FormatError(f"no layer can be at {place!r}")
        if any(part in vars(Network) or (part.startswith("_") and not part[1:].isdecimal()) for part in parts):
            raise FormatError(f"no layer can be at {place!r}")


def _layer(entry: dict[str, Any], arrays: list[Array]) -> nn.Module:
    """A layer of a known kind with the stored tensors; built without memory, and compared before they go in."""
    kind, options = entry["kind"], _plain(entry["options"])
    if kind not in KINDS:
        raise FormatError(f"there is no layer or function {kind[:60]!r}")
    try:
        with torch.device("meta"):
            if kind == "ann.Split":
                inner = options["activation"]
                if set(inner) != {"kind", "options"} or inner["kind"] not in KINDS or inner["kind"] == "ann.Split":
                    raise FormatError("a Split has an unknown activation")
                options = {"activation": build(inner["kind"], _plain(inner["options"]))}
            layer = build(kind, options)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"the options of {entry['path'] or kind!r} do not make a layer ({error})") from None
    wanted = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    stored = {name: torch.from_numpy(arrays[place].copy()) for name, place in entry["tensors"].items()}
    counts = {name for name in wanted if name.rpartition(".")[2] == "num_batches_tracked"}
    for name in wanted.keys() | stored.keys():
        given, expected = stored.get(name), wanted.get(name)
        if name in counts and given is None:
            continue
        if given is None or expected is None or given.shape != expected.shape or not _same_type(given, expected, name):
            raise FormatError(f"the tensor {name!r} of {entry['path'] or kind!r} is not the one that the layer needs")
    stored |= {name: torch.tensor(0) for name in counts}
    layer.load_state_dict(stored, assign=True)
    return layer


def _same_type(given: Tensor, expected: Tensor, name: str) -> bool:
    """Of one field; torch's own layers may also have complex weights."""
    return given.dtype == expected.dtype or (given.is_complex() and name in ("weight", "bias"))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as Python's layers want them: tuples for lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


#: the options of the functions that have any
_OPTIONS = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ("value",)),
    **dict.fromkeys(("cat", "squeeze", "unsqueeze"), ("dim",)),
    "mean": ("dim", "keepdim"),
    "reshape": ("shape",),
    "transpose": ("dim0", "dim1"),
    "permute": ("dims",),
}


def _function_options(entry: dict[str, Any]) -> dict[str, Any]:
    """The options of a function, checked."""
    options = _plain(entry["options"])
    names = _OPTIONS.get(entry["kind"], ())
    numbers = [n for value in options.values() for n in (value if isinstance(value, tuple) else (value,))]
    missing = set(names) - set(options) - {"value"}
    if set(options) - set(names) or missing or not all(isinstance(n, int | float) for n in numbers) or entry["tensors"]:
        raise FormatError(f"the options of {entry['kind']} {entry['name']!r} are wrong")
    return options
