"""Payloads, results, metadata and progress as JSON text: one strict codec for every backend.

A payload is proved before it is stored: what was encoded is decoded again and must equal what was given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec

from onward.errors import InvalidDefinition, InvalidPayload, PayloadTooLarge
from onward.json_text import check_json, check_value, field_names, needs_a_look, parts_of, refuse_because, shorten
from onward.secret_fields import SecretFields
from onward.secret_types import without_mark
from onward.spelling import with_article

P = TypeVar("P")

PAYLOAD_LIMIT = 256 * 1024
RESULT_LIMIT = 256 * 1024
METADATA_LIMIT = 16 * 1024
PROGRESS_LIMIT = 4 * 1024

_UNLIKE = object()
WHAT_A_PAYLOAD_MAY_BE = "a dataclass, TypedDict, msgspec Struct, attrs class or pydantic model, or built-in types such as dict[str, int]"


class Codec(Generic[P]):
    """Turns payloads of one type into JSON text and back. Raises ``InvalidDefinition`` for a type that has no JSON form."""

    def __init__(self, payload_type: Any) -> None:
        declared, payload_type = payload_type, without_mark(payload_type)
        self.payload_type = payload_type
        self._is_slow_to_write = _is_pydantic(payload_type)
        self._decode: Callable[[Any], Any]
        try:
            if _is_pydantic(payload_type):
                self._decode = _adapter(payload_type).validate_json
            else:
                _refuse_custom_types(payload_type)
                self._decode = msgspec.json.Decoder(payload_type, dec_hook=_decode_other).decode
        except InvalidDefinition:
            raise
        except Exception as error:  # noqa: BLE001 - annotations and models run code of the application
            raise InvalidDefinition(f"{name_of_type(payload_type)} cannot be a payload ({error}): use {WHAT_A_PAYLOAD_MAY_BE}") from None
        self.secrets = SecretFields(declared)

    def encode(self, value: P) -> str:
        """Write a payload as text, the same text for equal payloads.

        Raises ``InvalidPayload``, naming the field, for a value that is not of the type or would come back changed, and
        ``PayloadTooLarge``.
        """
        try:
            data = _encode_sorted(value)
        except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
            why = f"it cannot be written as JSON ({type(error).__name__}); expected {name_of_type(self.payload_type)}"
            if self.secrets:  # there is no text in which its secret parts could be found, and a place may name one
                raise InvalidPayload(why) from None
            refuse_because(value, why)
        if len(data) > PAYLOAD_LIMIT:
            raise PayloadTooLarge(len(data), PAYLOAD_LIMIT)
        try:
            self._prove(value, data)
        except InvalidPayload as error:
            raise self.secrets.leave_out(error, data.decode())  # noqa: B904 - the same error
        return data.decode()

    def _prove(self, value: P, data: bytes) -> None:
        """Raise ``InvalidPayload`` unless ``data`` is of the subset and comes back as the value."""
        if needs_a_look(data):
            _look(value, data)
        try:
            decoded = self._decode(data)
        except Exception as error:  # noqa: BLE001 - a model's own checks may raise anything
            check_value(value)
            raise _invalid(error, self.payload_type) from None
        if decoded != value:
            _refuse_change(value, decoded, "$")

    def decode(self, text: str) -> P:
        """Read a payload. Raises ``InvalidPayload``, naming the field, for text outside the subset or of another shape."""
        if (quickly := self._decode_own(text)) is not _UNLIKE:
            own: P = quickly
            return own
        check_json(text)
        try:
            decoded: P = self._decode(text)
        except Exception as error:  # noqa: BLE001 - a model's own checks may raise anything
            raise self.secrets.leave_out(_invalid(error, self.payload_type), text) from None
        return decoded

    def _decode_own(self, text: str) -> Any:
        """Read what ``encode`` wrote: it comes back the same, so that it needs no second look. ``_UNLIKE`` for any other text."""
        if self._is_slow_to_write:
            return _UNLIKE
        try:
            data = text.encode()
            decoded = _UNLIKE if needs_a_look(data) else self._decode(data)
            return decoded if _encode_sorted_text_keys(decoded) == data else _UNLIKE
        except Exception:  # noqa: BLE001 - the other way finds out what is wrong
            return _UNLIKE


def payload_hash(text: str) -> str:
    """SHA-256 of the stored bytes, in hex."""
    return sha256(text.encode()).hexdigest()


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """Write metadata as JSON text of at most 16 KiB. Raises ``InvalidPayload``."""
    if not metadata:
        return "{}"
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidPayload("metadata is a mapping from text to JSON values", path="$metadata")
    return _encode_loosely(dict(metadata), "metadata", METADATA_LIMIT)


def encode_result(value: object) -> str | None:
    """Write what a handler returned as JSON text of at most 256 KiB; None stays None. Raises ``InvalidPayload``."""
    return None if value is None else _encode_loosely(value, "the result", RESULT_LIMIT)


def encode_progress(value: object) -> str:
    """Write what a handler reports as JSON text of at most 4 KiB. Raises ``InvalidPayload``."""
    return _encode_loosely(value, "the progress", PROGRESS_LIMIT)


def _encode_loosely(value: object, what: str, limit: int) -> str:
    # People read these; nothing decodes them into a type, so a datetime may become text.
    try:
        data = _encode_sorted(value)
    except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
        refuse_because(value, f"{what} cannot be written as JSON ({type(error).__name__})")
    if len(data) > limit:
        raise InvalidPayload(f"{what} is {len(data):,} bytes and at most {limit:,} are allowed: store the data elsewhere")
    # msgspec writes NaN as null, so a null needs a second look.
    if b"null" in data or needs_a_look(data):
        _look(value, data)
    return data.decode()


def _look(value: object, data: bytes) -> None:
    # The value first, for its paths are those that the caller knows; then what its own conversions made of it.
    check_value(value)
    check_json(data.decode())


def _encode_sorted(value: object) -> bytes:
    try:
        return _encode_sorted_text_keys(value)
    except TypeError:
        # msgspec sorts no dictionary whose keys are numbers, dates or UUIDs; as text they can be.
        builtins = msgspec.to_builtins(value, str_keys=True, order="sorted", enc_hook=_encode_other)
        return _encode_sorted_text_keys(builtins)


def _encode_other(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return _adapter(type(value)).dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)
    # Subclasses of built-in types, such as the safe strings of template engines, are equal to the plain value.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _decode_other(kind: Any, value: Any) -> Any:
    return _adapter(kind).validate_json(msgspec.json.encode(value))


_encode_sorted_text_keys = msgspec.json.Encoder(enc_hook=_encode_other, order="sorted").encode

_adapters: dict[Any, Any] = {}


def _is_pydantic(kind: object) -> bool:
    # Never imported here: who has no pydantic has no pydantic model.
    return "pydantic" in sys.modules and isinstance(kind, type) and hasattr(kind, "__pydantic_core_schema__")


def _adapter(kind: Any) -> Any:
    if kind not in _adapters:
        _adapters[kind] = sys.modules["pydantic"].TypeAdapter(kind)
    return _adapters[kind]


def _refuse_custom_types(payload_type: Any) -> None:
    from msgspec import inspect

    waiting, seen = [inspect.type_info(payload_type)], set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, inspect.RawType):
            raise InvalidDefinition("msgspec.Raw cannot be (part of) a payload, since nothing looks into it: declare what it holds, or Any")
        if isinstance(found, inspect.CustomType) and not _is_pydantic(found.cls):
            raise InvalidDefinition(f"{name_of_type(found.cls)} cannot be (part of) a payload: use {WHAT_A_PAYLOAD_MAY_BE}")
        for field in found.__struct_fields__:
            inner = getattr(found, field)
            for one in inner if isinstance(inner, tuple) else (inner,):
                if isinstance(one, inspect.Type):
                    waiting.append(one)
                elif isinstance(one, inspect.Field):
                    waiting.append(one.type)


def name_of_type(kind: object) -> str:
    """How a payload's type stands in a sentence."""
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return "None" if kind is type(None) else kind.__name__
    return repr(kind).replace("typing.", "")


def _refuse_change(value: object, decoded: object, path: str) -> None:
    """Raise at the first place where a payload would come back as something else. A tuple that becomes a list is let through."""
    if isinstance(value, list | tuple) and isinstance(decoded, list | tuple):
        same_shape = len(value) == len(decoded)
    elif isinstance(value, dict) and isinstance(decoded, dict):
        if (unknown := next((key for key in value if key not in decoded), None)) is not None:
            raise InvalidPayload(f"the key {unknown!r:.80} is not in the payload's type, or not text", path=shorten(path))
        same_shape = len(value) == len(decoded)
        decoded = {key: decoded[key] for key in value} if same_shape else decoded
    else:
        same_shape = type(value) is type(decoded) and bool(field_names(value))
    if same_shape:
        for (where, before), (_, after) in zip(parts_of(value, path), parts_of(decoded, path), strict=False):
            if before != after:
                _refuse_change(before, after, where)
        return
    if value != decoded:
        check_value(value, path)
        expected, got = type(decoded).__name__, type(value).__name__
        if expected == got:
            raise InvalidPayload(f"a value of type {got} would come back changed", path=shorten(path))
        if field_names(decoded):
            raise InvalidPayload(f"expected {expected}, got {got}", path=shorten(path))
        changed = f"{with_article(got)} would come back as {expected}"
        raise InvalidPayload(f"{changed}: declare its type, or convert it before", path=shorten(path))


def _invalid(error: Exception, payload_type: Any) -> InvalidPayload:
    """Say what a decoder objected to, without the values that it quotes."""
    if isinstance(error, msgspec.ValidationError):
        return _invalid_for_msgspec(error, payload_type)
    if (errors := getattr(error, "errors", None)) and _is_pydantic_error(error):
        return _invalid_for_pydantic(errors(include_input=False, include_url=False, include_context=False)[0])
    if isinstance(error, RecursionError):
        return InvalidPayload("nested too deep")
    return InvalidPayload(f"it is not {name_of_type(payload_type)} ({type(error).__name__})")


def _invalid_for_msgspec(error: msgspec.ValidationError, payload_type: Any) -> InvalidPayload:
    what, _, where = str(error).rpartition(" - at `")
    path = where.rstrip("`").replace("key` in `", "key of ") if what else "$"
    what = what or str(error)
    if isinstance(error.__cause__, Exception):
        cause = error.__cause__
        if _is_pydantic_error(cause):
            inner = _invalid(cause, payload_type)
            return InvalidPayload(str(inner).rpartition(" (at ")[0], path=shorten(path + inner.path.removeprefix("$")))
        what = f"refused by its own check ({type(cause).__name__})"
    elif what.startswith("Invalid enum value"):
        what = "not one of the allowed values"
    elif what.startswith("Invalid value"):
        what = "not one of the allowed tags"
    return InvalidPayload(shorten(what[:1].lower() + what[1:].replace("`", "'" if "field `" in what else "")), path=shorten(path))


def _is_pydantic_error(error: BaseException) -> bool:
    return type(error).__module__.startswith("pydantic")


def _invalid_for_pydantic(detail: dict[str, Any]) -> InvalidPayload:
    path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
    # What a validator of the application says may quote the value.
    own = detail["type"] in ("value_error", "assertion_error")
    what = "refused by its own check" if own else str(detail["msg"])
    return InvalidPayload(shorten(what[:1].lower() + what[1:]), path=shorten(path))
