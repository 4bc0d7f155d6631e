"""The application of the canary test: each job carries a secret of its own to a place from which it must not get any further.

The secrets are read from a file, so that none is in an argument or a variable that the test did not choose.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from onward import AlertRules, Cancel, JobContext, Onward, PermanentJobError, RetryPolicy, TransientJobError, Webhook, define_job, redact
from onward.driver import Store
from onward.events import Event

HOME = Path(os.environ["CANARY_HOME"])
CANARIES: dict[str, str] = json.loads((HOME / "canaries.json").read_text())

if os.environ.get("CANARY_PLANTED"):
    # What the test must notice: an application whose secrets are taken out by nobody.
    redact.redact = lambda text: text


@dataclass
class Order:
    api_key: str = ""
    note: str = ""


class Refused(Exception):
    """Its text is made of what it holds."""

    def __init__(self, **details: str) -> None:
        super().__init__()
        self.details = details

    def __str__(self) -> str:
        return f"refused: {self.details!r}"


def payload(order: Order, ctx: JobContext) -> None:
    raise ValueError(f"order {order!r} was refused")


def message(order: Order, ctx: JobContext) -> None:
    raise ValueError(f"log-in failed with password={CANARIES['message']}")


def chained(order: Order, ctx: JobContext) -> None:
    try:
        raise KeyError(f"token: {CANARIES['chained']}")
    except KeyError as error:
        raise RuntimeError("could not sign in") from error


def handled(order: Order, ctx: JobContext) -> None:
    try:
        raise KeyError(f"client_secret={CANARIES['handled']}")
    except KeyError:
        raise RuntimeError("could not clean up either")  # noqa: B904 - the other way to be chained


def after_the_cut(order: Order, ctx: JobContext) -> None:
    raise ValueError("word " * 1200 + f"password={CANARIES['after_the_cut']} " + "word " * 1200)


def across_the_cut(order: Order, ctx: JobContext) -> None:
    raise ValueError("word " * 196 + "wor password=" + CANARIES["across_the_cut"] * 9 + " word" * 1200)


def beyond_all_cuts(order: Order, ctx: JobContext) -> None:
    raise ValueError("word " * 6_537 + f"secret={CANARIES['beyond_all_cuts']} " + "word " * 40_000)


def groups(order: Order, ctx: JobContext) -> None:
    inner = ExceptionGroup("inner", [ValueError(f"secret={CANARIES['groups']}"), OSError(5, f"token={CANARIES['groups']}")])
    raise ExceptionGroup(f"outer: passwd={CANARIES['groups']}", [inner, Refused(api_key=CANARIES["groups"])])


def local_variables(order: Order, ctx: JobContext) -> None:
    parts = {"raw": CANARIES["local_variables"], "twice": [CANARIES["local_variables"]] * 2}
    raise ValueError(f"{len(parts)} parts were refused")


def environment(order: Order, ctx: JobContext) -> None:
    raise RuntimeError(f"the tool cannot be started in {dict(os.environ)!r}")


def header(order: Order, ctx: JobContext) -> None:
    raise RuntimeError(f"403 for GET /orders\nAuthorization: Bearer {CANARIES['header']}\nAccept: */*")


def url(order: Order, ctx: JobContext) -> None:
    raise RuntimeError(f"no answer from https://shop:{CANARIES['url']}@example.com/orders?page=2")


def connection_string(order: Order, ctx: JobContext) -> None:
    raise RuntimeError(f"cannot connect (host=localhost user=shop password='{CANARIES['connection_string']}' dbname=shop)")


def driver_error(order: Order, ctx: JobContext) -> None:
    raise psycopg.OperationalError(f"connection failed: postgresql://shop:{CANARIES['driver_error']}@localhost:1/shop refused")


def note_of_an_error(order: Order, ctx: JobContext) -> None:
    error = ValueError("not today")
    error.add_note(f"tried with api-key={CANARIES['note_of_an_error']}")
    raise error


def own_text(order: Order, ctx: JobContext) -> None:
    raise Refused(session_id=CANARIES["own_text"])


def permanent(order: Order, ctx: JobContext) -> None:
    raise PermanentJobError(f'{{"password": "{CANARIES["permanent"]}"}}')


def retry_after(order: Order, ctx: JobContext) -> None:
    raise TransientJobError("busy", retry_after=f"token={CANARIES['retry_after']}")


def cancelled(order: Order, ctx: JobContext) -> Cancel:
    return Cancel(f"the customer's token={CANARIES['cancelled']} is void")


def unstorable_result(order: Order, ctx: JobContext) -> dict[str, Any]:
    return {"password": CANARIES["unstorable_result"], "total": float("nan")}


def result(order: Order, ctx: JobContext) -> dict[str, str]:
    return {"token": CANARIES["result"]}


def progress(order: Order, ctx: JobContext) -> None:
    ctx.progress({"secret": CANARIES["progress"]})


def metadata(order: Order, ctx: JobContext) -> None:
    raise ValueError(f"refused with {ctx.metadata!r}")


def key(order: Order, ctx: JobContext) -> None:
    raise ValueError("refused")


def damaged(order: Order, ctx: JobContext) -> None:
    raise AssertionError("its payload cannot be read")


async def awaited(order: Order, ctx: JobContext) -> None:
    raise ValueError(f"Cookie: session={CANARIES['awaited']}")


def alone(order: Order, ctx: JobContext) -> None:
    raise ValueError(f"password={CANARIES['alone']}")


def standard_error(order: Order, ctx: JobContext) -> None:
    print(f"debug: {CANARIES['standard_error']}", file=sys.stderr, flush=True)
    raise ValueError("not today")


def subscriber(order: Order, ctx: JobContext) -> None:
    pass


def arguments(order: Order, ctx: JobContext) -> None:
    """Note how this process, those above it and all others of this user that are ours were started."""
    lines = [path.read_bytes().replace(b"\0", b" ") for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    (HOME / "arguments").write_bytes(b"\n".join(line for line in lines if b"onward" in line))


ALONE = {"alone", "standard_error"}
HANDLERS = (
    *(payload, message, chained, handled, after_the_cut, across_the_cut, beyond_all_cuts, groups, local_variables, environment),
    *(header, url, connection_string, driver_error, note_of_an_error, own_text, permanent, retry_after, cancelled, unstorable_result),
    *(result, progress, metadata, key, damaged, awaited, alone, standard_error, subscriber, arguments),
)
JOBS = {
    handler.__name__: define_job(handler.__name__, handler, retry=RetryPolicy(1), isolated=handler.__name__ in ALONE, history="all")
    for handler in HANDLERS
}


def write_down(event: Event) -> None:
    with open(HOME / "events", "ab") as file:
        file.write(msgspec.json.encode(event) + b"\n")


def alert(event: Event) -> None:
    if event.job_type == "subscriber" and event.event == "completed":
        raise RuntimeError(f"the alert was not sent: Authorization: Bearer {CANARIES['subscriber']}")


class Ledger:
    name = "ledger"

    def reconcile(self, store: Store) -> Any:
        raise RuntimeError(f"the ledger does not open with password={CANARIES['reconciler']}")

    def sweep(self, store: Store) -> list[str]:
        return []


HOOK = os.environ.get("CANARY_HOOK", "http://127.0.0.1:9/")
app = Onward(
    jobs=JOBS.values(),
    subscribers=[write_down, alert],
    reconcile=[Ledger()],
    alert_rules=AlertRules(success_rate=1.0, dead_letters=0, samples=1, lasts=0, every="1s"),
    webhooks=[Webhook(f"{HOOK}&token={CANARIES['hook_url']}", secret=CANARIES["hook_secret"])],
)


def enqueue_all() -> dict[str, str]:
    """One job of each type; gives their ids."""
    given: dict[str, dict[str, Any]] = {
        "key": {"key": CANARIES["key"]},
        "metadata": {"metadata": {"access_token": CANARIES["metadata"]}},
    }
    ids = {}
    for name, definition in JOBS.items():
        order = Order(api_key=CANARIES["payload"]) if name == "payload" else Order()
        ids[name] = app.enqueue(definition, order, **given.get(name, {})).id
    return ids


if __name__ == "__main__":
    print(json.dumps(enqueue_all()))
