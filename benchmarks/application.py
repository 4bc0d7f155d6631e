"""The application whose worker is measured, and the handlers of the yardsticks."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.probe import FILE, Probe
from onward import Onward, define_job


@dataclass
class Work:
    """About 100 bytes of JSON, as an application would store."""

    number: int
    sent_at: int = 0
    user_id: int = 123456
    template: str = "welcome_mail"
    locale: str = "en-GB"
    arguments: list[int] = field(default_factory=lambda: [1, 2, 3])


def encoded(work: Work) -> str:
    """As JSON, for the yardsticks."""
    return msgspec.json.encode(work).decode()


_probe = Probe(os.environ[FILE]) if FILE in os.environ else None


def hit(number: int, sent_at: int) -> None:
    """What every handler does first."""
    if _probe is not None:
        _probe.hit(number, sent_at)


def _handler(kind: str, seconds: float) -> Any:
    async def awaited(work: Work) -> None:
        hit(work.number, work.sent_at)
        if seconds:
            await asyncio.sleep(seconds)

    def plain(work: Work) -> None:
        hit(work.number, work.sent_at)
        if seconds:
            time.sleep(seconds)

    return awaited if kind == "async" else plain


KINDS = ("async", "sync", "isolated")
MILLISECONDS = (0, 1, 10)
"""What a handler waits for, as for an answer over the network."""
JOBS = {
    f"{kind}-{number}": define_job(f"{kind}-{number}", _handler(kind, number / 1000), isolated=kind == "isolated")
    for kind in KINDS
    for number in MILLISECONDS
}


ASIDE = "aside"
"""The name and the queue of jobs that only wait."""
JOBS[ASIDE] = define_job(ASIDE, _handler("async", 0), queue=ASIDE)


def raw_handler(milliseconds: int) -> Any:
    """The same for a yardstick, whose handlers are async and get the decoded JSON."""
    seconds = milliseconds / 1000

    async def handler(work: dict[str, Any]) -> None:
        hit(work["number"], work["sent_at"])
        if seconds:
            await asyncio.sleep(seconds)

    return handler


app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
