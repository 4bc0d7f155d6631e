"""Hears notifications: a thread with a connection of its own, which it makes anew for as long as it lives.

It reads libpq's socket itself. psycopg's ``notifies()`` would have to wake up now and then to see whether it is to end, and nothing can
end a ``LISTEN`` that it waits for in silence; one ``poll`` over the socket and a pipe does both, and sleeps until one of them speaks.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Protocol

import psycopg
from msgspec import Struct
from psycopg import pq, sql

from onward.drivers.postgres.vendor_errors import text_of
from onward.errors import StoreError

logger = logging.getLogger("onward.worker")

JOIN_WITHIN = 1.0
"""Seconds that ``close`` waits for the thread. One that is just connecting may take longer, and ends by itself."""

FOLD_FOR = 0.005
"""Seconds that notifications are left to gather while the worker is busy: 4,600 a second took 9 % of a core to hear one by one."""


class Timing(Struct, frozen=True, kw_only=True):
    """Every interval of the listening, in seconds."""

    check_after: float = 30.0
    """Nothing has arrived for so long: send a ping."""
    proven_for: float = 45.0
    """What has arrived proves for so long that the next one will."""
    ping_every: float = 10.0
    """Pings on one connection are at least so far apart."""
    longest_ping_every: float = 60.0
    """And at most so far, when none is answered."""
    answer_within: float = 1.0
    first_back_off: float = 0.1
    longest_back_off: float = 5.0
    listen_within: float = 5.0
    """The server must have answered to LISTEN by then."""


class Ear(Protocol):
    """What the listener's thread calls. Must not block, and must not raise."""

    def connected(self) -> None:
        """From now on notifications are listened for, on a new connection. What was sent before has not been heard."""

    def lost(self) -> None:
        """They are not any more."""

    def heard(self, payloads: list[str]) -> bool:
        """These have arrived. Says whether that is a proof that others will."""
        ...

    @property
    def is_rung(self) -> bool:
        """True while nobody has taken notice of what was heard before, so that more of it changes nothing."""
        ...


class Listener:
    """Listens on one channel, from ``start`` to ``close``. ``connect`` makes its connection, and gives up by itself after some seconds."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], channel: str, ear: Ear, timing: Timing) -> None:
        self._connect = connect
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        self._ear = ear
        self._timing = timing
        self._chance = Random()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_over = False
        self._has_to_reconnect = False
        self._ill_since: float | None = None
        self._was_proven = False
        self._talking = threading.Lock()
        self._pipe: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="onward-listener", daemon=True)

    def start(self) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._pipe = (read, write)
        self._thread.start()

    def reconnect(self, reason: str) -> None:
        """Give the connection up, whatever it is doing, and make a new one."""
        self.complain(reason)
        self._has_to_reconnect = True
        self._nudge()

    def complain(self, reason: str, error: Exception | None = None) -> None:
        """Log it, once until notifications arrive again. The error is added when it is none that a database or a network makes."""
        if self._ill_since is None and not self._is_over:
            self._ill_since = time.monotonic()
            logger.warning("notifications do not arrive, so the worker polls until they do: %s", reason, exc_info=error)

    def close(self) -> None:
        """End the thread and its connection. Idempotent."""
        self._is_over = True
        self._nudge()
        if self._thread.is_alive():
            self._thread.join(JOIN_WITHIN)

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the parent's socket without a word to the server, and keep what belongs to it from being closed."""
        connection, pipe = self._connection, self._pipe
        self._connection = self._pipe = None
        for end in pipe or ():
            os.close(end)
        if connection is None:
            return
        _inherited.append(connection)
        try:
            socket = connection.pgconn.socket
        except psycopg.Error:
            return
        # Held here, the socket would outlive the parent: its server process would go on as a listener that hears nothing, and
        # in the end fill the queue of notifications. The number stays taken, by something harmless, since libpq remembers it.
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, socket, inheritable=False)
        os.close(null)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        back_off = self._timing.first_back_off
        while not self._is_over:
            self._has_to_reconnect = self._was_proven = False
            try:
                self._serve()
            except Exception as error:  # noqa: BLE001 - logged once an outage; the thread goes on as long as the worker does
                is_expected = isinstance(error, psycopg.Error | OSError | StoreError)
                self.complain(text_of(error), None if is_expected else error)
            if self._was_proven:
                back_off = self._timing.first_back_off
            self._sleep(back_off * self._chance.uniform(0.5, 1.0))
            back_off = min(back_off * 2, self._timing.longest_back_off)
        with self._talking:
            pipe, self._pipe = self._pipe, None
            for end in pipe or ():
                os.close(end)

    def _serve(self) -> None:
        """Connect, and listen until told otherwise. Raises what ends the connection."""
        connection = self._connect()
        self._connection = connection
        try:
            if not self._begin(connection):
                return
            self._ear.connected()
            try:
                self._hear(connection.pgconn)
            finally:
                self._ear.lost()
        finally:
            self._connection = None  # first: a child that is forked now must not take the number for the socket's
            connection.close()

    def _begin(self, connection: psycopg.Connection[Any]) -> bool:
        """Listen. False when it is given up meanwhile. Outside of any transaction, since libpq begins none by itself."""
        pgconn = connection.pgconn
        until = time.monotonic() + self._timing.listen_within
        pgconn.send_query(self._listen.as_bytes(connection))
        while pgconn.flush():
            if not self._wait(pgconn, select.POLLIN | select.POLLOUT, until):
                return False
        while True:
            while pgconn.is_busy():
                if not self._wait(pgconn, select.POLLIN, until):
                    return False
            result = pgconn.get_result()
            if result is None:
                break
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.OperationalError(result.get_error_message())
        # What came with the answer proves nothing: behind a pooler the server is ours until then. And a turn follows anyway.
        _take(pgconn)
        return True

    def _hear(self, pgconn: pq.abc.PGconn) -> None:
        while self._wait(pgconn, select.POLLIN):
            payloads = _take(pgconn)
            is_busy = self._ear.is_rung
            if payloads and self._ear.heard(payloads):
                self._was_proven = True
                self._recover()
            if payloads and is_busy:
                self._sleep(FOLD_FOR)

    def _recover(self) -> None:
        since, self._ill_since = self._ill_since, None
        if since is not None:
            logger.info("notifications arrive again, after %.1f s", time.monotonic() - since)

    # -- sleep -------------------------------------------------------------------------------------------------------

    @property
    def _is_given_up(self) -> bool:
        return self._is_over or self._has_to_reconnect

    def _wait(self, pgconn: pq.abc.PGconn, events: int, until: float | None = None) -> bool:
        """Sleep until the socket is ready, and read what has come. False when this connection is given up. May end early."""
        if self._is_given_up:  # a nudge may have ended another sleep before
            return False
        if not self._poll(None if until is None else until - time.monotonic(), pgconn.socket, events) and until is not None:
            raise TimeoutError(f"the server did not answer to LISTEN within {self._timing.listen_within:g} s")
        if self._is_given_up:
            return False
        pgconn.consume_input()
        return True

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_over and (left := until - time.monotonic()) > 0:
            self._poll(left)

    def _poll(self, seconds: float | None, socket: int | None = None, events: int = 0) -> bool:
        """Say whether anything happened within these seconds."""
        assert self._pipe is not None
        if seconds is not None and seconds <= 0:
            return False
        poll = select.poll()
        poll.register(self._pipe[0], select.POLLIN)
        if socket is not None:
            poll.register(socket, events)
        ready = poll.poll(None if seconds is None else seconds * 1000)
        if any(number == self._pipe[0] for number, _ in ready):
            os.read(self._pipe[0], 4096)
        return bool(ready)

    def _nudge(self) -> None:
        with self._talking, suppress(BlockingIOError):  # it is full of nudges already
            if self._pipe is not None:
                os.write(self._pipe[1], b"!")


def _take(pgconn: pq.abc.PGconn) -> list[str]:
    """The payloads that libpq has read and nobody has taken."""
    payloads = []
    while (notification := pgconn.notifies()) is not None:
        payloads.append(notification.extra.decode(errors="replace"))
    return payloads


_inherited: list[psycopg.Connection[Any]] = []
"""Kept for ever, so that Python never says of one that it was not closed."""
