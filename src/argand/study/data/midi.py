"""From MIDI events to notes with exact sample times, to MusicNet's table of labels, and to sound."""

import csv
import io
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from argand.study.data.extras import folder_of, optional
from argand.study.data.music import CLASSES, FIRST_NOTE
from argand.study.data.prepare import SOURCE_RATE

#: The channel of drums, counted from 0: its notes have no pitch.
DRUMS = 9
#: Quarter notes a minute until a score says otherwise.
DEFAULT_TEMPO = 120
_TAIL = SOURCE_RATE  # a second for the last note to fade
_PEAK = 0.9


@dataclass(frozen=True)
class Event:
    """What happens at a tick: on (pitch, velocity), off (pitch), program (number) or tempo (microseconds a quarter)."""

    tick: int
    kind: Literal["on", "off", "program", "tempo"]
    channel: int = 0
    value: int = 0
    velocity: int = 0


@dataclass(frozen=True)
class Note:
    """A note as played: start and end in samples at 44,100 Hz, and its place in the score in quarter notes."""

    start: int
    end: int
    channel: int
    program: int
    pitch: int
    velocity: int
    start_beat: float
    beats: float


def notes_of(events: Iterable[Event], ticks_per_quarter: int) -> list[Note]:
    """Pair every on with the next off of its channel and pitch; drums, empty notes and pitches outside 21 … 104 go.

    >>> [n.end for n in notes_of([Event(0, "on", 0, 69, 80), Event(480, "off", 0, 69)], ticks_per_quarter=480)]
    [22050]
    """
    first = {"tempo": 0, "program": 1, "off": 2, "on": 3}
    ordered = sorted(events, key=lambda event: (event.tick, first[event.kind]))
    open_notes: dict[tuple[int, int], deque[tuple[int, int, Event]]] = defaultdict(deque)
    programs: dict[int, int] = defaultdict(int)
    rate = SOURCE_RATE * 60 / DEFAULT_TEMPO / ticks_per_quarter  # samples a tick
    tick, samples, notes = 0, 0.0, []
    for event in ordered:
        samples += (event.tick - tick) * rate
        tick = event.tick
        key = event.channel, event.value
        if event.kind == "tempo":
            rate = SOURCE_RATE * event.value / 1e6 / ticks_per_quarter
        elif event.kind == "program":
            programs[event.channel] = event.value
        elif event.kind == "on":
            open_notes[key].append((round(samples), programs[event.channel], event))
        elif open_notes[key]:
            start, program, on = open_notes[key].popleft()
            beats = (tick - on.tick) / ticks_per_quarter
            beat = on.tick / ticks_per_quarter
            notes.append(Note(start, round(samples), event.channel, program, event.value, on.velocity, beat, beats))
    kept = [n for n in notes if n.end > n.start and n.channel != DRUMS and 0 <= n.pitch - FIRST_NOTE < CLASSES]
    return sorted(kept, key=attrgetter("start", "pitch", "channel", "end"))


def csv_of(notes: Sequence[Note]) -> str:
    """Return MusicNet's table: times in samples, instruments counted from 1, end_beat the length in beats as there."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("start_time", "end_time", "instrument", "note", "start_beat", "end_beat", "note_value"))
    for n in notes:
        table.writerow((n.start, n.end, n.program + 1, n.pitch, n.start_beat, n.beats, _value(n.beats)))
    return text.getvalue()


def _value(beats: float) -> str:
    """Return the name of the nearest plain or dotted note value."""
    return min(_VALUES, key=lambda name: abs(math.log2(beats / _VALUES[name])))


_PLAIN = {"Whole": 4.0, "Half": 2.0, "Quarter": 1.0, "Eighth": 0.5, "Sixteenth": 0.25, "Thirty Second": 0.125}
_VALUES = _PLAIN | {f"Dotted {name}": 1.5 * beats for name, beats in _PLAIN.items()}


def play(notes: Sequence[Note]) -> NDArray[np.float32]:
    """Return the sound of the notes at 44,100 Hz, one channel, each beginning at its sample."""
    synth = optional("tinysoundfont", "render music").Synth(samplerate=SOURCE_RATE)
    synth.sfload(str(soundfont()))
    actions = [(note.end, 0, note) for note in notes] + [(note.start, 1, note) for note in notes]
    pieces, now = [], 0
    programs: dict[int, int] = {}
    for sample, on, note in sorted(actions, key=lambda action: action[:2]):
        if sample > now:
            pieces.append(_sound(synth, sample - now))
            now = sample
        if not on:
            synth.noteoff(note.channel, note.pitch)
            continue
        if programs.get(note.channel) != note.program:
            synth.program_change(note.channel, note.program)
            programs[note.channel] = note.program
        synth.noteon(note.channel, note.pitch, note.velocity)
    wave = np.concatenate([*pieces, _sound(synth, _TAIL)])
    return wave * np.float32(min(1.0, _PEAK / max(float(np.abs(wave).max()), 1e-9)))


def _sound(synth: Any, samples: int) -> NDArray[np.float32]:
    stereo = np.frombuffer(synth.generate(samples), np.float32).reshape(samples, 2)
    mono: NDArray[np.float32] = stereo.mean(axis=1)
    return mono


def soundfont() -> Path:
    """Return the General MIDI sound font that pretty_midi carries."""
    return folder_of("pretty_midi", "render music (it carries the sound font)") / "TimGM6mb.sf2"
