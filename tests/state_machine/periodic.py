"""The part of the machine that is about the clock: periodic jobs that are declared, fired, paused and deleted, also by who is too late."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from onward import moments
from onward.moments import PeriodicChange, PeriodicLook
from onward.periodic import Periodic, PeriodicJob
from tests.state_machine.definitions import MAIL, WORK, Number
from tests.state_machine.lockstep import Lockstep

DECLARED = (
    Periodic(WORK, every="5s", payload=Number(1), name="often", catch_up="all", most_catch_up=3, owner="ada"),
    Periodic(WORK, every="1m", payload=Number(2), name="often", queue="slow", priority=1),
    Periodic(WORK, "*/2 * * * *", payload=Number(1), name="cron", timezone="Europe/Paris", overlap="skip", jitter="30s", expires="40s"),
    Periodic(MAIL, every="30s", payload=Number(1), catch_up="skip"),
    Periodic(MAIL, every="30s", payload=Number(2), overlap="skip", metadata={"n": 1}),
)


class PeriodicRules(RuleBasedStateMachine):
    """Rules for the machine that has ``together`` and ``do``."""

    together: Lockstep
    do: Callable[[str, Any], Any]

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[PeriodicChange] = []
        """Every change that was ever made of a look: its maker may be slow."""

    @rule(periodic=st.sampled_from(DECLARED), is_declared=st.booleans())
    def declare(self, periodic: Periodic, is_declared: bool) -> None:
        look = self._look(periodic.name)
        self._write(moments.declare(periodic, look.rows[0] if look.rows else None, look.now, is_declared=is_declared))

    @rule(seed=st.integers(0, 3), is_slow=st.booleans())
    def fire(self, seed: int, is_slow: bool) -> None:
        """A slow one has only looked by now."""
        look: PeriodicLook = self.together.each("due periodic", lambda store: store.due_periodic())
        assert all(row.next_moment <= look.now and row.paused_at is None for row in look.rows)
        changes = [moments.fire(row, look.now, Random(seed)) for row in look.rows]
        self.changes.extend(changes)
        if not is_slow:
            self.do("fire", lambda store: store.write_periodic(changes))
            assert not self.together.each("due periodic", lambda store: store.due_periodic()).rows

    @rule(pick=st.integers(0, 11))
    def write_late(self, pick: int) -> None:
        if self.changes:
            change = self.changes[-1 - pick % len(self.changes)]
            self.do("write late", lambda store: store.write_periodic([change]))

    @rule(name=st.sampled_from(["often", "cron", "mail"]), verb=st.sampled_from(["pause", "resume", "resume", "adopt", "delete"]))
    def by_a_person_or_a_worker(self, name: str, verb: str) -> None:
        if verb == "delete":
            self.do("delete periodic", lambda store: store.delete_periodic(name))
            return
        for row in self._look(name).rows:
            self._write(self._changed(verb, row))

    def _changed(self, verb: str, row: PeriodicJob) -> PeriodicChange | None:
        now = self._look(row.name).now
        if verb == "pause":
            return moments.pause(row, now, "undeclared" if row.version % 2 else "person")
        return moments.resume(row, now) if verb == "resume" else moments.adopt(row, now)

    def _write(self, change: PeriodicChange | None) -> None:
        if change is not None:
            self.changes.append(change)
            assert len(self.do("write periodic", lambda store: store.write_periodic([change]))) == 1

    def _look(self, name: str) -> PeriodicLook:
        look: PeriodicLook = self.together.each("periodic", lambda store: store.periodic([name]))
        return look
