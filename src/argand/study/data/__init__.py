"""Data sets."""

from argand.study.data.embedded import Embedded, embedded_mnist

__all__ = ["Embedded", "embedded_mnist"]
