"""How a script of the podcasts example becomes sound."""

from __future__ import annotations

import io
import wave
from array import array
from itertools import pairwise

import pytest

from examples.podcasts.audio import RATE, Note, frames_of, notes_of, wav_of


def read(content: bytes) -> array[int]:
    """The samples of a WAV file of one channel and 16 bits."""
    with wave.open(io.BytesIO(content)) as audio:
        assert (audio.getnchannels(), audio.getsampwidth(), audio.getframerate()) == (1, 2, RATE)
        return array("h", audio.readframes(audio.getnframes()))


@pytest.mark.parametrize("text", ["word", "Two words", "A sentence. Another one!", "ünïcödé 音声", "x" * 500])
def test_the_audio_is_as_long_as_its_notes_and_can_be_heard(text: str) -> None:
    """A player shows the length from the header; silence would be no audio."""
    samples = read(wav_of(notes_of(text)))
    assert len(samples) == frames_of(notes_of(text))
    assert 10_000 < max(samples) < 32_767


def test_more_words_and_longer_words_take_longer() -> None:
    """The length follows the text."""
    lengths = [frames_of(notes_of(text)) for text in ("a", "a b", "a b c", "aaa bbb ccc", "aaa. bbb ccc")]
    assert lengths == sorted(set(lengths))


def test_a_note_has_its_pitch() -> None:
    """A tone of 440 hertz goes up through zero 440 times a second."""
    samples = read(wav_of([Note(440, 1)]))
    assert sum(before < 0 <= after for before, after in pairwise(samples)) == pytest.approx(440, abs=2)


def test_a_note_swells_and_dies_away() -> None:
    """A tone that begins or ends at full strength clicks."""
    samples = [abs(sample) for sample in read(wav_of([Note(440, 0.5)]))]
    assert max(samples[:20]) < max(samples) / 10
    assert max(samples[-20:]) < max(samples) / 10
    assert max(samples[3_000:5_000]) == max(samples)


def test_a_rest_is_silent() -> None:
    """And as long as any other note."""
    assert list(read(wav_of([Note(0, 0.1)]))) == [0] * (RATE // 10)
