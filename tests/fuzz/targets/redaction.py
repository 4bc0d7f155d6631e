"""Redaction: the secret is gone whatever stands around it, a second time changes nothing, and a long text takes a short time."""

from __future__ import annotations

import time

from onward.error_text import bound_error
from onward.redact import LONGEST_INPUT, redact, redact_value
from tests.fuzz.taking import Taker
from tests.fuzz.target import TRIES, Target, as_text, must, texts

SECRET = "Vogelfrei7Kanari"
FORMS = (
    "password=§",
    "db_password: '§'",
    '"api_key": "§"',
    "token=§&a=b",
    "Authorization: Bearer §",
    "Cookie: a=1; b=§",
    "postgresql://user:§@host/shop",
    "client_secret => §",
    "{'access-token': '§'}",
    "--password §",
)
MOST_SECONDS_OF_A_LONG_TEXT = 2.0
"""Processor time of 64 KB. 50 ms are promised; a pattern that goes back and forth needs minutes, and a watched one is many times slower."""
STRETCH_EVERY = 20
_count = [0]


def check(data: bytes) -> None:
    text = as_text(data)
    once = redact(text)
    must(redact(once) == once, "a second time changes more")
    stored = bound_error(text)
    must(bound_error(stored) == stored or len(stored) > 4000, "what is stored changes when it is stored again")
    _count[0] += 1
    if _count[0] % STRETCH_EVERY == 0 and text:
        _stretch(text)
    for form in FORMS:
        # On a line of its own: what stands in front on the same line may be an open quote, whose end nobody knows.
        found = redact(f"{_closed(text)}\n{form.replace('§', SECRET)}\n{text}")
        must(SECRET not in found, f"{form} is not found behind this text")


def _closed(text: str) -> str:
    """The text without what would make all that follows a part of itself: quotes that nobody closes, the beginning of a private key."""
    return text.replace('"', "").replace("'", "").replace("-----BEGIN", "").rstrip("\\ \t\r\n:=>,").replace("\\", "")


def _stretch(text: str) -> None:
    long = (text * (LONGEST_INPUT // len(text) + 1))[:LONGEST_INPUT]
    for attempt in range(TRIES):
        began = time.thread_time()
        redact(long)
        if time.thread_time() - began < MOST_SECONDS_OF_A_LONG_TEXT:
            return
        must(attempt < TRIES - 1, f"64 KB of it take more than {MOST_SECONDS_OF_A_LONG_TEXT} s")


def check_values(data: bytes) -> None:
    value = Taker(data).value()
    once = redact_value({"password": SECRET, "other": value, "list": [{"apiKey": SECRET}, f"token={SECRET}"]})
    must(SECRET not in _written(once), "the secret is still there")
    must(_alike(redact_value(once), once), "a second time changes more")


def _alike(one: object, other: object) -> bool:
    return _written(one) == _written(other)


def _written(value: object) -> str:
    """Not compared by ==, for which NaN is not itself, and not written by repr, which cannot write every integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_written(name)}:{_written(one)}" for name, one in value.items()) + "}"
    return "[" + ",".join(map(_written, value)) + "]" if isinstance(value, list) else repr(value)


_WORDS = (
    "password",
    "token",
    "secret",
    "Authorization: ",
    "Bearer ",
    "Basic ",
    "Cookie: ",
    "://",
    "@",
    "[redacted]",
    "--",
    "=>",
    "eyJ",
    "AKIA",
)

TARGET = Target(
    "redaction",
    check,
    texts(
        *_WORDS,
        "-----BEGIN PRIVATE KEY-----",
        "-----END",
        '\\"',
        "b'",
        "None",
        "=",
        ":",
        "[",
        "{",
        "(",
        "api_key",
        "passwd",
        "sk-",
        "user:",
    ),
    _WORDS,
)
VALUES = Target("redacted-values", check_values, texts(*_WORDS) | texts("\x06\x03", "\x05\x02", "\x07\x40", "\x03\x08password"), _WORDS)
