"""Targets with a fault that is there on purpose: what must be found, so that a run that finds nothing says something."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.target import LONGEST_INPUT, Target, must

_hoard: list[bytes] = []


def _check_word(data: bytes) -> None:
    """Breaks behind four looks, one a byte: chance alone would need thousands of millions of inputs."""
    must(not (len(data) >= 4 and data[0] == 0x66 and data[1] == 0xA5 and data[2] == 0x21 and data[3] == 0x7E), "the word was found")


def _check_slow(data: bytes) -> None:
    sum(one * other for one in range(1_000) for other in range(1_000 if data.startswith(b"slow") else 0))


def _check_large(data: bytes) -> None:
    _hoard[:] = [bytes(100 << 20)] if data.startswith(b"large") else []


def _check_hung(data: bytes) -> None:
    while data.startswith(b"\xff"):
        pass


PLANTED = {
    name: Target(name, check, st.binary(max_size=LONGEST_INPUT) | st.sampled_from([b"slow", b"large"]))
    for name, check in (("word", _check_word), ("slow", _check_slow), ("large", _check_large), ("hung", _check_hung))
}
