"""Recordings prepared for training: waves at 11,000 Hz and the notes that sound in them."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from argand.errors import ArgandError

RATE = 11_000
CLASSES = 84
#: The lowest note of class 0: A0 in MIDI numbers.
FIRST_NOTE = 21
#: No recording may be shorter than the window that the study cuts.
WINDOW = 4_096
SPLITS = ("train", "valid", "test")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Recording:
    """A wave (float32, memory-mapped) at 11,000 Hz and its notes: rows of start, end (samples), class 0 … 83."""

    name: str
    wave: NDArray[np.float32]
    notes: NDArray[np.int64]

    def sounding(self, samples: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return one row of 84 zeros and ones per sample: which notes have start <= sample < end."""
        times, states = self._timeline
        return np.unpackbits(states[np.searchsorted(times, samples, side="right")], axis=1, count=CLASSES)

    @cached_property
    def _timeline(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The times at which anything changes, and the packed state before, between and after them."""
        notes = self.notes[self.notes[:, 1] > self.notes[:, 0]]
        times = np.unique(notes[:, :2])
        change = np.zeros((len(times) + 1, CLASSES), np.int16)
        np.add.at(change, (np.searchsorted(times, notes[:, 0]) + 1, notes[:, 2]), 1)
        np.add.at(change, (np.searchsorted(times, notes[:, 1]) + 1, notes[:, 2]), -1)
        return times, np.packbits(np.cumsum(change, axis=0) > 0, axis=1)


@dataclass(frozen=True)
class Music:
    """Recordings by split; the digest covers every wave, every note and the split."""

    train: list[Recording]
    valid: list[Recording]
    test: list[Recording]
    digest: str
    classes: ClassVar[int] = CLASSES


def wave_path(folder: Path, name: str) -> Path:
    """Return where a prepared wave lies."""
    return folder / f"{name}.wave.npy"


def notes_path(folder: Path, name: str) -> Path:
    """Return where the notes of a recording lie."""
    return folder / f"{name}.notes.npy"


def manifest_digest(recordings: dict[str, Any]) -> str:
    """Return the sha256 over names, splits and content checksums, which stands for the whole data set."""
    rows = [[name, row["split"], row["wave"], row["notes"]] for name, row in sorted(recordings.items())]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the table of recordings."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        rows = manifest["recordings"].items()
        whole = all(_plain(name) and row["split"] in SPLITS and int(row["samples"]) >= WINDOW for name, row in rows)
        whole = whole and manifest_digest(manifest["recordings"]) == manifest["digest"]
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ArgandError(
            f"{path} is damaged ({type(error).__name__}). Delete the folder and prepare it again."
        ) from None
    if not whole:
        raise ArgandError(f"{path} is damaged: it contradicts itself. Delete the folder and prepare it again.")
    return dict(manifest)


def _plain(name: str) -> bool:
    return name not in ("", ".", "..") and not set(name) & set('/\\\0:*?"<>|')


def load_music(folder: Path) -> Music:
    """Open every recording of a prepared folder; the waves stay on disk until they are used."""
    manifest = read_manifest(folder)
    parts: dict[str, list[Recording]] = {split: [] for split in SPLITS}
    for name, row in sorted(manifest["recordings"].items()):
        parts[row["split"]].append(open_recording(folder, name, int(row["samples"])))
    return Music(**parts, digest=manifest["digest"])


def open_recording(folder: Path, name: str, samples: int | None = None) -> Recording:
    """Open one recording, and check its form and its notes."""
    wave = _map(wave_path(folder, name), np.dtype("<f4"), lambda shape: len(shape) == 1, "a row of float32")
    notes = np.array(
        _map(notes_path(folder, name), np.dtype("<i8"), lambda s: len(s) == 2 and s[1] == 3, "n x 3 int64")
    )
    if len(wave) < WINDOW:
        raise ArgandError(f"{wave_path(folder, name)} has {len(wave)} samples. Expected at least a window of {WINDOW}.")
    if samples is not None and len(wave) != samples:
        raise ArgandError(f"{wave_path(folder, name)} has {len(wave)} samples. The manifest says {samples}.")
    wrong = (notes[:, 0] < 0) | (notes[:, 1] < notes[:, 0]) | (notes[:, 2] < 0) | (notes[:, 2] >= CLASSES)
    if wrong.any():
        raise ArgandError(f"{notes_path(folder, name)} holds the impossible note {notes[wrong][0].tolist()}.")
    return Recording(name, wave, notes)


def _map(path: Path, dtype: Any, fits: Callable[[tuple[int, ...]], bool], expected: str) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror or error}. Expected {expected}.") from None
    except Exception as error:  # numpy parses the header as Python: what a damaged one raises is open
        raise ArgandError(f"{path} is not a whole .npy file ({type(error).__name__}). Expected {expected}.") from None
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not fits(array.shape):
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise ArgandError(f"{path} holds {found}. Expected {expected}.")
    return array
