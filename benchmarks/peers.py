"""The peers, cplxmodule and complextorch, timed in an interpreter of their own.

`ensure` makes them a scratch environment; `Peer` talks to a worker inside it (peer_worker.py):

    with Peer(ensure(Path("scratch"))) as peer:
        ms = peer.steps(network="dense", peer="cplxmodule", kind="vd", batch=128, threads=2, seed=0, steps=5)

A step's time depends on whether the C library keeps freed memory. The worker inherits the driver's environment, so
glibc's MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_MAX_, set for the driver, are the same for both.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRATCH = HERE / ".peers"
PINS = ("cplxmodule==2022.6", "complextorch==2.1.1")
BESIDE = ("torch", "numpy", "scipy")
CONSTRAINTS = HERE.parent / "constraints.txt"


def ensure(folder: Path) -> Path:
    """The interpreter of the peers' environment at `folder`, made if it is missing or its pins have changed."""
    folder = folder.absolute()
    python, marker = folder / "bin" / "python", folder / "peers-installed.txt"
    wanted = "\n".join([*BESIDE, *PINS, CONSTRAINTS.read_text()])
    if python.exists() and marker.exists() and marker.read_text() == wanted:
        return python
    marker.unlink(missing_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([*pip, "-c", str(CONSTRAINTS), *BESIDE], check=True)
    subprocess.run([*pip, "--no-deps", *PINS], check=True)
    subprocess.run([str(python), "-I", "-c", "import cplxmodule.nn.relevance, complextorch.nn.relevance"], check=True)
    marker.write_text(wanted)
    return python


class Peer:
    """A worker in the peers' environment, alive inside a `with` block and asleep between requests."""

    def __init__(self, python: Path) -> None:
        self.command = [str(python), "-E", "-s", str(HERE / "peer_worker.py")]

    def __enter__(self) -> Peer:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def ask(self, action: str, **request: Any) -> dict[str, Any]:
        """The worker's answer to one request; RuntimeError where it refuses or has died."""
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"action": action, **request}) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peers' worker ended with code {self.process.wait()} at the request {request}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the peers' worker refused {request}: {answer['error']}")
        return answer

    def steps(self, **request: Any) -> list[float]:
        """Milliseconds of each training step that the request asks for."""
        return [float(ms) for ms in self.ask("steps", **request)["ms"]]

    def norm(self, **request: Any) -> list[float]:
        """Milliseconds of each forward and backward pass of a batch norm."""
        return [float(ms) for ms in self.ask("norm", **request)["ms"]]
