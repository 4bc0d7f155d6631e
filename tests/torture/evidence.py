"""What a run left behind, arranged for its judges. Pure: nothing here reads a file or a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from onward.status import FINAL
from tests.torture.history import LETTER, LETTERS, Event
from tests.torture.store import AuditRow, JobRow, Rows

Broken: TypeAlias = Iterator[str]
"""What an invariant gives: a sentence for each case in which it was broken."""
KILLS = frozenset({"kill worker", "kill supervisor and workers", "leave program", "cancel and kill worker"})
CLOCK = 0.003
"""Seconds that two readings of one clock may differ: SQLite's own have three digits."""
FINAL_NAMES = frozenset(str(status) for status in FINAL)


class Run:
    """What is judged. ``recovery`` is the seconds within which a killed worker's job is claimed again: lease, sweep, poll and a margin.

    ``is_serial`` says that the store does one transaction that writes after the other, as SQLite does.
    """

    def __init__(self, events: Iterable[Event], rows: Rows, *, recovery: float = 10.0, is_serial: bool = True) -> None:
        self.events = list(events)
        self.rows = rows
        self.recovery = recovery
        self.is_serial = is_serial

    def of_kind(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    @cached_property
    def jobs(self) -> dict[str, JobRow]:
        return {job.id: job for job in self.rows.jobs}

    @cached_property
    def invoked(self) -> dict[str, Event]:
        """The first request for each job."""
        found: dict[str, Event] = {}
        for event in self.of_kind("invoke"):
            found.setdefault(event.job, event)
        return found

    @cached_property
    def audit(self) -> dict[str, list[AuditRow]]:
        """The changes of each job, in their order."""
        found: dict[str, list[AuditRow]] = defaultdict(list)
        for row in self.rows.audit:
            found[row.job_id].append(row)
        return found

    @cached_property
    def completions(self) -> dict[str, AuditRow]:
        """The change by which each completed job became so."""
        return {row.job_id: row for row in reversed(self.rows.audit) if row.after == "completed"}

    @cached_property
    def ended(self) -> dict[tuple[str, int], Event]:
        """The runs whose handler came to its good end, by job and fence."""
        return {(event.job, event.fence): event for event in self.of_kind("ended")}

    @cached_property
    def acknowledged(self) -> dict[str, Event]:
        """The answer of each job that a caller was told is accepted; with a key, the holder stands for it."""
        return {event.holder or event.job: event for event in self.of_kind("ok")}

    @cached_property
    def asked_children(self) -> dict[str, Event]:
        return {id_: event for id_, event in self.invoked.items() if event.parent}

    @cached_property
    def unknown(self) -> set[str]:
        """Jobs of senders of whom nobody was told what became of them, their senders' death included."""
        told = {event.job for event in self.events if event.kind in ("ok", "fail")}
        return {id_ for id_, event in self.invoked.items() if not event.parent and id_ not in told}

    @cached_property
    def accepted_at(self) -> dict[str, float]:
        """When a caller was first told of each job that it is accepted."""
        found: dict[str, float] = {}
        for event in self.of_kind("ok"):
            found.setdefault(event.holder or event.job, event.at)
        return found

    @cached_property
    def out_of_turn(self) -> set[str]:
        """Jobs whose rows were made nonsense for a while, or whose queue was paused, so that no worker could claim them in their turn."""
        return {event.job for event in self.of_kind("ok") if event.what in ("bad row", LETTERS)}

    def is_retry_by_hand(self, row: AuditRow) -> bool:
        """Say whether a person has queued it again. Only letters are: of any other job it would be a bug."""
        return (row.before, row.after) == ("cancelled", "queued") and row.job_id in self.jobs and self.jobs[row.job_id].type == LETTER

    @cached_property
    def kills(self) -> list[Event]:
        return [event for event in self.of_kind("fault") if event.what in KILLS]

    def held_at(self, kill: Event) -> Iterator[tuple[AuditRow, float]]:
        """The claims that a process held when it was killed, and when each was ended."""
        for claim, end in self.claims_of.get(kill.pid, ()):
            if claim.at <= kill.at < end.at:
                yield claim, end.at

    @cached_property
    def claims_of(self) -> dict[int, list[tuple[AuditRow, AuditRow]]]:
        """The claims of each process that came to an end, each with the change that ended it."""
        found: dict[int, list[tuple[AuditRow, AuditRow]]] = defaultdict(list)
        for changes in self.audit.values():
            for claim, end in pairwise(changes):
                if claim.after == "in_progress" and claim.owner:
                    found[int(claim.owner.split(":")[1])].append((claim, end))
        return found

    @cached_property
    def lives(self) -> list[tuple[float, float]]:
        """From the first to the last that is heard of each worker process."""
        heard: dict[int, list[float]] = defaultdict(list)
        for event in self.events:
            if event.kind in ("started", "ended"):
                heard[event.pid].append(event.at)
        return [(min(times), max(times)) for times in heard.values()]

    @cached_property
    def windows(self) -> list[tuple[float, float]]:
        """When faults that last began and were healed."""
        begun: dict[str, float] = {}
        found = []
        for event in self.events:
            if event.kind == "fault":
                begun[event.what] = event.at
            elif event.kind == "healed" and event.what in begun:
                found.append((begun.pop(event.what), event.at))
        return found

    def is_during(self, fault: str, at: float) -> bool:
        """Say whether this fault was on at that moment."""
        begun = [event.at for event in self.of_kind("fault") if event.what == fault and event.at <= at]
        healed = [event.at for event in self.of_kind("healed") if event.what == fault and event.at <= at]
        return len(begun) > len(healed)
