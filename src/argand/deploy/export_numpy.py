"""One Python file that holds a network and what runs it, and needs numpy alone."""

import ast
import base64
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from argand.deploy import numpy_runtime, reader
from argand.deploy.pack import to_bytes
from argand.files import write_atomically


def export_numpy(net: nn.Module, path: str | Path, dtype: str | Mapping[str, str] = "fp32") -> int:
    """Write the network as one Python file that needs numpy alone; returns its bytes.

    As a program it is `python FILE input.npy output.npy`; as a module, `FILE.network()` gives what can be called.
    """
    content = source(to_bytes(net, dtype)).encode()
    write_atomically(path, content)
    return len(content)


def source(packed: bytes) -> str:
    """The reader, the runtime and the packed network as one program."""
    imports: set[str] = set()
    bodies = []
    for module in (reader, numpy_runtime):
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        lines = text.splitlines()
        tree = ast.parse(text)
        head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        imports |= {ast.unparse(node) for node in head if not ast.unparse(node).startswith("from argand")}
        bodies.append("\n".join(lines[head[-1].end_lineno or 0 :]).strip())
    encoded = base64.b64encode(packed).decode()
    runtime = bodies[1].replace('EMBEDDED = ""', f'EMBEDDED = "{encoded}"', 1)
    title = '"""A network pruned with argand: `python FILE input.npy output.npy`, or FILE.network() in a program."""'
    return "\n".join([title, "", *sorted(imports), "", "", bodies[0], "", "", runtime, ""])
