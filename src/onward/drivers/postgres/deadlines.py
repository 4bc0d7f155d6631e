"""Ends statements that the server does not answer: a network that went silent would hold them for ever.

The server's own ``statement_timeout`` does not help against a lost network, and keepalives do not against a proxy that stays connected.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

LOOK_EVERY = 0.5
"""Seconds between two looks at what is under way. A deadline is kept to within this."""


CANCEL_WITHIN = 2.0
"""Seconds for the server to stop a statement when it is asked to; then the connection is ended."""


class Deadlines:
    """Which connections wait for an answer, and until when. One watching thread for all, while there is something to watch."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._under_way: dict[int, Wait] = {}
        self._is_watching = False

    def begin(self, connection: psycopg.Connection[Any], seconds: float) -> int:
        """A statement is about to be sent. Gives what ``end`` is called with."""
        token = id(connection)
        self._under_way[token] = Wait(connection, time.monotonic() + seconds)
        if not self._is_watching or self._pid != os.getpid():
            self._start()
        return token

    def end(self, token: int) -> None:
        """The answer is there."""
        self._under_way.pop(token, None)

    def _start(self) -> None:
        if self._pid != os.getpid():  # forked: the thread and what was under way are the parent's
            self._pid, self._lock, self._is_watching = os.getpid(), threading.Lock(), False
        with self._lock:
            if self._is_watching:
                return
            self._is_watching = True
        threading.Thread(target=self._watch, name="onward-deadlines", daemon=True).start()

    def _watch(self) -> None:
        idle = 0
        while idle < 10:  # a thread that ended at once would be started anew for each statement
            time.sleep(LOOK_EVERY)
            now = time.monotonic()
            under_way = list(self._under_way.items())
            idle = 0 if under_way else idle + 1
            for token, wait in under_way:
                if now >= wait.deadline and not wait.is_given_up:
                    wait.is_given_up = True
                    threading.Thread(target=self._give_up, args=[token, wait], name="onward-give-up", daemon=True).start()
        self._is_watching = False
        if self._under_way:  # begun in the moment between
            self._start()

    def _give_up(self, token: int, wait: Wait) -> None:
        """Ask the server to stop, so that a claim which waits for a lock does not happen later unseen; then end the connection.

        Only by the cancelling that can be interrupted: libpq's older one would hold the whole process for as long as the network likes.
        """
        if psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error, OSError):
                wait.connection.cancel_safe(timeout=CANCEL_WITHIN)
        if self._under_way.get(token) is wait:
            time.sleep(LOOK_EVERY)  # the answer to the cancelling may be on its way
        if self._under_way.get(token) is wait:
            shut_down(wait.connection.pgconn)


class Wait:
    """One statement whose answer is waited for."""

    __slots__ = ("connection", "deadline", "is_given_up")

    def __init__(self, connection: psycopg.Connection[Any], deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline
        self.is_given_up = False


def shut_down(connection: pq.abc.PGconn) -> None:
    """End the connection beneath whoever waits for it, from any thread: the wait fails as if the server had gone."""
    try:
        with socket.socket(fileno=os.dup(connection.socket)) as ours:
            ours.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):  # it is closed already
        return
