"""What a handler takes: payload and ctx, the payload only, or nothing; and of which type the payload is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, get_origin, get_type_hints

from onward.errors import InvalidDefinition
from onward.secret_types import read_shapes

_CTX_NAMES = ("ctx", "context")


def read_signature(name: str, handler: Callable[..., Any], payload: type[Any] | None) -> tuple[int, Any]:
    """Say how many arguments the handler of the job ``name`` is given, and of which type its payload is.

    Arguments are given by position: the first is the payload, the second is ctx. A second one that has a default gets ctx if it is
    called ``ctx`` or ``context`` or annotated as one; any other argument with a default is the handler's own. One
    without a default may have any name, but no annotation that a ctx does not fit. ``payload`` is the type that was declared, which
    wins over the annotation. Raises ``InvalidDefinition`` for what could not be called.
    """
    _refuse_generators(name, handler)
    parameters = _parameters(name, handler)
    _refuse_what_is_never_given(name, parameters)
    taken = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    given = taken[:1] + [one for one in taken[1:2] if one.default is one.empty or _is_context(one)]
    if len(given) == 2 and not _may_be_context(handler, given[1]):
        raise InvalidDefinition(
            f"the handler of {name} takes {given[1]!s} as its second argument, and is given the JobContext there: "
            "put everything else into the payload, def handler(payload, ctx)"
        )
    if not given:
        return 0, type(None) if payload is None else payload
    return len(given), _payload_type(name, handler, given[0]) if payload is None else payload


def is_async(handler: Callable[..., Any]) -> bool:
    """Say whether calling the handler gives something to await."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _refuse_generators(name: str, handler: Callable[..., Any]) -> None:
    for one in (handler, type(handler).__call__):
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise InvalidDefinition(
                f"the handler of {name} is a generator (it has a yield): calling it would run nothing of it; "
                "return the result, and report on the way with ctx.progress()"
            )


def _parameters(name: str, handler: Callable[..., Any]) -> list[Parameter]:
    try:
        return list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        raise InvalidDefinition(f"the arguments of the handler of {name} cannot be read: wrap it in a function") from None


def _refuse_what_is_never_given(name: str, parameters: list[Parameter]) -> None:
    by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    required = [one for one in by_position if one.default is one.empty]
    if len(required) > 2:
        raise InvalidDefinition(f"the handler of {name} takes {len(required)} arguments: it may take payload and ctx, payload, or nothing")
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            raise InvalidDefinition(
                f"the handler of {name} takes *{one.name}, which does not say what it wants: name payload and ctx, "
                "or use functools.wraps in its decorator"
            )
        if one.kind is one.KEYWORD_ONLY and (one.default is one.empty or _is_context(one)):
            raise InvalidDefinition(
                f"the handler of {name} takes {one.name!r} by keyword only, and is called by position: def handler(payload, ctx)"
            )
    if any(_is_context(one) for one in (*by_position[:1], *by_position[2:])):
        raise InvalidDefinition(f"the handler of {name} takes ctx in another place than the second: def handler(payload, ctx)")


def _is_context(parameter: Parameter) -> bool:
    annotation = parameter.annotation
    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", repr(annotation))
    return parameter.name in _CTX_NAMES or "JobContext" in said


def _may_be_context(handler: Callable[..., Any], second: Parameter) -> bool:
    if second.annotation is second.empty or _is_context(second):
        return True
    try:
        hint = _hints(handler)[second.name]
    except (NameError, TypeError, KeyError):
        return True  # what cannot be read cannot be refused
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in (Any, object) or getattr(kind, "_is_protocol", False):
        return True
    return any(one.__name__ == "JobContext" for one in kind.__mro__)


def _hints(handler: Callable[..., Any], *, include_extras: bool = False) -> dict[str, Any]:
    return get_type_hints(handler if inspect.isroutine(handler) else type(handler).__call__, include_extras=include_extras)


def _payload_type(name: str, handler: Callable[..., Any], first: Parameter) -> Any:
    if first.annotation is first.empty:
        raise InvalidDefinition(f"the payload of {name} has no type: annotate {first.name!r} in its handler, or pass payload=")
    try:
        marked = _hints(handler, include_extras=True)[first.name]
        return marked if read_shapes(marked) else _hints(handler)[first.name]
    except (NameError, TypeError, KeyError) as error:
        raise InvalidDefinition(f"the payload type {first.annotation!r} of {name} cannot be resolved ({error}): pass payload=") from None
