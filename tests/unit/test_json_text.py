from __future__ import annotations

import pytest

from onward.errors import InvalidPayload
from onward.json_text import check_json, check_value, is_too_deep, parse_json


@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ('{"a":1,"a":2}', "$", "'a' occurs twice"),
        ('{"x":[{"b":1,"b":1}]}', "$.x[0]", "'b' occurs twice"),
        ('{"a":{"b":1},"a":{}}', "$", "twice"),
        (r'{"a":1,"\u0061":2}', "$", "twice"),
        ("NaN", "$", "NaN"),
        ('{"a":[1,Infinity]}', "$.a[1]", "NaN and infinity"),
        ("-Infinity", "$", "NaN and infinity"),
        ('{"a":1e999}', "$.a", "NaN and infinity"),
        ('["a","\\u0000"]', "$[1]", "NUL"),
        ('{"a\\u0000":1}', "$", "NUL"),
        ('{"a":"\\ud800"}', "$.a", "surrogate"),
        ('{"a":"\ud800"}', "$.a", "surrogate"),
        ('{"a":{"\\udfff":1}}', "$.a", "surrogate"),
        ("[" * 65 + "]" * 65, "$", "64 levels"),
        ("[" * 200_000, "$", "64 levels"),
        ('{"a":' * 200_000, "$", "64 levels"),
        ("[" + "[]," * 5 + "[" * 64 + "]" * 65, "$", "64 levels"),
        ("9" * 5000, "$", "5,000 digits"),
        ('{"a":-' + "9" * 301 + "}", "$.a", "digits"),
        ("", "$", "not JSON"),
        ("{", "$", "line 1 column 2"),
        ("{'a':1}", "$", "not JSON"),
        ("[1,]", "$", "not JSON"),
        ("01", "$", "not JSON"),
        ('"a\nb"', "$", "not JSON"),
        ("\ufeff{}", "$", "not JSON"),
        ("1 2", "$", "not JSON"),
    ],
    ids=range(27),
)
def test_raw_json_outside_the_subset_is_refused_with_its_place(text: str, path: str, says: str) -> None:
    """As it comes from a command line or a request body; never RecursionError, ValueError or UnicodeError."""
    for read in (parse_json, check_json):
        with pytest.raises(InvalidPayload, match=says) as refused:
            read(text)
        assert refused.value.path == path


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        ' { "a" : [ 1 , 2.50 ] } ',
        "[" * 64 + "1" + "]" * 64,
        '"\\ud83d\\ude00"',
        '"\\\\u0000"',
        "9" * 300,
        '"' + "[" * 500 + '"',
        "-0",
        "1E2",
        "[[]," * 3 + "[]" + "]" * 3,
        '{"a":{"a":1},"b":{"a":1}}',
    ],
    ids=range(11),
)
def test_raw_json_inside_the_subset_is_read(text: str) -> None:
    """Spaces, escapes and any spelling of numbers are fine."""
    check_json(text)
    parse_json(text)


def test_integers_are_exact() -> None:
    """Beyond what a double holds."""
    assert parse_json("[9007199254740993, 9223372036854775808, 1000000000000000000000000000000]") == [2**53 + 1, 2**63, 10**30]


@pytest.mark.parametrize("text", ["[" * 64 + "]" * 64, "[]" * 1000, "[[]]" * 1000, '["\\"[[", "\\\\"]' * 40, "[" * 64], ids=range(5))
def test_depth_counts_levels_not_brackets(text: str) -> None:
    """A long flat list is not deep; brackets in strings are not levels."""
    assert not is_too_deep(text.encode())


@pytest.mark.parametrize("text", ["[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65, "[{" * 33 + "}]" * 33, "[" * 65], ids=range(4))
def test_the_65th_level_is_too_deep(text: str) -> None:
    """Also when it never closes."""
    assert is_too_deep(text.encode())


def test_a_key_that_is_long_or_strange_is_shown_short_and_safe() -> None:
    """The path goes to a terminal."""
    with pytest.raises(InvalidPayload) as refused:
        parse_json('{"' + "k" * 10_000 + '":{"\\u001b[31m":NaN}}')
    assert refused.value.path.isprintable()
    assert len(refused.value.path) <= 200


@pytest.mark.parametrize(("length", "is_whole"), [(200, True), (201, False)])
def test_a_path_is_whole_up_to_two_hundred_characters(length: int, is_whole: bool) -> None:
    """A longer one keeps both ends: where to begin to look, and the field itself."""
    path = "$." + "k" * (length - 3) + "x"
    with pytest.raises(InvalidPayload) as refused:
        parse_json(f'{{"{path[2:]}":NaN}}')
    assert refused.value.path == (path if is_whole else f"{path[:100]}…{path[-99:]}")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_three_hundred_digits_is_kept_and_the_next_is_not(sign: int) -> None:
    """Of a Python value, whose place is told by its own path."""
    check_value({"a": sign * (10**300 - 1)})
    with pytest.raises(InvalidPayload, match=r"more than 300 digits \(at \$\.a\)"):
        check_value({"a": sign * 10**300})


def test_a_reader_that_gives_up_on_the_depth_ends_in_the_declared_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's does where the caller's own stack is nearly used up: a worker is no place for a RecursionError."""

    def give_up(*_: object, **__: object) -> object:
        raise RecursionError

    monkeypatch.setattr("json.loads", give_up)
    with pytest.raises(InvalidPayload, match="nested more than 64 levels deep"):
        parse_json("[[1]]")
