"""A reader of tar.gz files that writes nothing and holds one member at a time."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from argand.errors import ArgandError

_BLOCK = 512
_CHUNK = 1 << 20


class Readable(Protocol):
    """What can be read from in bytes: a file, plain or compressed."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; fewer at the end."""


def tar_members(path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield (name, size, read) of each regular file; a member's read works until the next is asked for.

    Names are only compared, never used as places to write to. Links, folders and extended headers are passed over.
    """
    with _telling(path), gzip.open(path, "rb") as stream:
        yield from _members(stream, path)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgandError(f"{path} can't be read: {reason}. Expected a whole tar.gz archive.") from None


def _members(stream: Readable, path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    while len(header := stream.read(_BLOCK)) == _BLOCK and any(header):
        name, size, regular = _parse(header, path)
        left = size

        def read(size: int = size, name: str = name) -> bytes:
            nonlocal left
            with _telling(path):  # its caller is outside of this generator
                content = stream.read(size)
            left = 0
            if len(content) != size:
                raise ArgandError(f"{path} ends inside {name}. Get the whole archive.")
            return content

        if regular:
            yield name, size, read
        left += -size % _BLOCK
        while left:
            passed = len(stream.read(min(left, _CHUNK)))
            if not passed:
                raise ArgandError(f"{path} ends inside {name}. Get the whole archive.")
            left -= passed
    if header and any(header):
        raise ArgandError(f"{path} ends inside a tar header. Get the whole archive.")


def _parse(header: bytes, path: Path) -> tuple[str, int, bool]:
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    try:
        stated = int(header[148:156].strip(b" \0") or b"0", 8)
        size = int(header[124:136].strip(b" \0") or b"0", 8)
    except ValueError:
        stated, size = -1, -1
    if stated != checksum or size < 0:
        raise ArgandError(f"{path} holds a damaged tar header. Get the archive again.")
    name = header[:100].split(b"\0")[0].decode("utf-8", "replace")
    return name, size, header[156:157] in (b"0", b"\0")
