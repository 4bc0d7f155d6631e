"""Lifecycle events as JSON lines."""

from __future__ import annotations

import io
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import msgspec

from onward.clock import Clock, SystemClock
from onward.events import Event
from onward.telemetry.records import Patience

LONGEST_LINE = 4096
"""Bytes. A pipe takes that much in one piece, so lines of several worker processes never mix."""
LONGEST_NAME = 255
"""Characters of what is usually shorter by far; a row that was written by hand may hold anything."""
LONGEST_ERROR = 600
"""Characters: at four bytes each it leaves room for the other fields."""
SHORT_LINE = 440
"""Bytes of a line in which no name can be too long: names, quotes and the smallest of all the rest take more."""

logger = logging.getLogger("onward.log")
_encode = msgspec.json.Encoder().encode


class LifecycleLog:
    """A subscriber that writes one JSON line an event: what happened, when, to which job.

    A stream that cannot be written (closed, full disk, a pipe that nobody reads) costs the line and nothing else: ``lines_lost`` counts
    them, one warning says so, and writing goes on as soon as the stream can take lines again. Any thread may call it.
    """

    def __init__(self, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._write = _writer(sys.stdout if stream is None else stream)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._is_torn = False
        self._has_warned = False
        self.lines_lost = 0

    def __call__(self, event: Event) -> None:
        self.together([event])

    def together(self, events: Sequence[Event]) -> None:
        """Write what happened in one turn: as many lines at once as a pipe takes in one piece."""
        at = self._clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
        self._write_lines([line_of(event, at) for event in events])

    def write(self, fields: dict[str, Any]) -> None:
        """Write any other line in the same stream, such as the worker's start."""
        self._write_lines([_encode(fields) + b"\n"])

    def _write_lines(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            failures = [failure for piece in _pieces(lines) if (failure := self._try(piece)) is not None]
        if failures and not self._has_warned:
            self._has_warned = True
            logger.warning("the lifecycle log cannot be written (%s): lines are lost, the worker goes on", failures[0])

    def _try(self, lines: bytes) -> Exception | None:
        # What a full disk cut off in mid-line is ended first, so that the next line can be read.
        left = b"\n" + lines if self._is_torn else lines
        whole = left
        try:
            while left:
                left = left[self._write(left) :]
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.lines_lost += left.count(b"\n") - (left == whole and self._is_torn)
            if written := whole[: len(whole) - len(left)]:
                self._is_torn = not written.endswith(b"\n")
            return error
        self._is_torn = False
        return None


def _pieces(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Put as many lines together as ``LONGEST_LINE`` holds."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        if piece and size + len(line) > LONGEST_LINE:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield b"".join(piece)


def line_of(event: Event, at: str) -> bytes:
    """The line of an event. What is in it was mostly made by Onward and by the application, and is harmless as it is."""
    try:
        line = _encode(event).replace(b",", b',"at":"' + at.encode() + b'",', 1) + b"\n"
    except UnicodeEncodeError:  # half a character
        line = b""
    if 0 < len(line) <= SHORT_LINE and line.isascii() and b"\\" not in line and b"\x7f" not in line:
        return line
    line = _encode(describe(event, at=at)) + b"\n"
    # Names of characters that take four bytes each: only a row that was written by hand has them.
    return line if len(line) <= LONGEST_LINE else _encode(describe(event, at=at, longest=LONGEST_NAME // 4)) + b"\n"


def describe(event: Event, *, at: str, longest: int = LONGEST_NAME) -> dict[str, Any]:
    """The fields of an event's line, in a fixed order, each bounded and without what could do harm. A name has ``longest`` characters."""
    return {
        "event": event.event,
        "at": at,
        "job_id": _harmless(event.job_id, longest),
        "job_type": _harmless(event.job_type, longest),
        "queue": _harmless(event.queue, longest),
        "worker_id": _harmless(event.worker_id, longest),
        "attempts": event.attempts,
        "priority": event.priority,
        "duration_ms": event.duration_ms,
        "error": _harmless(event.error, LONGEST_ERROR),
        "correlation_id": _harmless(event.correlation_id, longest),
        "committed": event.committed,
    }


def _harmless(text: str | None, limit: int) -> str | None:
    """Bounded, and without what could move a terminal's cursor or cannot be written as UTF-8. JSON escapes line ends by itself."""
    if text is None or (len(text) <= limit and text.isprintable()):
        return text
    safe = "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode("ascii") for one in text[: limit + 1])
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _writer(stream: TextIO) -> Callable[[bytes], int]:
    """How bytes get out: straight to the file, without Python's buffers, which would keep half lines after a failure."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):

        def write_text(line: bytes) -> int:
            stream.write(line.decode())
            stream.flush()
            return len(line)

        return write_text
    stream.flush()
    patience = Patience()

    def write(line: bytes) -> int:
        if not patience.can_write(descriptor):
            raise BlockingIOError("nobody reads it")
        return os.write(descriptor, line[: select.PIPE_BUF])

    return write
