"""The stand-in for MusicNet: real scores of music21's own corpus, played by a synthesiser, labelled exactly.

Its timbre is synthetic, so its results never stand beside published ones of MusicNet. Some scores bar commercial use:
they are rendered where they are needed, and nothing of them is distributed.
"""

import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from argand.errors import ArgandError
from argand.files import write_atomically
from argand.study.data.extras import folder_of, optional
from argand.study.data.midi import Event, csv_of, notes_of, play, soundfont
from argand.study.data.musicnet import raws_of_folder
from argand.study.data.prepare import SOURCE_RATE, prepare

#: Whole works per split, so that no work is in two; each movement once (op. 18 no. 1 is there as .krn and as .mxl).
TEST_WORKS = frozenset({"mozart/k156"})
VALID_WORKS = frozenset({"haydn/opus1no1"})
#: Any beginning of three or more has all splits.
PIECES = (
    "mozart/k80/movement3.mxl",
    "haydn/opus1no1/movement4.mxl",
    "mozart/k156/movement4.mxl",
    "haydn/opus74no1/movement2.mxl",
    "mozart/k80/movement4.mxl",
    "mozart/k155/movement3.mxl",
    "joplin/maple_leaf_rag.mxl",
    "schumann_clara/polonaise_op1n1.mxl",
    "haydn/opus1no1/movement2.mxl",
    "mozart/k156/movement1.mxl",
    "mozart/k545/movement1_exposition.mxl",
    "mozart/k80/movement1.mxl",
    "mozart/k80/movement2.mxl",
    "mozart/k155/movement1.mxl",
    "mozart/k155/movement2.mxl",
    "schumann_clara/polonaise_op1n2.mxl",
    "schumann_clara/polonaise_op1n3.mxl",
    "schumann_clara/polonaise_op1n4.mxl",
    "schumann_clara/opus17/movement3.xml",
    "haydn/opus1no1/movement1.mxl",
    "mozart/k156/movement2.mxl",
    "corelli/opus3no1/1grave.xml",
    "cpebach/h186.mxl",
    "handel/rinaldo/Lascia_chio_pianga.mxl",
    "schubert/Lindenbaum.xml",
    "schumann_robert/dichterliebe_no2.xml",
    "weber/concertino_clarinet.mxl",
    "beach/prayer_of_a_tired_child.musicxml",
    "schumann_robert/opus41no1/movement1.mxl",
    "schumann_robert/opus41no1/movement2.mxl",
    "schumann_robert/opus41no1/movement3.mxl",
    "schumann_robert/opus41no1/movement4.mxl",
    "schumann_robert/opus41no1/movement5.mxl",
    "haydn/opus1no1/movement3.mxl",
    "haydn/opus1no1/movement5.mxl",
    "mozart/k156/movement3.mxl",
    "mozart/k458/movement3.mxl",
    "mozart/k458/movement4.mxl",
    "haydn/opus74no1/movement1.mxl",
    "beethoven/opus18no1/movement1.mxl",
    "beethoven/opus18no1/movement2.mxl",
    "beethoven/opus18no1/movement3.mxl",
    "beethoven/opus18no1/movement4.mxl",
)
_NOTE_ON, _NOTE_OFF, _PROGRAM, _TEMPO = 0x90, 0x80, 0xC0, 0x51


def piece_name(piece: str) -> str:
    """Return the name of the recording of a piece.

    >>> piece_name("mozart/k80/movement3.mxl")
    'mozart-k80-movement3'
    """
    return piece.rsplit(".", 1)[0].replace("/", "-")


def piece_split(piece: str) -> str:
    """Return the split of a piece, which is that of its work."""
    work = piece.rsplit("/", 1)[0]
    return "test" if work in TEST_WORKS else "valid" if work in VALID_WORKS else "train"


def render_music(folder: Path, pieces: int | None = None, report: Callable[[str], None] = lambda _: None) -> int:
    """Render the first `pieces` (default: all) and prepare them like MusicNet; returns how many recordings there are.

    What is already rendered or prepared is kept. The wav and csv files stay in `source`, in MusicNet's form.
    """
    if pieces is not None and not 3 <= pieces <= len(PIECES):
        raise ArgandError(f"{pieces} pieces can't be rendered. Expected 3 (one a split) to {len(PIECES)}.")
    for module in ("soxr", "soundfile", "music21", "tinysoundfont"):
        optional(module, "render music")
    soundfont()
    chosen = PIECES[:pieces]
    for piece in chosen:
        _render_piece(piece, folder / "source")
        report(piece_name(piece))
    splits = {piece_name(piece): piece_split(piece) for piece in chosen}
    raws = (raw for raw in raws_of_folder(folder / "source") if raw.name in splits)
    return prepare(raws, folder, splits.__getitem__)


def _render_piece(piece: str, source: Path) -> None:
    part, name = "test" if piece_split(piece) == "test" else "train", piece_name(piece)
    wave = source / f"{part}_data" / f"{name}.wav"
    if wave.exists():  # written after its labels
        return
    labels = source / f"{part}_labels" / f"{name}.csv"
    for path in (wave, labels):
        path.parent.mkdir(parents=True, exist_ok=True)
    table, content = render_score(parse(folder_of("music21", "render music") / "corpus" / piece))
    write_atomically(labels, table.encode())
    write_atomically(wave, content)


def parse(path: Path) -> Any:
    """Read a score file; never from music21's cache, which holds pickles."""
    music21 = optional("music21", "render music")
    if not path.is_file():
        raise ArgandError(f"{path} doesn't exist. Expected it in music21's corpus: pip install music21==10.5.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about measures that are too full
        return music21.converter.parse(path, forceSource=True, storePickle=False)


def render_score(score: Any) -> tuple[str, bytes]:
    """Return the labels (csv) and the sound (wav) of a music21 score, from the same MIDI events."""
    soundfile = optional("soundfile", "write wav files")
    translate = optional("music21.midi.translate", "render music")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        midi = translate.music21ObjectToMidiFile(score)
    notes = notes_of((event for track in midi.tracks for event in _events(track)), midi.ticksPerQuarterNote)
    if not notes:
        raise ArgandError("The score holds no notes between MIDI numbers 21 and 104, so there is nothing to render.")
    buffer = BytesIO()
    soundfile.write(buffer, play(notes), SOURCE_RATE, format="WAV", subtype="PCM_16")
    return csv_of(notes), buffer.getvalue()


def _events(track: Any) -> Iterator[Event]:
    """Translate what music21 calls a track: its events alternate with the ticks between them."""
    tick = 0
    for event in track.events:
        kind = getattr(event.type, "value", None)
        channel = (event.channel or 1) - 1
        if event.isDeltaTime():
            tick += event.time
        elif kind == _NOTE_ON and event.velocity:
            yield Event(tick, "on", channel, event.pitch, event.velocity)
        elif kind in (_NOTE_ON, _NOTE_OFF):
            yield Event(tick, "off", channel, event.pitch)
        elif kind == _PROGRAM:
            yield Event(tick, "program", channel, int(event.data))
        elif kind == _TEMPO:
            yield Event(tick, "tempo", channel, int.from_bytes(event.data, "big"))
