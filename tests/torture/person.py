"""Somebody who acts on many jobs at once: writes letters, cancels and retries them in bulk, pauses their queue and resumes it.

A process of its own, beside the senders, which now and then dies by SIGKILL in the middle of what it does. Arguments: a seed. Only letters
are acted on, and nobody else asks for any, so that what was done to them can be counted.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

from onward import Onward, OutcomeUnknown
from onward.errors import StoreError
from onward.ids import new_id
from onward.inspection import BulkVerb
from tests.torture import planted
from tests.torture.application import JOBS
from tests.torture.history import LETTER, LETTERS, History

AT_ONCE = 35
"""Letters that are written together."""
PAUSE = 0.3
"""Seconds between two things that are done, on average."""
PATIENCE = 60.0
DEADLY = 0.12
"""How often the process is killed while it acts on many."""


class Person:
    """``say`` writes the history."""

    def __init__(self, app: Onward, history: History, chance: random.Random) -> None:
        self._app = app
        self._say = history.write
        self._chance = chance
        self.is_stopping = False

    def run(self) -> None:
        """Whoever was here before may have been killed while the queue was paused, and whoever comes last leaves nothing behind."""
        self._insist(self.resume)
        while not self.is_stopping:
            self.write()
            self.act("cancel", "queued")
            self.pause()
            self.act("retry", "cancelled")
            self._rest()
            self._insist(self.resume)
            self._rest()
        self._insist(lambda: self.act("run_now", "queued", deadly=0.0))

    def _rest(self) -> None:
        time.sleep(self._chance.uniform(0, 2 * PAUSE))

    def write(self) -> bool:
        """Letters that are not due for long, so that they wait to be acted on."""
        ids = [new_id() for _ in range(AT_ONCE)]
        for id_ in ids:
            self._say("invoke", LETTERS, job=id_, type=LETTER)
        try:
            self._app.enqueue_many([JOBS[LETTER].new_job(number, id=id_, delay="1h") for number, id_ in enumerate(ids)])
        except OutcomeUnknown as error:
            kind, detail = "unknown", str(error)
        except StoreError as error:
            kind, detail = "fail", str(error)
        else:
            kind, detail = "ok", ""
        for id_ in ids:
            self._say(kind, LETTERS, job=id_, detail=detail[:200])  # type: ignore[arg-type]
        return kind == "ok"

    def act(self, verb: BulkVerb, status: str, deadly: float = DEADLY) -> bool:
        """On all letters of a status. One that is killed has never answered, and its record says what it did all the same."""
        if self._chance.random() < deadly:
            threading.Timer(self._chance.uniform(0, 0.15), os.kill, (os.getpid(), signal.SIGKILL)).start()
        self._say("asked", verb)
        try:
            result = self._app.bulk(verb, queue=LETTERS, status=status, actor="person")
        except StoreError as error:
            self._say("answered", verb, detail=f"{type(error).__name__}: {error}"[:200])
            return False
        self._say("answered", verb, action=result.action_id or "", count=result.done)
        return True

    def pause(self) -> bool:
        return self._ask("pause", lambda: self._app.pause(LETTERS, actor="person"))

    def resume(self) -> bool:
        return self._ask("resume", lambda: self._app.resume(LETTERS, actor="person"))

    def _ask(self, verb: str, ask: Callable[[], bool]) -> bool:
        self._say("asked", verb)
        try:
            ask()
        except StoreError as error:
            self._say("answered", verb, detail=f"{type(error).__name__}: {error}"[:200])
            return False
        self._say("answered", verb)
        return True

    def _insist(self, ask: Callable[[], bool]) -> None:
        """Again and again, while the store is away."""
        until = time.monotonic() + PATIENCE
        while not ask() and time.monotonic() < until:
            time.sleep(PAUSE)


def main(seed: str) -> None:
    app = planted.spoil(Onward(jobs=JOBS.values()))
    person = Person(app, History(role="person"), random.Random(seed))

    def stop(number: int, frame: object) -> None:
        person.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    person.run()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1])
