"""Optional packages, imported when they are needed."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from argand.errors import ArgandError

#: What installs a module that the package itself does not require.
INSTALL = {
    "soundfile": "pip install 'argand[audio]'",
    "soxr": "pip install 'argand[audio]'",
    "h5py": "pip install 'argand[audio]'",
    "music21": "pip install 'argand[music]'",
    "pretty_midi": "pip install 'argand[music]'",
    "tinysoundfont": "pip install --no-deps tinysoundfont",  # it asks for pyaudio, only to play on loudspeakers
}


def optional(module: str, purpose: str) -> Any:
    """Import a module of an extra; the purpose completes "Python needs … to"."""
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module, purpose, error) from None


def folder_of(module: str, purpose: str) -> Path:
    """Return where a module of an extra lies, without importing it."""
    found = find_spec(module)
    if found is None or found.origin is None:
        raise _missing(module, purpose, None)
    return Path(found.origin).parent


def _missing(module: str, purpose: str, error: ImportError | None) -> ArgandError:
    reason = f" ({error})" if error and getattr(error, "name", module) != module else ""
    remedy = INSTALL[module.partition(".")[0]]
    return ArgandError(f"The package {module} is needed to {purpose}, and can't be imported{reason}. Run: {remedy}")
