"""MusicNet as it is published: a folder of wav and csv, that folder as tar.gz, one .h5 or one .npz file."""

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from argand.errors import ArgandError
from argand.study.data.archive import tar_members
from argand.study.data.extras import optional
from argand.study.data.idx import DEFLATE_LIMIT
from argand.study.data.prepare import SOURCE_RATE, Raw

PARTS = ("train", "test")
COLUMNS = ("start_time", "end_time", "note")
#: Two hours of 64-bit sound, and about a million notes: more than ten times what any recording has.
LARGEST_WAV = 2 * 3600 * SOURCE_RATE * 8
LARGEST_CSV = 64 << 20

Sound = tuple[NDArray[np.float32], NDArray[np.int64]]


def raws_of(path: Path) -> Iterator[Raw]:
    """Yield the recordings of any of the forms; a folder may also hold one of the files.

    A recording can be read until the next is asked for.
    """
    if path.is_dir():
        for folder in (path, path / "musicnet"):
            if any((folder / f"{part}_data").is_dir() for part in PARTS):
                return raws_of_folder(folder)
            for name in ("musicnet.h5", "musicnet.tar.gz", "musicnet.npz"):
                if (folder / name).is_file():
                    return raws_of(folder / name)
        raise ArgandError(f"{path} holds none of train_data/, musicnet.h5, musicnet.tar.gz, musicnet.npz.")
    if path.suffix in (".h5", ".hdf5"):
        return raws_of_h5(path)
    if path.suffix == ".npz":
        return raws_of_npz(path)
    if path.name.endswith((".tar.gz", ".tgz")):
        return raws_of_archive(path)
    raise ArgandError(f"{path} isn't a form of MusicNet. Expected a folder, or a file .h5, .npz or .tar.gz.")


def raws_of_folder(folder: Path) -> Iterator[Raw]:
    """Read train_data/NAME.wav with train_labels/NAME.csv, and the same for test."""
    waves = [wave for part in PARTS for wave in sorted((folder / f"{part}_data").glob("*.wav"))]
    if not waves:
        raise ArgandError(f"{folder} holds no recordings: no train_data/*.wav and no test_data/*.wav.")
    for wave in waves:
        labels = wave.parent.parent / wave.parent.name.replace("_data", "_labels") / f"{wave.stem}.csv"
        yield Raw(wave.stem, str(wave), partial(_read_pair, wave, labels))


def _read_pair(wave: Path, labels: Path) -> Sound:
    try:
        if wave.stat().st_size > LARGEST_WAV or labels.stat().st_size > LARGEST_CSV:
            raise ArgandError(f"{wave} or {labels} is far larger than any recording of music. It isn't read.")
        return read_wav(wave.read_bytes(), str(wave)), read_csv(labels.read_bytes(), str(labels))
    except OSError as error:
        raise ArgandError(f"{error.filename} can't be read: {error.strerror}.") from None


def raws_of_archive(path: Path) -> Iterator[Raw]:
    """Read the same folder from a tar.gz, twice: all labels first, then one wave after the other."""
    labels: dict[str, bytes] = {}
    for name, size, read in tar_members(path):
        if name.endswith(".csv") and PurePosixPath(name).parent.name in ("train_labels", "test_labels"):
            labels[PurePosixPath(name).stem] = _bounded(read, size, LARGEST_CSV, f"{path}: {name}")
    found = 0
    for name, size, read in tar_members(path):
        place = PurePosixPath(name)
        if place.suffix == ".wav" and place.parent.name in ("train_data", "test_data"):
            found += 1
            yield Raw(place.stem, f"{path}: {name}", partial(_read_member, path, name, size, read, labels))
    if not found:
        raise ArgandError(f"{path} holds no recordings: no train_data/*.wav and no test_data/*.wav.")


def _read_member(path: Path, name: str, size: int, read: Callable[[], bytes], labels: dict[str, bytes]) -> Sound:
    stem = PurePosixPath(name).stem
    if stem not in labels:
        raise ArgandError(f"{path} holds {name}, but no labels {stem}.csv.")
    wave = _bounded(read, size, LARGEST_WAV, f"{path}: {name}")
    return read_wav(wave, f"{path}: {name}"), read_csv(labels[stem], f"{path}: {stem}.csv")


def _bounded(read: Callable[[], bytes], size: int, limit: int, origin: str) -> bytes:
    if size > limit:
        raise ArgandError(f"{origin} is said to have {size} bytes, more than any recording of music. It isn't read.")
    return read()


def read_wav(content: bytes, origin: str) -> NDArray[np.float32]:
    """Return the one channel of a wav file at 44,100 Hz."""
    soundfile = optional("soundfile", "read wav files")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            found = f"{file.format} at {file.samplerate} Hz with {file.channels} channels"
            plain = file.format in ("WAV", "WAVEX") and file.subtype.startswith(("PCM", "FLOAT", "DOUBLE"))
            if not plain or (file.samplerate, file.channels) != (SOURCE_RATE, 1) or file.frames > len(content):
                raise ArgandError(f"{origin} is {found}. Expected uncompressed WAV at {SOURCE_RATE} Hz, one channel.")
            wave: NDArray[np.float32] = file.read(dtype="float32")
    except soundfile.SoundFileError as error:
        raise ArgandError(f"{origin} isn't a wav file: {error}") from None
    if len(wave) == 0:
        raise ArgandError(f"{origin} holds no sound.")
    return wave


def read_csv(content: bytes, origin: str) -> NDArray[np.int64]:
    """Return the rows of start, end (samples at 44,100 Hz) and MIDI note of a label file.

    >>> read_csv(b"start_time,end_time,instrument,note,start_beat\\n10,20,1,69,0.5\\n", "an example").tolist()
    [[10, 20, 69]]
    """
    try:
        table = csv.DictReader(io.StringIO(content.decode("utf-8")), strict=True)
        if not set(COLUMNS) <= set(table.fieldnames or ()):
            raise ArgandError(f"{origin} has the columns {table.fieldnames}. Expected at least {', '.join(COLUMNS)}.")
        rows = [[int(row[column]) for column in COLUMNS] for row in table]
        return np.array(rows, np.int64).reshape(-1, 3)
    except (csv.Error, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise ArgandError(f"{origin} isn't a table of notes: {error}.") from None
    except ValueError as error:
        if isinstance(error, ArgandError):
            raise
        raise ArgandError(f"{origin} isn't a table of notes: {error}.") from None


def raws_of_h5(path: Path) -> Iterator[Raw]:
    """Read groups id_NAME of `data` (the wave) and `labels` (records with start_time, end_time, note_id)."""
    h5py = optional("h5py", "read musicnet.h5")
    try:
        with h5py.File(path, "r") as file:
            names = sorted(file)
            if not names:
                raise ArgandError(f"{path} is empty. Expected groups id_NNNN.")
            for name in names:
                yield Raw(name.removeprefix("id_"), f"{path}: {name}", partial(_read_group, file, name, path))
    except ArgandError:
        raise
    except Exception as error:  # h5py raises nearly anything on a damaged file
        raise ArgandError(f"{path} can't be read as HDF5: {error}.") from None


def _read_group(file: Any, name: str, path: Path) -> Sound:
    try:
        wave = _dataset(file[name]["data"])
        labels = _dataset(file[name]["labels"])
        fields = labels.dtype.names or ()
        chosen = [next(f for f in fields if f in names) for names in _H5_FIELDS]
        columns = [labels[field].astype(np.int64) for field in chosen]
    except ArgandError as error:
        raise ArgandError(f"{path}: {name} {error}") from None
    except StopIteration:
        raise ArgandError(f"{path}: {name}/labels has the fields {fields}. Expected {_H5_FIELDS}.") from None
    except Exception as error:  # h5py raises nearly anything on a damaged file
        raise ArgandError(f"{path}: {name} can't be read ({type(error).__name__}: {error}).") from None
    return _as_wave(wave, f"{path}: {name}"), np.stack(columns, axis=1).reshape(-1, 3)


_H5_FIELDS = (("start_time", "start"), ("end_time", "end"), ("note_id", "note"))


def _dataset(dataset: Any) -> NDArray[Any]:
    """Read a dataset whose claimed size its stored bytes can bear."""
    if dataset.ndim != 1 or dataset.dtype.hasobject:
        raise ArgandError(f"holds {dataset.dtype} of shape {dataset.shape}. Expected one row of numbers or records.")
    if dataset.nbytes > DEFLATE_LIMIT * dataset.id.get_storage_size():
        raise ArgandError(f"claims {dataset.nbytes} bytes and stores {dataset.id.get_storage_size()}.")
    return np.asarray(dataset[:])


def raws_of_npz(path: Path) -> Iterator[Raw]:
    """Read plain arrays NAME (the wave) and NAME_labels (columns start, end, instrument, note, …).

    The official musicnet.npz holds pickled trees instead, which argand refuses: unpickling runs whatever it holds.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(n.removesuffix(".npy") for n in archive.namelist() if not n.endswith("_labels.npy"))
            if not names:
                raise ArgandError(f"{path} is empty. Expected arrays NNNN and NNNN_labels.")
            for name in names:
                yield Raw(name, f"{path}: {name}", partial(_read_arrays, archive, name, path))
    except ArgandError:
        raise
    except Exception as error:  # and so does zipfile
        raise ArgandError(f"{path} can't be read as .npz: {error}.") from None


def _read_arrays(archive: zipfile.ZipFile, name: str, path: Path) -> Sound:
    wave = npz_member(archive, f"{name}.npy", path)
    labels = npz_member(archive, f"{name}_labels.npy", path)
    if labels.ndim != 2 or labels.shape[1] < 4 or labels.dtype.kind not in "iuf":
        expected = "Expected numbers in the columns start, end, instrument, note."
        raise ArgandError(f"{path}: {name}_labels is {labels.dtype} of shape {labels.shape}. {expected}")
    if not np.isfinite(labels).all():
        raise ArgandError(f"{path}: {name}_labels holds values that aren't finite.")
    return _as_wave(wave, f"{path}: {name}"), labels[:, [0, 1, 3]].astype(np.int64)


def npz_member(archive: zipfile.ZipFile, member: str, path: Path) -> NDArray[Any]:
    """Read one array of an npz file, unless it is pickled or claims more than its bytes can bear."""
    try:
        entry = archive.getinfo(member)
        if entry.file_size > DEFLATE_LIMIT * entry.compress_size or entry.compress_size > path.stat().st_size:
            raise ArgandError(f"{path}: {member} claims {entry.file_size} bytes, too many for what it stores.")
        with archive.open(entry) as file:
            if (array := _read_npy(file, entry.file_size)) is None:
                raise ArgandError(
                    f"{path} holds {member} as pickled objects, as the official musicnet.npz does. argand never "
                    "unpickles. Use musicnet.h5, musicnet.tar.gz or the folder of wav and csv files instead."
                )
            return array
    except ArgandError:
        raise
    except KeyError:
        raise ArgandError(f"{path} holds no array {member}. Expected NNNN and NNNN_labels.") from None
    except Exception as error:  # numpy parses the header as Python: what a damaged one raises is open
        raise ArgandError(f"{path}: {member} can't be read ({type(error).__name__}: {error}).") from None


def _read_npy(file: IO[bytes], size: int) -> NDArray[Any] | None:
    major, _ = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        return None
    count = int(np.prod(shape, dtype=object))
    if (fortran and len(shape) > 1) or not 0 <= count * dtype.itemsize <= size:
        raise ValueError(f"{dtype} of shape {shape} in {size} bytes")
    content = file.read(count * dtype.itemsize)
    return np.frombuffer(content, dtype, count).reshape(shape)


def _as_wave(array: NDArray[Any], origin: str) -> NDArray[np.float32]:
    if array.ndim != 1 or array.dtype.kind != "f" or len(array) == 0:
        raise ArgandError(f"{origin} holds {array.dtype} of shape {array.shape}. Expected one row of real numbers.")
    return array.astype(np.float32)
