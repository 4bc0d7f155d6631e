"""Dead letters by cause: what two errors have in common once all is taken out of them that differs from job to job.

A cause is a job's type, the exception, the first line of its message without numbers, ids, quoted texts, dates, addresses and paths, and
the frame of the application's own code that is nearest to where it was raised, without its line number: a line moves with each edit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct

from onward.error_text import LABELS, LONGEST_ERROR
from onward.inspection import DeadLetter
from onward.redact import redact

LONGEST_LINE = 1024
"""Characters of a message that are looked at."""
LONGEST_MESSAGE = 240
"""Characters of a message that count: behind them stand bodies and lists."""
LENGTH_OF_ID = 10
LONGEST_OPAQUE = 16
"""A word so long with digits in its midst is an id, whatever made it."""

_FRAME = '  File "'
_OWN_FILES = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = re.compile(
    r"[\\/](?:site-packages|dist-packages)[\\/]|[\\/][Ll]ib[\\/]python[0-9.]{1,6}t?[\\/]|[\\/]Python[0-9.]{1,6}[\\/]Lib[\\/]"
)


class Cause(NamedTuple):
    """What the dead letters of one group have in common."""

    type: str
    exception: str
    """The class that was raised, as the error names it. Empty where none was, such as for a lost lease."""
    message: str
    """The first line of the message, with marks such as ``<n>`` for what differs. Of a reason without an exception, that reason."""
    where: str
    """``folder/file.py:function`` of the application's own code. Empty where there is no traceback."""

    @property
    def id(self) -> str:
        """The same in every process and for ever, and short enough to be typed."""
        return sha256("\0".join(self).encode("utf-8", "replace")).hexdigest()[:LENGTH_OF_ID]


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Dead letters of one cause."""

    id: str
    type: str
    exception: str
    message: str
    where: str
    count: int
    is_capped: bool = False
    """True where older dead letters were not looked at, so that there may be more."""
    first_at: datetime
    """When the oldest of those that are counted became a dead letter."""
    last_at: datetime
    example_id: str
    """The newest of them."""
    queues: tuple[str, ...]


def cause_of(type: str, error: str | None) -> Cause:
    """Say what a dead letter died of. Takes time linear in the error, of which 8 KiB are looked at."""
    lines = (error or "").strip()[:LONGEST_ERROR].splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith(_FRAME)), None)
    end = next((at for at, line in enumerate(lines) if at > (begin or 0) and line.startswith(LABELS)), len(lines))
    exception, message = _reason(lines[:begin], has_frames=begin is not None)
    where = "" if begin is None else _own_frame(lines[begin:end])
    return Cause(type, exception, normalised(message), where)


def members(dead_letters: Iterable[DeadLetter]) -> dict[Cause, list[DeadLetter]]:
    """Sort dead letters by their cause, in the order in which they come."""
    known: dict[tuple[str, str | None], Cause] = {}
    found: dict[Cause, list[DeadLetter]] = {}
    for one in dead_letters:
        text = (one.type, one.error)
        if text not in known:
            known[text] = cause_of(*text)
        found.setdefault(known[text], []).append(one)
    return found


def group_of(cause: Cause, dead_letters: list[DeadLetter], *, is_capped: bool = False, raw: bool = False) -> FailureGroup:
    """Tell of the dead letters of one cause, newest first. What looks like a secret is taken out of its message, unless ``raw``."""
    return FailureGroup(
        id=cause.id,
        type=cause.type,
        exception=cause.exception,
        message=cause.message if raw else redact(cause.message),
        where=cause.where,
        count=len(dead_letters),
        is_capped=is_capped,
        first_at=min(one.finished_at for one in dead_letters),
        last_at=max(one.finished_at for one in dead_letters),
        example_id=dead_letters[0].id,
        queues=tuple(sorted({one.queue for one in dead_letters})),
    )


# -- the exception, and where it was raised --------------------------------------------------------------------------


def _reason(lines: list[str], *, has_frames: bool) -> tuple[str, str]:
    """The exception and the first line of its message that says anything."""
    first = lines[0] if lines else ""
    name, _, rest = first.partition(":")
    parts = name.split(".")
    is_name = all(part.isidentifier() or part == "<locals>" for part in parts) and (not rest or rest[0] == " ")
    # Without a traceback it may be a reason of ours, which is a sentence.
    if not is_name or not (has_frames or parts[-1][:1].isupper()):
        return "", next((line for line in lines if line.strip()), "")
    return name[:LONGEST_MESSAGE], next((line for line in (rest, *lines[1:]) if line.strip()), "")


def _own_frame(lines: list[str]) -> str:
    """The innermost frame that is no library's; where all are, the outermost, which is the handler's."""
    frames = [frame for line in lines if line.startswith(_FRAME) and (frame := _read_frame(line)) is not None]
    own = next((frame for frame in reversed(frames) if _is_own(frame[0])), frames[0] if frames else None)
    if own is None:
        return ""
    folder, name = ["", *re.split(r"[\\/]", own[0])][-2:]
    # Where an application is installed may differ from machine to machine, and from one release to the next.
    return f"{_DIGITS.sub('<n>', folder)}/{name}:{own[1]}" if folder else f"{name}:{own[1]}"


def _read_frame(line: str) -> tuple[str, str] | None:
    path, found, rest = line[len(_FRAME) :].rpartition('", line ')
    return (path, rest.partition(", in ")[2]) if found else None


def _is_own(path: str) -> bool:
    return not (path.startswith(("<", _OWN_FILES)) or _LIBRARIES.search(path))


# -- the message -----------------------------------------------------------------------------------------------------

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[AaPp][Mm]\b|[+-]\d{2}:?\d{2}))?"
_DIGITS = re.compile(r"\d+")
_CUT = r"(?<=.{200})\Z"
"""Of a long message the end was cut, and with it the quote that closes."""
# Each begins at a place where the run of its own characters begins, so that no text is read again and again.
_QUOTED = re.compile(
    rf"""(?<!\\)"(?:[^"\\]|\\.)*(?:"|{_CUT})|(?<![\w\\])'(?:[^'\\]|\\.|(?<=\w)'(?=\w))*(?:'(?!\w)|{_CUT})"""
    r"""|`[^`]*`|“[^”]*”|‘[^’]*’|«[^»]*»"""
)
_URL = re.compile(r"(?<![\w+.-])[A-Za-z][\w+.-]{0,20}://[^\s<>\"']+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*")
_OWNER = re.compile(r"(?<![\w.-])[\w.-]{1,255}:\d{1,10}:[0-9a-f]{8}(?!\w)")
"""A process of a worker, as the reason of a lost lease names it."""
_WINDOWS_PATH = re.compile(r"(?<!\w)[A-Za-z]:\\[^\s\"'<>|,;]*|\\\\\w[^\s\"'<>|,;]*")
_PATH = re.compile(r"(?<![\w./~@%+-])~?(?:[\w.@%+-]*/)+[\w.@%+-]*")
_UUID = re.compile(r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])")
_DATE = re.compile(
    rf"(?<![\w.:-]){_DAY}(?:"
    r"(?:\d{4}-\d{2}-\d{2}|\d{4}/\d{2}/\d{2}|\d{1,2}([./])\d{1,2}\1\d{4}"
    rf"|\d{{1,2}} {_MONTH} \d{{4}}|{_MONTH} +\d{{1,2}},? \d{{4}})"
    rf"(?:,?[T ]{_TIME})?|{_TIME})(?![\w:])"
)
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
_NUMBER = re.compile(r"(?<![\w.,])(?:(?<![)\]>])[-+])?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?%?(?!\w)")
_WORD = re.compile(r"\w+")
_HEX = re.compile(r"(?:0[xX])[0-9a-fA-F]+|[0-9a-fA-F]{8,}")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}")
_INSIDE = re.compile(r"\d[A-Za-z]")
_SERIES = re.compile(r"(<(?:text|url|address|path|date|n)>)(?:, ?\1)+")


def normalised(message: str) -> str:
    """Put marks for what differs from job to job, so that the same error of two jobs is the same text."""
    text = " ".join(message[:LONGEST_LINE].split())
    for pattern, mark in ((_QUOTED, "<text>"), (_URL, "<url>"), (_MAIL, "<address>"), (_OWNER, "<address>"), (_WINDOWS_PATH, "<path>")):
        text = pattern.sub(mark, text)
    text = _PATH.sub(_path, text)
    for pattern, mark in ((_UUID, "<n>"), (_DATE, "<date>"), (_IPV6, "<address>"), (_NUMBER, "<n>")):
        text = pattern.sub(mark, text)
    return _SERIES.sub(r"\1", _WORD.sub(_word, text))[:LONGEST_MESSAGE]


def _path(found: re.Match[str]) -> str:
    """A path begins at a root or a known place, or ends in a file with a suffix: ``read/write`` is none."""
    text = found[0]
    begin, _, end = text.partition("/")[0], "/", text.rpartition("/")[2]
    is_path = begin in ("", "~", ".", "..") or re.search(r"\.[A-Za-z]\w*\Z", end[-20:]) is not None
    return "<path>" if is_path and len(text) > 1 else text


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if _HEX.fullmatch(word) or _ULID.fullmatch(word) or (len(word) >= LONGEST_OPAQUE and _INSIDE.search(word)):
        return "<n>"
    return _DIGITS.sub("<n>", word)
