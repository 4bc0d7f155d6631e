from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.error_text import LONGEST_ERROR, bound_error, describe_error
from onward.errors import PermanentJobError
from onward.outcome import Snooze, decide
from onward.retry import RetryPolicy
from tests.unit.making import NOW

CANARY = "hunter2canary"


def raised(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def fail_with_locals() -> None:
    password, headers = CANARY, {"Authorization": CANARY}
    assert password in headers.values()
    raise ValueError("it failed")


def test_the_first_line_is_the_short_reason() -> None:
    """It is what lists show."""
    lines = describe_error(raised(fail_with_locals)).splitlines()
    assert lines[0] == "ValueError: it failed"
    assert any('test_error_text.py", line' in line and "in fail_with_locals" in line for line in lines)


def test_no_local_variable_is_written() -> None:
    """Tracebacks with locals stored credentials elsewhere."""
    assert CANARY not in describe_error(raised(fail_with_locals))


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (PermanentJobError("gone"), "PermanentJobError: gone"),
        (SystemExit(3), "SystemExit: 3"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: bad"),
    ],
    ids=range(5),
)
def test_the_type_is_named_as_people_know_it(error: BaseException, first: str) -> None:
    """Built-in ones and ours by their name alone."""
    assert describe_error(error).splitlines()[0] == first


def test_no_other_error_passes_for_one_of_ours() -> None:
    """What users are told of a failure is decided by the name of its class."""
    named = type("PermanentJobError", (Exception,), {"__module__": "__main__"})
    assert describe_error(named("the password")) == "__main__.PermanentJobError: the password"
    assert describe_error(PermanentJobError("no such page")) == "PermanentJobError: no such page"


@pytest.mark.parametrize("module", ["__main__", "onward.drivers.sqlite.driver"])
def test_an_error_of_the_program_itself_or_of_ours_is_named_without_its_module(module: str) -> None:
    """Where it is from says nothing to the reader: there is only one of that name."""
    assert describe_error(type("OutOfPaper", (Exception,), {"__module__": module})("tray 2")) == "OutOfPaper: tray 2"


def test_another_package_s_error_is_named_with_its_module() -> None:
    """Five packages have a ConnectError."""
    kind = type("ConnectError", (Exception,), {"__module__": "httpx"})
    assert describe_error(kind("no route")) == "httpx.ConnectError: no route"


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


class NotText(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307 - that is the point


@pytest.mark.parametrize("error", [Silent(), Endless(), NotText()], ids=["raises", "recurses", "no text"])
def test_an_error_that_cannot_be_written_is_still_described(error: BaseException) -> None:
    """The outcome of the job must not hang on it."""
    text = describe_error(error)
    assert type(error).__name__ in text
    assert "message cannot be read" in text


def test_a_message_of_ten_megabytes_is_cut_with_a_mark() -> None:
    """Head and tail stay; a hundred such attempts stay small."""

    def fail() -> None:
        raise ValueError("begin " + "x " * 5_000_000 + " end")

    text = describe_error(raised(fail))
    assert text.startswith("ValueError: begin")
    assert "cut …" in text
    assert " end\n" in text
    assert "in fail" in text or "fail" in text
    assert len(text.encode()) <= LONGEST_ERROR


def test_secrets_are_gone_before_anything_is_cut() -> None:
    """In the message, a cause, a note, a member and the line of source."""

    def fail() -> None:
        try:
            raise OSError(f"postgres://u:{CANARY}@h/db refused")
        except OSError as error:
            wrapped = ExceptionGroup("many", [ValueError(f"token={CANARY}"), KeyError(f"Bearer {CANARY}")])
            wrapped.add_note(f"password: {CANARY}")
            raise wrapped from error

    text = describe_error(raised(fail))
    assert CANARY not in text
    assert text.count("[redacted]") >= 4
    for length in range(1900, 2100, 7):
        assert "canary" not in describe_error(ValueError("y" * length + f" password={CANARY}"))
        assert "canary" not in bound_error("y " * (length + 1000) + f" password='{CANARY} {CANARY}' " + "z " * 5000)


def test_causes_contexts_and_members_are_listed() -> None:
    """What really happened is often one step back."""

    def fail_twice() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904 - the context is what is looked at

    def fail_from() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    def fail_from_nothing() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    assert "while handling: KeyError: 'first'" in describe_error(raised(fail_twice))
    assert "caused by: KeyError: 'first'" in describe_error(raised(fail_from))
    assert "first" not in describe_error(raised(fail_from_nothing)).replace('KeyError("first")', "")
    group = ExceptionGroup("many", [ValueError("a"), ExceptionGroup("more", [OSError("b")])])
    text = describe_error(group)
    assert "one of them: ValueError: a" in text
    assert "one of them: OSError: b" in text


def test_circles_and_crowds_end() -> None:
    """A cause of itself, and a group of thousands."""
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert describe_error(first).count("ValueError: a") == 1
    crowd = ExceptionGroup("crowd", [ValueError(str(number)) for number in range(5000)])
    assert "more errors not shown" in describe_error(crowd)
    deep: BaseException = ValueError("bottom")
    for _ in range(2000):
        deep = ExceptionGroup("level", [deep])  # type: ignore[type-var]
    assert len(describe_error(deep).encode()) <= LONGEST_ERROR


def test_a_deep_recursion_is_shown_by_its_ends() -> None:
    """A thousand equal frames say nothing more than two."""

    def recurse() -> None:
        recurse()

    text = describe_error(raised(recurse))
    assert text.startswith("RecursionError")
    assert " more …" in text
    assert len(text.encode()) <= LONGEST_ERROR


def test_frames_of_onward_above_the_handler_are_left_out() -> None:
    """The reader wants his own code; the frames of a library he calls stay."""

    class Chance:
        def uniform(self, low: float, high: float) -> float:
            raise ValueError("inner")

    def handler() -> None:
        RetryPolicy().delay(1, Chance())  # type: ignore[arg-type]

    inside = describe_error(raised(handler))
    assert "retry.py" in inside
    assert inside.index("in test_frames") < inside.index("retry.py")

    class Bad:
        attempts = max_attempts = 1
        cancel_requested_at = None

        @property
        def snoozes(self) -> int:
            raise ValueError("theirs")

    error = raised(lambda: decide(Bad(), Snooze(1), RetryPolicy(), NOW, Random(1)))  # type: ignore[arg-type]
    traceback = error.__traceback__
    while traceback is not None and not traceback.tb_frame.f_code.co_filename.endswith("outcome.py"):
        traceback = traceback.tb_next
    text = describe_error(error.with_traceback(traceback))
    assert "in snoozes" in text or "Bad.snoozes" in text
    assert "outcome.py" not in text


def test_control_characters_and_half_characters_are_written_out() -> None:
    """A terminal, a log line and a database take them for commands."""
    text = bound_error("a\0b\x1b[31mred\rline\u202ertl\ud800\x85\u2028\tkept\nkept")
    assert text == "a\\x00b\\x1b[31mred\\x0dline\\u202ertl\\ud800\\x85\\u2028\tkept\nkept"
    assert bound_error("a\r\nb") == "a\nb"


@given(st.text() | st.text(alphabet="\0\x1b\ud800a= password:\"'\n\u202e"))
def test_any_text_becomes_storable(text: str) -> None:
    """Whatever a reason holds: UTF-8, no NUL, bounded, and stable."""
    once = bound_error(text)
    assert len(once.encode()) <= LONGEST_ERROR
    assert all(one in "\n\t" or one.isprintable() or ord(one) > 127 for one in once)
    assert "\0" not in once
    assert bound_error(once) == once


@pytest.mark.parametrize("text", ["'", '"', "\\", "%s %d {} {0!r}", "'; DROP TABLE jobs; --", "<script>", "日本 \U0001f600"])
def test_odd_text_is_opaque(text: str) -> None:
    """It comes out as it went in."""
    assert bound_error(text) == text
    assert describe_error(ValueError(text)).splitlines()[0] == f"ValueError: {text}"


def test_text_beyond_the_limit_keeps_both_ends() -> None:
    """In bytes, and never half a character."""
    text = bound_error("begin " + "é " * 20_000 + "end")
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "cut …" in text
    assert len(text.encode()) <= LONGEST_ERROR
    assert sys.getsizeof(text) < 40_000


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError(), ValueError("secret")])
@pytest.mark.parametrize("where", ["__str__", "__notes__", "__cause__", "note"])
def test_an_error_whose_own_code_raises_anything_is_described_by_its_name(leaving: BaseException, where: str) -> None:
    """The text is made in the worker: what leaves it would end a slot, and its job with it."""

    def leave(self: object) -> str:
        raise leaving

    class Note:
        __str__ = leave

    members: dict[str, Any] = {"__str__": leave} if where == "__str__" else {where: property(leave)}
    error: Any = type("Evil", (Exception,), {"__notes__": [Note()]} if where == "note" else members)("hello")
    text = describe_error(error)
    assert "Evil" in text
    assert type(leaving).__name__ in text
    assert "secret" not in text
