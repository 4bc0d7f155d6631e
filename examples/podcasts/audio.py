"""From text to sound: words become notes, notes become samples, samples become a WAV file. No input or output."""

from __future__ import annotations

import io
import math
import wave
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RATE = 16_000
"""Samples a second; each is 16 bits, in one channel."""
LOUDNESS = 0.4
"""Share of the loudest that 16 bits can say."""
FADE = 0.015
"""Seconds in which a note swells and dies away: one that begins at full strength clicks."""
SCALE = (220.0, 246.94, 277.18, 329.63, 369.99, 440.0, 493.88, 554.37)
"""Hertz of a pentatonic scale, in which any sequence sounds tolerable."""


@dataclass(frozen=True)
class Note:
    """A tone, or silence when ``hertz`` is 0."""

    hertz: float
    seconds: float


def notes_of(text: str) -> list[Note]:
    """What the built-in voice says: a note a word, the longer the more letters, and a rest behind it, longer behind a sentence."""
    notes = []
    for word in text.split():
        notes.append(Note(SCALE[sum(map(ord, word)) % len(SCALE)], 0.08 + 0.03 * min(len(word), 12)))
        notes.append(Note(0, 0.3 if word[-1] in ".!?" else 0.05))
    return notes


def frames_of(notes: Iterable[Note]) -> int:
    """How many samples the notes take."""
    return sum(round(note.seconds * RATE) for note in notes)


def wav_of(notes: Iterable[Note]) -> bytes:
    """The content of a WAV file."""
    samples = array("h")
    for note in notes:
        samples.extend(_samples(note))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(samples.itemsize)
        writer.setframerate(RATE)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def _samples(note: Note) -> Iterator[int]:
    length = round(note.seconds * RATE)
    if not note.hertz:
        yield from (0 for _ in range(length))
        return
    fade = max(min(round(FADE * RATE), length // 2), 1)
    step, strength = 2 * math.pi * note.hertz / RATE, LOUDNESS * 32_767
    for number in range(length):
        envelope = min(number, length - 1 - number, fade) / fade
        yield round(strength * envelope * math.sin(step * number))
