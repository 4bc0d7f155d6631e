"""The edges of the rules: the last value on each side of a line, and what only one branch says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onward.definition import define_job
from onward.error_text import LONGEST_ERROR, MOST_FRAMES, bound_error, describe_error
from onward.errors import InvalidDefinition, InvalidSetting, InvalidTime, ValueRefused
from onward.jobs import HIGHEST_COUNT, why_unusable
from onward.outcome import Completed
from onward.redact import REDACTED, redact, redact_value
from onward.retry import RetryPolicy
from onward.settings import Settings
from onward.turn import Claim, Settlement, check_settlements
from tests.unit.making import make_job


def deep(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    deep(depth - 1)


@pytest.mark.parametrize(("base", "waits"), [("1s", timedelta(hours=1)), ("0s", timedelta(0))])
def test_a_wait_too_long_for_a_number_is_the_cap_and_none_stays_none(base: str, waits: timedelta) -> None:
    assert RetryPolicy(base=base, cap="1h", jitter=0).delay(100_000, Random(1)) == waits


@pytest.mark.parametrize("name", ["permanent", "transient"])
def test_a_list_of_errors_that_makes_no_sense_is_named(name: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"^{name} must be"):
        RetryPolicy(**{name: 5})  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "is_shown"), [(19, True), (20, False)])
def test_a_name_before_an_at_sign_is_a_secret_from_its_twentieth_character_on(length: int, is_shown: bool) -> None:
    name = "x" * length
    assert redact(f"https://{name}@host/") == (f"https://{name}@host/" if is_shown else f"https://{REDACTED}@host/")


def test_bytes_stay_bytes_and_lose_their_secrets() -> None:
    assert redact_value([b"password=hunter2", b"plain"]) == [f"password={REDACTED}".encode(), b"plain"]


def test_a_text_of_just_the_longest_length_is_not_cut() -> None:
    whole = "word " * (LONGEST_ERROR // 5) + "w" * (LONGEST_ERROR % 5)
    assert bound_error(whole) == whole
    assert "bytes cut" in bound_error(whole + "w")


@pytest.mark.parametrize(("frames", "left_out"), [(MOST_FRAMES, 0), (MOST_FRAMES + 1, 1), (MOST_FRAMES + 5, 5)])
def test_the_middle_of_a_long_traceback_is_left_out_and_counted(frames: int, left_out: int) -> None:
    with pytest.raises(ValueError, match="at the bottom") as raised:
        deep(frames - 2)
    lines = [line for line in describe_error(raised.value).splitlines() if line.startswith("  ") and not line.startswith("    ")]
    marks = [index for index, line in enumerate(lines) if "more …" in line]
    assert marks == ([MOST_FRAMES // 2] if left_out else [])
    assert all(lines[mark] == f"  … {left_out:,} more …" for mark in marks)
    assert len(lines) == MOST_FRAMES + len(marks)


def test_an_error_that_is_met_again_does_not_hide_those_behind_it() -> None:
    again = KeyError("again")
    text = describe_error(ExceptionGroup("several", [again, again, OSError("behind")]))
    assert text.count("KeyError") == 1
    assert "behind" in text


@pytest.mark.parametrize(("value", "is_good"), [("1ms", True), ("0.999ms", False)])
def test_the_shortest_pause_is_a_millisecond(tmp_path: Path, value: str, is_good: bool) -> None:
    if is_good:
        assert Settings({"poll": value}, environment={}, folder=tmp_path).poll == timedelta(milliseconds=1)
        return
    with pytest.raises(InvalidSetting):
        Settings({"poll": value}, environment={}, folder=tmp_path)


@pytest.mark.parametrize(("year", "is_good"), [(1969, False), (1970, True), (9000, True), (9001, False)])
def test_a_job_is_due_between_two_years(year: int, is_good: bool) -> None:
    job = define_job("a", lambda: None)
    moment = datetime(year, 6, 1, tzinfo=UTC)
    if is_good:
        assert job.new_job(None, at=moment).at == moment
        return
    with pytest.raises(InvalidTime, match="between the years"):
        job.new_job(None, at=moment)


COUNTS = ("attempts", "max_attempts", "fence", "lost_leases", "releases", "snoozes")


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(("count", "is_good"), [(-1, False), (0, True), (HIGHEST_COUNT, True), (HIGHEST_COUNT + 1, False)])
def test_a_row_s_counts_go_from_nothing_to_the_highest(name: str, count: int, is_good: bool) -> None:
    """What a person wrote by hand beyond them could not be raised by a claim, or would not come back the same."""
    assert why_unusable(make_job(**{name: count})) == (None if is_good else "one of its counts is out of range")


@pytest.mark.parametrize("name", ["processed", "failed"])
@pytest.mark.parametrize(
    ("count", "is_good"), [(0, True), (HIGHEST_COUNT, True), (-1, False), (HIGHEST_COUNT + 1, False), (True, False), (1.0, False)]
)
def test_what_a_handler_has_counted_is_named_when_it_cannot_be_stored(name: str, count: Any, is_good: bool) -> None:
    """One count of the two is wrong, and in one job of many that are settled together."""
    settlement = Settlement(claim=Claim(make_job(), timedelta(minutes=1)), outcome=Completed(), **{name: count})
    if is_good:
        check_settlements([settlement])
        return
    with pytest.raises(ValueRefused, match=f"^{name} of job 01HZX000000000000000000000 cannot be stored"):
        check_settlements([settlement])
