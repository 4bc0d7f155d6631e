"""The value of a marked field is in no error, event, history or log line, however the run ends."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from onward import Cancel, JobContext, Onward, PermanentJobError, RetryPolicy, Secret, TransientJobError, define_job
from onward.redact import REDACTED
from onward.telemetry.log import LifecycleLog

TOKEN, OTHER = "Vogelfluglinie", "Schnellzugzuschlag"
"""Nothing of their name, place or form says that they are secrets."""


@dataclass
class Login:
    user: str
    token: Secret[str]


@dataclass
class Batch:
    logins: list[Login]


def plain(payload: Batch) -> None:
    raise ValueError(f"bad {payload.logins[0].token}")


def whole(payload: Batch) -> None:
    raise ValueError(f"bad {payload!r}")


def chained(payload: Batch) -> None:
    try:
        raise KeyError(payload.logins[0].token)
    except KeyError as error:
        raise RuntimeError("no log-in") from error


def handled(payload: Batch) -> None:
    try:
        raise KeyError(payload.logins[0].token)
    except KeyError:
        raise RuntimeError("no log-in")  # noqa: B904 - the other way to be chained


def noted(payload: Batch) -> None:
    error = ValueError("no log-in")
    error.add_note(f"with {payload.logins[0].token}")
    raise error


def grouped(payload: Batch) -> None:
    raise ExceptionGroup(f"{payload.logins[0].token} failed", [ValueError(payload.logins[0].token), OSError(5, payload.logins[0].token)])


def cut(payload: Batch) -> None:
    raise ValueError("word " * 195 + "wor " + payload.logins[0].token * 20 + " word" * 2000)


def permanent(payload: Batch) -> None:
    raise PermanentJobError(payload.logins[0].token)


def retry_after(payload: Batch) -> None:
    raise TransientJobError("busy", retry_after=payload.logins[0].token)


def cancelled(payload: Batch) -> Cancel:
    return Cancel(f"{payload.logins[0].token} is void")


async def awaited(payload: Batch) -> None:
    await asyncio.sleep(0)
    raise ValueError(payload.logins[0].token)


def behind_its_transaction(payload: Batch, ctx: JobContext) -> None:
    with ctx.transaction():
        pass
    raise ValueError(payload.logins[0].token)


def child(payload: Batch, ctx: JobContext) -> None:
    ctx.enqueue(CHILD, Batch([Login("ada", payload.logins[0].token), 7]))  # type: ignore[list-item]


def refuse(batch: Batch) -> str:
    raise ValueError(f"no key for {batch.logins[0].token}")


def key_of_a_child(payload: Batch, ctx: JobContext) -> None:
    ctx.enqueue(KEYED, Batch([Login("ada", OTHER)]))


def nothing(payload: Batch) -> None:
    raise AssertionError("nobody runs it")


CHILD = define_job("child-of", nothing)
KEYED = define_job("keyed-child", nothing, key=refuse)
HANDLERS: tuple[Callable[..., object], ...] = (
    *(plain, whole, chained, handled, noted, grouped, cut, permanent, retry_after, cancelled, awaited),
    *(behind_its_transaction, child, key_of_a_child),
)


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_no_marked_value_gets_out_of_a_run(handler: Callable[..., object], caplog: pytest.LogCaptureFixture) -> None:
    lines = io.StringIO()
    definition = define_job("log-in", handler, retry=RetryPolicy(2), history="all")
    with Onward("memory://", jobs=[definition, CHILD, KEYED], subscribers=[LifecycleLog(lines)]) as app:
        handle = app.enqueue(definition, Batch([Login("ada", TOKEN)]))
        with caplog.at_level(logging.DEBUG):
            app.worker(drain=True).run()
        job, attempts = app.get(handle), app.history(handle.id)
    told = "\n".join([job.error or "", *(one.error or "" for one in attempts), lines.getvalue(), caplog.text])
    assert TOKEN not in told
    assert not any(TOKEN[at : at + 8] in told for at in range(len(TOKEN) - 7))
    assert OTHER not in told
    assert "log-in" in lines.getvalue()
    if handler not in (retry_after, child, cut):
        assert REDACTED in told


def test_a_payload_that_cannot_be_decoded_says_no_marked_value() -> None:
    """It was written by hand, or the type has changed since."""

    @dataclass
    class Before:
        login: dict[str, str]

    @dataclass
    class After:
        login: Secret[dict[str, int]]

    def before(payload: Before) -> None: ...

    def after(payload: After) -> None: ...

    app = Onward("memory://", jobs=[define_job("log-in", before, payload=Before)])
    handle = app.enqueue(app.definitions["log-in"], Before({TOKEN: TOKEN}))
    newer = Onward(store=app.store, jobs=[define_job("log-in", after, payload=After)])
    newer.worker(drain=True).run()
    job = newer.get(handle)
    assert job.status == "dead_letter"
    assert "InvalidPayload" in (job.error or "")
    assert TOKEN not in (job.error or "")
    assert TOKEN in job.payload
    app.close()
