"""Fetching a published file: resumed after a cut, verified before it takes its place."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from argand.errors import ArgandError
from argand.study.data.sources import Remote

#: Called with the bytes so far and the total, where the server tells it.
Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT = 60.0


def download(remote: Remote, folder: Path, progress: Progress = lambda done, total: None) -> Path:
    """Fetch a file into the folder, by the first of its addresses that answers; returns its path.

    What has arrived stays in NAME.part, and the next call goes on from there. The file takes its name only when its
    md5 is the published one.
    """
    target = folder / remote.file
    part = folder / f"{remote.file}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgandError(f"{folder} can't be made: {error.strerror}.") from None
    if target.exists():
        return target
    _check_room(remote, folder, part)
    failures = []
    for address in remote.addresses:
        try:
            _complete(address, part, remote, progress)
        except _FetchError as error:
            failures.append(f"{address} {error}.")
            continue
        _verify(part, remote, address)
        os.replace(part, target)
        return target
    left = f" What arrived is kept in {part}: the same command goes on from there." if part.exists() else ""
    copy = "With a copy from elsewhere, use --from."
    raise ArgandError(f"{remote.file} can't be downloaded. {' '.join(failures)}{left} {copy}")


def _check_room(remote: Remote, folder: Path, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    needed, free = (remote.size or 0) - have, shutil.disk_usage(folder).free
    if needed > free:
        found = f"{folder} has {free // 1_000_000} MB left"
        raise ArgandError(f"{found}. The download of {remote.file} needs {needed // 1_000_000} MB. Make room.")


class _FetchError(Exception):
    """An address didn't give the file; completes the sentence that begins with the address."""


def _complete(address: str, part: Path, remote: Remote, progress: Progress) -> None:
    """Fetch what the part file lacks."""
    have = part.stat().st_size if part.exists() else 0
    if remote.size is not None and have == remote.size:
        return
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(request, timeout=_TIMEOUT) as response:
            resumed = response.status == 206 and _range_start(response) == have
            start = have if resumed else 0
            length = response.headers.get("Content-Length", "")
            total = start + int(length) if length.isdigit() else None
            if remote.size is not None and total not in (None, remote.size):
                raise _FetchError(f"offers {total} bytes, not the published {remote.size}")
            done = _copy(response, part, start, total, progress)
    except HTTPError as error:
        error.close()
        if error.code != 416:  # else the part is at least as long as the file, and its checksum will tell
            raise _FetchError(f"answers {error.code} ({error.reason})") from None
        return
    except URLError as error:
        raise _FetchError(f"can't be reached ({error.reason})") from None
    except (HTTPException, OSError) as error:
        raise _FetchError(f"broke off ({type(error).__name__}: {error})") from None
    if total not in (None, done):
        raise _FetchError(f"broke off after {done} of {total} bytes")


def _range_start(response: Any) -> int | None:
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").split("-")[0]
    return int(start) if start.isdigit() else None


def _copy(response: Any, part: Path, start: int, total: int | None, progress: Progress) -> int:
    done = start
    with _writing(part):
        file = part.open("r+b" if start else "wb")
    with file:
        file.seek(start)
        while chunk := response.read(_CHUNK):
            with _writing(part):
                file.write(chunk)
                file.flush()
            done += len(chunk)
            progress(done, total)
    return done


@contextmanager
def _writing(part: Path) -> Iterator[None]:
    """Tell a failing disk from a failing network."""
    try:
        yield
    except OSError as error:
        raise ArgandError(f"{part} can't be written: {error.strerror}. Make room, and run the same again.") from None


def _verify(part: Path, remote: Remote, address: str) -> None:
    try:
        with part.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise ArgandError(f"{part} can't be read: {error.strerror}.") from None
    if found != remote.md5:
        part.unlink(missing_ok=True)
        raise ArgandError(
            f"{address} gave a file of md5 {found}, not the published {remote.md5}. It is deleted; run the same again, "
            "or take a copy from elsewhere with --from."
        )
