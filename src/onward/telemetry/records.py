"""Log records of the command line: to stderr, without what could do harm, and never waiting for long for a reader."""

from __future__ import annotations

import logging
import os
import select
from typing import TextIO

WRITE_WITHIN = 0.5
"""Seconds that a record or a line waits for whoever reads it."""


LONGEST_ID = 255
"""Characters of a correlation id: whoever enqueues may choose any."""


class HarmlessFormatter(logging.Formatter):
    """A record as text in which no secret, no command for a terminal and no line that could pass for another record is left.

    What is logged may hold text of rows, and tracebacks of an application's own code.
    """

    def format(self, record: logging.LogRecord) -> str:
        from onward.error_text import bound_error  # compiling its patterns takes as long as importing half of this package

        return bound_error(super().format(record)).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the standard library's
        """The message, and of which job it is where the record knows that."""
        job_id, shared = getattr(record, "job_id", None), getattr(record, "correlation_id", None)
        parts = [] if job_id is None or str(job_id) in record.message else [f"job {job_id}"]
        parts += [] if shared in (None, job_id) else [f"correlation id {str(shared)[:LONGEST_ID]}"]
        return super().formatMessage(record) + (f" ({', '.join(parts)})" if parts else "")


class Patience:
    """How long a writer waits for a slow reader: once, until it reads again."""

    def __init__(self) -> None:
        self._is_stuck = False

    def can_write(self, descriptor: int) -> bool:
        """Wait until a pipe takes ``PIPE_BUF`` bytes at once. Says whether it does."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        self._is_stuck = not poll.poll(0 if self._is_stuck else WRITE_WITHIN * 1000)
        return not self._is_stuck


class PatientHandler(logging.StreamHandler[TextIO]):
    """Writes to a pipe that nobody may read any more: a record is left out rather than that its writer waits for ever.

    A supervisor that stood still in a log line could neither stop its workers nor be stopped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records_lost = 0
        self._patience = Patience()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError, AttributeError):
            super().emit(record)
            return
        try:
            left = (self.format(record) + self.terminator).encode("utf-8", "backslashreplace")
            self.stream.flush()
            while left:
                # A pipe that can be written takes a piece of this size at once.
                if not self._patience.can_write(descriptor):
                    self.records_lost += 1
                    return
                left = left[os.write(descriptor, left[: select.PIPE_BUF]) :]
        except Exception:  # noqa: BLE001 - as every handler: what cannot be logged harms nobody
            self.handleError(record)


def configure_logging(level: int = logging.INFO) -> None:
    """Send log records to stderr, unless the application has set up logging itself: then nothing is touched."""
    root = logging.getLogger()
    if root.handlers or logging.getLogger("onward").handlers:
        return
    handler = PatientHandler()
    handler.setFormatter(HarmlessFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(level)
