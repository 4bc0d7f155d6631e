from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from onward.context import JobContext
from onward.definition import define_job
from onward.errors import InvalidDefinition
from onward.signature import is_async, read_signature
from tests.unit.making import make_job


@dataclass
class Welcome:
    user_id: str


class Sender:
    def __call__(self, payload: Welcome, ctx: JobContext) -> None: ...

    async def later(self, payload: Welcome) -> None: ...


class AsyncSender:
    async def __call__(self, payload: Welcome) -> None: ...


Run = JobContext


class Recorder(Protocol):
    def record(self, *, processed: int = 0) -> None: ...


def nothing() -> None: ...
def only(payload: Welcome) -> None: ...
def both(payload: Welcome, ctx: JobContext) -> None: ...
def positional(payload: Welcome, ctx: JobContext, /) -> None: ...
async def awaited(payload: Welcome) -> None: ...
def payload_with_default(payload: int = 3) -> None: ...
def both_with_defaults(payload: int = 3, ctx: JobContext | None = None) -> None: ...
def ctx_with_default(payload: Welcome, ctx: Any = None) -> None: ...
def context_with_default(payload: Welcome, context: Any = None) -> None: ...
def annotated_with_default(payload: Welcome, run: JobContext | None = None) -> None: ...
def its_own_default(payload: Welcome, retries: int = 3) -> None: ...
def two_and_its_own(payload: Welcome, ctx: JobContext, retries: int = 3) -> None: ...
def keyword_default(payload: Welcome, *, loud: bool = False) -> None: ...
def any_keywords(payload: Welcome, **more: Any) -> None: ...
def any_name(payload: Welcome, run: Any) -> None: ...


def unannotated(payload: Welcome, run) -> None: ...  # type: ignore[no-untyped-def]
def of_any_object(payload: Welcome, _: object) -> None: ...
def maybe_context(payload: Welcome, run: JobContext | None) -> None: ...
def under_another_name(payload: Welcome, run: Run) -> None: ...
def of_a_protocol(payload: Welcome, run: Recorder) -> None: ...
def unresolved(payload: Welcome, run: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point


def logged(handler: Any) -> Any:
    @functools.wraps(handler)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return handler(*args, **kwargs)

    return inner


@pytest.mark.parametrize(
    ("handler", "arguments", "kind"),
    [
        (nothing, 0, type(None)),
        (only, 1, Welcome),
        (both, 2, Welcome),
        (positional, 2, Welcome),
        (awaited, 1, Welcome),
        (Sender(), 2, Welcome),
        (Sender().later, 1, Welcome),
        (AsyncSender(), 1, Welcome),
        (payload_with_default, 1, int),
        (both_with_defaults, 2, int),
        (ctx_with_default, 2, Welcome),
        (context_with_default, 2, Welcome),
        (annotated_with_default, 2, Welcome),
        (its_own_default, 1, Welcome),
        (two_and_its_own, 2, Welcome),
        (keyword_default, 1, Welcome),
        (any_keywords, 1, Welcome),
        (any_name, 2, Welcome),
        (logged(both), 2, Welcome),
        (unannotated, 2, Welcome),
        (of_any_object, 2, Welcome),
        (maybe_context, 2, Welcome),
        (under_another_name, 2, Welcome),
        (of_a_protocol, 2, Welcome),
    ],
    ids=range(24),
)
def test_what_a_handler_is_given_is_read_from_its_signature(handler: Any, arguments: int, kind: type) -> None:
    """Functions, methods and callable objects. A payload or ctx with a default is given all the same: a handler that is called
    by hand in tests loses neither in a worker. Any other default is the handler's own.
    """
    assert read_signature("t", handler, None) == (arguments, kind)


def test_a_handler_gets_a_payload_and_ctx_that_have_defaults() -> None:
    """The defaults are for who calls it by hand."""
    seen: list[Any] = []

    def handler(payload: int = 3, ctx: JobContext | None = None) -> None:
        seen.append((payload, ctx))

    context = JobContext(make_job())
    define_job("t", handler, payload=int).call(5, context)
    assert seen == [(5, context)]


def test_a_declared_type_wins_over_the_annotation() -> None:
    """For a handler whose annotation means nothing at run time, and for one that takes nothing but is enqueued with something."""
    assert read_signature("t", both, int) == (2, int)
    assert read_signature("t", nothing, int) == (0, int)


def test_a_partial_is_a_handler_too() -> None:
    """With what it was given beforehand left out."""

    def three(payload: Welcome, loud: bool, times: int) -> None: ...

    assert read_signature("t", functools.partial(three, loud=True, times=2), Welcome) == (1, Welcome)


@pytest.mark.parametrize(
    ("handler", "awaits"), [(only, False), (awaited, True), (Sender(), False), (Sender().later, True), (AsyncSender(), True)]
)
def test_what_is_awaited_is_told_apart(handler: Any, awaits: bool) -> None:
    """An async handler that is called in a thread never runs."""
    assert is_async(handler) is awaits


def two_payloads(a: int, b: int) -> None: ...
def payload_twice(a: Welcome, b: Welcome) -> None: ...
def of_a_list(a: int, b: list[int]) -> None: ...
def generated(payload: Welcome) -> Any:
    yield payload


async def generated_async(payload: Welcome) -> Any:
    yield payload


class Generated:
    def __call__(self, payload: Welcome) -> Any:
        yield payload


def three(a: Welcome, b: int, c: int) -> None: ...
def untyped(payload, ctx): ...  # type: ignore[no-untyped-def]
def untyped_default(payload=3): ...  # type: ignore[no-untyped-def]
def nowhere(payload: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def keyword_ctx(payload: Welcome, *, ctx: JobContext) -> None: ...
def keyword_ctx_default(payload: Welcome, *, ctx: JobContext | None = None) -> None: ...
def keyword_required(payload: Welcome, *, loud: bool) -> None: ...
def ctx_first(ctx: JobContext) -> None: ...
def ctx_third(payload: Welcome, loud: bool = False, ctx: JobContext | None = None) -> None: ...
def anything(*args: Any) -> None: ...
def any_more(payload: Welcome, *more: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (three, "takes 3 arguments"),
        (two_payloads, "takes b: .*int.* as its second argument, and is given the JobContext"),
        (payload_twice, "as its second argument"),
        (of_a_list, "as its second argument"),
        (generated, "is a generator"),
        (generated_async, "is a generator"),
        (functools.partial(generated), "is a generator"),
        (Generated(), "is a generator"),
        (untyped, "annotate 'payload' in its handler, or pass payload="),
        (untyped_default, "annotate 'payload' in its handler, or pass payload="),
        (nowhere, "pass payload="),
        (keyword_ctx, "takes 'ctx' by keyword only"),
        (keyword_ctx_default, "takes 'ctx' by keyword only"),
        (keyword_required, "takes 'loud' by keyword only"),
        (ctx_first, "ctx in another place than the second"),
        (ctx_third, "ctx in another place than the second"),
        (anything, r"takes \*args.*functools.wraps"),
        (any_more, r"takes \*more"),
        (type, "cannot be read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_handler_that_could_not_be_called_right_is_refused_where_it_is_declared(handler: Any, says: str) -> None:
    """Otherwise every one of its jobs fails, or runs without what it asked for."""
    with pytest.raises(InvalidDefinition, match=says):
        read_signature("t", handler, None)


def test_a_second_argument_whose_annotation_cannot_be_read_is_let_through() -> None:
    """Names that only a type checker imports are common, and most of them mean the context."""
    assert read_signature("t", unresolved, Welcome) == (2, Welcome)
