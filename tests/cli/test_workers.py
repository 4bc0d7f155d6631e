"""``onward workers``: who works on a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from click.testing import Result

from onward import Onward
from onward.clock import FakeClock
from onward.presence import Presence

Invoke = Callable[..., Result]


def test_those_that_run_are_listed_with_what_they_serve(app: Onward, invoke: Invoke) -> None:
    app.store.open()
    assert invoke("workers").stderr == "No worker is running.\n"
    app.worker(queues=["mail", "slow"], name="first", concurrency=4).lookout.tick()
    app.worker(name="second").lookout.tick()
    lines = {line.split()[1]: line for line in invoke("workers").stdout.splitlines()[2:]}
    assert "mail, slow" in lines["first"]
    assert "(all)" in lines["second"]
    found = [json.loads(line) for line in invoke("workers", "--json").stdout.splitlines()]
    assert {(one["name"], one["concurrency"], one["is_alive"]) for one in found} == {("first", 4, True), ("second", 16, True)}


def test_those_that_are_gone_are_listed_where_they_are_asked_for(app: Onward, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.store, "clock", FakeClock(app.store.clock.now() - timedelta(hours=1)))
    app.store.announce(Presence(lease_owner="dead-1-a", name="dead"))
    assert invoke("workers").stderr == "No worker is running; --all lists those of the last day.\n"
    (line,) = invoke("workers", "--all").stdout.splitlines()[2:]
    assert line.split()[:2] == ["dead-1-a", "dead"]
    assert "gone" in line


def test_doctor_says_what_nobody_serves(app: Onward, invoke: Invoke) -> None:
    """The commonest reason for a queue that does nothing."""
    app.store.open()

    def said(name: str) -> list[str]:
        prefix = f"{name}: "
        return [line.partition(prefix)[2] for line in invoke("doctor").stdout.splitlines() if prefix in line]

    assert (said("workers"), said("alerts")) == (["none is running, and no job is due"], ["none is open"])
    app.enqueue(app.definitions["echo"], "a")
    assert said("workers") == ["none is running, and 1 due job waits: onward worker"]
    (queue,) = {one.queue for one in app.find()}
    app.store.announce(Presence(lease_owner="a", name="a", queues=("elsewhere",), types=("echo",)))
    assert said("workers") == ["1 running", f"echo waits in queue {queue}, which no running worker serves: onward workers"]
    app.store.announce(Presence(lease_owner="a", name="a", types=("other",)))
    assert said("workers") == ["1 running", f"echo waits in queue {queue}, and no running worker that serves it knows this type"]
    app.store.announce(Presence(lease_owner="a", name="a", types=("echo",)))
    assert said("workers") == ["1 running"]
    app.breakers.open("s3")
    assert said("alerts") == ["1 open, 1 of them not acknowledged: onward alerts list"]
    app.alerts.acknowledge(app.alerts.list()[0].id)
    assert said("alerts") == ["1 open, 0 of them not acknowledged: onward alerts list"]
