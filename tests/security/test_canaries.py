"""A secret in each of thirty places, and a look into everything that is written, stored and shown: none may have got any further."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.clock import SystemClock
from onward.drivers import connect
from tests.drivers.tables import PostgresTables, SQLiteTables, Tables
from tests.postgres_databases import Databases
from tests.security.canary_run import CanaryRun, new_canaries
from tests.security.leaks import AsGiven, find_leaks, find_needless, is_in, make_canaries

pytestmark = pytest.mark.timeout(300)
"""Seconds. Each test starts a dozen processes."""
JOBS = (
    *("payload", "message", "chained", "handled", "after_the_cut", "across_the_cut", "beyond_all_cuts", "groups", "local_variables"),
    *("environment", "header", "url", "connection_string", "driver_error", "note_of_an_error", "own_text", "permanent", "retry_after"),
    *("cancelled", "unstorable_result", "result", "progress", "metadata", "key", "damaged", "awaited", "alone", "standard_error"),
    *("subscriber", "arguments"),
)
COMPLETED = {"unstorable_result", "result", "progress", "subscriber", "arguments"}
"""Jobs that do not fail."""

_SHOWN = ("jobs show --full", "jobs show --json", "jobs list --limit 500 --json")
AS_GIVEN: AsGiven = {
    "payload": {"jobs.payload": "a payload is stored as it was given; whoever looks at it sees [redacted]"},
    "damaged": {"jobs.payload": "as above, also when it is not of its type any more"},
    "result": {"jobs.result": "a result is stored as the handler gave it, for the program that asked for it"},
    "progress": {"jobs.progress": "progress is stored as the handler gave it"},
    "metadata": {"jobs.metadata": "metadata is stored as it was given"},
    "key": {
        "jobs.idempotency_key": "a key is stored as it was given: it names the work, and must be compared",
        **dict.fromkeys(_SHOWN, "whoever looks for a job by its key must see it"),
    },
    "standard_error": {"worker stderr": "what a handler writes to its own standard error is the application's, and goes where that goes"},
}
"""Where a secret may be seen, since the design says that this is stored or shown as it was given."""


def sqlite(home: Path) -> tuple[Tables, str]:
    return SQLiteTables(home / "jobs.db"), f"sqlite:///{home}/jobs.db"


def postgres(server_url: str, password: str) -> tuple[Tables, str]:
    """The server asks this client for no password, so that any will do."""
    url, _, schema = server_url.partition("?schema=")
    return PostgresTables(url, schema), server_url.replace("postgres@", f"postgres:{password}@")


@pytest.fixture(params=["sqlite", "postgres"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CanaryRun]:
    canaries = new_canaries(JOBS)
    if request.param == "sqlite":
        tables, url = sqlite(tmp_path)
        yield CanaryRun(tmp_path, tables, url, canaries)
        return
    databases: Databases = request.getfixturevalue("postgres_databases")("postgres")
    given = databases.new_schema()
    tables, url = postgres(given, canaries["dsn"])
    assert canaries["dsn"] in url
    with closing(connect(url, clock=SystemClock(), migrate=True)) as store:
        store.open()
    yield CanaryRun(tmp_path, tables, url, canaries)
    databases.drop_schema(given)


def test_no_secret_gets_further_than_it_was_given(run: CanaryRun) -> None:
    """Errors, history, log lines, events, command lines and every answer of the command line are read by more people than the secret's."""
    run.ask()
    for job in JOBS:
        error = run.error_of(job)
        assert (error == "None") == (job in COMPLETED - {"unstorable_result"}), f"{job}: {error}"
    assert len(run.sources) > 80
    assert all(run.sources[name] for name in ("events", "arguments", "worker stdout", "worker stderr", "history.error", "jobs show --full"))
    assert all(run.sources[name] for name in ("failures show", "history --limit 500", "alerts.message", "stats --prometheus"))
    assert "alert.opened" in run.sources["webhook bodies"]
    assert find_leaks(run.canaries, run.sources, AS_GIVEN) == []
    assert find_needless(run.canaries, run.sources, AS_GIVEN) == []


def test_what_remains_of_an_error_still_says_what_happened(tmp_path: Path) -> None:
    """Taking everything out would hide secrets as well, and help nobody."""
    run = CanaryRun(tmp_path, *sqlite(tmp_path), new_canaries(JOBS))
    for job, left in {
        "message": "ValueError: log-in failed with password=[redacted]",
        "url": "https://shop:[redacted]@example.com/orders?page=2",
        "driver_error": "postgresql://shop:[redacted]@localhost:1/shop",
        "groups": "ExceptionGroup",
        "connection_string": "host=localhost user=shop password='[redacted]' dbname=shop",
        "alone": "ValueError: password=[redacted]",
    }.items():
        assert left in run.error_of(job)


def test_an_application_whose_secrets_nobody_takes_out_is_found(tmp_path: Path) -> None:
    """A look that finds nothing whatever happens would be worth nothing."""
    run = CanaryRun(tmp_path, *sqlite(tmp_path), new_canaries(JOBS), is_planted=True)
    run.ask()
    leaks = find_leaks(run.canaries, run.sources, AS_GIVEN)
    for job in ("message", "chained", "groups", "header", "url", "own_text", "awaited", "alone", "cancelled", "environment", "metadata"):
        for source in ("jobs.error", "history.error", "jobs show --full", "jobs show --json", "stats", "worker stdout", "events"):
            assert f"the secret {job!r} is in {source}" in leaks or source in ("stats", "worker stdout"), (job, source)
    assert not any("'local_variables'" in leak for leak in leaks)


@pytest.mark.parametrize(
    "write",
    [
        lambda canary: f"a {canary} b",
        lambda canary: canary[3:16],
        lambda canary: canary[::-1],
        lambda canary: canary.encode().hex(),
        *(lambda canary, shift=shift: base64.b64encode(b"user:xyz"[:shift] + canary.encode()).decode() for shift in range(6, 9)),
    ],
    ids=["whole", "a piece", "backwards", "hex", "base 64", "base 64, one on", "base 64, two on"],
)
def test_a_secret_is_recognised_however_it_is_written(write: object) -> None:
    """Half a password is a password half guessed, and an encoding hides nothing."""
    canary = make_canaries(["one"])["one"]
    assert callable(write)
    assert is_in(canary, write(canary))
    assert not is_in(canary, write(make_canaries(["one"])["one"]))


def test_an_exception_that_is_not_needed_is_told() -> None:
    """It would hide the next leak."""
    canaries = {"one": "a" * 20, "two": "b" * 20}
    sources = {"log": "a" * 20, "store": ""}
    excepted = {"one": {"log": "as given", "store": "no longer"}}
    assert find_leaks(canaries, sources, {}) == ["the secret 'one' is in log"]
    assert find_leaks(canaries, sources, excepted) == []
    assert find_needless(canaries, sources, excepted) == ["the secret 'one' is not in store: the exception for it can go"]
