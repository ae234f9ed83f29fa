"""Bringing image data sets into their place, from copies at hand or from the network, verified on the way."""

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from argand.errors import ArgandError
from argand.files import write_atomically
from argand.study.data import cifar
from argand.study.data.archive import Readable
from argand.study.data.download import Progress, download
from argand.study.data.idx import DEFLATE_LIMIT, check_labels, idx_bytes, read_idx
from argand.study.data.images import file_sha256
from argand.study.data.sources import CIFAR10_ARCHIVE, CIFAR10_SHA256, EMNIST_ARCHIVE, IdxSet, Remote

SUMS = "SHA256SUMS"
#: Where fetched archives lie until what they hold is in place.
DOWNLOADS = "download"
#: What torchvision calls the folder of a data set.
_TORCHVISION = {"mnist": "MNIST", "kmnist": "KMNIST", "fashion-mnist": "FashionMNIST", "emnist-letters": "EMNIST"}
_LARGEST_MEMBER = 1 << 28


def fetch(remotes: tuple[Remote, ...], folder: Path, progress: Progress) -> Path:
    """Download the files into a folder of their own inside the data set's; returns it."""
    for remote in remotes:
        download(remote, folder / DOWNLOADS, progress)
    return folder / DOWNLOADS


def drop_downloads(folder: Path) -> None:
    """Delete the fetched archives."""
    shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)


def take_idx_set(source: IdxSet, origin: Path, folder: Path) -> str:
    """Copy the four files from a folder (or EMNIST's zip), all verified before any is written; says how verified."""
    if archive := _emnist_archive(source, origin):
        origin = folder / DOWNLOADS / "letters"
        _unzip(archive, source.files, origin)
    contents, verified = {}, set()
    for place, file in enumerate(source.files):
        path = _find(source, origin, file)
        values = read_idx(path, source.shape(file))
        if place % 2:
            check_labels(path, values, source.first_label, source.classes)
        contents[file] = idx_bytes(values)
        verified.add(_verified(source, file, path, contents[file]))
    if archive and _md5(archive) == EMNIST_ARCHIVE.md5:
        verified = {"the archive's md5 is the published one"}
    put(folder, contents)
    return "; ".join(sorted(verified))


def _verified(source: IdxSet, file: str, path: Path, content: bytes) -> str:
    if file in source.sha256:
        found = hashlib.sha256(content).hexdigest()
        if found != source.sha256[file]:
            raise ArgandError(f"{path} isn't the official file: sha256 {found}, not {source.sha256[file]}.")
        return "the content is the official one by its sha256"
    if path.suffix == ".gz" and _md5(path) == source.gzip_md5.get(file):
        return "the files' md5 are the published ones"
    return "header, counts and labels are right (this copy has no published checksum)"


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def put(folder: Path, contents: dict[str, bytes]) -> None:
    """Write files, each whole or not at all, and then their checksums in the form that sha256sum -c reads."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgandError(f"{folder} can't be made: {error.strerror}.") from None
    for file, content in contents.items():
        write_atomically(folder / file, content)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {file}\n" for file, content in contents.items()]
    write_atomically(folder / SUMS, "".join(lines).encode())


def check_sums(folder: Path, files: tuple[str, ...], official: dict[str, str]) -> str:
    """Compare files with the official checksums, else with those written when they came; says which."""
    sums, against = dict(official), "the official checksums"
    if not sums and (folder / SUMS).is_file():
        against = f"the checksums of the day they came ({SUMS})"
        lines = (folder / SUMS).read_text("utf-8", "replace").splitlines()
        sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for file in files:
        if sums and file_sha256(folder / file) != sums.get(file):
            raise ArgandError(f"{folder / file} differs from {against}. Delete it and get the data again.")
    return f"{len(files)} files agree with {against}" if sums else "no checksum is known; headers and labels are right"


def _find(source: IdxSet, origin: Path, file: str) -> Path:
    name = source.folder
    places = ("", "raw", "gzip", name, f"{_TORCHVISION[name]}/raw", f"usr/share/datasets/{name}")
    for folder in (origin / place for place in places):
        for variant in (file, file.replace("-idx", ".idx")):
            for path in (folder / variant, folder / f"{variant}.gz"):
                if path.is_file():
                    return path
    raise ArgandError(f"{origin} holds no {file}, plain or .gz. Expected the four idx files of {name} there.")


def _emnist_archive(source: IdxSet, origin: Path) -> Path | None:
    if EMNIST_ARCHIVE not in source.remotes:
        return None
    places = (origin, origin / "gzip.zip", origin / "emnist.zip")
    return next((place for place in places if place.suffix == ".zip" and place.is_file()), None)


def _unzip(archive: Path, files: tuple[str, ...], folder: Path) -> None:
    """Take the .gz of the given files out of EMNIST's zip, and nothing else."""
    wanted = {f"{file}.gz" for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                name = PurePosixPath(entry.filename).name
                if name in wanted:
                    limit = min(_LARGEST_MEMBER, DEFLATE_LIMIT * entry.compress_size)
                    with opened.open(entry) as stream:
                        write_atomically(folder / name, _bounded(stream, limit, f"{archive}: {entry.filename}"))
    except ArgandError:
        raise
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, NotImplementedError) as error:
        raise ArgandError(f"{archive} can't be read: {error}. Expected a whole zip archive.") from None


def _bounded(stream: Readable, limit: int, origin: str) -> bytes:
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise ArgandError(f"{origin} is far larger than any file of EMNIST. It isn't read.")
    return content


def take_cifar(origin: Path, folder: Path) -> str:
    """Copy CIFAR10's six files from a folder or from the tar.gz, verified before any is written."""
    contents = cifar.batches_of_archive(origin) if origin.is_file() else dict(_cifar_files(origin))
    for name, content in contents.items():
        if (found := hashlib.sha256(content).hexdigest()) != CIFAR10_SHA256[name]:
            raise ArgandError(f"{origin}: {name} isn't the official file: sha256 {found}, not {CIFAR10_SHA256[name]}.")
    put(folder, contents)
    return "the content is the official one by its sha256"


def _cifar_files(origin: Path) -> Iterator[tuple[str, bytes]]:
    names = cifar.TRAIN_FILES + cifar.TEST_FILES
    for folder in (origin, origin / "cifar-10-batches-bin", origin / "cifar10"):
        if all((folder / name).is_file() for name in names):
            for name in names:
                cifar.read_batch(folder / name)
                yield name, (folder / name).read_bytes()
            return
    archive = origin / CIFAR10_ARCHIVE.file
    if not archive.is_file():
        expected = f"Expected {names[0]} … {names[-1]}, or {CIFAR10_ARCHIVE.file}"
        raise ArgandError(f"{origin} holds no CIFAR10 in its binary form. {expected}.")
    yield from cifar.batches_of_archive(archive).items()
