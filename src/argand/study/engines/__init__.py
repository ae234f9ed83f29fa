"""Engines compute stages; the driver decides which and when."""

from argand.study.engines.interface import Engine, Event
from argand.study.engines.local import LocalEngine

__all__ = ["Engine", "Event", "LocalEngine"]
