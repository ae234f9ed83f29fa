"""Data sets."""

from argand.study.data.catalogue import NAMES, check, data_root, digest, get, is_ready, load
from argand.study.data.embedded import Embedded, embedded_mnist
from argand.study.data.images import Images
from argand.study.data.music import Music, Recording
from argand.study.data.windows import all_windows, random_windows

__all__ = [
    "NAMES",
    "Embedded",
    "Images",
    "Music",
    "Recording",
    "all_windows",
    "check",
    "data_root",
    "digest",
    "embedded_mnist",
    "get",
    "is_ready",
    "load",
    "random_windows",
]
