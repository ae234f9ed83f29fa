"""Getting data from copies at hand, in all their forms, and the command line over it."""

import gzip
import hashlib
import io
import re
import tarfile
import zipfile

import numpy as np
import pytest
from test_data_idx import record_file, small
from typer.testing import CliRunner

from argand.errors import ArgandError
from argand.study import data
from argand.study.data import acquire, catalogue, cifar
from argand.study.data.archive import tar_members
from argand.study.data.commands import data_app
from argand.study.data.sources import EMNIST_ARCHIVE, IdxSet

RUNNER = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """A tiny set in place of EMNIST-Letters, its four official files in `copy`, an empty root."""
    base = small(tmp_path / "copy")
    source = IdxSet("emnist-letters", base.files, base.counts, 4, 1, (EMNIST_ARCHIVE,), {}, {}, side=3)
    row = catalogue.DataSet("emnist-letters-full", "tiny", "emnist-letters", source)
    monkeypatch.setitem(catalogue.TABLE, "emnist-letters-full", row)
    monkeypatch.setenv("ARGAND_DATA", str(tmp_path / "root"))
    return source, tmp_path / "copy", tmp_path / "root" / "emnist-letters"


def move(copy, folder, rename, pack=bytes):
    folder.mkdir(parents=True, exist_ok=True)
    for path in [p for p in copy.iterdir() if p.is_file()]:
        (folder / rename(path.name)).write_bytes(pack(path.read_bytes()))
        path.unlink()


FORMS = {
    "plain": lambda copy: None,
    "with dots": lambda copy: move(copy, copy, lambda n: n.replace("-idx", ".idx")),
    "gzip": lambda copy: move(copy, copy, lambda n: n + ".gz", gzip.compress),
    "torchvision": lambda copy: move(copy, copy / "EMNIST" / "raw", str),
    "debian": lambda copy: move(
        copy, copy / "usr/share/datasets/emnist-letters", lambda n: n + ".gz", lambda c: gzip.compress(c, 1)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_idx_gives_the_same_files(letters, form):
    source, copy, folder = letters
    wanted = {file: (copy / file).read_bytes() for file in source.files}
    FORMS[form](copy)
    assert str(folder) in data.get("emnist-letters-full", copy)
    assert {file: (folder / file).read_bytes() for file in source.files} == wanted
    assert sorted(p.name for p in folder.iterdir()) == sorted([*source.files, acquire.SUMS])
    assert data.load("emnist-letters-full").train_images.shape == (40, 1, 3, 3)
    assert "SHA256SUMS" in data.check("emnist-letters-full")


def letters_zip(copy, files):
    with zipfile.ZipFile(copy / "gzip.zip", "w") as archive:
        archive.writestr("gzip/emnist-digits-train-images-idx3-ubyte.gz", b"something else")
        archive.writestr("../../escaped", b"nowhere")
        for file in files:
            archive.writestr(f"gzip/{file}.gz", gzip.compress((copy / file).read_bytes()))
            (copy / file).unlink()
    return copy / "gzip.zip"


@pytest.mark.parametrize("direct", [True, False])
def test_the_letters_are_taken_out_of_nists_zip(letters, direct):
    source, copy, folder = letters
    archive = letters_zip(copy, source.files)
    data.get("emnist-letters-full", archive if direct else copy)
    assert sorted(p.name for p in folder.iterdir()) == sorted([*source.files, acquire.SUMS])
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArgandError, match="whole zip archive"):
        data.get("emnist-letters-full", archive)


def test_a_flipped_bit_on_disk_is_found(letters):
    source, copy, folder = letters
    data.get("emnist-letters-full", copy)
    content = bytearray((folder / source.files[0]).read_bytes())
    content[-1] ^= 1
    (folder / source.files[0]).write_bytes(content)
    with pytest.raises(ArgandError, match=f"{source.files[0]} differs"):
        data.check("emnist-letters-full")


def test_nothing_is_written_when_one_file_is_bad(letters):
    source, copy, folder = letters
    (copy / source.files[3]).write_bytes(b"bad")
    with pytest.raises(ArgandError, match=source.files[3]):
        data.get("emnist-letters-full", copy)
    (copy / source.files[3]).unlink()
    with pytest.raises(ArgandError, match=f"holds no {source.files[3]}"):
        data.get("emnist-letters-full", copy)
    assert not folder.exists()


def test_a_file_of_the_right_form_but_other_content_is_refused(letters, monkeypatch):
    source, copy, folder = letters
    sums = dict.fromkeys(source.files, "0" * 64)
    official = IdxSet(source.folder, source.files, source.counts, 4, 1, (), {}, sums, side=3)
    row = catalogue.DataSet("emnist-letters-full", "tiny", source.folder, official)
    monkeypatch.setitem(catalogue.TABLE, "emnist-letters-full", row)
    with pytest.raises(ArgandError, match="isn't the official file"):
        data.get("emnist-letters-full", copy)
    assert not folder.exists()


def cifar_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "RECORDS", 20)
    monkeypatch.setattr(cifar, "FILE_BYTES", 20 * 3073)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for seed, name in enumerate(cifar.TRAIN_FILES + cifar.TEST_FILES):
        record_file(folder / name, seed)
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        monkeypatch.setitem(acquire.CIFAR10_SHA256, name, digest)
    return folder


def test_cifar_from_its_folder_and_from_its_archive(tmp_path, monkeypatch):
    folder = cifar_copy(tmp_path, monkeypatch)
    monkeypatch.setenv("ARGAND_DATA", str(tmp_path / "one"))
    data.get("cifar10", tmp_path)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz", compresslevel=0) as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, f"cifar-10-batches-bin/{path.name}")
    loaded = data.load("cifar10")
    assert loaded.train_images.shape == (100, 3, 32, 32)
    monkeypatch.setenv("ARGAND_DATA", str(tmp_path / "two"))
    data.get("cifar10", tmp_path / "cifar-10-binary.tar.gz")
    assert data.digest("cifar10") == loaded.digest
    assert sorted(p.name for p in (tmp_path / "two").iterdir()) == ["cifar10"]
    assert "6 files agree" in data.check("cifar10")
    monkeypatch.setitem(acquire.CIFAR10_SHA256, "test_batch.bin", "0" * 64)
    for origin in (tmp_path, tmp_path / "cifar-10-binary.tar.gz"):
        with pytest.raises(ArgandError, match=r"test_batch.bin isn't the official file"):
            data.get("cifar10", origin)


def archive_of(path, members, format=tarfile.GNU_FORMAT):
    with tarfile.open(path, "w:gz", format=format) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_tar_members_are_read_or_passed_over(tmp_path, format):
    members = {"a": b"1" * 5000, "../b": b"", "c/ü": b"2" * 512, "c/d": b"3"}
    path = archive_of(tmp_path / "x.tar.gz", members, format)
    found = {name: read() for name, _, read in tar_members(path)}
    assert set(found.values()) == set(members.values())
    assert [name for name, _, _ in tar_members(path)][-1] == "c/d"
    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


def test_damaged_tars(tmp_path):
    path = archive_of(tmp_path / "x.tar.gz", {"a": np.random.default_rng(0).bytes(5000)})
    raw = gzip.decompress(path.read_bytes())
    huge = bytearray(raw)
    huge[124:136] = b"7" * 11 + b"\0"
    huge[148:156] = b"%06o\0 " % (sum(huge[:148]) + 8 * 32 + sum(huge[156:512]))
    cases = {
        "whole tar.gz": path.read_bytes()[:2000],
        "damaged tar header": gzip.compress(b"x" + raw[1:]),
        "ends inside a": gzip.compress(raw[:3000]),
        "ends inside a tar header": gzip.compress(raw[:300]),
        "x.tar.gz ends inside": gzip.compress(bytes(huge)),
    }
    for expected, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(ArgandError, match=re.escape(expected)):
            [read() for _, _, read in tar_members(path)]
    with pytest.raises(ArgandError, match=r"bytes\. Expected 30730000"):
        cifar.batches_of_archive(archive_of(path, {"test_batch.bin": b"1"}))
    with pytest.raises(ArgandError, match=r"holds no data_batch_1.bin"):
        cifar.batches_of_archive(archive_of(path, {"else": b"1"}))


def run(*arguments):
    result = RUNNER.invoke(data_app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_shows_every_name(letters, tmp_path):
    _, copy, _ = letters
    before = run("list")
    assert all(name in before for name in data.NAMES)
    assert re.search(r"mnist .*in the package.*embedded", before)
    assert re.search(r"emnist-letters-full .*missing", before)
    assert str(tmp_path / "root") in before
    assert "is in" in run("get", "emnist-letters-full", "--from", copy)
    assert re.search(r"emnist-letters-full .*ready.* 0 MB", run("list"))
    assert "4 files agree" in run("check", "emnist-letters-full")
    assert "already" in run("get", "emnist-letters-full")


def test_the_roots_take_turns(letters, tmp_path, monkeypatch):
    _, copy, folder = letters
    run("get", "emnist-letters-full", "--from", copy, "--data-root", tmp_path / "other")
    assert not folder.exists()
    assert data.is_ready("emnist-letters-full", tmp_path / "other")
    assert data.data_root() == tmp_path / "root"
    monkeypatch.delenv("ARGAND_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data.data_root() == tmp_path / "cache" / "argand" / "data"


def test_mistakes_are_told_in_a_sentence(letters, tmp_path):
    for words, message in {
        ("check", "nothing"): "There is no data set 'nothing'. Known: mnist, mnist-full",
        ("check", "kmnist"): "isn't in .*kmnist. Run: argand data get kmnist",
        ("check", "rendered-music"): "Run: argand data render-music",
        ("get", "rendered-music"): "isn't fetched but made",
        ("get", "kmnist", "--from", tmp_path / "none"): "doesn't exist",
        ("get", "cifar10", "--from", tmp_path): "no CIFAR10 in its binary form",
        ("get", "musicnet", "--from", tmp_path): "holds none of train_data/",
        ("render-music", "--pieces", 2): "2 pieces can't be rendered. Expected 3",
    }.items():
        with pytest.raises(ArgandError, match=message):
            run(*words)
    assert "nothing to get" in run("get", "mnist")
