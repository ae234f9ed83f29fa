"""The local engine: one spawned process per stage."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

from argand import ArgandError
from argand.study.engines.interface import Event

GRACE = 3.0  # seconds between asking a worker to end and ending it
LOG = "log.txt"


class LocalEngine:
    """Workers on this machine, each a process of its own that dies with this one."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._events: queue.Queue[Event] = queue.Queue()
        self._workers: dict[str, subprocess.Popen[str]] = {}

    def start(self, directory: Path, threads: int) -> None:
        """Spawn a worker; what it says on standard error is appended to the stage's log.txt."""
        command = [sys.executable, "-m", "argand.study.worker", str(directory)]
        command += [str(self._root)] if self._root else []
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        try:
            log = (directory / LOG).open("a")
        except OSError as error:
            raise ArgandError(f"{directory / LOG} can't be written: {error.strerror}.") from None
        with log:
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, **counts}, start_new_session=True,
            )  # fmt: skip
        self._workers[directory.name] = worker
        threading.Thread(target=self._listen, args=(directory, worker), daemon=True).start()

    def _listen(self, directory: Path, worker: "subprocess.Popen[str]") -> None:
        """Turn a worker's lines, and its end, into events."""
        key, last = directory.name, None
        assert worker.stdout is not None
        for line in worker.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # something printed by a library
            if "epoch" in said:
                self._events.put(Event(key, "progress", epoch=said["epoch"], share=said["share"], loss=said["loss"]))
            elif "refused" in said:
                last = Event(key, "refused", said["refused"])
            elif "status" in said:
                last = Event(key, "finished", said["status"])
        code = worker.wait()
        worker.stdout.close()
        if worker.stdin is not None:
            worker.stdin.close()
        self._workers.pop(key, None)
        self._events.put(
            last if last and code in (0, 2) else Event(key, "crashed", describe_end(code, directory / LOG))
        )

    def events(self, seconds: float) -> list[Event]:
        """The news, after at most so long."""
        news = []
        try:
            news.append(self._events.get(timeout=seconds))
            while True:
                news.append(self._events.get_nowait())
        except queue.Empty:
            return news

    def stop(self) -> None:
        """Ask all workers to end, and end those that don't."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(GRACE)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def describe_end(code: int, log: Path) -> str:
    """Why a worker ended: the signal, or the last line of its log."""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return f"ended with code {code}: {lines[-1].strip() if lines else 'it said nothing'}"
