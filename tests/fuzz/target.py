"""What a fuzz target is: something that reads bytes, and what must be true of it whatever they are."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hypothesis import strategies as st

LONGEST_INPUT = 4096
"""Bytes."""
MOST_SECONDS = 0.5
"""Processor time of one input, of the quickest of ``TRIES``. What is promised is a tenth of it; the rest is for a busy machine and for
what watches the code.
"""
TRIES = 3
MOST_MEMORY = 64 << 20
"""Bytes that one input may take at the most."""
WEIGH_EVERY = 250
"""Inputs between two whose memory is measured, which is slow."""


class Broken(AssertionError):
    """Something that must be true of any input is not true of this one."""


@dataclass(frozen=True)
class Target:
    """``check`` raises for an input of which something is not true; errors that are declared it takes as an answer.

    ``inputs`` makes inputs that look like what is meant, for a generator that does not see the code; ``words`` are pieces of them for one
    that does.
    """

    name: str
    check: Callable[[bytes], None]
    inputs: st.SearchStrategy[bytes]
    words: tuple[str, ...] = ()


@dataclass
class Finding(Exception):
    """An input that breaks a target, and how."""

    target: str
    data: bytes
    error: BaseException = field(default_factory=Broken)

    def __str__(self) -> str:
        return f"{self.target}: {type(self.error).__name__}: {str(self.error)[:500]}"


class Examiner:
    """Checks one input after another: what must be true, how long it takes and, now and then, how much memory."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.executions = 0

    def __call__(self, data: bytes) -> None:
        """Raises ``Finding``."""
        data = data[:LONGEST_INPUT]
        self.executions += 1
        try:
            if self.executions % WEIGH_EVERY == 1:
                self._weigh(data)
            if self._seconds(data) > MOST_SECONDS and min(self._seconds(data) for _ in range(TRIES)) > MOST_SECONDS:
                raise Broken(f"it takes more than {MOST_SECONDS} s of processor time")
        except Exception as error:
            raise Finding(self._target.name, data, error) from error

    def _seconds(self, data: bytes) -> float:
        began = time.thread_time()
        self._target.check(data)
        return time.thread_time() - began

    def _weigh(self, data: bytes) -> None:
        self._target.check(data)  # what is loaded at the first use is not the input's
        tracemalloc.start(1)
        try:
            self._target.check(data)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if most > MOST_MEMORY:
            raise Broken(f"it takes {most >> 20} MB of memory")


def must(condition: object, what: str) -> None:
    """Raise ``Broken`` unless it is so. Not ``assert``, which can be switched off."""
    if not condition:
        raise Broken(what)


@contextmanager
def declared(*errors: type[Exception], longest: int = 10_000) -> Iterator[list[str]]:
    """Take the errors that are declared as an answer, whose text must not be endless; gives a list that has the text then."""
    told: list[str] = []
    try:
        yield told
    except errors as error:
        told.append(str(error))
        must(len(told[0]) <= longest, f"the error's text has {len(told[0]):,} characters")


def as_text(data: bytes) -> str:
    """Any bytes as text; what is not UTF-8 becomes half characters, as in a name that an operating system gives."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The bytes that ``as_text`` reads as this text, or as one that is much like it."""
    return text.encode("utf-8", "surrogatepass")


def texts(*pieces: str) -> st.SearchStrategy[bytes]:
    """Texts of these pieces and of odd characters."""
    odd = st.sampled_from("\0\x1b\r\n\t \u0663\u202e\ud800\ufeff\U0001f600\"'\\{}[]()<>&%@:/?#=+-,;.0919e")
    piece = st.sampled_from(pieces) if pieces else odd
    return st.lists(st.one_of(piece, odd, st.text(max_size=3)), max_size=20).map(lambda parts: as_bytes("".join(parts)))
