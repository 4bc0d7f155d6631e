"""What a worker and the process of an isolated job say to each other: a line is read, or refused with an error that the reader expects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from onward.errors import OnwardError
from onward.jobs import NewJob
from onward.outcome import Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.testing.factories import make_job, make_new_job
from onward.turn import Claim, Settlement
from onward.worker.isolated_messages import Ended, Order, ended, read_message, read_report, settlement, write_line
from tests.fuzz.taking import Taker
from tests.fuzz.target import Target, declared, must, texts

CLAIM = Claim(make_job("in_progress"), timedelta(seconds=60))


def check(data: bytes) -> None:
    for line in data.split(b"\n"):
        with declared(msgspec.DecodeError):
            must(b"\n" not in write_line(read_message(line)).rstrip(b"\n"), "a message of two lines")
        with declared(msgspec.DecodeError):
            report = read_report(line)
            must(read_report(write_line(report)) == report, "a report does not come back")
            if isinstance(report, Ended):
                with declared(msgspec.ValidationError, KeyError):
                    settlement(report, CLAIM, keeps_history=True)


def check_round_trip(data: bytes) -> None:
    take = Taker(data)
    before = Settlement(
        claim=CLAIM,
        outcome=_outcome(take),
        children=tuple(_child(take) for _ in range(take.number(3))),
        progress=take.choice([None, '"half"', _sendable(take.text())]),
        processed=take.number(65_536),
        failed=take.number(65_536),
        keeps_history=True,
    )
    line = write_line(ended(before))
    must(line.count(b"\n") == 1, "a message of two lines")
    report = read_report(line)
    must(isinstance(report, Ended), "another report")
    assert isinstance(report, Ended)
    must(settlement(report, CLAIM, keeps_history=True) == before, "what was settled does not come back")
    order = Order(CLAIM.job, timedelta(microseconds=take.number(65_536) * 10**6 + take.number(65_536)), _sendable(take.text()))
    must(read_message(write_line(order)) == order, "an order does not come back")


def _outcome(take: Taker) -> Outcome:
    delay = timedelta(microseconds=take.number(65_536) * 7_919)
    text = _sendable(take.text())
    made: list[Outcome] = [
        *(Completed(text), Completed(None, text), Retried(delay, text, isolated=bool(take.number(2))), Snoozed(delay)),
        *(Released(), Cancelled(text), DeadLettered(text)),
    ]
    return take.choice(made)


def _child(take: Taker) -> NewJob:
    fields: dict[str, Any] = {"delay": timedelta(seconds=take.number(65_536)), "priority": take.number(201) - 100}
    fields["scope"] = take.choice(["active", "forever", timedelta(milliseconds=take.number(65_536))])
    fields["expires"] = take.choice([None, timedelta(milliseconds=1 + take.number(65_536))])
    for name in ("key", "owner", "queue"):
        fields[name] = _sendable(take.text(12))
    with declared(OnwardError):
        return make_new_job("work", take.number(), **fields)
    return make_new_job()


def _sendable(text: str) -> str:
    """What an outcome holds was made storable before."""
    return text.encode("utf-8", "backslashreplace").decode()


_ENDED = '{"type":"ended","outcome":"completed","fields":{},"children":[],"progress":null,"processed":0,"failed":0,"is_spent":false}'
_PIECES = (
    *('{"type":"ended",', '"outcome":"retried",', '"fields":{"delay":"PT1S","error":"x"},', '"children":[{}],', '"progress":null,'),
    *(
        '"processed":0,"failed":0,',
        '"is_spent":false}',
        '{"type":"progress","value":',
        '{"type":"ready"}',
        '{"type":"notice","what":"stop"}',
    ),
)

TARGET = Target(
    "messages",
    check,
    texts(_ENDED, *_PIECES, "\n")
    | texts(_ENDED.replace("[]", '[{"id":"x","type":"a","payload":"1","payload_hash":"h"}]'), "\ud800", '"scope":{}'),
    ('"type":"ended"', '"fields":{', '"children":[', '"outcome":"', "PT1S", "\n", '"scope":', _ENDED),
)
ROUND_TRIPS = Target("message-round-trips", check_round_trip, texts("\x00\x10", "\x01\x02\x03", "abc", "\x06\x20"))
