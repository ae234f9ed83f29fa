"""A process that computes one stage: `python -m argand.study.worker STAGE_DIRECTORY [DATA_ROOT]`.

It tells its progress as JSON lines on standard output, and ends when its standard input does: with its driver, however
that ended. Exit codes: 0 the stage has a result; 2 an ArgandError, told as the last line; others are crashes.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def tell(**values: Any) -> None:
    """One line to the driver."""
    print(json.dumps(values), flush=True)


def die_with_driver() -> None:
    """Wait for the end of standard input, and end the process at once."""
    while os.read(0, 1):  # not through sys.stdin, whose lock this thread would hold when the process ends
        pass
    os._exit(1)


def main(arguments: list[str]) -> int:
    """Compute the stage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends its workers
    threading.Thread(target=die_with_driver, daemon=True).start()
    from argand import ArgandError
    from argand.memory import keep_freed_memory
    from argand.study.stage import run_stage

    keep_freed_memory()

    directory, root = Path(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else None
    try:
        status = run_stage(directory, root, lambda epoch, share, loss: tell(epoch=epoch, share=share, loss=loss))
    except ArgandError as error:
        tell(refused=str(error))
        return 2
    tell(status=status)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
