"""The idx format of MNIST and its kin: a magic number, the lengths of the axes, then bytes in row-major order."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from argand.errors import ArgandError
from argand.study.data.archive import Readable

#: Deflate never shrinks more than 1032 times: a larger claim in a header is false, and is refused unread.
DEFLATE_LIMIT = 1040
_GZIP_MAGIC = b"\x1f\x8b"
_READ_ERRORS = (OSError, EOFError, zlib.error)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read the unsigned bytes of an idx or idx.gz file, which must have exactly this shape."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP_MAGIC
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            return _read(stream, path, shape, size * DEFLATE_LIMIT if packed else size)
    except _READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgandError(f"{path} can't be read: {reason}. Expected a whole idx file, plain or gzip.") from None


def _read(stream: Readable, path: Path, shape: tuple[int, ...], limit: int) -> NDArray[np.uint8]:
    wanted = " x ".join(map(str, shape))
    header = stream.read(4 + 4 * len(shape))
    if header[:4] != bytes([0, 0, 8, len(shape)]):
        expected = f"Expected the idx magic number 0000 08{len(shape):02x} (unsigned bytes, {len(shape)} axes)."
        raise ArgandError(f"{path} begins with {header[:4].hex() or 'nothing'}. {expected}")
    found = tuple(int.from_bytes(header[i : i + 4], "big") for i in range(4, len(header), 4))
    if found != shape:
        raise ArgandError(f"{path} declares {' x '.join(map(str, found))} values. Expected {wanted}.")
    count = math.prod(shape)
    if count > limit:
        raise ArgandError(f"{path} is too short for the {wanted} values that it declares. Get the whole file.")
    content = stream.read(count)
    if len(content) != count:
        raise ArgandError(f"{path} ends after {len(content)} of its {count} values. Get the whole file.")
    if stream.read(1):
        raise ArgandError(f"{path} goes on after its {wanted} values. Expected nothing more.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def idx_bytes(values: NDArray[np.uint8]) -> bytes:
    """Return an array in the idx format.

    >>> idx_bytes(np.array([7, 2], np.uint8)).hex()
    '00000801000000020702'
    """
    header = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    return header + values.tobytes()


def check_labels(path: Path, labels: NDArray[np.uint8], first: int, classes: int) -> None:
    """Refuse labels outside first … first + classes - 1."""
    wrong = np.flatnonzero((labels < first) | (labels >= first + classes))
    if len(wrong):
        found = f"label {labels[wrong[0]]} at position {wrong[0]}"
        raise ArgandError(f"{path} holds {found}. Expected {first} to {first + classes - 1}: the file is corrupt.")
