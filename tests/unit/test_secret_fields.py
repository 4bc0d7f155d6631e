from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from urllib.parse import quote
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from onward import InvalidDefinition, InvalidPayload, Secret, define_job
from onward.payload import Codec
from onward.redact import REDACTED
from onward.secret_fields import MOST_FORMS, SHOWN_INSTEAD, SecretFields, as_it_is

T = TypeVar("T")
Token = NewType("Token", Secret[str])


@dataclass
class Plain:
    name: str
    numbers: list[int] = field(default_factory=list)


@dataclass
class Login:
    user: str
    token: Secret[str]
    pin: Secret[int | None] = None


class Struct(msgspec.Struct, rename="camel"):
    user_name: str
    api_token: Secret[str]


class Row(msgspec.Struct, array_like=True, tag=True):
    user: str
    token: Secret[str]


class Mapped(TypedDict):
    user: str
    token: NotRequired[Secret[str]]


class Pair(NamedTuple):
    user: str
    token: Secret[str]


@attrs.define
class Attrs:
    user: str
    token: Annotated[str, Secret]


class Model(pydantic.BaseModel):
    user: str
    token: Secret[str] = pydantic.Field(serialization_alias="tok", validation_alias="tok")
    more: list[Secret[str]] = []


@dataclass
class Outer:
    login: Login
    spare: Login | None
    several: list[Login]
    by_name: Mapping[str, Login]


@dataclass
class Tree:
    token: Secret[str]
    children: Sequence[Tree]


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Whole:
    login: Secret[Login]
    keys: dict[Secret[str], int]
    pair: tuple[str, Secret[str]]
    many: tuple[Secret[str], ...]


@dataclass
class Signed(Box[Secret[str]]):
    """The mark comes by what stands for a type variable of the class beneath."""

    number: int = 0


@dataclass
class Further(Box[T]):
    other: T


class Tokens(pydantic.RootModel[list[Secret[str]]]):
    """In JSON it is its root."""


class Open(pydantic.BaseModel, extra="allow"):
    name: str
    __pydantic_extra__: dict[str, Secret[str]]


LOGIN = {"user": "ada", "token": "tok-1", "pin": 12345}
HIDDEN = {"user": "ada", "token": REDACTED, "pin": REDACTED}


@pytest.mark.parametrize(
    ("kind", "value", "masked"),
    [
        (Login, LOGIN, HIDDEN),
        (Login, {"user": "ada", "token": "tok-1", "pin": None}, {"user": "ada", "token": REDACTED, "pin": None}),
        (Struct, {"userName": "ada", "apiToken": "tok-1"}, {"userName": "ada", "apiToken": REDACTED}),
        (Row, ["Row", "ada", "tok-1"], ["Row", "ada", REDACTED]),
        (Mapped, {"user": "ada", "token": "tok-1"}, {"user": "ada", "token": REDACTED}),
        (Pair, ["ada", "tok-1"], ["ada", REDACTED]),
        (Attrs, {"user": "ada", "token": "tok-1"}, {"user": "ada", "token": REDACTED}),
        (Model, {"user": "ada", "tok": "tok-1", "more": ["tok-2"]}, {"user": "ada", "tok": REDACTED, "more": [REDACTED]}),
        (
            Outer,
            {"login": LOGIN, "spare": LOGIN, "several": [LOGIN, LOGIN], "by_name": {"a": LOGIN}},
            {"login": HIDDEN, "spare": HIDDEN, "several": [HIDDEN, HIDDEN], "by_name": {"a": HIDDEN}},
        ),
        (
            Tree,
            {"token": "tok-1", "children": [{"token": "tok-2", "children": []}]},
            {"token": REDACTED, "children": [{"token": REDACTED, "children": []}]},
        ),
        (Box[Login], {"inside": LOGIN}, {"inside": HIDDEN}),
        (Box[Secret[str]], {"inside": "tok-1"}, {"inside": REDACTED}),
        (list[Box[Login]], [{"inside": LOGIN}], [{"inside": HIDDEN}]),
        (
            Whole,
            {"login": LOGIN, "keys": {"tok-1": 1}, "pair": ["ada", "tok-1"], "many": ["tok-1", "tok-2"]},
            {"login": REDACTED, "keys": REDACTED, "pair": ["ada", REDACTED], "many": [REDACTED, REDACTED]},
        ),
        (Secret[str], "tok-1", REDACTED),
        (dict[str, Secret[str]], {"a": "tok-1"}, {"a": REDACTED}),
        (Box[Token], {"inside": "tok-1"}, {"inside": REDACTED}),
        (Signed, {"inside": "tok-1", "number": 3}, {"inside": REDACTED, "number": 3}),
        (Further[Secret[str]], {"inside": "tok-1", "other": "tok-2"}, {"inside": REDACTED, "other": REDACTED}),
        (Tokens, ["tok-1"], [REDACTED]),
        (dict[str, Tokens], {"a": ["tok-1"]}, {"a": [REDACTED]}),
        (pydantic.RootModel[Secret[str]], "tok-1", REDACTED),
        (Open, {"name": "ada", "more": "tok-1"}, {"name": REDACTED, "more": REDACTED}),
        (Login | Plain | None, LOGIN, HIDDEN),
        (Login, ["not", "its", "form"], ["not", "its", "form"]),
        (Plain, {"name": "ada", "numbers": [1]}, {"name": "ada", "numbers": [1]}),
    ],
    ids=range(26),
)
def test_what_is_marked_is_masked_wherever_it_stands(kind: Any, value: Any, masked: Any) -> None:
    """In every kind of payload, nested, in lists and mappings, under the name that it has in JSON."""
    before = json.dumps(value)
    assert SecretFields(kind).mask(value) == masked
    assert json.dumps(value) == before


def test_a_type_without_a_mark_costs_nothing() -> None:
    """Most have none."""
    assert not SecretFields(Plain)
    assert SecretFields(Plain).hiding("{}") is as_it_is
    assert SecretFields(Login)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("tok-1", "bad tok-1!"),
        ('it\'s \\ "so" \n', "bad {value!r}"),
        ('it\'s \\ "so"', "bad {value}, {value}"),
        ("grün 日本", "ascii {value!a}"),
        ("a b/c&d", "GET /?token={quoted}"),
        ('line one is long\nline "two" is long', "in line two is: line one is long"),
        ('say "hi"\t', "in JSON: {dumped}"),
        ("naïve", "bytes {encoded!r}"),
    ],
    ids=range(8),
)
def test_a_value_is_taken_out_in_every_form_in_which_a_text_may_have_it(value: str, text: str) -> None:
    """Messages quote, escape and encode what they were given."""
    forms: dict[str, Any] = {"value": value, "quoted": quote(value, safe=""), "dumped": json.dumps(value), "encoded": value.encode()}
    hide = SecretFields(Login).hiding(json.dumps({"user": "ada", "token": value}))
    said = hide(text.format(**forms))
    assert REDACTED in said
    for form in (value, repr(value)[1:-1], ascii(value)[1:-1], forms["quoted"], forms["dumped"][1:-1], repr(forms["encoded"])[2:-1]):
        assert form not in said


@dataclass
class Odd:
    born: Secret[datetime]
    day: Secret[date]
    number: Secret[int]
    share: Secret[float]
    id: Secret[UUID]
    seed: Secret[bytes]


def test_values_that_are_no_text_are_taken_out_as_python_writes_them() -> None:
    """The form in JSON is another one."""
    odd = Odd(
        datetime(1990, 5, 17, 3, 4, 5, tzinfo=UTC),
        date(1991, 6, 18),
        123456789,
        4321.0,
        UUID("6f0b1c9e-1111-4222-8333-123456789abc"),
        b"\xffkey",
    )
    hide = SecretFields(Odd).hiding(Codec[Any](Odd).encode(odd))
    for said in (
        *(f"{odd.born}", f"{odd.born!r}", odd.born.isoformat(), f"{odd.day}", f"{odd.day!r}"),
        *(f"{odd.number}", f"{odd.number:,}", f"{odd.share}", f"{int(odd.share)}", f"{int(odd.share):,}"),
        *(f"{odd.id}", f"{odd.id!r}", odd.id.hex, odd.id.hex.upper()),
        *(f"{odd.seed!r}", odd.seed.hex(), odd.seed.hex().upper(), f"{list(odd.seed)}", odd.seed.decode("latin-1")),
    ):
        hidden = hide(f"bad value: {said}, so")
        assert REDACTED in hidden, said
        left = hidden.replace(REDACTED, "").removeprefix("bad value: ").removesuffix(", so")
        assert not re.search(r"\w", left.strip("b")), hidden


@pytest.mark.parametrize("outer", [repr, json.dumps], ids=["repr", "json"])
@pytest.mark.parametrize("inner", [repr, json.dumps], ids=["repr", "json"])
def test_a_value_is_taken_out_of_a_text_in_a_text(inner: Callable[[str], str], outer: Callable[[str], str]) -> None:
    value = 'it\'s "so" \\ long\n'
    hidden = SecretFields(Login).hiding(json.dumps({"user": "ada", "token": value}))(f"said {outer(inner(value))}")
    assert REDACTED in hidden
    assert "so" not in hidden


def test_numbers_and_bytes_are_values_too() -> None:
    """As Python writes them, and as JSON does."""

    @dataclass
    class Card:
        number: Secret[int]
        key: Secret[bytes]

    key = b"\x00secret"
    text = Codec[Any](Card).encode(Card(4111, key))
    said = Codec[Any](Card).secrets.hiding(text)(f"4111 {key!r} {json.loads(text)['key']} {key.hex()}")
    assert said == f"{REDACTED} b'{REDACTED}' {REDACTED} {REDACTED}"


def test_short_values_are_left_in_texts_and_masked_where_they_stand() -> None:
    """``at`` is in too many words."""
    secrets = SecretFields(Login)
    assert secrets.hiding('{"user": "ada", "token": "abc"}')("abc in an alphabet") == "abc in an alphabet"
    assert secrets.mask({"token": "abc"}) == {"token": REDACTED}


def test_values_inside_one_another_leave_nothing_behind() -> None:
    """The longest goes first, and what stands for one is not searched for another."""
    hide = SecretFields(list[Secret[str]]).hiding('["secret", "secret-and-more", "redacted"]')
    assert hide("secret-and-more, secret") == f"{REDACTED}, {REDACTED}"


@pytest.mark.parametrize("payload", ["", "{", '{"token": 5}', "[]", "null", '{"user": {"token": "abcd"}}', "[" * 100_000])
def test_a_payload_of_another_form_hides_nothing_and_raises_nothing(payload: str) -> None:
    """It was written by hand, or by older code."""
    assert SecretFields(Login).hiding(payload)("abcd") == "abcd"


def test_a_text_is_left_out_where_too_many_values_would_have_to_be_looked_for() -> None:
    """A failure must not cost minutes."""
    many = json.dumps([f"value {number}" for number in range(MOST_FORMS)])
    assert SecretFields(list[Secret[str]]).hiding(many)("anything") == REDACTED


def test_the_sign_is_that_of_everything_that_is_redacted() -> None:
    """It is written out, since the patterns take long to import."""
    assert SHOWN_INSTEAD == REDACTED


def test_a_mark_that_cannot_be_read_is_an_error_where_it_is_declared() -> None:
    """Rather than a secret that is shown."""

    @dataclass
    class Unknown:
        token: Secret[NowhereToBeFound]  # type: ignore[name-defined]  # noqa: F821 - that is what is wrong

    with pytest.raises(InvalidDefinition, match=r"Unknown\.token cannot be read"):
        SecretFields(Unknown)


def send(token: Secret[str]) -> None:
    raise AssertionError


def send_all(tokens: list[Secret[str]]) -> None:
    raise AssertionError


def test_a_handler_s_own_argument_may_be_marked() -> None:
    """And a payload that is named beside it."""
    assert define_job("a", send).codec.secrets.mask("tok-1") == REDACTED
    assert define_job("a", send_all).codec.secrets.mask(["tok-1"]) == [REDACTED]
    assert define_job("a", send).codec.encode("tok-1") == '"tok-1"'
    assert define_job("a", send).codec.decode('"tok-1"') == "tok-1"
    with pytest.raises(InvalidPayload, match=r"a\(str\): expected str, got int"):
        define_job("a", send).new_job(5)  # type: ignore[arg-type]


def broken_key(payload: Login) -> str:
    raise ValueError(f"no key for {payload.token}")


def handle(payload: Login) -> None:
    raise AssertionError


def test_a_value_that_has_no_form_in_json_is_not_named_by_its_place() -> None:
    @dataclass
    class Keyed:
        values: Secret[dict[str, Any]]

    with pytest.raises(InvalidPayload) as caught:
        Codec[Any](Keyed).encode(Keyed({"tok-12345": object()}))
    assert "tok-12345" not in f"{caught.value} {caught.value.path}"


def test_an_error_at_enqueue_has_no_marked_value() -> None:
    """Nor has what caused it, which a traceback would show."""
    definition = define_job("a", handle, key=broken_key)
    with pytest.raises(InvalidPayload) as caught:
        definition.new_job(Login("ada", "tok-12345"))
    assert "tok-12345" not in str(caught.value)
    assert REDACTED in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_place_of_an_error_has_no_marked_key() -> None:
    """A path names the keys of mappings."""

    @dataclass
    class Headers:
        values: Secret[dict[str, int]]

    wrong: Any = {"tok-12345": "x"}
    for run in (
        lambda: Codec[Any](Headers).encode(Headers(wrong)),
        lambda: Codec[Any](Headers).decode('{"values": {"tok-12345": "x"}}'),
    ):
        with pytest.raises(InvalidPayload) as caught:
            run()
        assert "tok-12345" not in f"{caught.value} {caught.value.path}"
