"""The set-up: what it skips, repairs and refuses."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

FILE = Path(__file__).parent.parent / "bootstrap.py"


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The module on a root of its own, with every subprocess recorded instead of run."""
    spec = importlib.util.spec_from_file_location("bootstrap", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    venv = tmp_path / ".venv"
    python = venv / "bin" / "python"
    for name, value in {
        "ROOT": tmp_path, "VENV": venv, "PYTHON": python, "MARKER": venv / "argand-setup.json",
        "CONSTRAINTS": tmp_path / "constraints.txt",
    }.items():  # fmt: skip
        monkeypatch.setattr(module, name, str(value))
    module.calls, module.state = [], SimpleNamespace(broken=False, pip_code=0, report={"install": []}, torch=False)

    def make_venv(command):
        module.calls.append(command[1:])
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        return 0

    def call(command, **_):
        if command[1] == "-c":
            present = python.exists() and not module.state.broken
            return int(not (present and ("torch" not in command[2] or module.state.torch)))
        module.calls.append(command[1:])
        return 0

    def run(command, **_):
        module.calls.append(command[1:])
        return SimpleNamespace(returncode=module.state.pip_code, stdout=json.dumps(module.state.report))

    monkeypatch.setattr(module.subprocess, "check_call", make_venv)
    monkeypatch.setattr(module.subprocess, "call", call)
    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    monkeypatch.setattr(module, "has_gpu", lambda: True)
    return module


def installs(bootstrap):
    return [call[-1].rpartition("/")[2] for call in bootstrap.calls if call[:3] == ["-m", "pip", "install"]]


def test_a_fresh_machine_is_set_up_and_a_second_run_skips_all(bootstrap, tmp_path):
    assert bootstrap.main(["test", "-k", "x"]) == 0
    assert installs(bootstrap) == ["torch", f"{tmp_path.name}[dev]", "tinysoundfont"]
    assert all("-c" in call for call in bootstrap.calls if call[:3] == ["-m", "pip", "install"])
    assert bootstrap.calls[-1][:2] == ["-m", "pytest"]
    assert bootstrap.calls[-1][-2:] == ["-k", "x"]
    bootstrap.calls.clear()
    assert bootstrap.main(["test"]) == 0
    assert bootstrap.main(["demo"]) == 0  # the fuller environment serves
    assert [call[1] for call in bootstrap.calls] == ["pytest", "argand"]


def test_the_tests_need_more_than_the_demo(bootstrap, tmp_path):
    bootstrap.main(["demo"])
    assert installs(bootstrap)[-1] == f"{tmp_path.name}[report]"
    bootstrap.main(["test"])
    assert installs(bootstrap)[-2] == f"{tmp_path.name}[dev]"


def test_changed_requirements_are_installed(bootstrap, tmp_path):
    bootstrap.main(["setup"])
    bootstrap.calls.clear()
    (tmp_path / "constraints.txt").write_text("other")
    bootstrap.main(["setup"])
    assert installs(bootstrap)


def test_an_interrupted_setup_is_taken_up_and_a_broken_environment_made_again(bootstrap, monkeypatch):
    bootstrap.state.pip_code = 1
    assert bootstrap.main(["setup"]) == 1
    bootstrap.state.pip_code = 0
    bootstrap.calls.clear()
    bootstrap.state.torch = True
    assert bootstrap.main(["setup"]) == 0
    assert "torch" not in installs(bootstrap)
    assert not [call for call in bootstrap.calls if "venv" in call]
    Path(bootstrap.MARKER).write_text("{half")
    bootstrap.state.broken = True
    bootstrap.calls.clear()
    bootstrap.main(["setup"])
    assert ["-m", "venv", "--clear", bootstrap.VENV] in bootstrap.calls


def test_failures_are_one_sentence(bootstrap, capsys):
    bootstrap.state.pip_code = 1
    assert bootstrap.main(["setup"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("argand: pip could not install torch")
    assert error.count("\n") == 1


def test_an_old_python_is_refused(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    assert bootstrap.main(["test"]) == 1
    assert "needs Python 3.11 or later, and this is 3.9" in capsys.readouterr().err
    assert bootstrap.calls == []


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_missing_module_is_named(bootstrap, module, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, module, None)
    assert bootstrap.main(["test"]) == 1
    error = capsys.readouterr().err
    assert f"lacks the module {module}" in error
    assert "python3-venv" in error


CUDA = {"install": [{"metadata": {"requires_dist": ["filelock", "nvidia-cublas==13", "triton==3", "cuda-bindings"]}}]}


def test_cuda_without_a_gpu_is_announced_first(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: False)
    monkeypatch.setattr(bootstrap.sys, "platform", "linux")
    bootstrap.state.report = CUDA
    bootstrap.main(["setup"])
    out = capsys.readouterr().out
    assert "3 CUDA packages" in out
    assert out.index("TORCH_INDEX") < out.index("installing torch")
    assert "--dry-run" in bootstrap.calls[1]


def test_torch_index_is_used_and_nothing_announced(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: False)
    monkeypatch.setenv("TORCH_INDEX", "file:///wheels")
    bootstrap.state.report = CUDA
    bootstrap.main(["setup"])
    assert bootstrap.calls[1][-3:] == ["--index-url", "file:///wheels", "torch"]
    assert "CUDA" not in capsys.readouterr().out


def test_without_a_task_it_explains_itself():
    run = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "bootstrap.py demo" in run.stdout
