"""``app.periodic`` over every store: what a person or a program does at run time."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import onward.periodic_jobs
from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import InvalidDefinition, PeriodicJobNotFound, StoreBusy, UnknownJobType
from onward.moments import PeriodicChange
from onward.periodic import Periodic
from onward.worker.scheduler import Scheduler


def work() -> None:
    """Has nothing to do."""


report, keyed, strange = define_job("report", work), define_job("keyed", work, key="payload"), define_job("strange", work)
NIGHTLY = Periodic(report, "30 2 * * *", timezone="Europe/Paris", name="nightly")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Onward]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Onward(url, jobs=[report, keyed], periodic=[NIGHTLY], clock=clock) as app:
        yield app


def start_worker(app: Onward) -> None:
    """As much of it as stores what the code declares."""
    from random import Random

    Scheduler(app.store, app.definitions, app.periodic.declared.values(), clock=app.store.clock, chance=Random(7)).tick()


@pytest.mark.parametrize("has_worked", [False, True], ids=["before a worker", "after a worker"])
def test_what_the_code_declares_is_listed_paused_and_run(app: Onward, has_worked: bool) -> None:
    """Whether a worker has stored it yet or not."""
    if has_worked:
        start_worker(app)
    (row,) = app.periodic.list()
    assert (row.name, row.is_declared, row.rule.explain()) == ("nightly", True, "At 02:30 every day, in Europe/Paris")
    assert [one.isoformat() for one in row.moments(app.store.clock.now(), 2)] == ["2026-01-01T01:30:00+00:00", "2026-01-02T01:30:00+00:00"]
    assert [app.periodic.pause("nightly"), app.periodic.pause("nightly")] == [True, False]
    start_worker(app)
    assert app.periodic.get("nightly").paused_by == "person", "a start of a worker resumes nothing that a person paused"
    handle = app.periodic.run_now("nightly")
    assert (handle.is_new, handle.refresh().metadata) == (True, '{"periodic":"nightly"}')
    assert [app.periodic.resume("nightly"), app.periodic.resume("nightly")] == [True, False]


def test_one_is_made_changed_and_deleted_at_run_time(app: Onward, clock: FakeClock) -> None:
    made = app.periodic.put(Periodic(report, every="10m", name="made"))
    assert (made.is_declared, made.next_moment) == (False, clock.now() + timedelta(minutes=10))
    changed = app.periodic.put(Periodic(report, every="5m", name="made", queue="low"))
    assert (changed.next_moment, changed.request.queue) == (clock.now() + timedelta(minutes=5), "low")
    assert app.periodic.put(Periodic(report, every="5m", name="made", queue="low")) == changed
    assert [row.name for row in app.periodic.list()] == ["made", "nightly"]
    app.periodic.delete("made")
    assert [row.name for row in app.periodic.list()] == ["nightly"]


def test_what_the_code_declares_is_changed_in_the_code(app: Onward) -> None:
    for _ in range(2):
        with pytest.raises(InvalidDefinition, match="nightly is declared in code: change it there"):
            app.periodic.put(Periodic(report, every="10m", name="nightly"))
        with pytest.raises(InvalidDefinition, match="nightly is declared in code, and would come back"):
            app.periodic.delete("nightly")
        start_worker(app)
    with pytest.raises(InvalidDefinition, match="nightly is declared in code"):
        Onward(store=app.store, jobs=[report]).periodic.put(Periodic(report, every="10m", name="nightly"))


def test_what_no_code_declares_any_more_may_be_deleted_or_taken_over(app: Onward, clock: FakeClock) -> None:
    start_worker(app)
    later = Onward(store=app.store, jobs=[report])
    duty = Scheduler(app.store, later.definitions, (), clock=clock, chance=None)  # type: ignore[arg-type]  # nothing of it is random
    clock.advance(timedelta(days=2))
    duty.tick()
    clock.advance(timedelta(minutes=5))
    duty.tick()
    assert later.periodic.get("nightly").paused_by == "undeclared"
    assert app.periodic.pause("nightly"), "a person's pause takes over, so that no deploy ends it"
    with pytest.raises(InvalidDefinition, match="nightly is declared in code"):
        later.periodic.put(Periodic(report, every="10m", name="nightly"))
    later.store.write_periodic([_paused_for_want_of_code(later)])
    taken = later.periodic.put(Periodic(report, every="10m", name="nightly"))
    assert (taken.is_declared, taken.paused_at) == (False, None)
    later.periodic.delete("nightly")
    assert later.periodic.list() == []


def _paused_for_want_of_code(app: Onward) -> PeriodicChange:
    return PeriodicChange(row=replace(app.periodic.get("nightly"), paused_by="undeclared"))


def test_what_other_code_declares_is_deleted_only_once_it_is_paused(app: Onward) -> None:
    """Whether it still does, nobody can see here."""
    start_worker(app)
    other = Onward(store=app.store, jobs=[report])
    with pytest.raises(InvalidDefinition, match="nightly is declared in the code of some application"):
        other.periodic.delete("nightly")
    other.periodic.pause("nightly")
    other.periodic.delete("nightly")
    assert other.periodic.list() == []


def test_a_job_that_is_run_by_hand_is_not_the_one_of_the_last_moment(app: Onward, clock: FakeClock) -> None:
    """A moment is left out while that one is live, whatever becomes of the others."""
    app.periodic.put(Periodic(report, every="1m", name="made", overlap="skip"))
    clock.advance(60)
    start_worker(app)
    app.cancel(app.periodic.run_now("made"))
    clock.advance(60)
    start_worker(app)
    assert app.periodic.get("made").skipped == 1


def test_a_name_that_nobody_knows(app: Onward) -> None:
    for verb in (app.periodic.get, app.periodic.pause, app.periodic.resume, app.periodic.run_now, app.periodic.delete):
        with pytest.raises(PeriodicJobNotFound, match="there is no periodic job 'nigthly': did you mean 'nightly'"):
            verb("nigthly")
        with pytest.raises(InvalidDefinition, match="a name of a periodic job is"):
            verb("no name")


def test_a_job_that_holds_the_key_stands_for_one_that_is_run_by_hand(app: Onward) -> None:
    held = app.enqueue(keyed)
    app.periodic.put(Periodic(keyed, "@daily"))
    handle = app.periodic.run_now("keyed")
    assert (handle.id, handle.is_new) == (held.id, False)


@pytest.mark.parametrize(
    ("periodic", "error", "said"),
    [
        ([NIGHTLY, Periodic(report, "@daily", name="nightly")], InvalidDefinition, "two periodic jobs are called 'nightly'"),
        ([Periodic(strange, "@daily")], UnknownJobType, "'strange' is not a job of this application"),
        ([report], InvalidDefinition, "periodic= takes what Periodic"),
        (NIGHTLY, InvalidDefinition, "periodic= takes a list"),
    ],
)
def test_what_an_application_cannot_declare(periodic: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Onward("memory://", jobs=[report], periodic=periodic)


def test_what_cannot_be_put(app: Onward) -> None:
    with pytest.raises(UnknownJobType, match="'strange' is not a job of this application"):
        app.periodic.put(Periodic(strange, "@daily"))
    with pytest.raises(InvalidDefinition, match="put takes a Periodic"):
        app.periodic.put(report)  # type: ignore[arg-type]  # that is the mistake


def test_a_change_is_decided_anew_when_somebody_was_quicker(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    class Contended(MemoryStore):
        refusals = 2

        def write_periodic(self, changes: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                return []
            return super().write_periodic(changes)

    monkeypatch.setattr(onward.periodic_jobs, "PAUSE_BETWEEN_TRIES", 0)
    store = Contended(clock=clock)
    app = Onward(store=store, jobs=[report])
    app.periodic.put(Periodic(report, "@daily"))
    assert len(app.periodic.list()) == 1
    store.refusals = 10**9
    with pytest.raises(StoreBusy, match="is changed by others all the time"):
        app.periodic.pause("report")


def test_the_twins_for_an_event_loop(app: Onward) -> None:
    async def main() -> list[Any]:
        periodic = app.periodic
        await periodic.aput(Periodic(report, "@daily", name="made"))
        said = [await periodic.apause("made"), await periodic.aresume("made"), (await periodic.arun_now("made")).is_new]
        names = [row.name for row in await periodic.alist()]
        await periodic.adelete("made")
        return [*said, *names, (await periodic.aget("nightly")).name]

    assert asyncio.run(main()) == [True, True, True, "made", "nightly", "nightly"]
