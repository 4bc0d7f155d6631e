"""Errors as text: never an exception of its own, never too long, never a character that a terminal or a database takes for a command."""

from __future__ import annotations

from onward.error_text import LONGEST_ERROR, bound_error, describe_error
from onward.reasons import public_reason
from onward.status import Status
from onward.testing.factories import make_job
from tests.fuzz.taking import Taker
from tests.fuzz.target import Target, as_text, must, texts

MARK = 64
"""Bytes that the mark of a cut may take on top."""
SECRET = "Vogelfrei7Kanari"


class Odd(Exception):
    """Its text is whatever it was given, or an error of its own."""

    def __init__(self, text: str, raises: int) -> None:
        super().__init__(text)
        self._text, self._raises = text, raises

    def __str__(self) -> str:
        if self._raises == 1:
            raise RuntimeError("no text")
        if self._raises == 2:
            raise SystemExit(3)
        return self._text


def check(data: bytes) -> None:
    _check_text(bound_error(as_text(data)))
    error = _error(Taker(data), 0)
    described = describe_error(error)
    _check_text(described)
    must(described.partition(":")[0].partition("\n")[0].strip() != "", "the first line does not say what it was")
    must(SECRET not in described, "a secret in a chained error is shown")
    reason = public_reason(make_job(Status.DEAD_LETTER, error=described))
    must(reason is None or (len(reason) <= 300 and "\n" not in reason), "what users are told is too long")


def _check_text(text: str) -> None:
    must(len(text.encode()) <= LONGEST_ERROR + MARK, f"{len(text.encode()):,} bytes")
    must(all(one.isprintable() or one in "\n\t" or _is_harmless(one) for one in text), "a character that could be a command")


def _is_harmless(character: str) -> bool:
    """Unprintable for Python, and a command for nobody: spaces of other scripts, unassigned and private characters."""
    return (
        character >= "\xa0"
        and character not in "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    )


def _error(take: Taker, depth: int) -> BaseException:
    kind, text = take.number(7), take.text(80)
    error: BaseException
    if kind == 0 and depth < 12:
        error = BaseExceptionGroup(text, [_error(take, depth + 1) for _ in range(1 + take.number(3))])
    elif kind == 1:
        error = KeyError(text)
    elif kind == 2:
        error = OSError(take.number(), text)
    elif kind == 3:
        error = Odd(text, take.number(3))
    elif kind == 4:
        error = type(_name(take), (Exception,), {"__module__": take.text(8)})(text)
    else:
        error = ValueError(text * (1 + take.number(200)), f"password={SECRET}")
    if take.number(3) == 0:
        error.add_note(take.text(40))
    if not take.is_at_end and depth < 30:
        if take.number(2):
            error.__cause__ = _error(take, depth + 1)
        else:
            error.__context__ = _error(take, depth + 1)
    return error


def _name(take: Taker) -> str:
    """Python takes no other for a class."""
    return take.text(12).replace("\0", "").encode("utf-8", "replace").decode() or "X"


TARGET = Target(
    "errors",
    check,
    texts("\0\x05abcde", "\x05\x20", "\x04", "password=", "PermanentJobError: ", "\x03", "\u202e", "\x1b[2J"),
    ("\x1b[", "\u202e", "password="),
)
