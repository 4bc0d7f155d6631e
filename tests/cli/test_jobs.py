"""``onward jobs`` on a store with jobs in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from onward.app import Onward
from onward.outcome import DeadLettered
from onward.status import Status
from onward.turn import Claim, Demand, Settlement

Invoke = Callable[..., Result]

ODD = 'it\'s "odd" \\ %s {} \x1b[31m\x07 \u202e\nsecond'


def claim_one(app: Onward) -> Claim:
    demand = Demand(lease_owner="host:1:abc", slots=1, types=app.definitions.leases())
    (claim,) = app.store.turn((), demand).claims
    return claim


def dead_letter_one(app: Onward, error: str = "ValueError: no") -> str:
    claim = claim_one(app)
    app.store.turn((Settlement(claim=claim, outcome=DeadLettered(error)),))
    return claim.id


def lines_of_json(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_list_shows_the_newest_first(app: Onward, invoke: Invoke) -> None:
    """What was just enqueued is what people look for."""
    ids = [app.enqueue(app.definitions["echo"], str(number)).id for number in range(3)]
    result = invoke("jobs", "list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ids[::-1]
    assert [job["id"] for job in lines_of_json(invoke("jobs", "list", "--json"))] == ids[::-1]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "queued"], {"a", "b"}),
        (["--status", "dead_letter"], {"c"}),
        (["--status", "queued", "--status", "dead_letter"], {"a", "b", "c"}),
        (["--type", "echo"], {"a", "b"}),
        (["--queue", "default"], {"c"}),
        (["--key", "k"], {"a"}),
        (["--owner", "eve"], {"b"}),
        (["--owner", "nobody"], set()),
    ],
)
def test_list_narrows_by_each_filter(app: Onward, invoke: Invoke, options: list[str], found: set[str]) -> None:
    """An ignored filter shows everything and looks right."""
    app.enqueue(app.definitions["fail"], "c")
    dead_letter_one(app)
    app.enqueue(app.definitions["echo"], "a", key="k")
    app.enqueue(app.definitions["echo"], "b", owner="eve")
    assert {job["payload"] for job in lines_of_json(invoke("jobs", "list", "--json", *options))} == found


def test_list_is_read_page_by_page(app: Onward, invoke: Invoke) -> None:
    """The hint under a full page is the way to the next one."""
    ids = [app.enqueue(app.definitions["echo"], str(number)).id for number in range(5)]
    first = invoke("jobs", "list", "--limit", "3")
    assert first.stderr.strip() == f"There may be more: --before {ids[2]}"
    rest = invoke("jobs", "list", "--limit", "3", "--before", ids[2].lower())
    assert [line.split()[0] for line in rest.stdout.splitlines()[2:]] == ids[1::-1]


def test_an_empty_list_leaves_stdout_empty(app: Onward, invoke: Invoke) -> None:
    """``[ -z "$(onward jobs list …)" ]`` is how scripts ask."""
    app.store.open()
    result = invoke("jobs", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No jobs.\n")


def test_odd_error_text_is_shown_and_harmless(app: Onward, invoke: Invoke) -> None:
    """Text from a failing program once took a whole job page down, and escapes in it can command a terminal."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = dead_letter_one(app, ODD)
    for args in (["jobs", "list"], ["jobs", "show", job_id], ["stats", "failed"]):
        result = invoke(*args)
        assert result.exit_code == 0
        assert 'it\'s "odd" \\ %s {} \\x1b[31m\\x07 \\u202e' in result.stdout
        assert all(line.isprintable() for line in result.stdout.splitlines())
    assert lines_of_json(invoke("jobs", "show", job_id, "--json"))[0]["error"] == ODD


def test_show_tells_everything_of_a_job(app: Onward, invoke: Invoke) -> None:
    """One look must be enough to know what happened and what to do."""
    app.enqueue(app.definitions["fail"], "that", owner="eve", metadata={"tag": "x"})
    app.worker(concurrency=1, drain=True).run()
    (job,) = app.find()
    result = invoke("jobs", "show", job.id)
    assert result.exit_code == 0
    for part in (
        f"{job.id}  fail  dead_letter",
        f" jobs retry {job.id}'",
        "eve",
        '"tag": "x"',
        '"that"',
        "ValueError: cannot do that",
        "dead_lettered",
    ):
        assert part in result.stdout
    (shown,) = lines_of_json(invoke("jobs", "show", job.id, "--json"))
    assert {**shown, "history": None} == {**shown, "history": None, "status": "dead_letter", "payload": "that", "owner": "eve"}
    (attempt,) = shown["history"]  # type: ignore[misc]  # a list, as every test of JSON knows
    assert attempt["outcome"] == "dead_lettered"
    typed = re.search("'onward (.* jobs retry .*)'", result.stdout)
    assert typed is not None
    assert invoke(*typed[1].split()).exit_code == 0  # as it stands
    assert app.get(job.id).status == "queued"


def test_every_field_of_a_job_is_in_its_json(app: Onward, invoke: Invoke) -> None:
    """The names are the same in Python, SQL, JSON and logs."""
    job_id = app.enqueue(app.definitions["echo"], "x").id
    (shown,) = lines_of_json(invoke("jobs", "show", job_id, "--json"))
    assert set(app.get(job_id).__struct_fields__) <= set(shown)


def test_a_long_payload_is_cut_unless_asked_for(app: Onward, invoke: Invoke) -> None:
    """A quarter of a megabyte in a terminal hides everything else."""
    job_id = app.enqueue(app.definitions["echo"], "x" * 10_000).id
    cut = invoke("jobs", "show", job_id).stdout
    assert "x" * 10_000 not in cut
    assert "more characters: --full" in cut
    assert "x" * 10_000 in invoke("jobs", "show", job_id, "--full").stdout


SECRETS = '{"user":"grace","api_key":"hunter2-in-a-key","deep":[{"password":12345678}],"text":"token=hunter2-in-a-text"}'


def keep_secrets(app: Onward, path: Path) -> str:
    """A job whose payload, result, progress and metadata hold secrets."""
    import sqlite3

    job_id = app.enqueue(app.definitions["echo"], "x").id
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE onward_jobs SET payload = :text, result = :text, progress = :text, metadata = :text WHERE id = :id",
            {"text": SECRETS, "id": job_id},
        )
    return job_id


@pytest.mark.parametrize("args", [["list", "--json"], ["show"], ["show", "--json"], ["show", "--full"]], ids=" ".join)
def test_secrets_are_not_shown_unless_asked_for(app: Onward, invoke: Invoke, tmp_path: Path, args: list[str]) -> None:
    """What is on a screen is soon in a ticket. By the name of a field as well as by the form of a text, in every field with values."""
    job_id = keep_secrets(app, tmp_path / "jobs.db")
    command = ["jobs", *args, *([job_id] if args[0] == "show" else [])]
    shown = invoke(*command).stdout
    assert shown.count("[redacted]") == 4 * 3
    assert shown.count("grace") == 4
    assert "hunter2" not in shown
    assert "12345678" not in shown
    raw = invoke(*command, "--raw").stdout
    assert "[redacted]" not in raw
    assert (raw.count("hunter2-in-a-key"), raw.count("hunter2-in-a-text"), raw.count("12345678")) == (4, 4, 4)


def test_secrets_in_damaged_json_are_not_shown_either(app: Onward, invoke: Invoke, tmp_path: Path) -> None:
    """It has no names any more that a program could read, but a person can."""
    import sqlite3

    job_id = keep_secrets(app, tmp_path / "jobs.db")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE onward_jobs SET payload = ? WHERE id = ?", (SECRETS.replace("user", '"'), job_id))
    for args in (["jobs", "show", job_id], ["jobs", "show", job_id, "--json"]):
        shown = invoke(*args).stdout
        assert "damaged" in shown
        assert "hunter2" not in shown
        assert "hunter2" in invoke(*args, "--raw").stdout


def test_tables_use_the_words_of_the_stored_job(app: Onward, invoke: Invoke) -> None:
    """Whoever reads "attempts" in a table finds it in JSON, SQL and Python."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = dead_letter_one(app)
    assert invoke("jobs", "list").stdout.split()[:6] == ["id", "type", "queue", "status", "attempts", "due"]
    history = next(line for line in invoke("jobs", "show", job_id).stdout.splitlines() if "outcome" in line)
    assert history.split() == ["attempt", "outcome", "finished", "took", "processed", "failed", "lease_owner", "error"]


def test_a_damaged_payload_is_shown_as_it_is_stored(app: Onward, invoke: Invoke, tmp_path: Path) -> None:
    """Whoever edited the row by hand needs to see what is in it."""
    import sqlite3

    job_id = app.enqueue(app.definitions["echo"], "x").id
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE onward_jobs SET payload = '{\"broken' WHERE id = ?", (job_id,))
    result = invoke("jobs", "show", job_id)
    assert result.exit_code == 0
    assert "payload (damaged" in result.stdout
    assert '{"broken' in result.stdout
    (shown,) = lines_of_json(invoke("jobs", "show", job_id, "--json"))
    assert (shown["payload"], shown["damaged"]) == (None, {"payload": '{"broken'})


@pytest.mark.parametrize(("verb", "status"), [("cancel", "cancelled"), ("run", "queued"), ("delete", "deleted")])
def test_each_job_is_answered_for(app: Onward, invoke: Invoke, verb: str, status: str) -> None:
    """With several ids, each must be known to be done or not; one refusal does not stop the others."""
    one, two = (app.enqueue(app.definitions["echo"], text, delay="1h").id for text in "ab")
    missing = "01JE0000000000000000000000"
    more = ["--yes"] if verb == "delete" else []
    result = invoke("jobs", verb, one, missing, two, *more)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [f"{one}  {status}", f"{two}  {status}"]
    assert result.stderr.startswith(f"Error: there is no job {missing}")
    assert len(result.stderr.splitlines()) == 1


def test_run_makes_a_delayed_job_due(app: Onward, invoke: Invoke) -> None:
    """The only reason for the verb."""
    job_id = app.enqueue(app.definitions["echo"], "x", delay="1h").id
    assert invoke("jobs", "run", job_id).exit_code == 0
    assert claim_one(app).id == job_id


def test_retry_queues_a_dead_letter_again(app: Onward, invoke: Invoke) -> None:
    """By a person only, with all tries."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = dead_letter_one(app)
    result = invoke("jobs", "retry", job_id, "--json")
    assert lines_of_json(result) == [{"id": job_id, "ok": True, "status": "queued"}]
    assert app.get(job_id).status is Status.QUEUED


def test_a_refused_verb_says_why(app: Onward, invoke: Invoke) -> None:
    """The status is in the way, and the message names it."""
    job_id = app.enqueue(app.definitions["echo"], "x").id
    result = invoke("jobs", "retry", job_id, "--json")
    assert result.exit_code == 1
    (answer,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (answer["id"], answer["ok"]) == (job_id, False)
    assert "queued" in answer["error"]


def test_cancel_of_a_running_job_says_that_it_was_asked(app: Onward, invoke: Invoke) -> None:
    """It is not cancelled yet, and the answer must not pretend."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = claim_one(app).id
    assert invoke("jobs", "cancel", job_id).stdout == f"{job_id}  in_progress, asked to stop\n"
    assert "asked to stop" in invoke("jobs", "show", job_id).stdout


def test_delete_refuses_a_running_job(app: Onward, invoke: Invoke) -> None:
    """Its handler is at work; its completion would have nowhere to go."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = claim_one(app).id
    result = invoke("jobs", "delete", job_id, "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert app.get(job_id).status is Status.IN_PROGRESS


def test_delete_without_a_terminal_needs_yes(app: Onward, invoke: Invoke) -> None:
    """A script must say that it means it."""
    job_id = app.enqueue(app.definitions["echo"], "x").id
    result = invoke("jobs", "delete", job_id, input="y\n")
    assert result.exit_code == 2
    assert "pass --yes" in result.stderr
    assert app.get(job_id)


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_delete_asks_on_a_terminal(app: Onward, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, answer: str, is_deleted: bool) -> None:
    """The default is no."""
    job_id = app.enqueue(app.definitions["echo"], "x").id
    monkeypatch.setattr("onward.cli.asking.has_terminal", lambda: True)
    result = invoke("jobs", "delete", job_id, input=answer)
    assert result.exit_code == (0 if is_deleted else 1)
    assert bool(app.find()) is not is_deleted


def test_an_expired_lease_is_explained(app: Onward, invoke: Invoke, url: str) -> None:
    """The holder is named, so that somebody can look at that machine."""
    app.enqueue(app.definitions["echo"], "x")
    job_id = claim_one(app).id
    assert "host:1:abc holds the lease until" in invoke("jobs", "show", job_id).stdout


def test_status_is_coloured_only_where_asked(app: Onward, invoke: Invoke) -> None:
    """Escapes in a pipe break every tool behind it."""
    app.enqueue(app.definitions["echo"], "x")
    dead_letter_one(app)
    assert "\x1b[" not in invoke("jobs", "list").stdout
    assert "\x1b[31mdead_letter" in invoke("--color", "jobs", "list").stdout


def test_no_color_wins_over_a_terminal_and_loses_to_the_option(app: Onward, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """As no-color.org asks."""
    app.enqueue(app.definitions["echo"], "x")
    dead_letter_one(app)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in invoke("--color", "jobs", "list").stdout
    assert "\x1b[" not in invoke("jobs", "list").stdout


def test_large_numbers_in_payloads_stay_exact(app: Onward, invoke: Invoke) -> None:
    """A float in between would change the last digits of an account number."""
    from onward.definition import define_job

    app.add(define_job("count", lambda n: None, payload=int))
    job_id = app.enqueue(app.definitions["count"], 12345678901234567890123).id
    assert "12345678901234567890123" in invoke("jobs", "show", job_id).stdout
    assert lines_of_json(invoke("jobs", "show", job_id, "--json"))[0]["payload"] == 12345678901234567890123
