"""An exception as text that may be stored and shown: without locals, secrets or control characters, at most 8 KiB."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

from onward import errors
from onward.secret_fields import Hide, as_it_is

LONGEST_ERROR = 8 * 1024
LONGEST_MESSAGE = 2 * 1024
MOST_ERRORS = 12
MOST_FRAMES = 16
MEMBER, CAUSE, CONTEXT = "one of them: ", "caused by: ", "while handling: "
LABELS = (MEMBER, CAUSE, CONTEXT)
"""What stands before an error behind the first one."""

_OWN_FILES = os.path.dirname(os.path.abspath(__file__)) + os.sep
# What a terminal, a log or a database could take for a command: controls, direction marks, line separators, half characters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def describe_error(error: BaseException, hide: Hide = as_it_is) -> str:
    """Write an exception as text. The first line is the reason: ``Type: message``; its traceback, causes and members follow.

    ``hide`` takes out what must not be in it, before anything is cut. Never raises, whatever the exception's own code does.
    """
    try:
        return _bound("\n".join(_describe(error, hide)), LONGEST_ERROR)
    except BaseException as own:  # noqa: BLE001 - a property of the exception may raise anything, SystemExit included
        return f"{name_of(error)}: (it cannot be described: {name_of(own)})"


def name_of(error: BaseException) -> str:
    """The type's name, whatever the type makes of it: runs none of the exception's own code."""
    name: str = type.__dict__["__name__"].__get__(type(error))
    return _UNSAFE.sub(_escape, name)


def bound_error(text: str, hide: Hide = as_it_is) -> str:
    """Make any text fit to be stored as a reason: redacted, without control characters, at most 8 KiB."""
    return _bound(_clean(hide(_text_of(text))), LONGEST_ERROR)


def _describe(error: BaseException, hide: Hide) -> Iterator[str]:
    waiting: list[tuple[str, BaseException]] = [("", error)]
    seen: set[int] = set()
    while waiting:
        label, one = waiting.pop()
        if id(one) in seen:
            continue
        if len(seen) == MOST_ERRORS:
            yield "… more errors not shown …"
            return
        seen.add(id(one))
        yield label + _reason(one, hide)
        yield from _frames(one.__traceback__)
        waiting += reversed(_related(one))


def _related(error: BaseException) -> list[tuple[str, BaseException]]:
    related = []
    if isinstance(error, BaseExceptionGroup):
        related = [(MEMBER, one) for one in error.exceptions[:MOST_ERRORS]]
    if error.__cause__ is not None:
        related.append((CAUSE, error.__cause__))
    elif error.__context__ is not None and not error.__suppress_context__:
        related.append((CONTEXT, error.__context__))
    return related


def _reason(error: BaseException, hide: Hide) -> str:
    kind = type(error)
    name = kind.__qualname__ if _is_known_by_its_name(kind) else f"{kind.__module__}.{kind.__qualname__}"
    notes = getattr(error, "__notes__", None)
    lines = [_text_of(error), *(_text_of(note) for note in (notes[:5] if isinstance(notes, list) else ()))]
    message = hide("\n".join(line for line in lines if line))
    return _bound(_clean(f"{name}: {message}" if message else name), LONGEST_MESSAGE)


def _is_known_by_its_name(kind: type[Any]) -> bool:
    """True for Python's, ours, and those of the program itself, unless they are called like one of ours: see ``public_reason``."""
    if kind.__module__ == "builtins":
        return True
    ours = getattr(errors, kind.__qualname__, None)
    return kind is ours or (ours is None and (kind.__module__ == "__main__" or kind.__module__.startswith("onward.")))


def _text_of(value: object) -> str:
    try:
        return str(value)
    except BaseException as error:  # noqa: BLE001 - an exception's own __str__ may raise anything, SystemExit included
        return f"(its message cannot be read: {name_of(error)})"


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    """Where it was raised, outermost first; what called the handler is left out."""
    frames: list[tuple[CodeType, int]] = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    first = next((index for index, (code, _) in enumerate(frames) if not code.co_filename.startswith(_OWN_FILES)), 0)
    shown = frames[first:]
    for index, (code, line) in enumerate(shown):
        if len(shown) > MOST_FRAMES and index == MOST_FRAMES // 2:
            yield f"  … {len(shown) - MOST_FRAMES:,} more …"
        if index < MOST_FRAMES // 2 or index >= len(shown) - MOST_FRAMES // 2:
            yield _clean(_frame(code, line))


def _frame(code: CodeType, line: int) -> str:
    import linecache

    source = linecache.getline(code.co_filename, line).strip()
    return f'  File "{code.co_filename}", line {line}, in {code.co_qualname}' + (f"\n    {source[:200]}" if source else "")


def _clean(text: str) -> str:
    from onward.redact import redact  # compiling its patterns takes as long as importing half of this package

    # Controls first: a separator inside a secret would end it for the patterns. Both cut a long text by themselves.
    return redact(_UNSAFE.sub(_escape, redact(text) if len(text) > LONGEST_ERROR else text.replace("\r\n", "\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _bound(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    half = limit // 2 - 32
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{head}\n… {len(data) - 2 * half:,} bytes cut …\n{tail}"
