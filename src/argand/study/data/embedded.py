"""The subset of MNIST that travels inside the package."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Embedded:
    """Images (n, 1, 28, 28) as float32 in [-1, 1], and their labels."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@cache
def embedded_mnist() -> Embedded:
    """The paper's 10,000 training images of MNIST and the 10,000 test images; no download.

    >>> data = embedded_mnist()
    >>> data.train_images.shape, data.test_labels[:5]
    (torch.Size([10000, 1, 28, 28]), tensor([7, 2, 1, 0, 4]))
    """
    arrays = embedded_bytes()
    return Embedded(
        _normalised(arrays["train_images"]),
        arrays["train_labels"].long(),
        _normalised(arrays["test_images"]),
        arrays["test_labels"].long(),
    )


def embedded_bytes() -> dict[str, Tensor]:
    """Return the same images (n, 28, 28) and labels (n,) as they are stored: unsigned bytes."""
    with files(__package__).joinpath("mnist-10k.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def _normalised(pixels: Tensor) -> Tensor:
    return (pixels.float() / 255 - 0.5).div_(0.5).unsqueeze(1)
