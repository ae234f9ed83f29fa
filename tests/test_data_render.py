"""From scores to sound and labels: the times of both are the same."""

import io

import numpy as np
import pytest
import soundfile
from music21 import meter, note, stream, tempo

from argand.errors import ArgandError
from argand.study.data import extras, midi, render
from argand.study.data.midi import Event, csv_of, notes_of
from argand.study.data.musicnet import raws_of, read_csv, read_wav
from argand.study.data.prepare import prepare

TPQ = 480


def times(*events):
    return [(n.pitch, n.start, n.end) for n in notes_of(events, TPQ)]


def on(tick, pitch, channel=0):
    return Event(tick, "on", channel, pitch, 80)


def off(tick, pitch, channel=0):
    return Event(tick, "off", channel, pitch)


def test_notes_take_their_time_from_the_tempo():
    minute = Event(0, "tempo", 0, 1_000_000)
    assert times(on(0, 60), off(480, 60)) == [(60, 0, 22_050)]
    assert times(on(0, 60), off(480, 60), minute) == [(60, 0, 44_100)]
    faster = Event(240, "tempo", 0, 500_000)
    assert times(minute, on(0, 60), faster, off(480, 60)) == [(60, 0, 22_050 + 11_025)]


def test_the_first_on_ends_first_and_channels_are_apart():
    assert times(on(0, 60), on(240, 60), off(480, 60), off(960, 60)) == [(60, 0, 22_050), (60, 11_025, 44_100)]
    assert times(on(0, 60), on(0, 60, 1), off(480, 60, 1), off(960, 60)) == [(60, 0, 44_100), (60, 0, 22_050)]
    # at one tick an off comes before an on, whatever their order
    assert times(on(0, 60), on(480, 60), off(480, 60), off(960, 60)) == [(60, 0, 22_050), (60, 22_050, 44_100)]


def test_what_has_no_label_has_no_sound():
    assert times(on(0, 20), off(9, 20), on(0, 105), off(9, 105)) == []
    assert times(on(0, 60, midi.DRUMS), off(9, 60, midi.DRUMS)) == []
    assert times(on(5, 60), off(5, 60), off(7, 61), on(9, 62)) == []


def test_the_table_is_musicnets():
    events = [Event(0, "program", 0, 40), on(0, 69), off(720, 69), on(480, 60, 1), off(960, 60, 1)]
    text = csv_of(notes_of(events, TPQ))
    assert text.splitlines() == [
        "start_time,end_time,instrument,note,start_beat,end_beat,note_value",
        "0,33075,41,69,0.0,1.5,Dotted Quarter",
        "22050,44100,1,60,1.0,1.0,Quarter",
    ]
    assert read_csv(text.encode(), "it").tolist() == [[0, 33_075, 69], [22_050, 44_100, 60]]


def score():
    """Half a second of silence, A4 and E5 one after the other, silence: two seconds at 120 quarters a minute."""
    part = stream.Part([tempo.MetronomeMark(number=120), meter.TimeSignature("4/4")])
    part.append([note.Rest(quarterLength=1), note.Note("A4"), note.Note("E5"), note.Rest(quarterLength=1)])
    return stream.Score([part])


def power(wave, sample, frequency, length=4410):
    window = wave[sample : sample + length] * np.hanning(length)
    return abs(np.sum(window * np.exp(-2j * np.pi * frequency * np.arange(length) / 44_100))) ** 2


def test_sound_begins_where_its_label_does():
    table, content = render.render_score(score())
    wave, labels = read_wav(content, "it"), read_csv(table.encode(), "it")
    assert labels.tolist() == [[22_050, 44_100, 69], [44_100, 66_150, 76]]
    loud = np.flatnonzero(np.abs(wave) > 1e-3 * np.abs(wave).max())[0]
    assert 22_050 <= loud < 22_050 + 441  # within a hundredth of a second: the instrument's attack
    for start, end, pitch in labels:
        frequency = 440 * 2 ** ((pitch - 69) / 12)
        assert power(wave, start + 2000, frequency) > 100 * power(wave, start - 4410, frequency)
        assert power(wave, start + 2000, frequency) > 30 * power(wave, end + 20_000, frequency)
    assert np.abs(wave).max() <= 0.91
    assert soundfile.info(io.BytesIO(content)).samplerate == 44_100


def test_rendering_twice_gives_the_same_bytes():
    assert render.render_score(score()) == render.render_score(score())


def test_a_score_without_notes():
    with pytest.raises(ArgandError, match="holds no notes"):
        render.render_score(stream.Score([stream.Part([note.Rest(quarterLength=4)])]))


def test_the_pieces_are_split_by_work_and_each_is_there_once():
    splits = [render.piece_split(piece) for piece in render.PIECES]
    assert len(set(render.PIECES)) == len(render.PIECES)
    assert len({render.piece_name(piece) for piece in render.PIECES}) == len(render.PIECES)
    assert set(splits[:3]) == {"train", "valid", "test"}
    assert not render.TEST_WORKS & render.VALID_WORKS
    corpus = extras.folder_of("music21", "test") / "corpus"
    assert all((corpus / piece).is_file() for piece in render.PIECES)
    assert midi.soundfont().is_file()


def test_rendered_music_is_prepared_like_musicnet(tmp_path, monkeypatch):
    monkeypatch.setattr(render, "parse", lambda path: score())
    monkeypatch.setattr(midi, "_TAIL", 4410)
    seen = []
    assert render.render_music(tmp_path, 4, seen.append) == 4
    assert seen == [render.piece_name(piece) for piece in render.PIECES[:4]]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name != "manifest.json"}
    assert render.render_music(tmp_path, 4) == 4
    assert before == {path: path.stat().st_mtime_ns for path in before}
    splits = {render.piece_name(piece): render.piece_split(piece) for piece in render.PIECES}
    prepare(raws_of(tmp_path / "source"), tmp_path / "again", splits.__getitem__)
    manifests = [(folder / "manifest.json").read_bytes() for folder in (tmp_path, tmp_path / "again")]
    assert manifests[0] == manifests[1]


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(extras.INSTALL, "nothing_like_it", "pip install 'argand[music]'")
    with pytest.raises(ArgandError, match=r"nothing_like_it is needed to sing, .*argand\[music\]"):
        extras.optional("nothing_like_it", "sing")
    with pytest.raises(ArgandError, match="needed to sing"):
        extras.folder_of("nothing_like_it", "sing")
