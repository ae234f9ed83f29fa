"""The tree: imports point one way, files stay short, the package is complete."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "argand"

#: Modules by level; a module imports from its own level or from one before.
LEVELS = [
    ["errors", "chunks", "loops", "noise", "field", "sampling", "special", "files", "memory", "modes"],
    ["nn"],
    ["priors", "posteriors", "variational", "gradient", "surgery"],
    ["pruning", "accounting", "summary", "thresholds", "optim"],
    ["graph", "twin"],
    ["deploy"],
    ["study"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("argand"):
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("argand"))


def place(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules():
    return [p for p in SOURCE.rglob("*.py") if p.name != "__init__.py" or p.parent != SOURCE]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_upwards(path):
    for name in imports(path):
        if name == "argand":
            assert place(path) in ("study", "cli"), "only clients import the public API"
            continue
        assert LEVEL[name.split(".")[1]] <= LEVEL[place(path)], f"{path} imports {name}"


def test_no_import_cycles():
    graph = {}
    for path in modules():
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        graph[module] = {name for name in imports(path) if name != "argand"}
    done, active = set(), []

    def visit(module):
        assert module not in active, " -> ".join([*active, module])
        if module in done or module not in graph:
            return
        active.append(module)
        for other in graph[module]:
            if not module.startswith(other + "."):  # a package's own __init__ gathers its modules
                visit(other)
        active.pop()
        done.add(module)

    for module in graph:
        visit(module)
    assert len(done) == len(graph)


@pytest.mark.parametrize("path", list(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= 350


def test_only_the_chosen_dependencies_are_imported():
    allowed = {"torch", "numpy", "safetensors", "rich", "typer", "pydantic", "argand"}
    allowed |= {
        "pydantic_core",
        "matplotlib",
        "plotly",
        "jinja2",
        "onnx",
        "onnxruntime",
        "markupsafe",
        "pyarrow",
    }  # the latter in extras, lazily
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                top = name.split(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{path} imports {name}"


def test_the_wheel_is_complete(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "py.typed",
        "nn/conv.py",
        "study/data/mnist-10k.npz",
        "study/data/MNIST-LICENCE.md",
        "deploy/c/kernels/relu.c",
        "deploy/c/target/startup.c",
        "deploy/c/target/mps2.ld",
    ):
        assert f"argand/{name}" in names
    assert not [name for name in names if "tests" in name or "__pycache__" in name]
    # a clean place, with nothing of the project's tree on the path
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    code = f"import argand; assert argand.__file__.startswith({str(unpacked)!r}); print(argand.__version__)"
    environment = {"PYTHONPATH": str(unpacked), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
