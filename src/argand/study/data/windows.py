"""Windows of recordings with the notes that sound in their middle."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from argand.errors import ArgandError
from argand.study.data.music import CLASSES, WINDOW, Recording


def random_windows(
    recordings: Sequence[Recording], generator: Generator, length: int = WINDOW
) -> tuple[Tensor, Tensor]:
    """Cut one window from each recording, each offset equally likely; the generator is one of the CPU's.

    Returns x (n, 1, length) and y (n, 84), both float32: y is 1 where a note has start <= offset + length // 2 < end.
    """
    _check(recordings, length)
    counts = torch.tensor([len(r.wave) - length + 1 for r in recordings])
    draws = torch.rand(len(recordings), generator=generator, dtype=torch.float64)
    offsets = torch.minimum((draws * counts).long(), counts - 1).tolist()
    x = np.empty((len(recordings), 1, length), np.float32)
    y = np.empty((len(recordings), CLASSES), np.float32)
    for i, (recording, offset) in enumerate(zip(recordings, offsets, strict=True)):
        x[i, 0] = recording.wave[offset : offset + length]
        y[i] = recording.sounding(np.array([offset + length // 2]))[0]
    return torch.from_numpy(x), torch.from_numpy(y)


def all_windows(
    recordings: Sequence[Recording], stride: int = 128, length: int = WINDOW, batch: int = 256
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield every window that lies whole in its recording, in order, at most `batch` at a time.

    A batch holds windows of one recording only, so the last of each recording may be smaller.
    """
    if stride < 1 or batch < 1:
        raise ArgandError(f"Windows with stride {stride}, {batch} at a time, can't be cut. Expected positive numbers.")
    _check(recordings, length)
    for recording in recordings:
        windows = np.lib.stride_tricks.sliding_window_view(recording.wave, length)[::stride]
        for first in range(0, len(windows), batch):
            x = np.array(windows[first : first + batch], np.float32)[:, None]
            middles = (first + np.arange(len(x))) * stride + length // 2
            y = recording.sounding(middles).astype(np.float32)
            yield torch.from_numpy(x), torch.from_numpy(y)


def _check(recordings: Sequence[Recording], length: int) -> None:
    if length < 1:
        raise ArgandError(f"A window of {length} samples can't be cut. Expected a positive length.")
    for recording in recordings:
        if len(recording.wave) < length:
            found = f"has {len(recording.wave)} samples"
            raise ArgandError(f"The recording {recording.name} {found}. Expected at least a window of {length}.")
