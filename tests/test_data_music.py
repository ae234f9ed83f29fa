"""MusicNet's forms, their preparation, and the windows cut from it."""

import csv
import io
import json
import tarfile
from contextlib import suppress

import h5py
import numpy as np
import pytest
import soundfile
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argand.errors import ArgandError
from argand.study import data
from argand.study.data import music, musicnet
from argand.study.data.musicnet import raws_of, read_csv, read_wav
from argand.study.data.prepare import Raw, musicnet_split, prepare

HEADER = ("start_time", "end_time", "instrument", "note", "start_beat", "end_beat", "note_value")
NAMES = ("1727", "2303", "2131")  # one for each of train, test, valid


def recordings(seconds=0.6, notes=30):
    rng = np.random.default_rng(3)
    count = int(44_100 * seconds)
    for name in NAMES:
        wave = np.clip(rng.normal(0, 0.2, count), -1, 1).astype(np.float32)
        start = rng.integers(0, count - 10, notes)
        end = start + rng.integers(0, count // 3, notes)
        yield name, wave, np.stack([start, end, rng.integers(1, 73, notes), rng.integers(21, 105, notes)], axis=1)


def write_folder(folder):
    for name, wave, labels in recordings():
        part = "test" if name == "2303" else "train"
        for kind in ("data", "labels"):
            (folder / f"{part}_{kind}").mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / f"{part}_data" / f"{name}.wav", wave, 44_100, subtype="FLOAT")
        with (folder / f"{part}_labels" / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *([*row, 1.0, 0.5, "Eighth"] for row in labels.tolist())])
    return folder


def write_archive(folder):
    with tarfile.open(folder / "musicnet.tar.gz", "w:gz") as archive:
        archive.add(write_folder(folder / "unpacked"), "musicnet")
    return folder / "musicnet.tar.gz"


def write_h5(folder):
    names = ("start_time", "end_time", "instrument_id", "note_id")
    with h5py.File(folder / "musicnet.h5", "w") as file:
        for name, wave, labels in recordings():
            table = np.zeros(len(labels), [(field, "i8") for field in names])
            for i, field in enumerate(names):
                table[field] = labels[:, i]
            file.create_dataset(f"id_{name}/data", data=wave)
            file.create_dataset(f"id_{name}/labels", data=table, compression="gzip")
    return folder / "musicnet.h5"


def write_npz(folder):
    arrays = {}
    for name, wave, labels in recordings():
        arrays |= {name: wave, f"{name}_labels": labels}
    np.savez_compressed(folder / "musicnet.npz", **arrays)
    return folder / "musicnet.npz"


FORMS = {"folder": write_folder, "archive": write_archive, "h5": write_h5, "npz": write_npz}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ARGAND_DATA", str(tmp_path / "root"))
    return tmp_path / "root"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_prepares_to_the_same(root, tmp_path, form):
    (tmp_path / "copy").mkdir()
    assert "3 recordings" in data.get("musicnet", FORMS[form](tmp_path / "copy"))
    loaded = data.load("musicnet")
    assert [[r.name for r in part] for part in (loaded.train, loaded.valid, loaded.test)] == [
        ["1727"],
        ["2131"],
        ["2303"],
    ]
    assert data.digest("musicnet") == loaded.digest
    (tmp_path / "reference").mkdir()
    prepare(raws_of(write_folder(tmp_path / "reference")), tmp_path / "reference" / "out", musicnet_split)
    assert music.load_music(tmp_path / "reference" / "out").digest == loaded.digest
    assert "3 recordings agree" in data.check("musicnet")
    assert "already" in data.get("musicnet", tmp_path)


def test_waves_and_notes_are_at_11000_hz(tmp_path):
    seconds = np.arange(44_100 * 2) / 44_100
    wave = np.sin(2 * np.pi * 440 * seconds).astype(np.float32)
    labels = np.array([[88_199, 88_200, 104], [441, 44_099, 21], [0, 4, 69]])
    raws = [Raw(name, "here", lambda: (wave, labels)) for name in NAMES]
    assert prepare(raws, tmp_path, musicnet_split) == 3
    (recording,) = music.load_music(tmp_path).train
    assert recording.notes.tolist() == [[0, 0, 48], [110, 10_999, 0], [21_999, 22_000, 83]]
    assert recording.wave.dtype == np.float32
    assert isinstance(recording.wave, np.memmap)
    assert len(recording.wave) == 22_000
    middle = slice(5_000, 17_000)
    wanted = np.sin(2 * np.pi * 440 * np.arange(22_000) / 11_000)
    assert np.abs(recording.wave[middle] - wanted[middle]).max() < 1e-4


def test_preparation_goes_on_where_it_stopped(tmp_path):
    asked = []

    def raw(name, wave, labels, fails):
        def read():
            asked.append(name)
            if fails:
                raise KeyboardInterrupt
            return wave, labels[:, [0, 1, 3]]

        return Raw(name, "here", read)

    for fails in (True, False):
        raws = [raw(*row, fails and row[0] == "2131") for row in recordings()]
        if fails:
            with pytest.raises(KeyboardInterrupt):
                prepare(raws, tmp_path, musicnet_split)
            assert not (tmp_path / music.MANIFEST).exists()
        else:
            prepare(raws, tmp_path, musicnet_split)
    assert asked == ["1727", "2303", "2131", "2131"]


def test_each_split_must_be_there(tmp_path):
    raws = [Raw(n, "here", lambda w=w, x=x: (w, x[:, [0, 1, 3]])) for n, w, x in recordings()]
    with pytest.raises(ArgandError, match="none of them for valid and test"):
        prepare(raws[:1], tmp_path, musicnet_split)
    with pytest.raises(ArgandError, match=r"recording named '\.\./x'"):
        prepare([Raw("../x", "here", raws[0].read)], tmp_path, musicnet_split)


def test_the_official_npz_is_refused_without_unpickling(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    array = np.empty(2, object)
    array[:] = [np.zeros(3), Trap()]
    np.savez(tmp_path / "musicnet.npz", **{"2494": array})
    with pytest.raises(ArgandError, match=r"never unpickles. Use musicnet.h5"):
        [raw.read() for raw in raws_of(tmp_path)]
    assert not (tmp_path / "sprung").exists()


def wav_bytes(wave, rate=44_100, subtype="PCM_16", format="WAV"):
    buffer = io.BytesIO()
    soundfile.write(buffer, wave, rate, format=format, subtype=subtype)
    return buffer.getvalue()


def test_other_sounds_are_refused():
    quiet = np.zeros(100)
    for content, message in (
        (wav_bytes(quiet, 22_050), "22050 Hz"),
        (wav_bytes(np.zeros((100, 2))), "2 channels"),
        (wav_bytes(quiet, format="FLAC"), "FLAC"),
        (wav_bytes(np.zeros(0)), "no sound"),
        (b"RIFF", "isn't a wav file"),
    ):
        with pytest.raises(ArgandError, match=message):
            read_wav(content, "a sound")


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", "start_time,end_time,note\n1,2\n", "start_time,end_time,note\n1,2,x\n", "\0", '"'],
)
def test_other_tables_are_refused(text):
    with pytest.raises(ArgandError, match="a table"):
        read_csv(text.encode(), "a table")


@pytest.mark.parametrize("row", [(-1, 5, 60), (5, 4, 60), (1, 2, 20), (1, 2, 105), (0, 1 << 62, 60)])
def test_impossible_notes_are_refused(tmp_path, row):
    raw = Raw("1", "the label file", lambda: (np.zeros(44_100, np.float32), np.array([row])))
    with pytest.raises(ArgandError, match=f"the label file labels note {row[2]}"):
        prepare([raw], tmp_path, musicnet_split)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    raws = [Raw(n, "here", lambda w=w, x=x: (w, x[:, [0, 1, 3]])) for n, w, x in recordings(2.0, 60)]
    prepare(raws, folder, musicnet_split)
    return folder


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(["manifest.json", "1727.wave.npy", "1727.notes.npy"]), st.integers(0, 200), st.binary(max_size=40)
)
def test_only_argand_errors_escape_a_damaged_folder(prepared, file, place, noise):
    whole = (prepared / file).read_bytes()
    content = bytearray(whole)
    content[place : place + len(noise)] = noise
    (prepared / file).write_bytes(content)
    try:
        music.load_music(prepared)
    except ArgandError:
        pass
    finally:
        (prepared / file).write_bytes(whole)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=30))
def test_only_argand_errors_escape_a_damaged_npz(tmp_path, place, noise):
    arrays = {"1": np.zeros(200), "1_labels": np.zeros((3, 4), np.int64)}
    np.savez(tmp_path / "x.npz", **arrays)
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[place : place + len(noise)] = noise
    (tmp_path / "x.npz").write_bytes(content)
    with suppress(ArgandError):
        assert all(len(raw.read()) == 2 for raw in raws_of(tmp_path / "x.npz"))


def test_hostile_sizes_are_refused(tmp_path):
    header = np.lib.format.magic(1, 0) + (
        b"v\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    )
    path = tmp_path / "x.wave.npy"
    path.write_bytes(header.ljust(20_000, b" "))
    with pytest.raises(ArgandError, match="not a whole"):
        music.open_recording(tmp_path, "x")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("id_1/data", shape=(1 << 40,), dtype="f4", chunks=(1 << 10,))
    with pytest.raises(ArgandError, match=r"claims 4398046511104 bytes and stores 0"):
        [raw.read() for raw in raws_of(tmp_path / "m.h5")]


def test_recordings_shorter_than_a_window_are_refused(tmp_path, prepared):
    raws = [Raw(n, "here", lambda w=w, x=x: (w[:8000], x[:, [0, 1, 3]])) for n, w, x in recordings()]
    with pytest.raises(ArgandError, match=r"has 1995 samples. Expected at least a window of 4096"):
        prepare(raws, tmp_path, musicnet_split)
    recording = music.load_music(prepared).train[0]
    for cut in (
        lambda: data.random_windows([recording], torch.Generator(), 22_001),
        lambda: next(data.all_windows([recording], 1, 22_001)),
    ):
        with pytest.raises(ArgandError, match=r"has 22000 samples\. Expected at least a window of 22001"):
            cut()
    with pytest.raises(ArgandError, match="stride 0"):
        next(data.all_windows([recording], 0))


def brute(recording, sample):
    row = np.zeros(84, np.float32)
    for start, end, note in recording.notes:
        if start <= sample < end:
            row[note] = 1
    return row


def test_sounding_agrees_with_brute_force(prepared):
    for recording in music.load_music(prepared).train:
        edges = np.unique(np.concatenate([recording.notes[:, :2].ravel() + d for d in (-1, 0, 1)]))
        rows = recording.sounding(edges)
        assert all(np.array_equal(row, brute(recording, sample)) for row, sample in zip(rows, edges, strict=True))


def test_overlapping_and_empty_notes():
    notes = np.array([[5, 9, 3], [6, 7, 3], [8, 8, 4], [9, 10, 3]])
    recording = music.Recording("x", np.zeros(20, np.float32), notes)
    assert recording.sounding(np.arange(12))[:, 3].tolist() == [0] * 5 + [1] * 5 + [0] * 2
    assert not recording.sounding(np.arange(12))[:, 4].any()
    silent = music.Recording("y", np.zeros(20, np.float32), np.zeros((0, 3), np.int64))
    assert silent.sounding(np.arange(3)).shape == (3, 84)


def test_all_windows_come_in_order(prepared):
    loaded = music.load_music(prepared)
    both = [*loaded.valid, *loaded.test]
    x, y = (torch.cat(parts) for parts in zip(*data.all_windows(both, stride=1000, length=4096, batch=7), strict=True))
    wanted = [(r, first) for r in both for first in range(0, len(r.wave) - 4096 + 1, 1000)]
    assert x.shape == (len(wanted), 1, 4096)
    assert y.shape == (len(wanted), 84)
    for i, (recording, first) in enumerate(wanted):
        assert np.array_equal(x[i, 0].numpy(), recording.wave[first : first + 4096])
        assert np.array_equal(y[i].numpy(), brute(recording, first + 2048))


def test_random_windows_are_seeded_uniform_and_labelled(prepared):
    recording = music.load_music(prepared).train[0]
    position = np.arange(len(recording.wave), dtype=np.float32)  # a wave that tells where it was cut
    many = [music.Recording("x", position, recording.notes)] * 2000
    x, y = data.random_windows(many, torch.Generator().manual_seed(1), 4096)
    again, _ = data.random_windows(many, torch.Generator().manual_seed(1), 4096)
    other, _ = data.random_windows(many, torch.Generator().manual_seed(2), 4096)
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    assert x.shape == (2000, 1, 4096)
    assert x.dtype == y.dtype == torch.float32
    offsets = x[:, 0, 0].long().numpy()
    assert np.array_equal(x[5, 0].numpy(), position[offsets[5] : offsets[5] + 4096])
    assert all(np.array_equal(y[i].numpy(), brute(recording, offsets[i] + 2048)) for i in range(300))
    last = len(position) - 4096
    assert 0 <= offsets.min() < last / 100
    assert last * 0.99 < offsets.max() <= last
    assert abs(offsets.mean() / last - 0.5) < 5 * (1 / 12 / 2000) ** 0.5
    exact, _ = data.random_windows(many[:3], torch.Generator(), len(position))
    assert exact.shape == (3, 1, len(position))


def test_a_digest_covers_the_split_and_the_content(prepared, tmp_path):
    rows = json.loads((prepared / music.MANIFEST).read_text())["recordings"]
    digests = {music.manifest_digest(rows)}
    for key, value in (("split", "test"), ("wave", "0"), ("notes", "0")):
        digests.add(music.manifest_digest(rows | {"1727": rows["1727"] | {key: value}}))
    assert len(digests) == 4
    assert musicnet.LARGEST_WAV > 11e9 / 330 * 10


def test_a_flipped_bit_on_disk_is_found(root, tmp_path):
    data.get("musicnet", write_folder(tmp_path / "copy"))
    path = root / "musicnet" / "2131.wave.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    data.load("musicnet")
    with pytest.raises(ArgandError, match=r"2131.wave.npy differs from the manifest"):
        data.check("musicnet")
