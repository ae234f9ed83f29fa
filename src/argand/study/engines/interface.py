"""What the driver asks of an engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class Event:
    """News of a stage: progress (epoch, the share of it that is done, loss), or its end."""

    key: str
    kind: Literal["progress", "finished", "refused", "crashed"]
    message: str = ""  # the status it finished with, why it was refused, how it crashed
    epoch: int = 0
    share: float = 0.0
    loss: float = 0.0


class Engine(Protocol):
    """Computes stages side by side; each in a directory that holds its config.json, its parent's beside it."""

    def start(self, directory: Path, threads: int) -> None:
        """Begin a stage."""

    def events(self, seconds: float) -> list[Event]:
        """The news, after at most so long."""

    def stop(self) -> None:
        """End what runs, within seconds."""
