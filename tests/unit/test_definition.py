from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.context import JobContext
from onward.definition import JobDefinition, Registry, Rules, define_job, job
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime, UnknownJobType
from onward.ids import is_id
from onward.payload import payload_hash
from onward.retry import RetryPolicy
from tests.unit.making import make_job


@dataclass
class Welcome:
    user_id: str


def send(payload: Welcome, ctx: JobContext) -> str:
    return f"{payload.user_id} {ctx.attempt}"


async def send_async(payload: Welcome) -> None: ...


def tick() -> str:
    return "ticked"


class Sender:
    def __call__(self, payload: Welcome, ctx: JobContext) -> str:
        return payload.user_id

    async def later(self, payload: Welcome) -> None: ...


class AsyncSender:
    async def __call__(self, payload: Welcome) -> None: ...


def with_default(payload: Welcome, retries: int = 3) -> str:
    return payload.user_id


@pytest.mark.parametrize(
    ("handler", "arguments", "kind", "is_async"),
    [
        (send, 2, Welcome, False),
        (send_async, 1, Welcome, True),
        (tick, 0, type(None), False),
        (Sender(), 2, Welcome, False),
        (Sender().later, 1, Welcome, True),
        (AsyncSender(), 1, Welcome, True),
        (with_default, 1, Welcome, False),
    ],
    ids=range(7),
)
def test_the_payload_s_type_is_read_from_the_handler(handler: Any, arguments: int, kind: type, is_async: bool) -> None:
    """Functions, methods and callable objects; arguments with a default are the handler's own."""
    definition: JobDefinition[Any] = define_job("t", handler)
    assert (definition.arguments, definition.payload_type, definition.is_async) == (arguments, kind, is_async)


def test_a_handler_gets_as_many_arguments_as_it_takes() -> None:
    """Payload and ctx, payload, or nothing."""
    context = JobContext(make_job(attempts=2))
    assert define_job("a", send).call(Welcome("42"), context) == "42 2"
    assert define_job("b", tick).call(None, context) == "ticked"
    assert define_job("c", with_default).call(Welcome("42"), context) == "42"


def test_a_decorated_function_stays_callable() -> None:
    """So that a unit test needs no queue."""

    @job("t", queue="mail")
    def handler(payload: Welcome) -> str:
        return payload.user_id

    assert handler(Welcome("42")) == "42"
    assert handler.queue == "mail"
    assert repr(handler) == "<JobDefinition t>"


def three(a: Welcome, b: int, c: int) -> None: ...


def untyped(payload, ctx): ...  # type: ignore[no-untyped-def]


def nowhere(payload: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (send, {"name": ""}, "job name"),
    (send, {"name": "-x"}, "job name"),
    (send, {"name": "a b"}, "job name"),
    (send, {"name": "x" * 101}, "job name"),
    (send, {"name": "Zoë"}, "job name"),
    (send, {"name": 5}, "job name"),
    ("send", {}, "not callable"),
    (three, {}, "takes 3 arguments"),
    (untyped, {}, "annotate 'payload' in its handler, or pass payload="),
    (nowhere, {}, "pass payload="),
    (send, {"payload": object}, "payload"),
    (send, {"queue": ""}, "queue"),
    (send, {"queue": "a,b"}, "queue"),
    (send, {"priority": 101}, "priority"),
    (send, {"priority": -101}, "priority"),
    (send, {"priority": True}, "priority"),
    (send, {"priority": "high"}, "priority"),
    (send, {"lease": "0s"}, "lease"),
    (send, {"lease": "999ms"}, "lease"),
    (send, {"lease": "25h"}, "lease"),
    (send, {"lease": "soon"}, "soon"),
    (send, {"timeout": "0s"}, "timeout"),
    (send, {"timeout": "-1s"}, "-1s"),
    (send, {"expires": "x"}, "'x'"),
    (send, {"key": "user_id"}, "key of t"),
    (send, {"key": 5}, "key of t"),
    (send, {"scope": "always"}, "scope"),
    (send, {"on_duplicate": "ignore"}, "on_duplicate"),
    (send, {"history": "some"}, "history"),
    (send, {"aliases": ("a b",)}, "alias"),
    (send, {"max_attempts": 3}, r"it belongs to retry=RetryPolicy\(max_attempts=\.\.\.\)"),
    (send, {"backoff": "fixed"}, r"retry=RetryPolicy\(backoff=\.\.\.\)"),
    (send, {"queu": "x"}, "did you mean 'queue'"),
    (send, {"zzz": 1}, "known are payload, queue"),
]


@pytest.mark.parametrize(("handler", "rules", "says"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_declaration_says_what_is_wrong(handler: Any, rules: dict[str, Any], says: str) -> None:
    """At import, in one line; never a bare TypeError."""
    name = rules.get("name", "t")
    others = {rule: value for rule, value in rules.items() if rule != "name"}
    with pytest.raises(InvalidDefinition, match=says) as refused:
        define_job(name, handler, **others)
    assert "\n" not in str(refused.value)
    if name == "t":
        with pytest.raises(InvalidDefinition, match=says):
            job(name, **others)(handler)


def test_the_decorator_without_a_name_says_so() -> None:
    """The first mistake everybody makes."""
    with pytest.raises(InvalidDefinition, match="takes the name of the job"):
        job(send)  # type: ignore[arg-type]


def test_the_rules_that_a_type_checker_knows_are_those_that_run() -> None:
    """Two lists of keywords, one truth."""
    keywords = JobDefinition.__init__.__kwdefaults__
    assert set(Rules.__annotations__) == set(keywords)


def test_a_job_asks_for_what_its_definition_says_unless_the_call_says_otherwise() -> None:
    """Definition first, call last."""
    definition = define_job(
        "t",
        send,
        queue="mail",
        priority=5,
        retry=RetryPolicy(7),
        expires="1h",
        key=lambda payload: f"user:{payload.user_id}",
        scope="24h",
        on_duplicate="raise",
        breaker="smtp",
        concurrency_key="smtp",
        serial_key=lambda payload: payload.user_id,
        isolated=True,
    )
    made = definition.new_job(Welcome("42"))
    assert is_id(made.id)
    assert (made.type, made.payload, made.payload_hash) == ("t", '{"user_id":"42"}', payload_hash('{"user_id":"42"}'))
    assert (made.queue, made.priority, made.max_attempts, made.expires, made.isolated) == ("mail", 5, 7, timedelta(hours=1), True)
    assert (made.key, made.scope, made.on_duplicate) == ("user:42", timedelta(days=1), "raise")
    assert (made.breaker, made.concurrency_key, made.serial_key) == ("smtp", "smtp", "42")
    assert (made.delay, made.at, made.owner, made.metadata) == (timedelta(0), None, "", "{}")

    told = definition.new_job(
        Welcome("42"),
        id="0" * 26,
        delay="5m",
        key="k",
        scope="active",
        on_duplicate="same",
        owner="o",
        priority=-1,
        queue="q",
        expires="2h",
        metadata={"a": 1},
    )
    assert (told.id, told.delay, told.key, told.scope, told.on_duplicate) == ("0" * 26, timedelta(minutes=5), "k", "active", "same")
    assert (told.owner, told.priority, told.queue, told.expires, told.metadata) == ("o", -1, "q", timedelta(hours=2), '{"a":1}')


def test_a_key_can_be_the_payload_itself() -> None:
    """Equal payloads, equal keys."""
    definition = define_job("t", send, key="payload")
    assert definition.new_job(Welcome("1")).key == definition.new_job(Welcome("1")).key != definition.new_job(Welcome("2")).key


def test_a_moment_becomes_utc() -> None:
    """Wherever it was written."""
    assert define_job("t", send).new_job(Welcome("1"), at="2026-01-01T01:00:00+01:00").at == datetime(2026, 1, 1, tzinfo=UTC)


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"delay": "5m", "at": "2026-01-01T00:00:00Z"}, InvalidTime),
    ({"delay": "-5m"}, InvalidTime),
    ({"at": datetime(2026, 1, 1)}, InvalidTime),  # noqa: DTZ001 - naive on purpose
    ({"at": "1969-12-31T00:00:00Z"}, InvalidTime),
    ({"at": "9001-01-01T00:00:00Z"}, InvalidTime),
    ({"id": "42"}, InvalidDefinition),
    ({"id": "8" + "0" * 25}, InvalidDefinition),
    ({"owner": "a\0"}, InvalidDefinition),
    ({"owner": "x" * 256}, InvalidDefinition),
    ({"owner": None}, InvalidDefinition),
    ({"key": ""}, InvalidDefinition),
    ({"key": "a\nb"}, InvalidDefinition),
    ({"queue": "a b"}, InvalidDefinition),
    ({"priority": 1000}, InvalidDefinition),
    ({"expires": "soon"}, InvalidTime),
    ({"scope": "0s"}, InvalidDefinition),
    ({"on_duplicate": "x"}, InvalidDefinition),
    ({"metadata": {"a": object()}}, InvalidPayload),
    ({"metadata": {"a": "x" * 20_000}}, InvalidPayload),
]


@pytest.mark.parametrize(("options", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_an_enqueue_may_not_ask_is_refused_before_the_store(options: dict[str, Any], error: type[Exception]) -> None:
    """Nothing was stored then."""
    with pytest.raises(error):
        define_job("t", send).new_job(Welcome("1"), **options)


def test_a_shared_key_that_is_no_text_is_refused() -> None:
    """A limit on nothing would limit everything."""
    for rule in ("concurrency_key", "serial_key", "key"):
        for value in (None, "", 5, "a\nb"):
            definition: JobDefinition[Any] = define_job("t", send, **{rule: lambda payload, value=value: value})
            with pytest.raises(InvalidDefinition):
                definition.new_job(Welcome("1"))


def test_a_registry_knows_names_and_aliases() -> None:
    """A renamed job still finds its old rows."""
    first, second = define_job("new", send, aliases=("old",), lease="2m"), define_job("b", tick)
    registry = Registry([first])
    registry.add(second)
    registry.add(first)
    assert registry["old"] is registry["new"] is first
    assert list(registry) == [first, second]
    assert len(registry) == 2
    assert "old" in registry
    assert "c" not in registry
    assert registry.leases() == {"new": timedelta(minutes=2), "old": timedelta(minutes=2), "b": timedelta(minutes=1)}
    with pytest.raises(UnknownJobType, match="no job is called 'c'; known are: b, new, old"):
        registry["c"]


def test_two_jobs_of_one_name_are_refused() -> None:
    """The second would run the first one's rows."""
    registry = Registry([define_job("a", send, aliases=("old",))])
    for taken in (define_job("a", tick), define_job("old", tick), define_job("c", tick, aliases=("a",))):
        with pytest.raises(InvalidDefinition, match="two jobs are called"):
            registry.add(taken)
    with pytest.raises(InvalidDefinition, match="is not a job"):
        registry.add(send)  # type: ignore[arg-type]


def test_a_refused_definition_leaves_nothing_of_itself() -> None:
    """Half of it would answer to the name that was free."""
    registry = Registry([define_job("a", send)])
    with pytest.raises(InvalidDefinition):
        registry.add(define_job("free", tick, aliases=("a",)))
    assert "free" not in registry
    assert len(registry) == 1


def test_a_partial_is_a_handler_too() -> None:
    """With what it was given beforehand left out."""
    definition: JobDefinition[Any] = define_job("t", functools.partial(three, b=1, c=2), payload=Welcome)
    assert (definition.arguments, definition.payload_type) == (1, Welcome)


def test_importing_definitions_loads_nothing_heavy() -> None:
    """`import onward` must stay light."""
    heavy = ("asyncio", "sqlite3", "pydantic", "attr", "click", "tomllib", "email", "onward.redact")
    code = f"import sys, onward.definition; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "[]", answer.stdout + answer.stderr
