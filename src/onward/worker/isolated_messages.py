"""What a worker and the process of an isolated job say to each other: one JSON object a line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from onward.breaker import BreakerPolicy, RunEnding
from onward.jobs import Job, NewJob
from onward.outcome import Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.turn import Claim, Settlement

# -- from the worker -------------------------------------------------------------------------------------------------


class Order(Struct, frozen=True, tag="run"):
    """Run this job; ``lease_owner`` is who holds its claim, for a ``lease`` that the worker renews."""

    job: Job
    lease: timedelta
    lease_owner: str


class Notice(Struct, frozen=True, tag="notice"):
    """What happened meanwhile to the job that runs.

    ``stop``: it should end soon. ``cancelled``: a person asked for it, ``at``. ``given_back``: the grace of
    a stopping worker is nearly over, so an async handler is cancelled, and its job is given back.
    """

    what: Literal["stop", "cancelled", "given_back"]
    at: datetime | None = None


# -- from the process ------------------------------------------------------------------------------------------------


class Ready(Struct, frozen=True, tag="ready"):
    """The application is loaded."""


class Started(Struct, frozen=True, tag="started"):
    """The handler begins: from here on the end of the process is the job's."""


class Progressed(Struct, frozen=True, tag="progress"):
    """JSON text of the handler's last ``ctx.progress``."""

    value: str


class Ended(Struct, frozen=True, tag="ended"):
    """How the run ended. ``outcome`` is the name of one of ``OUTCOMES``, ``fields`` are its own."""

    outcome: str
    fields: dict[str, Any]
    children: list[dict[str, Any]]
    progress: str | None
    processed: int
    failed: int
    run_ending: RunEnding
    """What it says of the breaker's provider."""
    is_spent: bool
    """The handler left something behind that could end the process while another runs."""


Report: TypeAlias = Ready | Started | Progressed | Ended
Message: TypeAlias = Order | Notice

OUTCOMES: dict[str, type[Outcome]] = {one.name: one for one in (Completed, Retried, Snoozed, Released, Cancelled, DeadLettered)}

_encoder = msgspec.json.Encoder()
_reports = msgspec.json.Decoder(Report)
_messages = msgspec.json.Decoder(Message)


def write_line(message: Message | Report) -> bytes:
    """One message as it is sent, with the end of its line."""
    return _encoder.encode(message) + b"\n"


def read_message(line: bytes) -> Message:
    """What a worker said. Raises ``msgspec.DecodeError``."""
    message: Message = _read(_messages, line)
    return message


def read_report(line: bytes) -> Report:
    """What the process of a job said. Raises ``msgspec.DecodeError``."""
    report: Report = _read(_reports, line)
    return report


def _read(decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
    try:
        return decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:  # text that is not UTF-8, or is nested without end
        raise msgspec.DecodeError(str(error)) from None


def ended(settlement: Settlement, *, is_spent: bool = False) -> Ended:
    """Say how a run ended."""
    return Ended(
        outcome=settlement.outcome.name,
        fields=msgspec.to_builtins(asdict(settlement.outcome)),
        children=[msgspec.to_builtins(asdict(child)) for child in settlement.children],
        progress=settlement.progress,
        processed=settlement.processed,
        failed=settlement.failed,
        run_ending=settlement.run_ending,
        is_spent=is_spent,
    )


def settlement(report: Ended, claim: Claim, *, keeps_history: bool, breaker: BreakerPolicy | None = None) -> Settlement:
    """Put together again how it ended. Raises ``msgspec.ValidationError`` or ``KeyError`` for what no process of ours says."""
    return Settlement(
        claim=claim,
        outcome=msgspec.convert(report.fields, OUTCOMES[report.outcome]),
        children=tuple(map(_read_child, report.children)),
        progress=report.progress,
        processed=report.processed,
        failed=report.failed,
        keeps_history=keeps_history,
        breaker=breaker,
        run_ending=report.run_ending,
    )


def _read_child(fields: dict[str, Any]) -> NewJob:
    try:
        return NewJob(**{name: _types()[name](value) for name, value in fields.items()})
    except TypeError as error:  # a field is missing
        raise msgspec.ValidationError(str(error)) from None


@cache
def _types() -> dict[str, Callable[[Any], Any]]:
    """How to read each field of a ``NewJob``. A scope is a word or a duration, which is more than a decoder can tell apart."""
    readers: dict[str, Callable[[Any], Any]] = {
        name: partial(msgspec.convert, type=kind) for name, kind in get_type_hints(NewJob).items() if name != "scope"
    }
    return readers | {"scope": lambda value: value if value in ("active", "forever") else msgspec.convert(value, timedelta)}
