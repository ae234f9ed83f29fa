"""How long steps take and how much memory they hold: the same for argand's interpreter and for the peers'."""

import contextlib
import ctypes
import gc
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Step = Callable[[], Any]
Runner = Callable[[int], list[float]]  # does so many steps and tells their milliseconds


def milliseconds(step: Step, count: int, device: str = "cpu") -> list[float]:
    """The times of some steps, each with all that it has started on the device."""
    times = []
    for _ in range(count):
        synchronise(device)
        begin = time.perf_counter()
        step()
        synchronise(device)
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def turns(runners: dict[str, Runner], rounds: int, steps: int) -> dict[str, float]:
    """The median milliseconds of contestants that take turns, so that a busy machine slows them alike."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            times[name] += run(steps)
    return {name: statistics.median(found) for name, found in times.items()}


def synchronise(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak(small: Callable[[], Step], full: Callable[[], Step], device: str = "cpu") -> dict[str, float]:
    """Megabytes that a network holds at most, from its building to its third step, beyond what was there before.

    Before, two steps of a small network load the libraries, and what they left free is given back; what the process
    holds then is told apart. Only in a fresh process does this say what a network needs.
    """
    step = small()
    for _ in range(2):
        step()
    del step
    give_back()
    loaded = held(device)
    restart_most(device)
    step = full()
    for _ in range(3):
        step()
    synchronise(device)
    return {"peak_mb": round(most(device) - loaded, 1), "libraries_mb": round(loaded, 1)}


def held(device: str) -> float:
    """Megabytes in use now: of this process, or by its tensors on the GPU."""
    return torch.cuda.memory_allocated() / 2**20 if device == "cuda" else resident("VmRSS")


def most(device: str) -> float:
    """The most that `held` has been since the last `restart_most`."""
    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else resident("VmHWM")


def restart_most(device: str) -> None:
    """Let `most` begin from what is in use now, where the system can."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def resident(field: str) -> float:
    """Megabytes of this process, now ("VmRSS") or at most ("VmHWM"); 0 where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(rf"^{field}:\s+(\d+) kB", status.read_text() if status.exists() else "", re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def give_back() -> None:
    """Give freed memory back to the system, where the C library can."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def machine(device: str) -> str:
    """The model of the processor, and of the GPU where that is used."""
    table = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", table.read_text() if table.exists() else "", re.MULTILINE)
    cpu = found[1] if found else platform.processor() or platform.machine()
    return f"{cpu}, {torch.cuda.get_device_name()}" if device == "cuda" else cpu
