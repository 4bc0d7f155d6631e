"""Ends statements that the server does not answer: a network that went silent would hold them for ever.

The server's own ``statement_timeout`` does not help against a lost network, and keepalives do not against a proxy that stays connected.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress

import psycopg
from psycopg import pq

LOOK_EVERY = 0.5
"""Seconds between two looks at what is under way. A deadline is kept to within this."""


class Deadlines:
    """Which connections wait for an answer, and until when. One watching thread for all, while there is something to watch."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._under_way: dict[int, tuple[pq.abc.PGconn, float]] = {}
        self._is_watching = False

    def begin(self, connection: pq.abc.PGconn, seconds: float) -> int:
        """A statement is about to be sent. Gives what ``end`` is called with."""
        token = id(connection)
        self._under_way[token] = (connection, time.monotonic() + seconds)
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
            for token, entry in under_way:
                # Looked up again: it may have ended, and another statement begun on it, since the list was made.
                if now >= entry[1] and self._under_way.get(token) is entry:
                    give_up(entry[0])
        self._is_watching = False
        if self._under_way:  # begun in the moment between
            self._start()


def give_up(connection: pq.abc.PGconn) -> None:
    """End the connection, and ask the server to stop what it does there: a claim that waits for a lock must not happen later unseen."""
    try:
        cancel = connection.get_cancel()
    except psycopg.Error:
        return  # it is closed already
    # A connection of its own, which may take as long as the network likes.
    threading.Thread(target=_cancel, args=[cancel], name="onward-cancel", daemon=True).start()
    shut_down(connection)


def _cancel(cancel: pq.abc.PGcancel) -> None:
    with suppress(psycopg.Error):
        cancel.cancel()


def shut_down(connection: pq.abc.PGconn) -> None:
    """End the connection beneath whoever waits for it, from any thread: the wait fails as if the server had gone."""
    try:
        with socket.socket(fileno=os.dup(connection.socket)) as ours:
            ours.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):  # it is closed already
        return
