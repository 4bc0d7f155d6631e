"""Secrets out of text and out of mappings, before anything is stored, logged or cut short.

Every pattern takes time linear in the text: repetitions are bounded, or each can only begin where the one before has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Replace = Callable[[re.Match[str]], str]
REDACTED = "[redacted]"
LONGEST_INPUT = 64 * 1024
LONGEST_SECRET = 4 * 1024
"""A secret up to this long is never cut in half; of a longer one an end may be left where text was cut."""
NEAR = 200
"""Characters within which text is rather cut at a space or a new line."""

_KEYWORD = (
    r"passwords?|passwd|passphrases?|passcode|pwd|secrets?|token(?!s)|api[_\- ]?keys?|access[_\-]?keys?|private[_\-]?keys?"
    r"|signing[_\-]?keys?|(?:client|server)[_\-]?keys?|encryption[_\-]?keys?|account[_\-]?key|shared[_\-]?access[_\-]?(?:key|signature)|authorization|credentials?"
    r"|cookies?|session[_\-]?(?:id|key)|sessionid|csrf|signature|connection[_\-]?string|(?<![a-z])(?:auth|pass|jwt|otp|pin|sig|dsn)"
)
# What stands before the keyword is not part of the pattern: it stays as it is, and a repetition there would make it slow.
_KEY = rf"(?:{_KEYWORD})(?:[_\-][a-z0-9_\-]{{0,30}})?"
_VALUE = (
    r"(?P<kept>\[redacted\]|(?:none|null|true|false|undefined)(?=[\s,;)}\]&\"'<]|\Z))"
    r"|b?(?P<escaped>\\{1,8}[\"'])(?:(?!(?<!\\)(?P=escaped))[\s\S])*(?P=escaped)?"
    r"|b?\"(?:[^\"\\]|\\[\s\S])*\"?|b?'(?:[^'\\]|\\[\s\S])*'?"
    r"|[\[{(][^\r\n]*"
    r"|(?:(?:bearer|basic|token|digest|negotiate)[ \t]{1,4})?[^ \t\r\n\f\v\"'&<>]+"
)
# What follows a comma is the value of a pair, unless it is itself the name of one: `{"a": "my_secret", "api_key": "..."}`.
_NAME = r"b?\\{0,8}[\"'][^\"'\\\r\n]{0,100}\\{0,8}[\"'][ ]{0,4}:"
_PAIR = rf"\\{{0,8}}[\"'],[ ]{{0,4}}(?=b?\\{{0,8}}[\"'])(?!{_NAME})"
_SEPARATOR = rf"(?:\\{{0,8}}[\"']\]?)?[ \t]{{0,8}}(?:=>|:=|==?|:)[ \t\r\n]{{0,8}}|{_PAIR}|>(?=[^\s<])"

_PRIVATE_KEY = re.compile(r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END[A-Z0-9 ]{0,60}-----|\Z)")
_END_OF_PRIVATE_KEY = re.compile(r"-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_URL = re.compile(r"://[^ \t\r\n\f\v\"'<>]+")
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|\Z)")
_BARE_USERINFO = re.compile(r"(?<![\w.+\-:/@])([\w.+\-]{1,64}):(?!//)[^\s:@/\"'<>]{1,256}@(?=[\w(\[])")
_HEADER = re.compile(r"((?<![\"'\w])(?:proxy-)?(?:authorization|(?:set-)?cookie2?)[ \t]{0,4}:[ \t]{0,4})(?![\"'])[^\r\n]+", re.IGNORECASE)
_SCHEME = re.compile(r"\b(bearer[ \t]{1,4})[^ \t\r\n\f\v\"'<>,;)]{4,}", re.IGNORECASE)
_ENCODED_SCHEME = re.compile(r"\b((?i:basic|token|negotiate)[ \t]{1,4})(?=[a-z]{0,60}[A-Z0-9+/=])[A-Za-z0-9+/_.\-]{8,}={0,2}")
_KEY_VALUE = re.compile(rf"(?P<before>{_KEY}(?:{_SEPARATOR}))(?:{_VALUE})", re.IGNORECASE)
_OPTION = re.compile(rf"(?P<before>{_KEY}[ \t]{{1,4}})(?![\-=:])(?:{_VALUE})", re.IGNORECASE)
_OPTION_BEGINS = re.compile(r"(?:^|[\s\"'`(\[{,;|&=])--?[A-Za-z0-9_\-]{0,40}\Z")
_KNOWN_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_\-])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|eyJ[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*){1,4}"
    r"|(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|sk-|sk_live_|sk_test_|rk_live_|rk_test_|whsec_|npm_|pypi-|hf_|shpat_|dop_v1_)"
    r"[A-Za-z0-9_\-]{10,}"
    r"|SG\.[A-Za-z0-9_\-]{16,}(?:\.[A-Za-z0-9_\-]*)?"
    r"|AIza[A-Za-z0-9_\-]{30,}"
    r")"
)
_SECRET_NAME = re.compile(rf".*?{_KEY}", re.IGNORECASE)


def redact(text: str) -> str:
    """Replace what looks like a secret by ``[redacted]``. Text over 64 KiB loses its middle. Doing it twice changes nothing more."""
    if len(text) <= LONGEST_INPUT:
        return _redact(text)
    half = LONGEST_INPUT // 2 - 64
    head, tail = _head(text[:half]), _tail(text[-half:])
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters cut …\n{tail}"


def redact_value(value: Any) -> Any:
    """A copy of mappings and lists without secrets: whole values under a secret's name, patterns in every other text."""
    return _redact_value(value, 0)


def is_secret_name(name: str) -> bool:
    """Say whether what has this name must not be shown: ``db_password``, ``X-Api-Key``, ``clientSecret``."""
    return _SECRET_NAME.fullmatch(name[-100:]) is not None


def _redact_value(value: Any, depth: int) -> Any:
    if depth > 64:
        return REDACTED
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, bytes):
        return redact(value.decode("utf-8", "replace")).encode()
    if isinstance(value, Mapping):
        return {_redact_value(name, depth + 1): _redact_entry(name, entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact_value(one, depth + 1) for one in value]
    return value


def _redact_entry(name: object, entry: Any, depth: int) -> Any:
    if entry is None or isinstance(entry, bool) or not (isinstance(name, str) and is_secret_name(name)):
        return _redact_value(entry, depth)
    return REDACTED


def _head(text: str) -> str:
    """The beginning of a text without its last ``LONGEST_SECRET`` characters, and without a secret that reaches into them."""
    text, end = _redact_beside(text, len(text) - LONGEST_SECRET, is_end=True)
    text = text[:end]
    space = max(text.rfind(space, max(end - NEAR, 0)) for space in " \n")
    # A name left at the end would take the mark of the cut for its value.
    return _redact(text[: space if space >= 0 else end].rstrip(" \t\r\n:=>"))


def _tail(text: str) -> str:
    """The end of a text without its first ``LONGEST_SECRET`` characters, and without a secret that began in them."""
    text, start = _redact_beside(text, LONGEST_SECRET, is_end=False)
    key_ends = _END_OF_PRIVATE_KEY.search(text)
    if key_ends and "-----BEGIN" not in text[: key_ends.start()]:
        start = max(start, key_ends.end())
    spaces = [found for space in " \n" if (found := text.find(space, start, start + NEAR)) >= 0]
    return _redact(text[min(spaces, default=start) :])


def _redact(text: str) -> str:
    for pattern, replace in _REPLACEMENTS:
        text = pattern.sub(replace, text)
    return text


def _redact_beside(text: str, mark: int, *, is_end: bool) -> tuple[str, int]:
    """Redact, and say where ``mark`` is in the result: the end of what is kept, or its beginning. A secret that it lies in is not kept."""
    for pattern, replace in _REPLACEMENTS:
        text, mark = _replace_beside(pattern, replace, text, mark, is_end=is_end)
    return text, mark


def _replace_beside(pattern: re.Pattern[str], replace: Replace, text: str, mark: int, *, is_end: bool) -> tuple[str, int]:
    grown, moved = 0, mark

    def one(match: re.Match[str]) -> str:
        nonlocal grown, moved
        new = replace(match)
        if match.start() < mark and new != match[0]:
            if match.end() > mark:
                moved = match.start() + grown + (0 if is_end else len(new))
            else:
                grown += len(new) - len(match[0])
                moved = mark + grown
        return new

    return pattern.sub(one, text), moved


def _without_value(match: re.Match[str]) -> str:
    if match["kept"]:
        return match[0]
    before = match["before"]
    value = match[0][len(before) :]
    if quote := match["escaped"]:
        return f"{before}{quote}{REDACTED}{quote}"
    opening = value[:1] if value[0] in "\"'" else value[1:2] if value[:2] in ('b"', "b'", "B'", 'B"') else ""
    # An open quote is closed, so that a second look does not read on.
    return f"{before}{opening}{REDACTED}{opening}"


def _without_argument(match: re.Match[str]) -> str:
    start = match.start()
    return _without_value(match) if _OPTION_BEGINS.search(match.string[max(start - 43, 0) : start]) else match[0]


def _without_userinfo(match: re.Match[str]) -> str:
    rest = match[0].removeprefix("://")
    userinfo, at, host = rest.rpartition("@")
    user, colon, password = userinfo.partition(":")
    if not at or (colon and _PORT.match(password) and "/" not in user):
        return match[0]
    if colon:
        return f"://{user}:{REDACTED}@{host}"
    # A name alone is no secret (git@), a token in its place is.
    if len(user) >= 20 and "/" not in user:
        return f"://{REDACTED}@{host}"
    return match[0]


_REPLACEMENTS: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (_PRIVATE_KEY, lambda match: REDACTED),
    (_URL, _without_userinfo),
    (_BARE_USERINFO, lambda match: f"{match[1]}:{REDACTED}@"),
    (_HEADER, lambda match: f"{match[1]}{REDACTED}"),
    (_OPTION, _without_argument),
    (_KEY_VALUE, _without_value),
    (_SCHEME, lambda match: f"{match[1]}{REDACTED}"),
    (_ENCODED_SCHEME, lambda match: f"{match[1]}{REDACTED}"),
    (_KNOWN_TOKENS, lambda match: REDACTED),
)
