"""The one subset of JSON that every backend stores, and what is said of text or a value outside it.

Finite numbers, integers of at most 300 digits (exact), no NUL, no lone surrogates, at most 64 levels, no doubled keys.
Messages name the place and what was expected, never a value: it may be secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NoReturn

import msgspec

from onward.errors import InvalidPayload

DEEPEST = 64
MOST_DIGITS = 300

_LEAST_TOO_LARGE = 10**MOST_DIGITS
_decode_any = msgspec.json.Decoder(Any).decode
_encode_any = msgspec.json.Encoder().encode
_ONLY_BRACKETS = bytes(range(256)).translate(None, b"[]{}")
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_DIGITS_TO_NINES = bytes.maketrans(b"012345678", b"999999999")
_TOO_MANY_DIGITS = b"9" * (MOST_DIGITS + 1)


def check_json(text: str) -> None:
    """Raise ``InvalidPayload`` unless ``text`` is JSON of the subset."""
    if not _is_plainly_fine(text):
        parse_json(text)


def parse_json(text: str) -> object:
    """Read JSON that somebody else wrote. Raises ``InvalidPayload`` naming the place of what is outside the subset."""
    if is_too_deep(text.encode("utf-8", "surrogatepass")):
        raise InvalidPayload(f"the JSON is nested more than {DEEPEST} levels deep")
    import json

    try:
        parsed = json.loads(text, object_pairs_hook=_read_object, parse_int=_read_integer)
    except json.JSONDecodeError as error:
        raise InvalidPayload(f"this is not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidPayload(f"the JSON is nested more than {DEEPEST} levels deep") from None
    check_value(parsed)
    return parsed


def check_value(value: object, path: str = "$") -> None:
    """Raise ``InvalidPayload`` at the first part of a Python value that the subset cannot hold. ``path`` is where the value stands."""
    for where, part, depth in _walk(value, path):
        if depth > DEEPEST and _is_container(part):
            raise InvalidPayload(f"nested more than {DEEPEST} levels deep, or inside itself", path=shorten(where))
        if reason := _objection(part):
            raise InvalidPayload(reason, path=shorten(where))


def refuse_because(value: object, otherwise: str) -> NoReturn:
    """Raise ``InvalidPayload`` for a value that could not be stored: with the place if it can be found, else with ``otherwise``."""
    check_value(value)
    for where, part, _ in _walk(value, "$"):
        if not (part is None or isinstance(part, str | int | float | list | tuple | set | frozenset | dict | Enum) or field_names(part)):
            try:
                _encode_any(part)
            except Exception:  # noqa: BLE001 - a value's own code may raise anything
                raise InvalidPayload(f"a value of type {type(part).__name__} has no JSON form", path=shorten(where)) from None
    raise InvalidPayload(otherwise)


def needs_a_look(data: bytes) -> bool:
    """Say whether JSON may hold a NUL, a number too long or too many levels. Quick; True for some that is fine."""
    return b"\\u0000" in data or is_too_deep(data) or _has_long_integer(data)


def is_too_deep(data: bytes) -> bool:
    """Say whether JSON is nested too deep for the subset. Quick, and safe for text that is not JSON."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    outside_strings = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside_strings.translate(_AS_SQUARE, _ONLY_BRACKETS)
    for _ in range(DEEPEST):
        # Each round takes the innermost level away.
        brackets = brackets.replace(b"[]", b"")
    return brackets.count(b"[") > DEEPEST or b"[]" in brackets


def parts_of(value: object, path: str = "$") -> Iterator[tuple[str, object]]:
    """Give what is directly inside a list, a mapping or an object with fields, with its path."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r:.80}]", part
    elif isinstance(value, list | tuple | set | frozenset):
        for index, part in enumerate(value):
            yield f"{path}[{index}]", part
    else:
        for name in field_names(value):
            yield f"{path}.{name}", getattr(value, name, None)


def field_names(value: object) -> tuple[str, ...]:
    """The fields of a Struct, dataclass, attrs or pydantic object; none for anything else."""
    kind = type(value)
    if names := getattr(kind, "__struct_fields__", None):
        return tuple(names)
    if fields := getattr(kind, "__dataclass_fields__", None):
        return tuple(fields)
    if attributes := getattr(kind, "__attrs_attrs__", None):
        return tuple(one.name for one in attributes)
    if hasattr(kind, "__pydantic_core_schema__"):
        return tuple(vars(value))
    return ()


def shorten(path: str) -> str:
    """A path that is safe to print: bounded, without control characters or lone surrogates."""
    cut = path if len(path) <= 200 else f"{path[:100]}…{path[-99:]}"
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")


def _is_plainly_fine(text: str) -> bool:
    # Text that comes back the same through a parser that keeps one of two equal keys has no doubled key; ours always does.
    try:
        data = text.encode()
        return not needs_a_look(data) and _encode_any(_decode_any(data)) == data
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _has_long_integer(data: bytes) -> bool:
    return len(data) > MOST_DIGITS and data.translate(_DIGITS_TO_NINES).find(_TOO_MANY_DIGITS) >= 0


def _is_container(part: object) -> bool:
    return isinstance(part, list | tuple | set | frozenset | dict) or bool(field_names(part))


class _Refused:
    """Stands in parsed JSON for what cannot be kept, so that its path can be found."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _read_object(pairs: list[tuple[str, Any]]) -> object:
    read = dict(pairs)
    if len(read) == len(pairs):
        return read
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Refused(f"the key {shorten(repr(key))} occurs twice in one object")
        seen.add(key)
    return read


def _read_integer(digits: str) -> object:
    length = len(digits.removeprefix("-"))
    if length > MOST_DIGITS:
        return _Refused(f"an integer of {length:,} digits: at most {MOST_DIGITS} are kept")
    return int(digits)


def _walk(value: object, path: str) -> Iterator[tuple[str, object, int]]:
    # A stack of our own: a value may be deeper than Python's, or contain itself.
    waiting = [iter([(path, value)])]
    while waiting:
        for where, part in waiting[-1]:
            yield where, part, len(waiting)
            waiting.append(parts_of(part, where))
            break
        else:
            waiting.pop()


def _objection(part: object) -> str | None:
    if isinstance(part, _Refused):
        return part.reason
    if isinstance(part, str):
        return _objection_to_text(part, "the text")
    if isinstance(part, float) and not -float("inf") < part < float("inf"):
        return "NaN and infinity have no JSON form"
    if isinstance(part, int) and not -_LEAST_TOO_LARGE < part < _LEAST_TOO_LARGE:
        return f"an integer of more than {MOST_DIGITS} digits"
    if isinstance(part, dict):
        return next((found for key in part if isinstance(key, str) and (found := _objection_to_text(key, "a key"))), None)
    return None


def _objection_to_text(text: str, what: str) -> str | None:
    if "\0" in text:
        return f"{what} contains a NUL character, which databases cannot store"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return f"{what} contains half a character (a lone surrogate), which has no UTF-8 form"
    return None
