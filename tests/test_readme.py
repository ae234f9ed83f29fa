"""What the README says is so."""

import re
from pathlib import Path

import argand

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_its_programs_run(capsys, tmp_path, monkeypatch):
    """One after the other, the second with what the first leaves."""
    monkeypatch.chdir(tmp_path)
    programs, names = re.findall(r"```python\n(.*?)```", README, re.DOTALL), {}
    assert len(programs) == 2
    for program in programs:
        exec(compile(program, "README.md", "exec"), names)
    assert "compression" in capsys.readouterr().out
    assert (tmp_path / "firmware" / "net" / "net.c").exists()


def test_the_names_it_lists_exist():
    for name in set(re.findall(r"`argand\.([A-Za-z_]+)", README)):
        assert hasattr(argand, name), name
    for row in ("argand.nn",):
        layers = re.search(rf"`{row}` \| (.*) \|", README).group(1)
        for layer in re.findall(r"[A-Z][A-Za-z]+", layers):
            assert any(name.startswith(layer) for name in argand.nn.__all__), layer


def test_the_files_it_names_exist():
    for name in re.findall(r"`((?:docs|src|examples|benchmarks)/[\w./-]*)`", README):
        assert (ROOT / name).exists(), name
    assert (ROOT / "CONTRIBUTING.md").exists()


def test_ci_calls_its_test_command():
    (command,) = set(re.findall(r"python3 bootstrap\.py test\b", README))
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()
