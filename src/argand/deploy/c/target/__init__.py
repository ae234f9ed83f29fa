"""Running a program on a microcontroller in an emulator: an ARM Cortex-M4 with its floating point unit.

`startup.c` and `mps2.ld` are the start-up code and the memory map of the emulated board.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from argand.errors import ArgandError

COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
#: seconds after which the emulator is stopped
LONGEST = 300

_FOLDER = Path(__file__).parent
_FLAGS = (
    *("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "--specs=rdimon.specs", "-nostartfiles"),
    *("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
)
_MACHINE = ("-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none")
_SEMIHOSTING = ("-semihosting-config", "enable=on,target=native")


def run_on_cortex_m4(directory: str | Path) -> str:
    """Compile net.c and net_selftest.c of a directory for a Cortex-M4, run them emulated, and return what is printed.

    Raises an ArgandError where a tool is missing, where the program doesn't compile, and where its selftest fails.
    """
    directory = Path(directory)
    for tool, package in ((COMPILER, "gcc-arm-none-eabi with newlib"), (EMULATOR, "qemu-system-arm")):
        if shutil.which(tool) is None:
            raise ArgandError(f"{tool} isn't on the PATH. Install it: on Debian, the package {package}.")
    for name in ("net.h", "net.c", "net_selftest.c"):
        if not (directory / name).exists():
            raise ArgandError(f"{directory} has no {name}. Expected a directory that argand.export_c wrote.")
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "selftest.elf"
        sources = [directory / "net.c", directory / "net_selftest.c", _FOLDER / "startup.c"]
        link = ["-T", _FOLDER / "mps2.ld", "-lm", "-o", program]
        _run([COMPILER, *_FLAGS, *map(str, sources), *map(str, link)], "can't be compiled")
        return _run([EMULATOR, *_MACHINE, *_SEMIHOSTING, "-kernel", str(program)], "fails its selftest")


def _run(command: list[str], failure: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=LONGEST,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ArgandError(f"The program didn't end on the Cortex-M4 within {LONGEST} s.") from None
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise ArgandError(
            f"The program {failure} on the Cortex-M4 (exit status {done.returncode}). Its last words:\n{output[-2000:]}"
        )
    return done.stdout
