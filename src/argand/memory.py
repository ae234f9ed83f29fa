"""Keeping freed memory in the process.

glibc gives large freed blocks back to the system, which hands them out again page by page, cleared. A training step
that frees and takes the same hundred megabytes pays for that each time: a quarter of its time was seen.
"""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's names for what is set, in malloc.h

#: the same for processes to be started
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_MMAP_MAX_": "0"}


def keep_freed_memory() -> bool:
    """Ask the C library to keep what this process frees, for its next use; returns whether it could be asked.

    For programs that train and then end: the process stays as large as it has been.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    return bool(mallopt(TRIM_THRESHOLD, 2**31 - 1) and mallopt(MMAP_MAX, 0))
