"""Rows become jobs: by themselves, or many as one JSON text, which tells whether one of them needs a closer look."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from onward.drivers.sql.rows import COLUMNS, INSTANTS, UnreadableRow, read_job, read_objects
from onward.jobs import Job
from onward.status import Status
from onward.testing.factories import make_job

MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
NAIVE = "2026-01-31T09:30:00"


def fields_of(**changed: object) -> dict[str, object]:
    """A claimed job whose instants are all there, as text."""
    job = make_job(status=Status.IN_PROGRESS, **dict.fromkeys(INSTANTS, MOMENT), scheduled_at=MOMENT)
    fields: dict[str, object] = msgspec.to_builtins(job)
    return fields | changed


def row_of(fields: dict[str, object]) -> tuple[object, ...]:
    return tuple(fields[name] for name in COLUMNS)


def text_of(*many: dict[str, object]) -> str:
    return msgspec.json.encode(many).decode()


@pytest.mark.parametrize("name", INSTANTS)
def test_an_instant_without_a_zone_counts_as_utc(name: str) -> None:
    """Written by hand; none of these decides when the job runs. Whoever compares it with another must not meet a ``TypeError``."""
    fields = fields_of()
    job = read_job(row_of(fields | {name: NAIVE}))
    assert job == read_job(row_of(fields))
    assert getattr(job, name) == MOMENT


def test_a_due_time_without_a_zone_cannot_be_read() -> None:
    """It may be meant anywhere in the world, and the job run a day too early."""
    with pytest.raises(UnreadableRow, match="scheduled_at has no time zone") as refused:
        read_job(row_of(fields := fields_of(scheduled_at=NAIVE)))
    assert (refused.value.job_id, refused.value.reason) == (fields["id"], "scheduled_at has no time zone")


def test_many_read_as_one_text_are_the_same_jobs() -> None:
    """Those of which an instant is missing, too."""
    many = [fields_of(), fields_of(expires_at=None, finished_at=None, cancel_requested_at=None, started_at=None, lease_until=None)]
    assert read_objects(text_of(*many)) == [read_job(row_of(one)) for one in many]
    assert read_objects("[]") == []


@pytest.mark.parametrize("name", [*INSTANTS, "scheduled_at"])
def test_a_text_with_an_instant_without_a_zone_needs_a_closer_look(name: str) -> None:
    """As a row by itself, where each is dealt with."""
    assert read_objects(text_of(fields_of(), fields_of(**{name: NAIVE}))) is None


@pytest.mark.parametrize("text", ["", "[", "[1]", b"[\xff]", '[{"id": "x"}]', text_of(fields_of(attempts="many"))])
def test_a_text_that_holds_something_else_needs_a_closer_look(text: str | bytes) -> None:
    """Whatever is wrong with it is found out row by row."""
    assert read_objects(text) is None


def test_a_row_has_every_column() -> None:
    """A job made of shifted columns would be another one."""
    with pytest.raises(ValueError, match="shorter"):
        read_job(row_of(fields_of())[:-1])
    assert Job.__struct_fields__ == COLUMNS
