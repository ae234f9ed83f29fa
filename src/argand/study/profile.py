"""Where a stage's time goes."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: the environment variable that asks workers to wait for a GPU at the end of each part
WAIT = "ARGAND_PROFILE"
#: the parts, in the order of a stage; what they leave is "other"
PARTS = ("set-up", "data", "forward", "backward", "update", "evaluation", "checkpoint")


class Stopwatch:
    """Seconds by part.

    A GPU works on while the program goes on: with `wait` each part waits for it, so that the seconds fall where they
    belong, and the stage takes a little longer.
    """

    def __init__(self, *, wait: bool = False) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._wait = wait and torch.cuda.is_available()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Add the time of a block to a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            if self._wait:
                torch.cuda.synchronize()
            self.seconds[part] += time.perf_counter() - begin

    def told(self, total: float) -> dict[str, float]:
        """The parts, with what is left of the total."""
        parts = {part: round(self.seconds[part], 3) for part in PARTS}
        return parts | {"other": round(max(0.0, total - sum(parts.values())), 3)}
