"""Each invariant of the checker, on histories made by hand: one in which it holds, and some in which it must be found broken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.torture.checker import INVARIANTS, count, judge
from tests.torture.evidence import Run
from tests.torture.history import Event, HistoryDamaged, read_lines
from tests.torture.store import ActionRow, AuditRow, BreakerRow, JobRow, Rows


def event(kind: Any, job: str = "a", what: str = "enqueue", **fields: Any) -> Event:
    return Event(kind=kind, what=what, job=job, **fields)


def invoke(job: str = "a", what: str = "enqueue", type: str = "plain", **fields: Any) -> Event:
    return event("invoke", job, what, type=type, **fields)


def started(job: str = "a", fence: int = 1, at: float = 2.0) -> Event:
    return event("started", job, "plain", fence=fence, at=at)


def ended(job: str = "a", fence: int = 1, at: float = 3.0) -> Event:
    return event("ended", job, "plain", fence=fence, at=at)


def inserted(job: str = "a", at: float = 1.0) -> AuditRow:
    return AuditRow(job_id=job, after="queued", at=at)


def claimed(job: str = "a", fence: int = 1, at: float = 2.0, **fields: Any) -> AuditRow:
    values: dict[str, Any] = {
        "before": "queued",
        "after": "in_progress",
        "fence_before": fence - 1,
        "attempts": 1,
        "due": 1.0,
        "owner": "h:7:n",
    }
    return AuditRow(job_id=job, fence=fence, at=at, **{**values, **fields})


def left(job: str = "a", after: str = "completed", fence: int = 1, at: float = 4.0, **fields: Any) -> AuditRow:
    values: dict[str, Any] = {"before": "in_progress", "fence_before": fence, "attempts_before": 1, "attempts": 1, "lease_until": 5.0}
    return AuditRow(job_id=job, after=after, fence=fence, at=at, **{**values, **fields})


def row(job: str = "a", status: str = "completed", fence: int = 1, **fields: Any) -> JobRow:
    return JobRow(id=job, status=status, fence=fence, **{"type": "plain", "max_attempts": 3, **fields})


def ticks(*seconds: int) -> list[JobRow]:
    """What the clock enqueued at these seconds of a minute."""
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in seconds]
    return [row(f"t{number}", type="tick", moment=moment) for number, moment in enumerate(moments)]


def answered(said: str = "in_progress", fence: int = 1, at: float = 2.5) -> Event:
    return event("answered", "a", "cancel", detail=said, fence=fence, at=at)


def other_worker(begin: float, end: float) -> Iterator[Event]:
    """Signs of life of another worker."""
    for at in (begin, end):
        yield event("ended", "another", "plain", fence=1, pid=8, at=at)


DONE = (inserted(), claimed(), left())
GOOD_EVENTS = (invoke(), event("ok"), event("fault", "", "kill worker", pid=9, at=0.5), started(), ended())
GOOD = Run(GOOD_EVENTS, Rows(jobs=(row(),), audit=DONE, attempts=(("a", 1, "completed"),)))


def changed(*more: Event, without: str = "", **rows: Any) -> Run:
    """The good run with other rows, more events, or without those of a kind."""
    values = {name: getattr(GOOD.rows, name) for name in Rows.__struct_fields__} | rows
    return Run([one for one in GOOD_EVENTS if one.kind != without] + list(more), Rows(**values))


def test_a_good_run_breaks_nothing() -> None:
    assert judge(GOOD) == []


@pytest.mark.parametrize(("what", "at", "breaks"), [("tick", 1.2, False), ("tick", 1.9, True), ("plain", 1.2, True)])
def test_what_the_clock_enqueues_in_a_new_file_while_the_old_one_is_away_is_no_early_start(what: str, at: float, breaks: bool) -> None:
    """A moment's job has the same id in every file; only the clock's, and only meanwhile."""
    early = event("started", "a", what, fence=1, at=at)
    away = (event("fault", "", "file moved away", at=1.1), event("healed", "", "file moved away", at=1.5))
    run = changed(early, *away, audit=(inserted(), claimed(at=2.5), left()), without="started")
    found = [one for one in judge(run) if one.startswith("I12")]
    assert bool(found) is breaks


def two_claims(
    first: dict[str, Any], second: dict[str, Any], priority: int = 0, accepted: float = 1.5, is_serial: bool = True, how: str = "enqueue"
) -> Run:
    """Job b is accepted, and claimed behind job a, by the same worker."""
    one, other = claimed(**{"began": 2.0, **first}), claimed("b", **{"began": 3.0, "at": 3.0, **second})
    audit = (inserted(), inserted("b", at=1.4), one, left(), other, left("b"))
    run = changed(invoke("b"), event("ok", "b", how, at=accepted), started("b"), jobs=(row(), row("b", priority=priority)), audit=audit)
    return Run(run.events, run.rows, is_serial=is_serial)


LETTER = (row(type="letter"),)
CANCELLED = (inserted(), left(before="queued", after="cancelled", fence=0), left(before="cancelled", after="queued", fence=0))
DONE_TO_IT = (ActionRow(id="x", verb="cancel", done=1), ActionRow(id="y", verb="retry", done=1))


def said(kind: Any, what: str, at: float, **fields: Any) -> Event:
    """By a person."""
    return Event(kind=kind, what=what, at=at, **fields)


def while_paused(at: float, detail: str = "") -> Run:
    """A letter is claimed at this time; its queue was paused from 2 to 3."""
    events = (said("asked", "pause", 1.9), said("answered", "pause", 2.0, detail=detail), said("asked", "resume", 3.0))
    return changed(*events, jobs=LETTER, audit=(inserted(), claimed(at=at), left()))


def acted_on(*actions: ActionRow, said: tuple[Event, ...] = (), paused: tuple[str, ...] = ()) -> Run:
    """A letter is cancelled, retried, and run."""
    audit = (*CANCELLED, claimed(), left())
    return changed(*said, jobs=LETTER, audit=audit, actions=actions, paused=paused)


def shared(*audit: AuditRow, jobs: str = "abc", events: tuple[Event, ...] = (), breakers: tuple[BreakerRow, ...] = (), **keys: str) -> Run:
    """Jobs that share a key; the changes are numbered in their order."""
    numbered = tuple(replace(one, number=2 * place) for place, one in enumerate(audit))
    return changed(*events, jobs=tuple(row(job, **keys) for job in jobs), audit=numbered, breakers=breakers)


def limited(*audit: AuditRow, events: tuple[Event, ...] = ()) -> Run:
    """Of a key with room for two."""
    return shared(*audit, events=events, concurrency_key="k")


def lined(*audit: AuditRow, accepted: float = 1.5) -> Run:
    """Of a line; b was accepted at this time."""
    return shared(*audit, events=(event("ok", at=1.0), event("ok", "b", at=accepted)), serial_key="k")


def behind(*audit: AuditRow, breakers: tuple[BreakerRow, ...]) -> Run:
    """Of a breaker; its changes come behind those of jobs with the next lower even number."""
    return shared(*audit, breakers=breakers, breaker="k")


def breaker(after: str, number: int, probe: str | None = None, fence: int | None = None) -> BreakerRow:
    return BreakerRow(key="k", after=after, probe=(probe, fence), number=number)


OPEN = breaker("open", -1)
THREE = tuple(started(job) for job in "bc"), tuple(ended(job) for job in "bc")

BROKEN: list[tuple[str, str, Run]] = [
    ("I25", "three claims at once", limited(claimed(), claimed("b"), claimed("c"))),
    ("I25", "three handlers at once", limited(events=(*THREE[0], *THREE[1]))),
    ("I26", "another one while it ran", lined(claimed(), claimed("b"))),
    ("I26", "another one while it waited to be tried again", lined(claimed(), left(after="retrying"), claimed("b"))),
    ("I26", "out of order", lined(claimed("b", began=2.0, due=1.2), left("b"), claimed(began=4.0, due=1.1), left())),
    ("I27", "while it was open", behind(claimed(), breakers=(OPEN,))),
    ("I27", "another one beside the probe", behind(claimed(), claimed("b"), breakers=(OPEN, breaker("half_open", -1, "a", 1)))),
    (
        "I27",
        "another probe beside the probe",
        behind(claimed(), claimed("b"), breakers=(OPEN, breaker("half_open", -1, "a", 1), breaker("half_open", 1, "b", 1))),
    ),
    ("I0", "nothing was accepted", changed(without="ok")),
    ("I0", "no fault fired", changed(without="fault")),
    ("I0", "nothing was started", changed(without="started")),
    ("I0", "there was no audit", changed(audit=())),
    ("I1", "an accepted job is missing", changed(invoke("b"), event("ok", "b"))),
    ("I1", "the holder of a key is missing", changed(invoke("b"), event("ok", "b", key="k", holder="c"))),
    ("I2", "a job that nobody asked for", changed(jobs=(row(), row("b")))),
    ("I2", "a job that was rolled back was started", changed(invoke("b", rolled_back=True), started("b"))),
    ("I2", "a refused job is stored", changed(invoke("b"), event("fail", "b"), jobs=(row(), row("b")))),
    ("I4", "a row without its job", changed(orders=("b",))),
    ("I4", "a job without its row", changed(invoke("b", "within"), jobs=(row(), row("b")))),
    ("I5", "claimed while it was held", changed(audit=(*DONE[:2], claimed(fence=2, before="in_progress")))),
    ("I5", "a fence that skips one", changed(audit=(inserted(), claimed(fence=2, fence_before=0)))),
    ("I5", "a fence that changes with the end", changed(audit=(*DONE[:2], left(fence=2, fence_before=1)))),
    ("I5", "swept while the lease ran", changed(audit=(*DONE[:2], left(after="queued", ran_out=1, given_back=1, lease_until=9.0)))),
    ("I6", "completed by an older claim", changed(audit=(*DONE[:2], left(after="queued"), claimed(fence=2), left(fence=2)))),
    ("I6", "completed before the run's end", changed(audit=(*DONE[:2], left(at=2.5)))),
    ("I7", "final twice", changed(audit=(*DONE, left(before="completed")))),
    ("I7", "a claim without history", changed(attempts=())),
    ("I7", "history without a claim", changed(attempts=(("a", 1, "completed"), ("a", 2, "lost")))),
    ("I7", "another outcome in the history", changed(attempts=(("a", 1, "lost"),))),
    ("I8", "a try too many", changed(audit=(inserted(), claimed(attempts=4), left()))),
    ("I8", "a try given back for nothing", changed(audit=(*DONE[:2], left(after="queued", attempts=0)))),
    ("I8", "a try given back to a process killer", changed(audit=(*DONE[:2], left(attempts=0, given_back=1, ran_isolated=1, ran_out=1)))),
    ("I8", "more claims than tries", changed(jobs=(row(fence=4),))),
    ("I9", "out of a final status", changed(audit=(*DONE, claimed(fence=2, before="completed")))),
    ("I9", "an arrow that is not in the table", changed(audit=(inserted(), left(before="queued")))),
    ("I9", "a change that nobody saw", changed(audit=(inserted(), left()))),
    ("I9", "a row that is not as its last change made it", changed(jobs=(row(status="queued"),))),
    ("I10", "no effect", changed(jobs=(row(type="effect"),))),
    ("I10", "two effects", changed(jobs=(row(type="effect"),), effects=(("a", 1), ("a", 1)))),
    ("I10", "the effect of an older run", changed(jobs=(row(type="effect", fence=2),), effects=(("a", 1),))),
    ("I10", "an effect of a job that is not completed", changed(jobs=(row(status="dead_letter"),), effects=(("a", 1),))),
    ("I10", "an effect of a job that is not there", changed(effects=(("b", 1),))),
    ("I10", "completed without ever having run", changed(without="started")),
    (
        "I11",
        "two live jobs for a key",
        changed(
            jobs=(row(key="k"), row("b", key="k")),
            audit=(inserted(), claimed(), inserted("b", at=2.5), left(), claimed("b"), left("b")),
        ),
    ),
    ("I11", "a caller was given a job with another key", changed(event("ok", "b", key="k", holder="a"))),
    ("I11", "a key outlives its job", changed(jobs=(row(key="k"),), keys=(("k", "a"),))),
    ("I12", "claimed early", changed(audit=(inserted(), claimed(due=2.5), left()))),
    ("I12", "started without a claim", changed(started(fence=2))),
    ("I12", "started before its claim", changed(audit=(inserted(), claimed(at=2.5), left()))),
    ("I13", "a job is left", changed(jobs=(row(status="in_progress"),))),
    (
        "I13",
        "a killed worker's job is free too late",
        changed(event("fault", "", "kill worker", pid=7, at=3.0), *other_worker(2.0, 19.0), audit=(*DONE[:2], left(at=20.0))),
    ),
    ("I14", "a lower priority first", two_claims({}, {}, priority=5)),
    ("I14", "a later job first", two_claims({"due": 1.2}, {"due": 1.1})),
    ("I15", "a child whose parent did not complete", changed(invoke("b", "child", parent="a", fence=2), jobs=(row(), row("b")))),
    ("I15", "a child is missing", changed(invoke("b", "child", parent="a", fence=1))),
    ("I24", "cancelled while it waited, and claimed", changed(answered("cancelled", fence=0))),
    (
        "I24",
        "asked to stop, and claimed once more",
        changed(answered(), audit=(*DONE[:2], left(after="retrying"), claimed(fence=2), left(fence=2))),
    ),
    ("I24", "asked to stop, and set aside", changed(answered(), audit=(*DONE[:2], left(after="dead_letter")))),
    (
        "I24",
        "asked to stop, and not heard for long",
        changed(answered(), *other_worker(2.0, 21.0), audit=(*DONE[:2], left(after="cancelled", at=20.0))),
    ),
    ("I24", "refused too early", changed(answered("refused", at=3.0))),
    ("I16", "a moment with two jobs", changed(jobs=(*GOOD.rows.jobs, *ticks(0, 1, 1)))),
    ("I16", "a moment without a job", changed(jobs=(*GOOD.rows.jobs, *ticks(0, 1, 3)))),
    ("I17", "the database is damaged", changed(damage=("row 7 missing from index",))),
    ("I17", "a job came from nowhere", changed(jobs=(row(), row("b")))),
    ("I17", "a job is gone", changed(audit=(*DONE, inserted("b")))),
    ("I18", "a file is not what its job promised", changed(files=("'a' is missing",))),
    ("I9", "a job that was cancelled and runs again, and is no letter", changed(audit=(*CANCELLED, claimed(), left()))),
    ("I21", "claimed while its queue was paused", while_paused(2.5)),
    ("I22", "cancelled, and not counted", acted_on(DONE_TO_IT[1])),
    ("I22", "retried, and counted twice", acted_on(*DONE_TO_IT, ActionRow(id="z", verb="retry", done=1))),
    ("I22", "another answer than the record", acted_on(*DONE_TO_IT, said=(said("answered", "retry", 5.0, action="y", count=2),))),
    ("I22", "an answer without a record", acted_on(*DONE_TO_IT, said=(said("answered", "retry", 5.0, action="z", count=1),))),
    ("I22", "a pause without a record", acted_on(*DONE_TO_IT, paused=("letters",))),
    ("I20", "a secret is in a column", changed(leaks=("onward_jobs.error has the secret in 1 rows",))),
]


@pytest.mark.parametrize(("name", "run"), [(name, run) for name, _, run in BROKEN], ids=[f"{name} {what}" for name, what, _ in BROKEN])
def test_what_is_broken_is_found(name: str, run: Run) -> None:
    assert list(INVARIANTS[name](run)), f"{name} was broken, and its check says nothing"
    assert any(case.startswith(f"{name}: ") for case in judge(run))


HELD: list[tuple[str, str, Run]] = [
    ("I25", "a third behind an end", limited(claimed(), claimed("b"), left(), claimed("c"))),
    (
        "I25",
        "a handler that was frozen until after its lease",
        limited(claimed(), claimed("b"), left(after="queued", at=2.5), claimed("c", at=2.6), events=(started("b"), started("c", at=2.7))),
    ),
    ("I26", "one after the other", lined(claimed(), left(after="retrying"), claimed(fence=2), left(fence=2), claimed("b"), left("b"))),
    (
        "I26",
        "the one that comes before was accepted too late",
        lined(claimed(began=2.0, due=1.2), left(), claimed("b", began=4.0, due=1.1), left("b"), accepted=3.0),
    ),
    ("I27", "before it opened", behind(claimed(), breakers=(breaker("open", 1),))),
    ("I27", "the probe", behind(claimed(), breakers=(OPEN, breaker("half_open", -1, "a", 1)))),
    (
        "I27",
        "another probe behind the probe",
        behind(claimed(), left(after="queued"), claimed("b"), breakers=(breaker("half_open", -1, "a", 1), breaker("half_open", 3, "b", 1))),
    ),
    ("I27", "once it was closed", behind(claimed(), claimed("b"), breakers=(OPEN, breaker("closed", -1)))),
    ("I24", "completed although it was asked to stop", changed(answered())),
    ("I24", "asked to stop, and cancelled", changed(answered(), audit=(*DONE[:2], left(after="cancelled")))),
    ("I24", "heard late, where no worker lived for long", changed(answered(), audit=(*DONE[:2], left(after="cancelled", at=20.0)))),
    ("I24", "refused behind the end", changed(answered("refused", at=4.1))),
    ("I2", "an unknown request that was stored", changed(invoke("b"), event("unknown", "b"), jobs=(row(), row("b")))),
    ("I2", "a request that was rolled back and is not seen", changed(invoke("b", rolled_back=True), event("fail", "b"))),
    ("I4", "a row and its job", changed(invoke("b", "within"), jobs=(row(), row("b")), orders=("b",))),
    ("I5", "swept behind the lease", changed(audit=(*DONE[:2], left(after="queued", ran_out=1, at=5.0)))),
    ("I8", "a try given back with a release", changed(audit=(*DONE[:2], left(after="queued", attempts=0, given_back=1)))),
    ("I10", "one effect of the run that completed", changed(jobs=(row(type="effect"),), effects=(("a", 1),))),
    (
        "I11",
        "one live job after the other",
        changed(jobs=(row(key="k"), row("b", key="k")), audit=(*DONE, inserted("b", at=4.1), claimed("b", at=5), left("b", at=6))),
    ),
    (
        "I13",
        "a killed worker's job is free late while the server was away",
        changed(
            event("fault", "", "kill worker", pid=7, at=3.0),
            event("fault", "", "restart server", at=3.5),
            event("healed", "", "restart server", at=15.0),
            *other_worker(2.0, 19.0),
            audit=(*DONE[:2], left(at=20.0)),
        ),
    ),
    (
        "I13",
        "a killed worker's job is free late where no worker lived for long",
        changed(event("fault", "", "kill worker", pid=7, at=3.0), *other_worker(2.0, 9.0), audit=(*DONE[:2], left(at=20.0))),
    ),
    ("I14", "the order of being due", two_claims({"due": 1.1}, {"due": 1.2})),
    ("I14", "the later one was not due yet", two_claims({}, {"due": 2.5}, priority=5)),
    ("I14", "the later one was not accepted yet", two_claims({}, {}, priority=5, accepted=2.5)),
    ("I14", "both came with one claim", two_claims({}, {"began": 2.0}, priority=5)),
    ("I14", "a claim by another worker", two_claims({}, {"owner": "h:8:n"}, priority=5)),
    ("I14", "a row that was made nonsense for a while", two_claims({}, {}, priority=5, how="bad row")),
    ("I14", "a second claim", two_claims({"fence": 2}, {}, priority=5)),
    ("I14", "another may have held the row, on a store where many write", two_claims({}, {}, priority=5, is_serial=False)),
    ("I15", "a child of the run that completed", changed(invoke("b", "child", parent="a", fence=1), jobs=(row(), row("b")))),
    ("I7", "a letter that became final twice by a retry", acted_on(*DONE_TO_IT)),
    ("I9", "a letter that was cancelled and retried", acted_on(*DONE_TO_IT)),
    ("I21", "claimed before the pause was answered", while_paused(1.95)),
    ("I21", "claimed after the resume was asked for", while_paused(3.05)),
    ("I21", "a pause that nobody was told of", while_paused(2.5, detail="StoreUnavailable: away")),
    ("I16", "moments in no order", changed(jobs=(*GOOD.rows.jobs, *ticks(2, 0, 1)))),
    ("I22", "all is counted", acted_on(*DONE_TO_IT, said=(said("answered", "retry", 5.0, action="y", count=1),))),
    ("I22", "a resume after a pause", acted_on(*DONE_TO_IT, *(ActionRow(id=verb, verb=verb, done=1) for verb in ("pause", "resume")))),
    ("I15", "no child of a run that did not", changed(invoke("b", "child", parent="a", fence=2))),
]


@pytest.mark.parametrize(("name", "run"), [(name, run) for name, _, run in HELD], ids=[f"{name} {what}" for name, what, _ in HELD])
def test_what_holds_is_not_called_broken(name: str, run: Run) -> None:
    assert list(INVARIANTS[name](run)) == []


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert {name for name, _, _ in BROKEN} == set(INVARIANTS)


def test_unknown_requests_are_counted_and_those_that_appeared_as_recovered() -> None:
    """I3: both are allowed; a sender that died leaves unknown ones as well."""
    run = changed(invoke("b"), event("unknown", "b"), invoke("c"), jobs=(row(), row("b")))
    counts = count(run)
    assert (counts["accepted"], counts["unknown"], counts["recovered"], counts["lost"]) == (1, 2, 1, 0)


def test_a_torn_line_is_no_history() -> None:
    with pytest.raises(HistoryDamaged, match="line 2 cannot be read"):
        read_lines([b'{"kind":"ok","what":"enqueue"}\n', b'{"kind":"o'])
