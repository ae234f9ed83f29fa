"""Compiling a program on this machine, and running its own test."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from argand.errors import ArgandError

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def compiler() -> list[str] | None:
    """The host's C compiler as a command: $CC, or cc; None where there is none."""
    command = shlex.split(os.environ.get("CC") or "cc")
    return command if command and shutil.which(command[0]) else None


def run_selftest(folder: Path) -> float | None:
    """The largest error that net_selftest.c finds, of the largest output; None without a compiler."""
    command = compiler()
    if command is None:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "selftest"
        sources = [str(folder / "net.c"), str(folder / "net_selftest.c")]
        _run([*command, *FLAGS, *sources, "-lm", "-o", str(program)], "doesn't compile")
        return largest_error(_run([str(program)], "gives other results than PyTorch"))


def largest_error(text: str) -> float:
    """The figure in the selftest's last line."""
    found = re.search(r"largest error (\S+) of", text)
    assert found is not None
    return float(found[1])


def _run(command: list[str], failure: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise ArgandError(
            f"The C program {failure} (exit status {done.returncode}). Nothing was written; with check=False the files "
            f"are. Its last words:\n{output[-2000:]}"
        )
    return done.stdout
