"""Image data sets: from the files of a folder to tensors of bytes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from argand.errors import ArgandError
from argand.study.data import cifar
from argand.study.data.embedded import embedded_bytes
from argand.study.data.idx import check_labels, read_idx
from argand.study.data.sources import IdxSet
from argand.study.data.subset import subset


@dataclass(frozen=True)
class Images:
    """Images (n, c, h, w) of unsigned bytes and labels (n,) of 0 … classes - 1; the digest covers all of them."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: int
    digest: str


def load_embedded() -> Images:
    """Return the paper's subset of MNIST, from inside the package."""
    arrays = {name: tensor.numpy() for name, tensor in embedded_bytes().items()}
    train = arrays["train_images"][:, None], arrays["train_labels"]
    return _images(train, (arrays["test_images"][:, None], arrays["test_labels"]), 10)


def load_idx_set(source: IdxSet, folder: Path, full: bool) -> Images:
    """Read the four files; with full=False only the 10,000 training images of the subset are kept."""
    train, test = (_idx_split(source, folder, part) for part in (0, 1))
    if not full:
        chosen = subset(source.folder, train[1])
        train = train[0][chosen], train[1][chosen]
    return _images(train, test, source.classes)


def _idx_split(source: IdxSet, folder: Path, part: int) -> cifar.Arrays:
    image_file, label_file = source.files[2 * part : 2 * part + 2]
    labels = read_idx(folder / label_file, source.shape(label_file))
    check_labels(folder / label_file, labels, source.first_label, source.classes)
    images = read_idx(folder / image_file, source.shape(image_file))
    return images[:, None], labels - np.uint8(source.first_label)


def load_cifar(folder: Path) -> Images:
    """Read the six binary files of CIFAR10."""
    train = cifar.read_batches(folder, cifar.TRAIN_FILES)
    return _images(train, cifar.read_batches(folder, cifar.TEST_FILES), 10)


def _images(train: cifar.Arrays, test: cifar.Arrays, classes: int) -> Images:
    arrays = (train[0], train[1].astype(np.int64), test[0], test[1].astype(np.int64))
    a, b, c, d = (torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in arrays)
    return Images(a, b, c, d, classes, digest_of(*arrays))


def digest_of(*arrays: NDArray[np.generic]) -> str:
    """Return the sha256 of the arrays: type, shape and little-endian content of each, in order."""
    total = hashlib.sha256()
    for array in arrays:
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(f"{little.dtype.str}{little.shape}".encode())
        total.update(little.data)
    return total.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}.") from None
