"""Preparing music once: 44,100 Hz to 11,000 Hz, and note times with it. An interrupted preparation carries on."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import argand
from argand.errors import ArgandError
from argand.files import write_atomically
from argand.study.data.extras import optional
from argand.study.data.images import file_sha256
from argand.study.data.music import (
    CLASSES,
    FIRST_NOTE,
    MANIFEST,
    RATE,
    SPLITS,
    manifest_digest,
    notes_path,
    open_recording,
    wave_path,
)

SOURCE_RATE = 44_100
TEST = frozenset({"2303", "2382", "1819"})
VALID = frozenset({"2131", "2384", "1792", "2514", "2567", "1876"})


@dataclass(frozen=True)
class Raw:
    """A recording as it is published: how to read its wave at 44,100 Hz, and rows of start, end, MIDI note."""

    name: str
    origin: str
    read: Callable[[], tuple[NDArray[np.float32], NDArray[np.int64]]]


def musicnet_split(name: str) -> str:
    """Return the split in which the paper has a recording of MusicNet."""
    return "test" if name in TEST else "valid" if name in VALID else "train"


def prepare(
    raws: Iterable[Raw], folder: Path, split_of: Callable[[str], str], report: Callable[[str], None] = lambda _: None
) -> int:
    """Prepare each recording that isn't yet there, then write the manifest; returns how many there are."""
    rows: dict[str, Any] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for raw in raws:
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,100}", raw.name):
            raise ArgandError(f"{raw.origin} holds a recording named {raw.name!r}. Expected letters and digits.")
        if not notes_path(folder, raw.name).exists():  # written last: where the notes are, the wave is
            _prepare_one(raw, folder)
        recording = open_recording(folder, raw.name)
        rows[raw.name] = {
            "split": split_of(raw.name),
            "samples": len(recording.wave),
            "wave": file_sha256(wave_path(folder, raw.name)),
            "notes": file_sha256(notes_path(folder, raw.name)),
        }
        report(raw.name)
    missing = [split for split in SPLITS if split not in {row["split"] for row in rows.values()}]
    if missing:
        raise ArgandError(
            f"{len(rows)} recordings were found, none of them for {' and '.join(missing)}. "
            f"Expected some for each of train, valid and test; those prepared so far are kept in {folder}."
        )
    _write_manifest(rows, folder)
    return len(rows)


def _write_manifest(rows: dict[str, Any], folder: Path) -> None:
    manifest = {
        "rate": RATE,
        "source_rate": SOURCE_RATE,
        "versions": {"argand": argand.__version__, "numpy": np.__version__, "soxr": version("soxr")},
        "digest": manifest_digest(rows),
        "recordings": dict(sorted(rows.items())),
    }
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _prepare_one(raw: Raw, folder: Path) -> None:
    wave, notes = raw.read()
    check_notes(notes, raw.origin)
    soxr = optional("soxr", "resample music")
    resampled = soxr.resample(wave, SOURCE_RATE, RATE, quality="VHQ").astype("<f4")
    if not np.isfinite(resampled).all():
        raise ArgandError(f"{raw.origin}: the wave of {raw.name} holds values that aren't finite.")
    scaled = notes.copy()
    # int(t · 11000 / 44100), in integers
    scaled[:, :2] = notes[:, :2] * (RATE // 100) // (SOURCE_RATE // 100)
    scaled[:, 2] -= FIRST_NOTE
    order = np.lexsort((scaled[:, 2], scaled[:, 1], scaled[:, 0]))
    write_atomically(wave_path(folder, raw.name), npy_bytes(resampled))
    write_atomically(notes_path(folder, raw.name), npy_bytes(scaled[order].astype("<i8")))


def check_notes(notes: NDArray[np.int64], origin: str) -> None:
    """Refuse notes that end before they start, begin before the recording or aren't among the 84."""
    start, end, note = notes[:, 0], notes[:, 1], notes[:, 2]
    far = 1 << 40  # samples: ten months of sound, and far from overflow
    wrong = (start < 0) | (end < start) | (end > far) | (note < FIRST_NOTE) | (note >= FIRST_NOTE + CLASSES)
    if wrong.any():
        start, end, note = notes[wrong][0].tolist()
        expected = f"Expected 0 <= start <= end and notes {FIRST_NOTE} to {FIRST_NOTE + CLASSES - 1}."
        raise ArgandError(f"{origin} labels note {note} from sample {start} to {end}. {expected}")


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
