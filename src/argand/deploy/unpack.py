"""Reading the packed file into modules: what the header asks for is checked before it is built."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from argand.deploy.reader import FormatError, read
from argand.errors import ArgandError
from argand.graph import FUNCTIONS, KINDS, Graph, Kind, Network, Step, build
from argand.graph.steps import layer_step

#: options that are words
_WORDS = {"padding", "padding_mode", "approximate"}
#: the options of the functions that have any
_OPTIONS = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ("value",)),
    **dict.fromkeys(("cat", "squeeze", "unsqueeze"), ("dim",)),
    "mean": ("dim", "keepdim"),
    "reshape": ("shape",),
    "transpose": ("dim0", "dim1"),
    "permute": ("dims",),
}


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
        steps = _steps(header, [torch.from_numpy(array) for array in arrays])
        graph = Graph(tuple(header["inputs"]), tuple(steps), tuple(header["outputs"]), header.get("single", True))
        if graph.single and len(graph.outputs) != 1:
            raise FormatError(f"it has {len(graph.outputs)} outputs and claims one")
        examples = tuple((tuple(e["shape"]), bool(e["complex"])) for e in header.get("examples", ()))
        return Network(graph, examples).eval()
    except (FormatError, ArgandError) as error:
        words = ascii(str(error))[1:-1][:300]
        raise ArgandError(
            f"{name} can't be used: {words.rstrip('.')}. Expected a file written by argand.save."
        ) from None


def _steps(header: dict[str, Any], tensors: list[Tensor]) -> list[Step]:
    layers: dict[str, tuple[dict[str, Any], nn.Module]] = {}
    steps = []
    for entry in header["steps"]:
        name, path, inputs = entry["name"], entry["path"], tuple(entry["inputs"])
        _check_arity(entry)
        if entry["kind"] in FUNCTIONS:
            steps.append(Step(name, entry["kind"], inputs, options=_function_options(entry)))
            continue
        if path and not all(path.split(".")):
            raise FormatError(f"{path[:60]!r} is no path of a layer")
        place = path or f" {name}"
        if place not in layers:
            layers[place] = (entry, _layer(entry, tensors))
        first, layer = layers[place]
        if any(first[field] != entry[field] for field in ("kind", "options", "tensors")):
            raise FormatError(f"two different layers are at {place[:60]!r}")
        steps.append(layer_step(name, layer, inputs, path))
    return steps


def _check_arity(entry: Mapping[str, Any]) -> None:
    """Each layer and function has one input but these."""
    kind, count = entry["kind"], len(entry["inputs"])
    wanted = {"Bilinear": 2}.get(kind.rpartition(".")[2], 1)
    if kind in ("add", "sub", "mul") and "value" not in entry["options"]:
        wanted = 2
    if kind == "div" and "value" not in entry["options"]:
        raise FormatError("a division has no number to divide by")
    if count != wanted and kind != "cat":
        raise FormatError(f"{kind[:60]!r} has {count} inputs, and takes {wanted}")


def _layer(entry: dict[str, Any], tensors: list[Tensor]) -> nn.Module:
    """A layer of a known kind with the stored tensors; built without memory, and compared before they go in."""
    kind, at = _kind(entry["kind"]), entry["path"][:60] or entry["kind"]
    options = dict(entry["options"])
    try:
        with torch.device("meta"):
            options = {"activation": _activation(options)} if kind.word == "Split" else _checked(kind, options)
            layer = build(kind.name, options)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"the options of {at!r} do not make a layer ({str(error)[:120]})") from None
    wanted = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    counts = {name for name in wanted if name.rpartition(".")[2] == "num_batches_tracked"}
    stored = {name: tensors[place] for name, place in entry["tensors"].items()}
    for name in (wanted.keys() - counts) | stored.keys():
        given, expected = stored.get(name), wanted.get(name)
        if given is None or expected is None or given.shape != expected.shape or not _same_type(kind, given, expected):
            raise FormatError(f"the tensor {name[:60]!r} of {at!r} is not the one that the layer needs")
    if len({given.dtype for given in stored.values()}) > 1 and kind.word in _OF_ONE_FIELD:
        raise FormatError(f"the tensors of {at!r} are of two fields")
    layer.load_state_dict(stored | {name: torch.tensor(0) for name in counts}, assign=True)
    return layer


_OF_ONE_FIELD = ("Linear", *(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)), "Bilinear")


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise FormatError(f"there is no layer or function {name[:60]!r}")
    return KINDS[name]


def _activation(options: dict[str, Any]) -> nn.Module:
    """What a Split holds."""
    inner = options.get("activation")
    if set(options) != {"activation"} or not isinstance(inner, dict) or set(inner) != {"kind", "options"}:
        raise FormatError("a Split has no activation")
    kind = _kind(str(inner["kind"]))
    if not kind.name.startswith("nn.") or not isinstance(inner["options"], dict):
        raise FormatError("a Split has an unknown activation")
    return build(kind.name, _checked(kind, inner["options"]))


def _checked(kind: Kind, options: dict[str, Any]) -> dict[str, Any]:
    """Only the options that a layer of this kind is stored with, and of sensible types; tuples for lists."""
    if not set(options) <= set(kind.options) or not all(_sensible(name, value) for name, value in options.items()):
        raise FormatError(f"the options of a {kind.name} are not those that are stored")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _sensible(name: str, value: Any) -> bool:
    """A finite number, a truth value, nothing, or a list of numbers; a word where words are expected."""
    if isinstance(value, list):
        return len(value) <= 8 and all(n is None or _sensible(name, n) for n in value if not isinstance(n, list))
    if isinstance(value, str):
        return name in _WORDS
    return value is None or isinstance(value, bool) or (isinstance(value, int | float) and _finite(value))


def _finite(value: float) -> bool:
    return (isinstance(value, int) and abs(value) < 2**40) or (isinstance(value, float) and math.isfinite(value))


def _same_type(kind: Kind, given: Tensor, expected: Tensor) -> bool:
    """Of one field; torch's own linear layers may also have complex weights."""
    return given.dtype == expected.dtype or (given.is_complex() and kind.word in _OF_ONE_FIELD)


def _function_options(entry: dict[str, Any]) -> dict[str, Any]:
    """The options of a function, checked: whole numbers but for `value`."""
    options, names = entry["options"], _OPTIONS.get(entry["kind"], ())
    missing = set(names) - set(options) - {"value"}
    if set(options) - set(names) or missing or entry["tensors"]:
        raise FormatError(f"the options of {entry['kind']} {entry['name']!r} are wrong")
    for name, value in options.items():
        numbers = value if isinstance(value, list) else [value]
        whole = all(isinstance(n, int) and abs(n) < 2**40 for n in numbers)
        if not whole and not (name == "value" and not isinstance(value, list) and _sensible(name, value)):
            raise FormatError(f"the options of {entry['kind']} {entry['name']!r} are wrong")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
