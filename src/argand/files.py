"""Reading and writing files: atomically, without pickle, with errors that name the path."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from argand.errors import ArgandError


def write_atomically(path: str | Path, content: bytes) -> None:
    """Put the bytes at the path, whole or not at all, whatever interrupts."""
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ArgandError(f"{path} can't be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ArgandError(f"{path} can't be written: {error.strerror}.") from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_tensor_file(path: str | Path, tensors: dict[str, Tensor], kind: str) -> None:
    """Write named tensors as safetensors, marked with the kind of file this is."""
    contiguous = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    write_atomically(path, save_tensors(contiguous, metadata={"argand": kind}))


def load_tensor_file(path: str | Path, expected: str, check: Callable[[Tensor], bool]) -> dict[str, Tensor]:
    """Read named tensors, each of which must pass the check; `expected` says what the file should hold."""
    path = Path(path)
    try:
        tensors = load_tensors(path.read_bytes())
    except OSError as error:
        raise ArgandError(f"{path} can't be read: {error.strerror}. Expected {expected}.") from None
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise ArgandError(f"{path} is not a whole safetensors file ({error}). Expected {expected}.") from None
    for name, tensor in tensors.items():
        if not check(tensor):
            found = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            raise ArgandError(f"{path} holds {name!r} as {found}. Expected {expected}.")
    return tensors
