"""Whether notifications really arrive. LISTEN seems to work where it does not: behind a transaction pooler, or on a silent network."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from random import Random

from onward.drivers.postgres.listener import Listener, Timing

PING = "?"
"""How the payload of a ping begins. Other payloads are names of queues, which begin with a letter or a digit."""
SPREAD = 0.2
"""A worker waits up to this share longer than ``check_after``: then one ping a period does for all workers that listen."""


class Line:
    """One connection that listens, and what is known of it. Instants are monotonic. Each field has one thread that writes it."""

    def __init__(self) -> None:
        self.proven_at: float | None = None
        """When the last notification arrived that proves something. The listener's thread writes it, the others are the waiting one's."""
        self.pinged_at: float | None = None
        self.answer_due: float | None = None


class SelfCheck:
    """Sends pings through the store's other connections (``ping``), and sees whether they arrive.

    The first proof on a connection is the answer to a ping of its own, so that another database under the same name proves nothing.
    From then on all that arrives is a proof, also what others send.
    """

    def __init__(self, ping: Callable[[str], object], timing: Timing) -> None:
        self._ping = ping
        self._timing = timing
        self._check_after = timing.check_after * (1 + SPREAD * Random().random())
        self._payload = PING + secrets.token_hex(8)
        self._line: Line | None = None
        self._was_ever_proven = False
        self._last_pinged_at = -math.inf
        self._missed = 0
        """Pings in a row that were not answered."""

    @property
    def is_proven(self) -> bool:
        """True while the next notification is sure to arrive, as far as anybody can know."""
        line = self._line
        return line is not None and line.proven_at is not None and time.monotonic() - line.proven_at < self._timing.proven_for

    # -- in the listener's thread ------------------------------------------------------------------------------------

    def connected(self) -> None:
        self._line = Line()

    def lost(self) -> None:
        self._line = None

    def heard(self, payloads: list[str]) -> bool:
        """Say whether the connection is proven now."""
        line = self._line
        if line is None:
            return False
        if line.proven_at is not None or self._payload in payloads:
            self._was_ever_proven = True
            line.proven_at = time.monotonic()
        return line.proven_at is not None

    # -- in the waiting thread ---------------------------------------------------------------------------------------

    def tend(self, listener: Listener) -> float:
        """Do what is due now. Gives the seconds until the next time; without a connection there is none."""
        line = self._line
        if line is None:
            return math.inf
        if line.answer_due is not None:
            if _is_answered(line):
                line.answer_due = None
                self._missed = 0
            elif (left := line.answer_due - time.monotonic()) > 0:
                return left
            else:
                line.answer_due = None
                self._miss(listener)
        left = self._next_ping_at(line) - time.monotonic()
        return left if left > 0 else self._send(line)

    def _next_ping_at(self, line: Line) -> float:
        """A new connection is tried at once, unless the one before did not answer either."""
        earliest = -math.inf
        if self._missed or line.pinged_at is not None:
            every = self._timing.ping_every * 2.0 ** min(max(self._missed - 1, 0), 20)
            earliest = self._last_pinged_at + min(every, self._timing.longest_ping_every)
        return earliest if line.proven_at is None else max(earliest, line.proven_at + self._check_after)

    def _send(self, line: Line) -> float:
        self._last_pinged_at = line.pinged_at = time.monotonic()
        try:
            self._ping(self._payload)
        except Exception:  # noqa: BLE001 - it says nothing of the listener, and the worker's next turn meets the same and reports it
            return self._timing.ping_every
        line.answer_due = time.monotonic() + self._timing.answer_within
        return self._timing.answer_within

    def _miss(self, listener: Listener) -> None:
        self._missed += 1
        if self._was_ever_proven:
            listener.reconnect(f"a ping was not answered within {self._timing.answer_within:g} s; connecting anew")
        else:
            # A new LISTEN would not help, and through a pooler it would leave one more of its sessions listening to nobody's good.
            listener.complain(
                "a ping was not answered; if a transaction pooler is in between, ONWARD_LISTEN_URL is to name the server itself"
            )


def _is_answered(line: Line) -> bool:
    return line.proven_at is not None and line.pinged_at is not None and line.proven_at >= line.pinged_at
