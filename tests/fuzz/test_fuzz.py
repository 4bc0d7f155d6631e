"""The fuzzing itself: what is kept still holds, a fault that is planted is found, and a finding can be seen again."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import error_text, json_text, payload, redact, settings
from onward.cli import output
from onward.cron import Cron
from onward.drivers.memory import people
from onward.drivers.postgres import url as postgres_url
from onward.periodic import PeriodicJob
from onward.testing.factories import make_new_job
from onward.worker import isolated_messages
from tests.fuzz import corpus, generated, guided, target
from tests.fuzz.__main__ import main
from tests.fuzz.known import KNOWN, Known, recognise
from tests.fuzz.planted import PLANTED
from tests.fuzz.target import LONGEST_INPUT, Broken, Examiner, Finding, Target, declared, must
from tests.fuzz.targets import TARGETS, durations, paths, redaction

NO_ATHERIS = "atheris is not installed: there is none for this Python, or this system"


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_that_is_kept_still_holds(name: str) -> None:
    """Each was a crash once, or reaches code that few inputs reach."""
    examine, kept = Examiner(TARGETS[name]), corpus.read(name)
    assert kept
    for data in kept:
        try:
            examine(data)
        except Finding as finding:
            if recognise(finding) is None:
                raise


def test_the_inputs_that_are_kept_are_few_and_belong_to_a_target() -> None:
    """They are read by people, and grow by themselves unless something stops them."""
    files = list(corpus.FOLDER.iterdir())
    assert {file.name for file in files} == {f"{name}.txt" for name in TARGETS}
    assert sum(file.stat().st_size for file in files) < corpus.MOST_BYTES
    assert all(len(data) <= LONGEST_INPUT for name in TARGETS for data in corpus.read(name))


@pytest.mark.parametrize("fault", KNOWN, ids=lambda fault: fault.fault)
def test_a_known_fault_is_still_there(fault: Known) -> None:
    """Once it is mended its entry hides the next one: take it out, and keep its input in the target's file."""
    with pytest.raises(Finding) as found:
        Examiner(TARGETS[fault.target])(fault.data)
    assert recognise(found.value) == fault


def _accepts_negative(value: Any) -> timedelta:
    return timedelta(seconds=-1) if "-" in str(value) else timedelta(0)


def _writes_outside(base: Any, path: str) -> None:
    (Path(base).parent / "outside/y").touch()


REPLACED: dict[str, tuple[object, str, Callable[..., object]]] = {
    "durations": (durations, "parse_duration", _accepts_negative),
    "urls": (postgres_url, "show_url", lambda url: url),
    "payloads": (payload, "needs_a_look", lambda data: False),
    "json-texts": (json_text, "_objection_to_text", lambda text, what: None),
    "paths": (paths, "read_file", _writes_outside),
    "redaction": (redaction, "redact", lambda text: text),
    "redacted-values": (redact, "is_secret_name", lambda name: False),
    "errors": (error_text, "_clean", lambda text: text),
    "settings": (settings, "safe_url", lambda url: url),
    "settings-files": (settings, "check_url", lambda url: 1 / 0),
    "command-line": (output, "escape", lambda text: text),
    "messages": (isolated_messages, "_read_child", lambda fields: 1 / 0),
    "message-round-trips": (isolated_messages, "_read_child", lambda fields: make_new_job()),
    "schedules": (Cron, "after", lambda cron, instant: instant),
    "schedule-rows": (PeriodicJob, "check", lambda row: None),
    "filters": (people, "get", lambda tables, job_id, owner: next(iter(tables.jobs.values()))),
}
"""For each target something of the code under test, and what takes its place."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_fault_that_is_planted_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that finds nothing whatever happens would be worth nothing."""
    monkeypatch.setattr(*REPLACED[name])
    result = generated.run(TARGETS[name], 20, 1)
    assert result.finding is not None
    assert recognise(result.finding) is None


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [("word", b"f\xa5!~", "the word was found"), ("slow", b"slow", "processor time"), ("large", b"large", "MB of memory")],
)
def test_what_breaks_and_what_takes_too_much_is_told(name: str, data: bytes, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and memory are promises as well."""
    monkeypatch.setattr(target, "MOST_SECONDS", 0.01)
    with pytest.raises(Finding, match=says) as found:
        Examiner(PLANTED[name])(data)
    assert found.value.data == data
    Examiner(PLANTED[name])(b"harmless")


def test_only_errors_that_are_declared_are_an_answer() -> None:
    """And not with a text without end."""
    with declared(ValueError) as told:
        raise ValueError("no")
    assert told == ["no"]
    with pytest.raises(Broken, match="5,000 characters"), declared(ValueError, longest=100):
        raise ValueError("x" * 5_000)
    with pytest.raises(KeyError), declared(ValueError):
        raise KeyError
    with pytest.raises(Broken):
        must(0, "nothing")


def test_the_same_seed_makes_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is seen again by its seed."""
    seen: list[list[bytes]] = []
    for seed in (1, 1, 2):
        inputs: list[bytes] = []
        generated.run(Target("remembers", inputs.append, TARGETS["urls"].inputs), 0, seed)
        seen.append(inputs)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.skipif(not guided.is_there(), reason=NO_ATHERIS)
@pytest.mark.parametrize(("name", "error"), [("word", "Broken"), ("hung", "TimeoutError")])
def test_atheris_finds_what_chance_does_not(name: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees which bytes lead further; and an input that never ends, it ends."""
    if name == "hung":
        monkeypatch.setattr(guided, "HUNG_AFTER", 2)
    result = guided.run(PLANTED[name], 40, 7)
    assert result.finding is not None
    assert type(result.finding.error).__name__ == error
    assert generated.run(PLANTED["word"], 0, 1).finding is None


@pytest.mark.skipif(not guided.is_there(), reason=NO_ATHERIS)
def test_atheris_says_how_much_it_ran() -> None:
    """A run of no inputs must not pass for one that held."""
    result = guided.run(TARGETS["durations"], 1, 1)
    assert result.finding is None
    assert result.executions > 0


def test_a_run_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    """Executions, seed and verdict."""
    assert main(["--target", "json-texts", "--seconds", "0", "--seed", "5", "--engine", "hypothesis"]) == 0
    said = capsys.readouterr().out
    assert "seed 5" in said
    assert "held" in said
    assert "0 found" in said


def test_a_run_without_atheris_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a check must not look like a whole one."""
    monkeypatch.setattr(guided, "is_there", lambda: False)
    assert main(["--target", "json-texts", "--seconds", "0", "--seed", "5"]) == 0
    assert "Hypothesis alone" in capsys.readouterr().out
    assert main(["--target", "json-texts", "--engine", "atheris"]) == 1


def test_a_finding_is_printed_so_that_it_can_be_seen_again(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that is printed is a command, whatever the input is."""
    monkeypatch.setattr(*REPLACED["durations"])
    assert main(["--target", "durations", "--seconds", "5", "--seed", "5", "--engine", "hypothesis"]) == 1
    said = capsys.readouterr().out
    assert "FOUND" in said
    (line,) = [line for line in said.splitlines() if line.startswith("to see it again: ")]
    arguments = shlex.split(line.partition("python -m tests.fuzz ")[2])
    assert main(arguments) == 1
    assert "durations" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(arguments) == 0


def test_inputs_are_kept_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest first, each once, and read back as they were."""
    monkeypatch.setattr(corpus, "FOLDER", tmp_path / "corpus")
    assert corpus.keep("one", [b"bb", b"\x00\n'\"", b"a", b"a", b"x" * 5_000]) == 3
    assert corpus.keep("one", [b"a", b"c"]) == 1
    assert corpus.read("one") == [b"a", b"bb", b"\x00\n'\"", b"c"]
    for line in ("'text'", "1 + 1", "__import__('os')", "b'"):
        with pytest.raises(ValueError, match="written as"):
            corpus.parse(line)
