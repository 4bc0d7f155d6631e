"""Payloads and JSON text: one subset, which a judge that shares no code with ours must find the same, and which comes back equal."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer

from onward.errors import InvalidPayload, PayloadTooLarge
from onward.json_text import check_json, parse_json
from onward.payload import PAYLOAD_LIMIT, Codec, encode_metadata, encode_progress, encode_result
from tests.fuzz.taking import Taker
from tests.fuzz.target import Target, as_text, declared, must, texts

ANY: Codec[Any] = Codec(Any)
MAPPING: Codec[Any] = Codec(dict[str, list[int] | str | None])
_database = sqlite3.connect(":memory:", check_same_thread=False)


class Refused(Exception):
    """What the judge does not take."""


def check(data: bytes) -> None:
    value = Taker(data).value()
    for codec in (ANY, MAPPING):
        with declared(InvalidPayload, PayloadTooLarge):
            text = codec.encode(value)
            must(len(text.encode()) <= PAYLOAD_LIMIT, "it is larger than the limit")
            must(is_fine(text), "the text is outside the subset")
            must(codec.encode(codec.decode(text)) == text, "it is written differently the second time")
            must(codec.decode(text) == _listed(value), "it comes back changed")
            _check_stores(text)
    for encode in (encode_result, encode_progress, lambda one: encode_metadata({"a": one})):
        with declared(InvalidPayload):
            text = encode(value) or "null"
            must(is_fine(text), "the text is outside the subset")


def check_text(data: bytes) -> None:
    text = as_text(data)
    ours = _takes(lambda: check_json(text))
    must(ours == _takes(lambda: parse_json(text)), "the quick look and the slow one differ")
    must(ours == is_fine(text), f"ours says {ours}, the judge does not")
    must(not _takes(lambda: ANY.decode(text)) or ours, "a payload is read that is outside the subset")
    if ours:
        _check_stores(text)


def is_fine(text: str) -> bool:
    """What the subset is, in other words: one parser, and a walk over what it found."""
    try:
        text.encode()
        found = json.loads(text, object_pairs_hook=_no_doubled_key, parse_constant=_refuse, parse_int=_short)
    except (ValueError, RecursionError, Refused):
        return False
    level, depth = [found], 0
    while level:
        level = [one for one in level if isinstance(one, list | dict)]
        depth += bool(level)
        if depth > 64:
            return False
        inside = [part for one in level for part in (one if isinstance(one, list) else [*one, *one.values()])]
        if any(isinstance(one, str) and not _is_fine_text(one) for one in inside):
            return False
        if any(isinstance(one, float) and abs(one) == float("inf") for one in inside):
            return False
        level = inside
    return not (isinstance(found, str) and not _is_fine_text(found)) and not (isinstance(found, float) and abs(found) == float("inf"))


def _is_fine_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _no_doubled_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused
    return dict(pairs)


def _refuse(constant: str) -> Any:
    raise Refused


def _short(digits: str) -> int:
    if len(digits.removeprefix("-")) > 300:
        raise Refused
    return int(digits)


def _takes(read: Any) -> bool:
    try:
        read()
    except InvalidPayload:
        return False
    return True


def _listed(value: Any) -> Any:
    """A tuple comes back as a list."""
    if isinstance(value, list | tuple):
        return [_listed(one) for one in value]
    return {name: _listed(one) for name, one in value.items()} if isinstance(value, dict) else value


def _check_stores(text: str) -> None:
    must(_database.execute("SELECT ?", (text,)).fetchone() == (text,), "SQLite gives back another text")
    dumper = Transformer().get_dumper(text, PyFormat.TEXT)
    must(bytes(dumper.dump(text) or b"") == text.encode(), "psycopg sends another text")


TARGET = Target("payloads", check, st.binary(max_size=200) | st.binary(max_size=4096))
TEXTS = Target(
    "json-texts",
    check_text,
    texts('{"a":', '"b"', "}", "[" * 30, "]" * 30, "1e999", "-0", "NaN", "Infinity", "1" * 301, "0.1", '"\\u0000"', '"\\ud800"', "null")
    | texts('{"a":1,"a":2}', '"\\ud83d\\ude00"', '{"\\u0061":1,"a":2}', "\ufeff", "1.0E+400", "[" * 65 + "]" * 65, "  ", ",", ":", "true")
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ).map(lambda value: json.dumps(value).encode()),
    ("{", "}", "[", "]", "null", "true", "NaN", "Infinity", "\\u0000", "\\ud800", "1e999", '"a":'),
)
