"""Reading a packed network with numpy alone: every byte is checked before it is believed.

docs/format.md describes the file. A damaged or hostile one ends in a FormatError, before much memory is used.
"""

import json
import math
import struct
import zlib
from typing import Any

import numpy as np

Array = Any  # of numpy

MAGIC = b"\x89ARGAND\n"
VERSION = 1
PREFIX = struct.Struct("<8sIII")  # magic, version, length of the header, CRC-32 of all before this field and the header
MOST_HEADER = 2**20  # bytes of JSON
MOST_STEPS, MOST_PARTS = 10_000, 32  # in a network, in a path
SPARE, PER_BYTE = 2**24, 2**11  # a file may claim so many bytes of dense weights, and so many more for each of its own
MOST_DENSE = 2**32  # bytes of dense weights, in any case
VALUES = {"fp32": "<f4", "fp16": "<f2", "int16": "<i2", "int8": "<i1"}
POSITIONS = ("dense", "bitmask", "gaps8", "gaps16")


class FormatError(ValueError):
    """What is wrong with the file."""


def read(content: bytes) -> tuple[dict[str, Any], list[Array]]:
    """The header and the tensors of a packed network."""
    if len(content) < PREFIX.size or content[:8] != MAGIC:
        raise FormatError("it does not begin as a packed argand network does")
    _, version, length, checksum = PREFIX.unpack_from(content)
    if version != VERSION:
        raise FormatError(f"it has version {version} of the format, and this program reads version {VERSION}")
    packed = content[PREFIX.size : PREFIX.size + length]
    if len(packed) < length or zlib.crc32(packed, zlib.crc32(content[:16])) != checksum:
        raise FormatError("its header is cut off or damaged (wrong checksum)")
    header = _header(packed)
    place, tensors = PREFIX.size + length, list[Array]()
    room = min(SPARE + PER_BYTE * len(content), MOST_DENSE)
    for entry in header["tensors"]:
        shape, size, crc = _claims(entry)
        room -= 4 * math.prod(shape)
        if room < 0:
            raise FormatError(f"it claims far more weights than its {len(content)} bytes can mean")
        section = content[place : place + size]
        if len(section) < size or zlib.crc32(section) != crc:
            raise FormatError(f"the section of tensor {len(tensors)} is cut off or damaged (wrong checksum)")
        tensors.append(_tensor(entry, shape, section))
        place += size
    if place != len(content):
        raise FormatError(f"{len(content) - place} bytes follow its end")
    return header, tensors


def _header(packed: bytes) -> dict[str, Any]:
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, MOST_HEADER)
        if not unpacker.eof or unpacker.unused_data:
            raise FormatError("its header is no whole deflated text, or larger than 1 MiB")
        header = json.loads(text.decode())
    except (zlib.error, ValueError, RecursionError) as error:
        raise FormatError(f"its header can't be read ({error})") from None
    lists = ("inputs", "outputs", "steps", "tensors")
    if not isinstance(header, dict) or not all(isinstance(header.get(name), list) for name in lists):
        raise FormatError(f"its header lacks one of {', '.join(lists)}")
    unknown = set(header) - {*lists, "single", "examples"}
    if unknown or type(header.get("single", True)) is not bool:
        raise FormatError(f"its header has unknown fields {sorted(unknown)[:3]}, or a single that is no truth value")
    if len(header["steps"]) > MOST_STEPS:
        raise FormatError(f"it has more than {MOST_STEPS} steps")
    known = set()
    for name in header["inputs"]:
        known.add(_name(name))
    for step in header["steps"]:
        _check_step(step, known, len(header["tensors"]))
        known.add(_name(step["name"]))
    used = {place for step in header["steps"] for place in step["tensors"].values()}
    if used != set(range(len(header["tensors"]))):
        raise FormatError("it holds tensors that no step uses")
    _check_examples(header.get("examples", []), len(header["inputs"]))
    if not header["inputs"] or not header["outputs"] or not all(_name(name) in known for name in header["outputs"]):
        raise FormatError("its inputs or outputs are not values of its steps")
    return header


def _check_step(step: Any, known: set[str], tensors: int) -> None:
    forms = {"name": str, "kind": str, "path": str, "inputs": list, "options": dict, "tensors": dict}
    if not isinstance(step, dict) or set(step) != set(forms):
        raise FormatError(f"a step of its header has other fields than {', '.join(forms)}")
    for field, form in forms.items():
        if not isinstance(step[field], form):
            raise FormatError(f"a step's {field} is no {form.__name__}")
    if not step["inputs"] or not all(_name(name) in known for name in step["inputs"]):
        raise FormatError(f"step {step['name']!r} reads a value that no step before it gives")
    if step["path"].count(".") >= MOST_PARTS or len(step["path"]) > 2000:
        raise FormatError(f"step {step['name']!r} has a path of more than {MOST_PARTS} parts")
    if step["name"] in known:
        raise FormatError(f"two values are called {step['name']!r}")
    for place in step["tensors"].values():
        if type(place) is not int or not 0 <= place < tensors:
            raise FormatError(f"step {step['name']!r} has a tensor that the file does not hold")


def _check_examples(examples: Any, inputs: int) -> None:
    """Shapes of the inputs, if they are noted: positive, and no more than a network may sensibly take."""
    fits = isinstance(examples, list) and len(examples) in (0, inputs)
    for example in examples if fits else ():
        shape: Any = example.get("shape") if isinstance(example, dict) else None
        fits = fits and isinstance(shape, list) and len(shape) <= 8 and type(example.get("complex")) is bool
        fits = fits and all(type(n) is int and 0 < n < 2**31 for n in shape) and math.prod(shape) <= 2**26
    if not fits:
        raise FormatError("its examples are no shapes of its inputs")


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 200:
        raise FormatError(f"{str(name)[:40]!r} is no name of a value")
    return name


def _claims(entry: Any) -> tuple[tuple[int, ...], int, int]:
    """The shape with parts (a last axis of two where complex), the section's bytes, and its checksum."""
    forms = {"shape": list, "complex": bool, "values": str, "positions": str, "count": int, "axis": int,
             "bytes": int, "crc": int}  # fmt: skip
    if not isinstance(entry, dict) or set(entry) != set(forms):
        raise FormatError(f"a tensor of its header has other fields than {', '.join(forms)}")
    shape = entry["shape"]
    if not all(type(entry[field]) is form for field, form in forms.items()) or len(shape) > 8:
        raise FormatError("a tensor of its header has a field of the wrong kind")
    if not all(type(n) is int and 0 < n < 2**31 for n in shape) or not 0 <= entry["axis"] <= max(len(shape) - 1, 0):
        raise FormatError(f"a tensor's shape {shape} or axis {entry['axis']} is impossible")
    if entry["values"] not in VALUES or entry["positions"] not in POSITIONS:
        raise FormatError(f"a tensor has values {entry['values']!r} at positions {entry['positions']!r}")
    if not 0 <= entry["count"] <= math.prod(shape) or entry["bytes"] < 0:
        raise FormatError(f"a tensor of shape {shape} claims {entry['count']} values in {entry['bytes']} bytes")
    return (*shape, 2) if entry["complex"] else tuple(shape), entry["bytes"], entry["crc"]


def _tensor(entry: dict[str, Any], shape: tuple[int, ...], section: bytes) -> Array:
    """Positions, then scales, then values."""
    total, parts, count = math.prod(entry["shape"]), 2 if entry["complex"] else 1, entry["count"]
    integer = entry["values"].startswith("int")
    scales = entry["shape"][entry["axis"]] if integer and entry["shape"] else int(integer)
    values = np.dtype(VALUES[entry["values"]])
    begin = len(section) - 4 * scales - count * parts * values.itemsize
    if begin < 0:
        raise FormatError(f"a section of {len(section)} bytes can't hold {count} values")
    places = _positions(entry["positions"], section[:begin], total, count)
    flat = np.zeros((total, parts), np.float32)
    stored = np.frombuffer(section, values, count * parts, begin + 4 * scales).astype(np.float32)
    flat[places] = stored.reshape(count, parts)
    if integer:
        scale = np.frombuffer(section, "<f4", scales, begin)
        axes = [n if axis == entry["axis"] else 1 for axis, n in enumerate(entry["shape"])]
        with np.errstate(all="ignore"):  # what overflows is refused below
            flat = (flat.reshape(*entry["shape"], parts) * scale.reshape(*axes, 1)).reshape(total, parts)
    if not np.isfinite(flat).all():
        raise FormatError("a tensor holds a value that is not finite")
    dense = flat.view(np.complex64) if entry["complex"] else flat
    return dense.reshape(entry["shape"])


def _positions(kind: str, stored: bytes, total: int, count: int) -> Any:
    if kind == "dense":
        places: Any = slice(None)
        fits = not stored and count == total
    elif kind == "bitmask":
        bits = np.unpackbits(np.frombuffer(stored, np.uint8), bitorder="little")
        fits = len(stored) == -(-total // 8) and not bits[total:].any() and bits.sum() == count
        places = np.flatnonzero(bits[:total])
    else:
        code, escape = (np.uint8, 255) if kind == "gaps8" else (np.dtype("<u2"), 65535)
        fits = len(stored) % np.dtype(code).itemsize == 0
        gaps = np.frombuffer(stored, code).astype(np.int64) if fits else np.zeros(0, np.int64)
        ends = gaps != escape
        places = (np.cumsum(gaps) + np.cumsum(ends) - 1)[ends]
        fits = fits and len(places) == count and (not count or places[-1] < total) and (not len(gaps) or bool(ends[-1]))
    if not fits:
        raise FormatError(f"a tensor's {kind} positions do not fit its {count} of {total} values")
    return places
