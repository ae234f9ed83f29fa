"""Which 10,000 training images the paper used."""

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

SIZE = 10_000
#: The paper's seed for EMNIST-Letters; its index list isn't published, and this split is not it (see `stratified`).
EMNIST_SEED = 605_446_338
_PAPERS = ("mnist", "kmnist", "fashion-mnist")


def subset(folder: str, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return positions in the training split: the paper's own list, or for EMNIST-Letters our stratified one."""
    if folder not in _PAPERS:
        return stratified(labels, SIZE, EMNIST_SEED)
    with files(__package__).joinpath("subsets", f"{folder}.npy").open("rb") as file:
        return np.asarray(np.load(file, allow_pickle=False), np.int64)


def stratified(labels: NDArray[np.uint8], size: int, seed: int) -> NDArray[np.int64]:
    """Choose `size` positions, each class in proportion, in rising order.

    Ours, not the paper's (which took scikit-learn's): it needs integer arithmetic only, so it is the same everywhere.
    Each class gets the floor of its share, the largest remainders one more (ties: the smaller class first), and its
    members with the smallest hash of (seed, position).

    >>> stratified(np.array([5, 5, 5, 5, 9, 9], np.uint8), 3, seed=1).shape
    (3,)
    """
    classes, counts = np.unique(labels, return_counts=True)
    shares, remainders = np.divmod(counts.astype(np.int64) * size, len(labels))
    most = np.argsort(-remainders, kind="stable")[: size - int(shares.sum())]
    shares[most] += 1
    order = _hash(np.arange(len(labels), dtype=np.uint64), seed)
    chosen = []
    for number, share in zip(classes, shares, strict=True):
        members = np.flatnonzero(labels == number)
        chosen.append(members[np.argsort(order[members], kind="stable")[:share]])
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def _hash(values: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return splitmix64 of seed·2³² + value: its finaliser, with its published constants, modulo 2⁶⁴."""
    z = values + np.uint64((seed << 32) & 0xFFFFFFFFFFFFFFFF)
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
