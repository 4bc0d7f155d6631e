from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from onward.context import JobContext
from onward.definition import JobDefinition, Rules, define_job, job
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime
from onward.ids import is_id
from onward.jobs import EnqueueOptions
from onward.limit import Limit
from onward.payload import payload_hash
from onward.retry import RetryPolicy
from tests.unit.making import make_job


@dataclass
class Welcome:
    user_id: str


def send(payload: Welcome, ctx: JobContext) -> str:
    return f"{payload.user_id} {ctx.attempt}"


def tick() -> str:
    return "ticked"


def with_default(payload: Welcome, retries: int = 3) -> str:
    return payload.user_id


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
    (send, {"breaker": "smtp"}, r"the breaker of t must be a Breaker, such as breaker=Breaker\('s3'\), not 'smtp'"),
    (send, {"limit": 5}, r"the limit of t must be a Limit, such as limit=Limit\(concurrency=2\), not 5"),
    (send, {"concurrency_key": "smtp"}, "concurrency_key of t needs limit="),
    (send, {"concurrency_key": 5, "limit": Limit(concurrency=1)}, "concurrency_key of t is text, or a function of the payload"),
    (send, {"serial_key": ("a",)}, "serial_key of t is text, or a function of the payload"),
    (send, {"serial_key": "s", "after_dead_letter": "stopp"}, "must be 'continue' or 'stop', not 'stopp': did you mean 'stop'"),
    (send, {"after_dead_letter": "stop"}, "after_dead_letter of t needs serial_key="),
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
        isolated=True,
    )
    made = definition.new_job(Welcome("42"))
    assert is_id(made.id)
    assert (made.type, made.payload, made.payload_hash) == ("t", '{"user_id":"42"}', payload_hash('{"user_id":"42"}'))
    assert (made.queue, made.priority, made.max_attempts, made.expires, made.isolated) == ("mail", 5, 7, timedelta(hours=1), True)
    assert (made.key, made.scope, made.on_duplicate) == ("user:42", timedelta(days=1), "raise")
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


def test_a_key_that_is_no_text_is_refused() -> None:
    """A key that every payload shares by accident would let one job in, and no second."""
    for value in (None, "", 5, "a\nb"):
        definition: JobDefinition[Any] = define_job("t", send, key=lambda payload, value=value: value)
        with pytest.raises(InvalidDefinition):
            definition.new_job(Welcome("1"))


@pytest.mark.parametrize(
    ("option", "says"), [("priorty", "did you mean 'priority'?"), ("within", "known are id, delay"), ("zzz", "known are id")]
)
def test_an_unknown_option_of_an_enqueue_names_the_nearest_known_one(option: str, says: str) -> None:
    """A misspelt priority that is dropped is found weeks later; one that ends in a TypeError names a method nobody called."""
    options: dict[str, Any] = {option: 3}
    with pytest.raises(InvalidDefinition) as refused:
        define_job("t", send).new_job(Welcome("1"), **options)
    assert f"there is no option {option!r} at an enqueue" in str(refused.value)
    assert says in str(refused.value)


def test_the_options_that_a_type_checker_knows_are_those_that_run() -> None:
    """As for the rules."""
    assert set(EnqueueOptions.__annotations__) == set(JobDefinition.new_job.__kwdefaults__)


def test_importing_definitions_loads_nothing_heavy() -> None:
    """`import onward` must stay light."""
    heavy = ("asyncio", "sqlite3", "pydantic", "attr", "click", "tomllib", "email", "onward.redact")
    code = f"import sys, onward.definition; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "[]", answer.stdout + answer.stderr


def test_how_long_a_key_stays_taken_means_nothing_without_a_key() -> None:
    """Who writes a scope believes that the job is unique."""
    with pytest.raises(InvalidDefinition, match="give key="):
        define_job("a", send).new_job(Welcome("1"), scope="24h")
    assert define_job("a", send).new_job(Welcome("1"), scope="24h", key="k").scope == timedelta(hours=24)
    assert define_job("a", send, key="payload").new_job(Welcome("1"), scope="forever").scope == "forever"
    assert define_job("a", send, scope="24h").new_job(Welcome("1")).key is None


def test_a_number_is_no_retry_policy() -> None:
    """It is refused where it is declared, not at the first failure."""
    with pytest.raises(InvalidDefinition, match=r"retry of a must be a RetryPolicy, such as retry=RetryPolicy\(max_attempts=3\), not 3"):
        define_job("a", send, retry=3)  # type: ignore[arg-type]  # that is the point


def test_a_refused_payload_names_its_job() -> None:
    """An application has many, and the line in the log may be all that there is."""
    send = define_job("send-welcome", lambda payload: None, payload=dict[str, int])
    with pytest.raises(InvalidPayload, match=r"^send-welcome\(dict\[str, int\]\): expected object, got array \(at \$\)$") as refused:
        send.new_job([])  # type: ignore[arg-type]
    assert refused.value.path == "$"


def test_a_forgotten_payload_is_called_that() -> None:
    """Nobody who forgot it has written the null of "expected object, got null"."""
    send = define_job("send-welcome", lambda payload: None, payload=Welcome)
    with pytest.raises(InvalidPayload, match=r"^send-welcome needs a payload: give a Welcome$") as refused:
        send.new_job(None)  # type: ignore[arg-type]
    assert refused.value.path == "$"
    define_job("may-be-none", lambda payload: None, payload=Welcome | None).new_job(None)


@pytest.mark.parametrize(
    "declare", [lambda rules: define_job("send", send, **rules), lambda rules: job("send", **rules)(send)], ids=["define_job", "job"]
)
@pytest.mark.parametrize("rule", ["tiemout", "max_attempts", "braker"])
def test_a_rule_that_is_refused_names_its_job(declare: Callable[[dict[str, Any]], object], rule: str) -> None:
    """A file declares many."""
    with pytest.raises(InvalidDefinition, match=f"^send: .*'{rule}'"):
        declare({rule: 1})


@pytest.mark.parametrize(("history", "keeps"), [("failures", False), ("all", True)])
def test_the_history_of_successes_is_kept_where_it_is_asked_for(history: Literal["failures", "all"], keeps: bool) -> None:
    """By its own word: most jobs succeed, and a row for each of their tries would be most of the table."""
    assert define_job("a", lambda: None, history=history).keeps_history == keeps
