from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import InvalidDefinition, InvalidPayload, PayloadTooLarge
from onward.payload import (
    METADATA_LIMIT,
    PAYLOAD_LIMIT,
    PROGRESS_LIMIT,
    Codec,
    encode_metadata,
    encode_progress,
    encode_result,
    payload_hash,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Item:
    name: str
    amount: int = 1


class Everything(msgspec.Struct):
    """Each type that failed in some serializer of somebody."""

    price: Decimal = Decimal("0.10")
    due: datetime = datetime(2026, 1, 1, 9, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    day: date = date(2026, 2, 28)
    ident: UUID = UUID("12345678-1234-5678-1234-567812345678")
    colour: Colour = Colour.RED
    level: Level = Level.HIGH
    raw: bytes = b"\x00\xff"
    wait: timedelta = timedelta(days=-1, microseconds=1)
    maybe: int | None = None
    items: list[Item] = []
    pair: tuple[int, str] = (1, "a")
    tags: frozenset[str] = frozenset({"b", "a"})
    point: Point = Point(1, 2)
    by_number: dict[int, Item] = {}
    big: int = 10**30
    mode: Literal["a", "b"] = "a"


class Dict(TypedDict, total=False):
    name: str
    amount: int


@attrs.define
class Attrs:
    name: str
    due: datetime


class Model(pydantic.BaseModel):
    name: str
    price: Decimal = Decimal("0.10")
    nested: list[Model] = []
    alias: int = pydantic.Field(default=1, alias="theAlias")


@pydantic.dataclasses.dataclass
class PydanticDataclass:
    amount: int


ROUND_TRIPS: list[tuple[Any, Any]] = [
    (Everything, Everything(items=[Item("x"), Item("y", 2**63)], by_number={10: Item("t"), 9: Item("n")})),
    (Item, Item("Zoë \u2028 \x7f", -(2**64))),
    (Dict, {"name": "x"}),
    (Attrs, Attrs("x", datetime(2026, 1, 1, tzinfo=UTC))),
    (Model, Model(name="x", nested=[Model(name="y", theAlias=5)])),
    (PydanticDataclass, PydanticDataclass(3)),
    (list[Model], [Model(name="x")]),
    (dict[str, Model | None], {"a": Model(name="x"), "b": None}),
    (type(None), None),
    (None, None),
    (str, ""),
    (int, 2**53 + 1),
    (int, 2**63),
    (int, -(10**30)),
    (float, 1e308),
    (float, -0.0),
    (bool, True),
    (Any, {"a": [1, 2.5, None, True, "x", {}]}),
    (dict[str, int], {"b": 1, "a": 2}),
    (dict[UUID, str], {UUID(int=1): "x"}),
    (list[int | str], [1, "1"]),
    (tuple[int, ...], (1, 2)),
    (frozenset[int], frozenset({1})),
    (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
    (Item | None, None),
]


@pytest.mark.parametrize(("kind", "value"), ROUND_TRIPS, ids=range(len(ROUND_TRIPS)))
def test_what_is_encoded_comes_back_equal(kind: Any, value: Any) -> None:
    """One codec for every backend: no value works on one and fails on another."""
    codec: Codec[Any] = Codec(kind)
    text = codec.encode(value)
    assert codec.decode(text) == value
    assert codec.encode(codec.decode(text)) == text


def test_equal_payloads_have_one_text_and_one_hash() -> None:
    """Keys compare hashes: the order in which somebody wrote fields must not matter."""
    codec: Codec[Any] = Codec(dict[str, Any])
    assert codec.encode({"b": {"z": 1, "y": 2}, "a": 1}) == codec.encode({"a": 1, "b": {"y": 2, "z": 1}}) == '{"a":1,"b":{"y":2,"z":1}}'
    item: Codec[Item] = Codec(Item)
    assert item.encode(item.decode('{ "amount": 2, "name": "x" }')) == item.encode(Item("x", 2)) == '{"amount":2,"name":"x"}'
    tags: Codec[Any] = Codec(set[str])
    assert tags.encode({"a", "b", "c"}) == '["a","b","c"]'


def test_the_hash_is_of_the_stored_bytes() -> None:
    """Anybody can compute it again."""
    assert payload_hash("null") == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    assert payload_hash("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"


def test_an_unordered_pair_of_nfc_and_nfd_stays_two_values() -> None:
    """Text is opaque: nothing is normalised."""
    codec: Codec[str] = Codec(str)
    assert codec.encode("é") != codec.encode("e\u0301")


class Holder(msgspec.Struct):
    items: list[Item] = []
    anything: Any = None
    number: float = 0
    maybe: float | None = None


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def nest(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


REFUSED: list[tuple[Any, Any, str]] = [
    (Item, {"name": "x"}, "$"),
    (Item, "x", "$"),
    (Item, None, "$"),
    (Item, Item(5), "$.name"),  # type: ignore[arg-type]
    (Item, Item("x", 1.5), "$.amount"),  # type: ignore[arg-type]
    (Item, Item("x", True), "$.amount"),
    (Holder, Holder(items=[Item("a"), Item("b"), Item(3)]), "$.items[2].name"),  # type: ignore[arg-type]
    (Holder, Holder(items=[{"name": "x"}]), "$.items[0]"),  # type: ignore[list-item]
    (Holder, Holder(items=[Item("a\0b")]), "$.items[0].name"),
    (Holder, Holder(anything={"a": "\ud800"}), "$.anything.a"),
    (Holder, Holder(anything={"a": {"\ud800": 1}}), "$.anything.a"),
    (Holder, Holder(anything={"k\0": 1}), "$.anything"),
    (Holder, Holder(number=float("nan")), "$.number"),
    (Holder, Holder(maybe=float("nan")), "$.maybe"),
    (Holder, Holder(maybe=float("-inf")), "$.maybe"),
    (Holder, Holder(anything=[0, float("inf")]), "$.anything[1]"),
    (Holder, Holder(anything=[None, {"x": float("nan")}]), "$.anything[1].x"),
    (Holder, Holder(anything=datetime(2026, 1, 1, tzinfo=UTC)), "$.anything"),
    (Holder, Holder(anything={"a": Decimal(1)}), "$.anything.a"),
    (Holder, Holder(anything=[b"x"]), "$.anything[0]"),
    (Holder, Holder(anything=[UUID(int=1)]), "$.anything[0]"),
    (Holder, Holder(anything={1: 2}), "$.anything"),
    (Holder, Holder(anything=Item("x")), "$.anything"),
    (Holder, Holder(anything=object()), "$.anything"),
    (Holder, Holder(anything={1, 2}), "$.anything"),
    (int, 10**300, "$"),
    (int, 10**5000, "$"),
    (Any, [1, 10**5000], "$[1]"),
    (Decimal, Decimal("NaN"), "$"),
    (Dict, {"name": "x", "extra": 1}, "$"),
    (Dict, {"name": 1}, "$.name"),
    (Model, {"name": "x"}, "$"),
    (Model, Item("x"), "$"),
    (list[Model], [{"name": "x"}], "$[0]"),
    (type(None), 5, "$"),
    (Any, nest(65), "$" + "[0]" * 64),
    (tuple[int, int], (1, 2, 3), "$"),
]


@pytest.mark.parametrize(("kind", "value", "path"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_not_come_back_is_refused_with_its_place(kind: Any, value: Any, path: str) -> None:
    """Refused where it was written, before anything is stored; never another exception."""
    with pytest.raises(InvalidPayload) as refused:
        Codec(kind).encode(value)
    assert refused.value.path == path


@pytest.mark.parametrize("value", [CYCLE, nest(100_000)], ids=["inside itself", "100,000 levels"])
def test_depth_is_refused_and_never_overflows_the_stack(value: Any) -> None:
    """A hostile or mistaken value ends in the declared error."""
    for encode in (Codec(Any).encode, encode_result, encode_progress):
        with pytest.raises(InvalidPayload, match="64 levels"):
            encode(value)


def test_sixty_four_levels_are_allowed() -> None:
    """The limit itself is in."""
    codec: Codec[Any] = Codec(Any)
    assert codec.decode(codec.encode(nest(64))) == nest(64)
    assert codec.decode(codec.encode([[1]] * 1000)) == [[1]] * 1000


def test_text_that_only_looks_suspicious_is_accepted() -> None:
    """Brackets and digits inside a string, and a backslash before u0000, are text."""
    codec: Codec[Any] = Codec(Any)
    for value in ("[" * 1000, '"[{' * 100, "\\u0000", "\\\\u0000", "9" * 5000, {"9" * 400: "\\" * 99}):
        assert codec.decode(codec.encode(value)) == value


SECRET = "hunter2canary"


class Checked(msgspec.Struct):
    """Quotes the value in its own error, as people write them."""

    name: str

    def __post_init__(self) -> None:
        if self.name:
            raise ValueError(f"{self.name} is no name")


class CheckedModel(pydantic.BaseModel):
    name: str
    number: int = 0

    @pydantic.field_validator("name")
    @classmethod
    def quote(cls, value: str) -> str:
        if value:
            raise ValueError(f"{value} is no name")
        return value


class AssertingModel(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def claim(cls, value: str) -> str:
        assert not value, f"{value} is no name"
        return value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Item, f'{{"name": ["{SECRET}"]}}'),
        (Item, f'{{"name": "x", "amount": "{SECRET}"}}'),
        (Item, f'"{SECRET}"'),
        (Colour, f'"{SECRET}"'),
        (Literal["a"], f'"{SECRET}"'),
        (UUID, f'"{SECRET}"'),
        (Decimal, f'"{SECRET}"'),
        (datetime, f'"{SECRET}"'),
        (Checked, f'{{"name": "{SECRET}"}}'),
        (list[Checked], f'[{{"name": "{SECRET}"}}]'),
        (CheckedModel, f'{{"name": "{SECRET}"}}'),
        (CheckedModel, f'{{"name": "", "number": "{SECRET}"}}'),
        (list[CheckedModel], f'[{{"name": "{SECRET}"}}]'),
        (Item, f'{{"name": "{SECRET}'),
        (Item, f"{SECRET}"),
        (AssertingModel, f'{{"name": "{SECRET}"}}'),
    ],
    ids=range(16),
)
def test_no_message_quotes_a_value(kind: Any, text: str) -> None:
    """The message is stored and logged; the value may be a password."""
    with pytest.raises(InvalidPayload) as refused:
        Codec(kind).decode(text)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_the_path_of_a_decode_error_names_index_and_field() -> None:
    """The person who has to mend it should not have to search."""
    with pytest.raises(InvalidPayload, match=r"expected int, got str \(at \$\.items\[2\]\.amount\)"):
        Codec(Holder).decode('{"items":[{"name":"a"},{"name":"b"},{"name":"c","amount":"x"}]}')
    with pytest.raises(InvalidPayload, match=r"at \$\[1\]\.name"):
        Codec(list[Model]).decode('[{"name":"a"},{"name":5}]')


def test_unknown_fields_are_ignored_when_read() -> None:
    """During a deploy an old worker meets payloads with a new field."""
    assert Codec(Item).decode('{"name":"x","new":1}') == Item("x")


def test_an_infinite_number_is_called_so_and_not_a_null() -> None:
    """The caller gave no null, and would look for one in vain."""
    with pytest.raises(InvalidPayload, match=r"^NaN and infinity have no JSON form \(at \$\.number\)$"):
        Codec(Holder).encode(Holder(number=float("inf")))


class Unwritable(Enum):
    """Each value is one of an enum, which usually can be written."""

    NOWHERE = object()


def test_what_cannot_be_written_for_a_reason_that_nobody_finds_is_refused_nevertheless() -> None:
    """By what it is, and by the type that was expected."""
    with pytest.raises(InvalidPayload, match=r"^the result cannot be written as JSON \(TypeError\)"):
        encode_result([Unwritable.NOWHERE])
    with pytest.raises(InvalidPayload, match=r"^it cannot be written as JSON \(TypeError\); expected Item"):
        Codec(Item).encode(Item("x", Unwritable.NOWHERE))  # type: ignore[arg-type]  # that is the point


class Page(pydantic.BaseModel):
    """Fields that are one thing in Python and another in JSON."""

    file: Path
    host: IPv4Address
    numbers: pydantic.Json[list[int]]


def test_a_pydantic_model_is_written_so_that_it_can_be_read_again() -> None:
    """In the form of JSON, and with JSON in a field as its text."""
    codec: Codec[Page] = Codec(Page)
    page = Page(file=Path("a/b"), host=IPv4Address("10.0.0.1"), numbers="[1,2]")  # type: ignore[arg-type]  # read by pydantic
    assert codec.encode(page) == '{"file":"a/b","host":"10.0.0.1","numbers":"[1,2]"}'
    assert codec.decode(codec.encode(page)) == page


def test_a_pydantic_model_of_the_wrong_types_is_refused_and_warns_of_nothing() -> None:
    """The warning would quote the value."""
    wrong = Model.model_construct(name=5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(InvalidPayload) as refused:
            Codec(Model).encode(wrong)
    assert (refused.value.path, told) == ("$.name", [])


class QuotesItsErrors(Exception):
    """As libraries have them: a list of what was wrong, which is no method."""

    errors: ClassVar = ["hunter2"]


class FailsItsOwnWay(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def fail(cls, value: str) -> str:
        raise QuotesItsErrors(value)


def test_an_error_of_the_application_s_own_check_is_not_taken_for_one_of_pydantic_s() -> None:
    """It is told by its type."""
    with pytest.raises(InvalidPayload, match=r"^it is not FailsItsOwnWay \(QuotesItsErrors\)"):
        Codec(FailsItsOwnWay).decode('{"name":"hunter2"}')


class Plain:
    """No fields that anybody knows."""


def no_type() -> NoReturn:
    raise AssertionError


@pytest.mark.parametrize(
    "kind",
    [
        Plain,
        list[Plain],
        dict[str, Plain],
        Plain | None,
        int | Plain,
        str | datetime,
        object,
        type,
        "Item",
        5,
        no_type,
        Mapping[str, Plain],
        dict[str, msgspec.Raw],
    ],
    ids=range(13),
)
def test_a_type_without_a_json_form_is_refused_at_definition(kind: Any) -> None:
    """At import, not at the first enqueue in production."""
    with pytest.raises(InvalidDefinition, match="payload"):
        Codec(kind)


def test_a_type_that_names_what_is_not_there_is_refused_at_definition() -> None:
    """A forward reference that leads nowhere."""

    @dataclass
    class Broken:
        other: Nowhere  # type: ignore[name-defined]  # noqa: F821 - that is the point

    with pytest.raises(InvalidDefinition, match="Nowhere"):
        Codec(Broken)


class SafeText(str):
    """As template engines make them."""

    __slots__ = ()


def test_subclasses_of_text_and_numbers_are_their_plain_value() -> None:
    """A template engine's safe string is a string."""
    codec: Codec[Any] = Codec(dict[str, str])
    assert codec.encode({"a": SafeText("x")}) == '{"a":"x"}'
    assert Codec(int).encode(Level.HIGH) == "3"


def test_a_pydantic_value_that_hides_itself_is_refused() -> None:
    """A SecretStr would come back as stars."""

    class Login(pydantic.BaseModel):
        password: pydantic.SecretStr

    with pytest.raises(InvalidPayload) as refused:
        Codec(Login).encode(Login(password=pydantic.SecretStr(SECRET)))
    assert refused.value.path == "$.password"


def test_objects_that_compare_by_identity_round_trip_too() -> None:
    """``eq=False`` says nothing of what is stored."""

    @dataclass(eq=False)
    class Same:
        values: list[int] = field(default_factory=list)

    codec: Codec[Same] = Codec(Same)
    assert codec.decode(codec.encode(Same([1]))).values == [1]


def test_sizes_are_bytes_and_the_limit_itself_is_in() -> None:
    """256 KiB; the message says both sizes."""
    codec: Codec[str] = Codec(str)
    assert len(codec.encode("x" * (PAYLOAD_LIMIT - 2))) == PAYLOAD_LIMIT
    with pytest.raises(PayloadTooLarge) as refused:
        codec.encode("é" * (PAYLOAD_LIMIT // 2))
    assert (refused.value.size, refused.value.limit) == (PAYLOAD_LIMIT + 2, PAYLOAD_LIMIT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0, "0"),
        ("x", '"x"'),
        ([None], "[null]"),
        (Item("x"), '{"amount":1,"name":"x"}'),
        (Model(name="x"), None),
        (date(2026, 1, 1), '"2026-01-01"'),
        ({2: {1, 0}, "a": Decimal("0.10")}, None),
        (2**64, str(2**64)),
        (Colour.RED, '"red"'),
    ],
    ids=range(10),
)
def test_a_result_is_any_json_value(value: Any, text: str | None) -> None:
    """People read it; a datetime may become text."""
    encoded = encode_result(value)
    assert (encoded is None) == (value is None)
    if text is not None:
        assert encoded == text


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"a": None, "b": float("nan")}, "\0", {"\0": 1}, "\ud800", object(), Plain, 10**400],
    ids=range(9),
)
def test_result_progress_and_metadata_keep_the_same_subset(value: Any) -> None:
    """What a backend cannot hold is refused for them as well."""
    for encode in (encode_result, encode_progress, lambda inner: encode_metadata({"a": inner})):
        with pytest.raises(InvalidPayload):
            encode(value)


def test_metadata_and_progress_have_their_own_limits() -> None:
    """They are read with every list."""
    assert encode_metadata({}) == "{}"
    assert encode_metadata({"b": 1, "a": [2]}) == '{"a":[2],"b":1}'
    assert len(encode_metadata({"a": "x" * (METADATA_LIMIT - 8)})) == METADATA_LIMIT
    with pytest.raises(InvalidPayload, match="metadata is 16,385 bytes"):
        encode_metadata({"a": "x" * (METADATA_LIMIT - 7)})
    with pytest.raises(InvalidPayload, match="progress is 4,097 bytes"):
        encode_progress("x" * (PROGRESS_LIMIT - 1))
    with pytest.raises(InvalidPayload, match="mapping from text"):
        encode_metadata({1: 2})  # type: ignore[dict-item]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**299), 10**299) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_json_value_comes_back_equal_or_is_refused(value: Any) -> None:
    """The strict subset, on anything."""
    codec: Codec[Any] = Codec(Any)
    try:
        text = codec.encode(value)
    except InvalidPayload:
        return
    assert "\0" not in text
    text.encode()
    assert codec.decode(text) == value


@given(st.text() | st.text(alphabet='{}[]":,\\u0dau1e9 \ud800'))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No parser's own exception reaches a worker."""
    for kind in (Any, Item, Everything, Model):
        codec: Codec[Any] = Codec(kind)
        try:
            codec.decode(text)
        except InvalidPayload:
            continue


def test_pydantic_is_never_imported_by_us() -> None:
    """Who has no pydantic model does not pay for it."""
    code = "import sys; from onward.payload import Codec; Codec(dict[str, int]).encode({'a': 1}); print('pydantic' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert answer.stdout == "False\n", answer.stderr
