"""CIFAR10's official binary files: 10,000 records of a label byte and 3 x 32 x 32 bytes."""

from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from argand.errors import ArgandError
from argand.study.data.archive import tar_members
from argand.study.data.idx import check_labels

TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILES = ("test_batch.bin",)
RECORDS = 10_000
FILE_BYTES = RECORDS * (1 + 3 * 32 * 32)

Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def read_batch(path: Path) -> Arrays:
    """Read the images (10000, 3, 32, 32) and labels (10000,) of one file."""
    try:
        size = path.stat().st_size
        if size != FILE_BYTES:
            raise ArgandError(f"{path} has {size} bytes. Expected {FILE_BYTES}: 10,000 records of 3,073 bytes.")
        records = np.fromfile(path, np.uint8).reshape(RECORDS, -1)
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}.") from None
    check_labels(path, records[:, 0], 0, 10)
    return records[:, 1:].reshape(RECORDS, 3, 32, 32), records[:, 0]


def read_batches(folder: Path, names: tuple[str, ...]) -> Arrays:
    """Read several files, one after the other."""
    parts = [read_batch(folder / name) for name in names]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def batches_of_archive(path: Path) -> dict[str, bytes]:
    """Return the six files inside cifar-10-binary.tar.gz, by name."""
    found = {}
    for member, size, read in tar_members(path):
        name = PurePosixPath(member).name
        if name in TRAIN_FILES + TEST_FILES and name not in found:
            if size != FILE_BYTES:
                raise ArgandError(f"{path} holds {member} of {size} bytes. Expected {FILE_BYTES}.")
            found[name] = read()
    missing = sorted(set(TRAIN_FILES + TEST_FILES) - set(found))
    if missing:
        raise ArgandError(f"{path} holds no {', '.join(missing)}. Expected the archive cifar-10-binary.tar.gz.")
    return found
