"""The secret parts of payloads: shown to nobody, and taken out of errors.

A secret that is marked needs no name, place or form by which ``onward.redact`` would know it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from onward.errors import InvalidPayload
from onward.secret_types import Shape, read_shapes

Hide: TypeAlias = Callable[[str], str]
SHOWN_INSTEAD = "[redacted]"
"""As ``onward.redact.REDACTED``, which costs too much to import here; a test holds them equal."""
SHORTEST = 4
"""Characters of a value that is taken out of other text. A shorter one is found in too many words, and is easily guessed."""
SHORTEST_LINE = 8
MOST_FORMS = 10_000
"""Forms of secret values that are looked for in a text. Where a payload has more, the text is left out."""


class SecretFields:
    """The secret parts of payloads of one type. Raises ``InvalidDefinition`` for a mark that cannot be read."""

    def __init__(self, payload_type: Any) -> None:
        self._shapes = read_shapes(payload_type)

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def mask(self, value: Any) -> Any:
        """A copy of a decoded payload without its secret parts."""
        return _mask(value, self._shapes) if self._shapes else value

    def hiding(self, payload: str) -> Hide:
        """A function that takes the secret values of this payload, as it is stored, out of any text."""
        return _Hiding(payload, self._shapes) if self._shapes else as_it_is

    def leave_out(self, error: InvalidPayload, payload: str) -> InvalidPayload:
        """The same error without the secret values of the payload that it is about, and without what caused it."""
        if self._shapes:
            hide = self.hiding(payload)
            error.args = tuple(hide(one) if isinstance(one, str) else one for one in error.args)
            error.path = hide(error.path)
            error.__cause__, error.__suppress_context__ = None, True
        return error


def as_it_is(text: str) -> str:
    """Hides nothing."""
    return text


class _Hiding:
    """Looks into the payload only when there is a text."""

    def __init__(self, payload: str, shapes: list[Shape]) -> None:
        self._payload = payload
        self._shapes = shapes
        self._forms: tuple[str, ...] | None = None

    def __call__(self, text: str) -> str:
        if self._forms is None:
            self._forms = _forms(self._payload, self._shapes)
        if len(self._forms) > MOST_FORMS:
            return SHOWN_INSTEAD
        found = sorted((form for form in self._forms if form in text), key=len, reverse=True)
        # All at once: one value may be a part of another, or of what stands for it.
        return re.sub("|".join(map(re.escape, found)), SHOWN_INSTEAD, text) if found else text


def _forms(payload: str, shapes: list[Shape]) -> tuple[str, ...]:
    from json import loads

    try:
        value = loads(payload)
    except (ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(form for leaf, holds_bytes in _leaves(value, shapes) for form in _forms_of(leaf, holds_bytes)))


def _forms_of(leaf: str | float, holds_bytes: bool) -> Iterator[str]:
    """How a value may stand in a text: as it is, quoted by Python, in JSON or in a URL, and line by line."""
    from json import dumps
    from urllib.parse import quote, quote_plus

    text = str(leaf)
    lines = [line.strip() for line in text.splitlines()]
    texts = {text, text.strip(), *(line for line in lines if len(line) >= SHORTEST_LINE)}
    forms = set(texts)
    for one in texts:
        clean = one.encode("utf-8", "backslashreplace").decode()
        forms |= {repr(one)[1:-1], ascii(one)[1:-1], dumps(one)[1:-1], repr(clean.encode())[2:-1]}
        forms |= {quote(clean), quote(clean, safe=""), quote_plus(clean)}
        # A text in a text, such as the repr of a message that quotes it.
        quoted = {repr(one)[1:-1], dumps(one)[1:-1]}
        forms |= {outer(inner)[1:-1] for inner in quoted for outer in (repr, dumps)}
    forms |= set(_forms_of_other(leaf))
    if holds_bytes and isinstance(leaf, str):
        forms |= set(_forms_of_bytes(leaf))
    return (form for form in forms if len(form) >= SHORTEST)


def _forms_of_other(leaf: str | float) -> Iterator[str]:
    """How numbers, instants and UUIDs stand in a text that Python wrote."""
    from datetime import date, datetime
    from uuid import UUID

    if not isinstance(leaf, str):
        yield f"{leaf:,}"
        if isinstance(leaf, float) and leaf.is_integer():
            yield from (f"{int(leaf)}", f"{int(leaf):,}")
        return
    for read in (datetime.fromisoformat, date.fromisoformat, UUID):
        try:
            value = read(leaf)
        except ValueError:
            continue
        yield from (str(value), repr(value))
        if isinstance(value, UUID):
            yield from (value.hex, value.hex.upper(), str(value).upper())
        else:
            yield value.isoformat()


def _forms_of_bytes(text: str) -> Iterator[str]:
    from base64 import b64decode

    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return
    yield from (repr(data)[2:-1], data.hex(), data.hex().upper(), repr(list(data))[1:-1], data.decode("latin-1"))
    try:
        yield from _forms_of(data.decode(), False)
    except UnicodeDecodeError:
        return


def _mask(value: Any, shapes: list[Shape]) -> Any:
    if not shapes or value is None:
        return value
    if any(shape.is_secret for shape in shapes):
        return SHOWN_INSTEAD
    if isinstance(value, dict):
        return {name: _mask(part, _of_field(shapes, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [_mask(part, _of_item(shapes, number)) for number, part in enumerate(value)]
    return value


def _leaves(value: Any, shapes: list[Shape], *, is_secret: bool = False, holds_bytes: bool = False) -> Iterator[tuple[str | float, bool]]:
    """Every text and number at a secret place."""
    is_secret = is_secret or any(shape.is_secret for shape in shapes)
    holds_bytes = holds_bytes or any(shape.holds_bytes for shape in shapes)
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, _of_field(shapes, name), is_secret=is_secret, holds_bytes=holds_bytes)
            if is_secret:
                yield name, False
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _leaves(part, _of_item(shapes, number), is_secret=is_secret, holds_bytes=holds_bytes)
    elif is_secret and not isinstance(value, bool) and isinstance(value, str | int | float):
        yield value, holds_bytes


def _of_field(shapes: Iterable[Shape], name: str) -> list[Shape]:
    return _each_once(one for shape in shapes for one in (*shape.fields.get(name, ()), *shape.items))


def _of_item(shapes: Iterable[Shape], number: int) -> list[Shape]:
    return _each_once(
        one for shape in shapes for one in (*(part for at in shape.positions[number : number + 1] for part in at), *shape.items)
    )


def _each_once(shapes: Iterable[Shape]) -> list[Shape]:
    return list({id(shape): shape for shape in shapes}.values())
