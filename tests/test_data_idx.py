"""The image readers, on whole, damaged and hostile files."""

import gzip
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argand.errors import ArgandError
from argand.study import data
from argand.study.data import cifar, images
from argand.study.data.idx import check_labels, idx_bytes, read_idx
from argand.study.data.sources import EMNIST, FASHION, KMNIST, MNIST, IdxSet
from argand.study.data.subset import EMNIST_SEED, stratified, subset

PIXELS = np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_idx_is_read_plain_and_packed(tmp_path, pack):
    path = tmp_path / "images"
    path.write_bytes(pack(idx_bytes(PIXELS)))
    assert np.array_equal(read_idx(path, (5, 4, 4)), PIXELS)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("claim", [(2**31,), (2**32 - 1,) * 3])
def test_a_huge_claim_is_refused_at_once(tmp_path, pack, claim):
    path = tmp_path / "hostile"
    header = bytes([0, 0, 8, len(claim)]) + b"".join(n.to_bytes(4, "big") for n in claim)
    path.write_bytes(pack(header.ljust(20, b"\0")))
    tracemalloc.start()
    for shape in (claim, (5,) * len(claim)):  # even where so much is expected
        with pytest.raises(ArgandError, match=r"declare|short"):
            read_idx(path, shape)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def damaged(content):
    packed = gzip.compress(content)
    return {
        "empty": b"",
        "wrong magic": b"\1" + content[1:],
        "other type": content[:2] + b"\x0d" + content[3:],
        "other axes": content[:3] + b"\1" + content[4:],
        "too short": content[:-1],
        "too long": content + b"\0",
        "cut gzip": packed[:-9],
        "gzip with a wrong sum": packed[:-8] + b"\0" * 4 + packed[-4:],
        "gzip with a tail": packed + b"tail",
    }


@pytest.mark.parametrize("name", damaged(b"1234"))
def test_damage_is_named(tmp_path, name):
    path = tmp_path / "images"
    path.write_bytes(damaged(idx_bytes(PIXELS))[name])
    with pytest.raises(ArgandError, match=str(path)):
        read_idx(path, (5, 4, 4))


def test_a_missing_file_and_a_folder(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ArgandError, match="can't be read"):
            read_idx(path, (5, 4, 4))


def test_a_label_out_of_range(tmp_path):
    for wrong in (0, 27, 255):
        with pytest.raises(ArgandError, match=f"label {wrong} at position 1. Expected 1 to 26"):
            check_labels(tmp_path, np.array([1, wrong, 26], np.uint8), 1, 26)
    check_labels(tmp_path, np.array([1, 26], np.uint8), 1, 26)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=120), st.integers(0, 99), st.booleans())
def test_only_argand_errors_escape(tmp_path, noise, place, pack):
    content = bytearray(gzip.compress(idx_bytes(PIXELS)) if pack else idx_bytes(PIXELS))
    content[place : place + len(noise)] = noise
    path = tmp_path / "fuzzed"
    path.write_bytes(content)
    with suppress(ArgandError):
        assert read_idx(path, (5, 4, 4)).shape == (5, 4, 4)


def small(folder, counts=(40, 20), classes=4, first=1):
    """A set of four tiny files, letters-like: labels from 1."""
    files = ("a-images-idx3-ubyte", "a-labels-idx1-ubyte", "b-images-idx3-ubyte", "b-labels-idx1-ubyte")
    source = IdxSet(folder.name, files, counts, classes, first, (), {}, {}, side=3)
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    for part, count in enumerate(counts):
        labels = (np.arange(count) % classes + first).astype(np.uint8)
        (folder / files[2 * part]).write_bytes(idx_bytes(rng.integers(0, 256, (count, 3, 3)).astype(np.uint8)))
        (folder / files[2 * part + 1]).write_bytes(idx_bytes(labels))
    return source


def test_labels_are_counted_from_zero_and_images_left_as_they_are(tmp_path):
    source = small(tmp_path / "letters")
    loaded = images.load_idx_set(source, tmp_path / "letters", full=True)
    assert loaded.train_images.shape == (40, 1, 3, 3)
    assert loaded.train_images.dtype == torch.uint8
    assert loaded.train_labels.dtype == torch.int64
    assert loaded.train_labels.unique().tolist() == loaded.test_labels.unique().tolist() == [0, 1, 2, 3]
    raw = read_idx(tmp_path / "letters" / source.files[2], (20, 3, 3))
    assert np.array_equal(loaded.test_images[:, 0].numpy(), raw)


def test_the_digest_covers_every_byte(tmp_path):
    source = small(tmp_path / "letters")
    folder = tmp_path / "letters"
    seen = {images.load_idx_set(source, folder, full=True).digest}
    assert seen == {images.load_idx_set(source, folder, full=True).digest}
    for file in source.files:
        content = bytearray((folder / file).read_bytes())
        content[-1] = content[-1] % 4 + 1 if "labels" in file else content[-1] ^ 1
        (folder / file).write_bytes(content)
        seen.add(images.load_idx_set(source, folder, full=True).digest)
    assert len(seen) == 5


def test_the_digest_tells_shapes_apart():
    zeros = np.zeros(6, np.uint8)
    assert images.digest_of(zeros) != images.digest_of(zeros.reshape(2, 3)) != images.digest_of(zeros, zeros)


def test_embedded_mnist_is_the_default_and_whole():
    loaded = data.load("mnist")
    assert loaded.train_images.shape == loaded.test_images.shape == (10_000, 1, 28, 28)
    assert data.digest("mnist") == loaded.digest
    normalised = data.embedded_mnist().train_images
    assert torch.equal((normalised * 0.5 + 0.5).mul(255).round().to(torch.uint8), loaded.train_images)
    assert "paper's" in data.check("mnist")


@pytest.mark.parametrize("source", [MNIST, KMNIST, FASHION], ids=lambda s: s.folder)
def test_the_papers_subsets(source):
    chosen = subset(source.folder, np.zeros(0, np.uint8))
    assert chosen.dtype == np.int64
    assert len(np.unique(chosen)) == 10_000
    assert 0 <= chosen.min() <= chosen.max() < source.counts[0]


def test_mnists_subset_is_stratified():
    counts = np.bincount(data.load("mnist").train_labels.numpy())
    whole = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])  # of the 60,000
    assert np.abs(counts - whole / 6).max() < 1


def test_our_split_of_the_letters():
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(1, 27), 4800)).astype(np.uint8)
    chosen = subset(EMNIST.folder, labels)
    assert len(np.unique(chosen)) == 10_000
    assert set(np.bincount(labels[chosen])[1:].tolist()) == {384, 385}
    assert np.array_equal(chosen, stratified(labels, 10_000, EMNIST_SEED))
    assert not np.array_equal(chosen, stratified(labels, 10_000, EMNIST_SEED + 1))
    spread = np.histogram(chosen, 10, (0, len(labels)))[0]
    assert np.abs(spread - 1000).max() < 150  # 5 standard deviations
    # the same on every machine and under every version
    assert stratified(np.arange(40, dtype=np.uint8) % 3, 8, 7).tolist() == PINNED


PINNED = [4, 8, 14, 18, 27, 34, 37, 39]


def record_file(path, seed=0):
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (cifar.RECORDS, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    path.write_bytes(records.tobytes())
    return records


def test_cifars_layout(tmp_path):
    records = record_file(tmp_path / "test_batch.bin")
    pictures, labels = cifar.read_batch(tmp_path / "test_batch.bin")
    assert np.array_equal(labels, records[:, 0])
    # channel, row, column
    assert pictures[7, 2, 30, 5] == records[7, 1 + 2 * 1024 + 30 * 32 + 5]
    both, _ = cifar.read_batches(tmp_path, ("test_batch.bin",) * 2)
    assert both.shape == (20_000, 3, 32, 32)


def test_cifars_damage_is_named(tmp_path):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(b"short")
    with pytest.raises(ArgandError, match="has 5 bytes"):
        cifar.read_batch(path)
    content = bytearray(record_file(path).tobytes())
    content[3073 * 12] = 10
    path.write_bytes(content)
    with pytest.raises(ArgandError, match="label 10 at position 12"):
        cifar.read_batch(path)
