"""Lifecycle events as JSON lines: complete, one a line, and never the reason a worker stops."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.events import Event, Events
from onward.telemetry.log import LONGEST_LINE, LifecycleLog, describe, line_of
from onward.telemetry.records import HarmlessFormatter, PatientHandler, configure_logging

EVENT = Event(
    event="failed",
    job_id="01JE0000000000000000000000",
    job_type="send-welcome",
    queue="mail",
    worker_id="host:1:abc",
    attempts=2,
    priority=7,
    duration_ms=12.346,
    error="ValueError: no",
    correlation_id="request-9",
)


def test_an_event_becomes_one_line_with_every_field() -> None:
    """Log pipelines read these by name; a missing or renamed field breaks them silently."""
    stream = io.StringIO()
    LifecycleLog(stream, FakeClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC)))(EVENT)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line) == {
        "event": "failed",
        "at": "2026-03-01T09:30:00.000000Z",
        "job_id": "01JE0000000000000000000000",
        "job_type": "send-welcome",
        "queue": "mail",
        "worker_id": "host:1:abc",
        "attempts": 2,
        "priority": 7,
        "duration_ms": 12.346,
        "error": "ValueError: no",
        "correlation_id": "request-9",
        "committed": True,
    }


@given(
    event=st.builds(
        Event,
        event=st.sampled_from(["queued", "failed"]),
        job_id=st.text(max_size=30),
        job_type=st.text(st.characters(max_codepoint=127), max_size=300),
        queue=st.just("q") | st.text(max_size=300),
        worker_id=st.none() | st.text(max_size=300),
        attempts=st.integers(0, 2**53),
        priority=st.integers(-100, 100),
        duration_ms=st.none() | st.floats(0, 1e9),
        error=st.none() | st.text(max_size=700),
        correlation_id=st.none() | st.text(max_size=300),
    )
)
@example(Event(event="queued", job_id="", job_type="t" * 256))
@example(Event(event="queued", job_id="a", job_type="b\x7f"))
@example(Event(event="queued", job_id="\ud800", job_type="b"))
@example(Event(event="queued", job_id="a,b", job_type=",", queue=","))
def test_the_quick_way_to_write_a_line_writes_the_same(event: Event) -> None:
    """It leaves out a look at each field; what needs one must not slip through."""
    at = "2026-03-01T09:30:00.000000Z"
    assert line_of(event, at) == msgspec.json.encode(describe(event, at=at)) + b"\n"


@pytest.mark.parametrize("error", ["é😀" * 50_000, "\x1b[31m" * 5000, '\\"\n' * 5000, "\udc80" * 5000, "\U000e0001" * 5000])
def test_a_line_fits_into_one_write_of_a_pipe(error: str) -> None:
    """Longer ones would mix with the lines of the other worker processes that share the pipe."""
    stream = io.StringIO()
    longest = Event(
        event="failed", job_id="0" * 26, job_type="t" * 100, queue="q" * 100, worker_id="w" * 300, error=error, correlation_id=error
    )
    LifecycleLog(stream)(longest)
    (line,) = stream.getvalue().splitlines()
    assert len(line.encode()) < LONGEST_LINE
    assert json.loads(line)["error"]


def test_stored_text_cannot_reach_the_terminal_as_a_command() -> None:
    """An error text is written by strangers; a worker's stdout is often a terminal."""
    stream = io.StringIO()
    LifecycleLog(stream)(Event(event="failed", job_id="1", job_type="t", error="a\x1b[2J\x9b31m\u202eb\nc"))
    written = stream.getvalue()
    assert written.rstrip("\n").isprintable()
    assert json.loads(written)["error"] == "a\\x1b[2J\\x9b31m\\u202eb\nc"


def test_what_happened_in_one_turn_is_written_in_pieces_that_a_pipe_takes_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One write a line would cost a worker as much as the job; a piece beyond the limit could mix with another process's."""
    path = tmp_path / "log"
    real_write, sizes = os.write, []

    def write(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return real_write(descriptor, data)

    with path.open("w") as stream:
        log = LifecycleLog(stream)
        monkeypatch.setattr("onward.telemetry.log.os.write", write)
        Events([log]).emit_all([replace(EVENT, job_id=str(number)) for number in range(100)])
    assert [json.loads(line)["job_id"] for line in path.read_text().splitlines()] == [str(number) for number in range(100)]
    assert max(sizes) <= LONGEST_LINE
    assert len(sizes) <= 2 * sum(sizes) / LONGEST_LINE + 1


@pytest.mark.parametrize(("room", "kept"), [(0, 0), (1, 0), (450, 1), (700, 2)])
def test_of_a_piece_that_is_cut_off_the_lines_that_are_whole_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, room: int, kept: int
) -> None:
    """Those behind the cut are, however many it takes."""
    path = tmp_path / "log"
    real_write, rooms = os.write, [room]

    def write(descriptor: int, data: bytes) -> int:
        if rooms and (left := rooms.pop()):
            return real_write(descriptor, data[:left])
        raise OSError(28, "No space left on device")

    with path.open("w") as stream:
        log = LifecycleLog(stream)
        monkeypatch.setattr("onward.telemetry.log.os.write", write)
        for _ in range(2):
            log.together([EVENT] * 4)
        monkeypatch.setattr("onward.telemetry.log.os.write", real_write)
        log.together([EVENT] * 4)
    assert log.lines_lost == 8 - kept
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert len([json.loads(line) for line in whole]) == kept + 4


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    """A worker emits from its handlers' threads."""
    path = tmp_path / "log"
    with path.open("w") as stream:
        log = LifecycleLog(stream)
        threads = [threading.Thread(target=lambda: [log(EVENT) for _ in range(200)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = path.read_text().splitlines()
    assert len(lines) == 1600
    assert all(json.loads(line)["event"] == "failed" for line in lines)


def test_a_closed_pipe_costs_the_lines_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """``onward worker | head`` must not stop the work; one warning says that lines are lost, not one a line."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        log = LifecycleLog(stream)
        for _ in range(3):
            log(EVENT)
    assert log.lines_lost == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_closed_stream_costs_the_lines_and_nothing_else() -> None:
    """Some frameworks close or replace sys.stdout."""
    stream = io.StringIO()
    log = LifecycleLog(stream)
    stream.close()
    Events([log]).emit(EVENT)
    assert log.lines_lost == 1


def test_a_full_disk_costs_the_lines_and_nothing_else() -> None:
    """Logs fill disks; the jobs still have to be done."""
    with open("/dev/full", "w") as stream:
        log = LifecycleLog(stream)
        log(EVENT)
        log(EVENT)
    assert log.lines_lost == 2


def test_a_line_cut_off_by_a_full_disk_does_not_spoil_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Half a line and a whole one on the same line would both be unreadable."""
    path = tmp_path / "log"
    real_write, room = os.write, [10]

    def write_until_full(descriptor: int, data: bytes) -> int:
        if not room:
            return real_write(descriptor, data)
        if left := room.pop():
            room.append(0)
            return real_write(descriptor, data[:left])
        raise OSError(28, "No space left on device")

    with path.open("w") as stream:
        log = LifecycleLog(stream)
        monkeypatch.setattr("onward.telemetry.log.os.write", write_until_full)
        log(EVENT)
        log(EVENT)
        log(EVENT)
    half, *whole = path.read_text().splitlines()
    assert len(half) == 10
    assert [json.loads(line)["event"] for line in whole] == ["failed", "failed"]
    assert log.lines_lost == 1


def bare_logging(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """Root and ``onward`` loggers as in a fresh process. Called in the test itself: pytest adds handlers of its own before."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("onward"), "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    return root


def test_logging_goes_to_stderr_where_nobody_set_it_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout carries the lifecycle lines; a log record in between would not be JSON."""
    bare_logging(monkeypatch)
    configure_logging()
    logging.getLogger("anything").info("heard")
    out, err = capsys.readouterr()
    assert out == ""
    assert "INFO anything: heard" in err


@pytest.mark.parametrize("name", [None, "onward"])
def test_an_application_that_set_up_logging_keeps_it(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    """A second handler would print every record twice."""
    root = bare_logging(monkeypatch)
    own = logging.NullHandler()
    logging.getLogger(name).addHandler(own)
    configure_logging()
    assert logging.getLogger(name).handlers == [own]
    assert root.handlers == ([own] if name is None else [])


def test_a_pipe_that_nobody_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that waits in a log line can neither stop its workers nor be stopped. Once it is read again, lines come again."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        handler = PatientHandler()
        lines = threading.Thread(target=lambda: [handler.emit(_record("x" * 1000)) for _ in range(200)], daemon=True)
        lines.start()
        lines.join(30)
        assert not lines.is_alive()
        assert 100 < handler.records_lost < 200
        os.read(reader, 1 << 20)
        handler.emit(_record("again"))
        assert os.read(reader, 100) == b"again\n"
    os.close(reader)


def test_lines_that_nobody_reads_are_lost_and_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for its reader holds its jobs, and another takes them back. Once it is read again, lines come again."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        log = LifecycleLog(stream)
        lines = threading.Thread(target=lambda: [log.together([EVENT] * 40) for _ in range(50)], daemon=True)
        lines.start()
        lines.join(30)
        assert not lines.is_alive()
        written = os.read(reader, 1 << 20)
        assert written.endswith(b"\n")
        assert written.count(b"\n") + log.lines_lost == 2000
        log(EVENT)
        assert json.loads(os.read(reader, 10_000))["job_id"] == EVENT.job_id
    os.close(reader)


def test_a_pipe_that_does_not_block_takes_every_line_as_soon_as_it_is_read() -> None:
    """Some programs hand such a one down; that it is full for a moment is no failure."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(writer, "w") as stream:
        log = LifecycleLog(stream)
        lines = threading.Thread(target=lambda: [log.together([EVENT] * 40) for _ in range(50)] and stream.close(), daemon=True)
        lines.start()
        read = b"".join(iter(lambda: os.read(reader, 2000), b""))
        lines.join(30)
    os.close(reader)
    assert (read.count(b"\n"), log.lines_lost) == (2000, 0)


def test_a_line_of_the_widest_characters_fits_into_one_write_of_a_pipe() -> None:
    """Only a row that was written by hand has such names."""
    wide = "\U0001f600" * 300
    event = Event(event="failed", job_id=wide, job_type=wide, queue=wide, worker_id=wide, error=wide * 3, correlation_id=wide)
    line = line_of(event, "2026-03-01T09:30:00.000000Z")
    assert len(line) <= LONGEST_LINE
    assert len(json.loads(line)["queue"]) > 50


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("onward", logging.INFO, __file__, 1, text, (), None)


@pytest.mark.parametrize(
    ("message", "fields", "line"),
    [
        ("sent", {"job_id": "01J", "correlation_id": "order-7"}, "WARNING sent (job 01J, correlation id order-7)"),
        ("job 01J failed", {"job_id": "01J", "correlation_id": "order-7"}, "WARNING job 01J failed (correlation id order-7)"),
        ("job 01J failed", {"job_id": "01J", "correlation_id": "01J"}, "WARNING job 01J failed"),
        ("sent", {"job_id": "01J", "correlation_id": "a\x1b[31m\nb"}, "WARNING sent (job 01J, correlation id a\\x1b[31m\n    b)"),
        ("stopping", {}, "WARNING stopping"),
    ],
    ids=range(5),
)
def test_a_record_says_of_which_job_it_is_and_what_that_belongs_to(message: str, fields: dict[str, str], line: str) -> None:
    """What a handler logs by ``ctx.logger`` can be found by the id that its order has everywhere."""
    record = logging.makeLogRecord({"name": "onward.job", "levelname": "WARNING", "msg": message, **fields})
    assert HarmlessFormatter("%(levelname)s %(message)s").format(record) == line
