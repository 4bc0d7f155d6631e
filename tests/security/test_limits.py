"""What is asked for is measured before it costs anything: large numbers, deep nesting, endless input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onward.app import Onward
from onward.clock import SystemClock
from onward.definition import define_job
from onward.driver import Store
from onward.drivers import connect
from onward.durations import parse_duration, parse_moment, parse_retry_after
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime, OnwardError, TransientJobError
from onward.events import Event, correlation_id
from onward.json_text import check_json, parse_json
from onward.outcome import Retried, decide
from onward.retry import RetryPolicy
from onward.testing.drain import drain
from onward.testing.factories import make_job

ROOT = Path(__file__).parents[2]
HUGE = 10**5_000
"""Python itself refuses to write an integer of so many digits."""
DEEP = "[" * 100_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORK = define_job("work", lambda: None)
ANY = define_job("any", lambda payload: None, payload=Any)
MOST_MEMORY = 512 << 20
"""Bytes of addresses that a command may have, whatever it is given: its own code takes about 60 MB of memory."""


GIVEN: dict[str, Callable[[Onward], object]] = {
    "payload": lambda app: app.enqueue(ANY, HUGE),  # type: ignore[misc]
    "part of a payload": lambda app: app.enqueue(ANY, {"a": [HUGE]}),  # type: ignore[misc]
    "delay": lambda app: app.enqueue(WORK, delay=HUGE),
    "expires": lambda app: app.enqueue(WORK, expires=-HUGE),
    "metadata": lambda app: app.enqueue(WORK, metadata={"a": HUGE}),
    "priority": lambda app: app.enqueue(WORK, priority=HUGE),
    "key": lambda app: app.enqueue(WORK, key=HUGE),  # type: ignore[call-overload]
    "owner": lambda app: app.enqueue(WORK, owner=HUGE),  # type: ignore[call-overload]
    "queue": lambda app: app.enqueue(WORK, queue=HUGE),  # type: ignore[call-overload]
    "limit": lambda app: app.find(limit=-HUGE),
    "tries": lambda app: RetryPolicy(max_attempts=HUGE),
}


@pytest.mark.parametrize(
    "what",
    GIVEN,
)
def test_a_number_of_thousands_of_digits_is_refused_as_any_other(what: str) -> None:
    """Numbers come from requests, and an error that nobody expects is a server's error."""
    with pytest.raises(OnwardError):
        GIVEN[what](Onward("memory://", jobs=[WORK, ANY]))


@pytest.mark.parametrize("limit", [1, 10**6, 2**53])
def test_a_page_of_any_size_can_be_asked_for(store: Store, limit: int) -> None:
    """What is more than there is costs nothing."""
    app = Onward(store=store, jobs=[WORK])
    app.enqueue(WORK)
    assert len(app.find(limit=limit)) == 1


@pytest.mark.parametrize("limit", [2**63, 10**30])
def test_a_page_that_no_database_could_count_is_refused_by_every_store(store: Store, limit: int) -> None:
    """With the same error, which says what may be asked for."""
    with pytest.raises(InvalidDefinition, match="whole number"):
        Onward(store=store, jobs=[WORK]).find(limit=limit)


@pytest.mark.parametrize(
    "text",
    [DEEP, DEEP + "]" * 100_000, '{"a":' * 100_000, '"' + DEEP, "1" * 5_000, "[" + "9" * 400 + "]"],
    ids=lambda text: f"{text[:3]} {len(text)}",
)
def test_deep_and_long_json_is_refused_before_it_is_read(text: str) -> None:
    """A parser that recurses ends in an error of its own, or in a crash."""
    with pytest.raises(InvalidPayload):
        check_json(text)
    with pytest.raises(InvalidPayload):
        parse_json(text)
    with pytest.raises(InvalidPayload):
        ANY.codec.decode(text)


@pytest.mark.parametrize("value", ["9" * 100_000, "1m" * 50_000 + "!", "-" * 100_000, "٣" * 100_000, "1" * 12 + "d" * 50_000], ids=range(5))
def test_long_text_is_no_duration_and_is_not_repeated(value: str) -> None:
    """What was given may be a megabyte."""
    for read in (parse_duration, parse_moment, lambda text: parse_retry_after(text, NOW)):
        with pytest.raises(InvalidTime) as refused:
            read(value)
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "value",
    [
        "Mon, 01 Jan 2024 00:00:00 +9999",
        "Mon, 01 Jan 9999999 00:00:00 GMT",
        "Mon, 01 Jan 2024 99:99:99 GMT",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
    ],
)
def test_a_service_cannot_end_a_job_by_what_it_says_of_when_to_come_back(value: str) -> None:
    """The header is somebody else's: at worst it is ignored, and the job waits as long as its policy says."""
    outcome = decide(make_job("in_progress"), TransientJobError("busy", retry_after=value), RetryPolicy(), NOW, Random(1))
    assert isinstance(outcome, Retried)
    assert "ignored" in outcome.error


@pytest.mark.parametrize(
    "metadata",
    [
        "{not json",
        '["correlation_id"]',
        '{"correlation_id": ' + "1" * 5_000 + "}",
        *(text for text in ('{"correlation_id": ' + DEEP + "]" * 100_000 + "}", '{"correlation_id": "\ud800"}')),
    ],
    ids=["not JSON", "no object", "a long number", "deep", "half a character"],
)
def test_metadata_written_by_hand_stops_only_its_own_job(metadata: str) -> None:
    """Every event reads them; a turn that ends there leaves all that it has claimed, its neighbours too, claimed and not begun."""
    events: list[Event] = []
    app = Onward("memory://", jobs=[WORK], subscribers=[events.append])
    jobs = [app.enqueue(WORK) for _ in range(3)]
    app.store.overwrite(jobs[0].id, metadata=metadata)  # type: ignore[attr-defined]
    assert correlation_id(metadata, "own")
    drain(app)
    assert [job.refresh().status.is_final for job in jobs] == [True] * 3


def test_a_url_with_a_number_of_thousands_of_digits_is_a_setting_that_cannot_be_used() -> None:
    """As any other value."""
    with pytest.raises(OnwardError):
        connect(f"postgresql://127.0.0.1/x?connections={'9' * 5_000}", clock=SystemClock())


APP = """
from onward import Onward, define_job

def work(order: str) -> None: ...

app = Onward("sqlite:///jobs.db", jobs=[define_job("work", work)])
"""


IN_LITTLE_MEMORY = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def run_in_little_memory(folder: Path, given: int) -> tuple[int, str]:
    """Enqueue in a process with bounded memory, with so many bytes of a JSON text on stdin: its exit code, and what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    with open(folder / "said", "w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", IN_LITTLE_MEMORY, str(MOST_MEMORY), "-m", "onward", "-A", "shop:app", "enqueue", "work", "-"],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT / "src")},
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(b'"')
            for _ in range(given >> 20):
                process.stdin.write(b"x" * (1 << 20))
        process.stdin.close()
        process.wait(60)
        said.seek(0)
        return process.returncode, said.read().decode()


def test_an_ordinary_payload_is_read_from_stdin(tmp_path: Path) -> None:
    """The bound below must be about what is too much."""
    (tmp_path / "shop.py").write_text(APP)
    code, said = run_in_little_memory(tmp_path, 0)
    assert (code, "not JSON" in said) == (2, True), said


def test_a_payload_from_stdin_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    """A pipe that never ends must not end the machine."""
    (tmp_path / "shop.py").write_text(APP)
    code, said = run_in_little_memory(tmp_path, 2 * MOST_MEMORY)
    assert (code, "more than 4,194,304 bytes" in said) == (2, True), said


def test_what_is_declared_wrongly_is_told_of_once() -> None:
    """An error that holds a megabyte of what was given fills a log."""
    for name, queue in (("x" * 10**6, "mail"), ("work", "x" * 10**6)):
        with pytest.raises(InvalidDefinition) as refused:
            define_job(name, lambda: None, queue=queue)
        assert len(str(refused.value)) < 1000
