"""Fields of a payload that its type does not have.

A worker overlooks them, for older jobs may carry them; what was just typed is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def refuse_unknown_fields(payload_type: Any, parsed: Any) -> None:
    """Raise ``InvalidPayload``, naming its place, for a field that no dataclass, Struct, TypedDict or attrs class there has.

    ``parsed`` is the JSON that was given, and fits the type. Models of pydantic decide by themselves what they ignore.
    """
    from msgspec import inspect

    from onward.errors import InvalidPayload
    from onward.spelling import did_you_mean

    try:
        kind = inspect.type_info(payload_type)
    except TypeError:  # a type that only pydantic knows
        return
    for path, name, known in _unknown([kind], parsed, "$"):
        raise InvalidPayload(f"there is no field {name!r:.80}{did_you_mean(name, known)}", path=path)


def _unknown(kinds: list[Any], value: Any, path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Every place with a field that none of the types it may have knows. A type that takes anything takes any field."""
    from msgspec import inspect

    kinds = list(_flat(kinds))
    if any(isinstance(kind, inspect.AnyType | inspect.CustomType | inspect.RawType) for kind in kinds):
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown([inner for kind in kinds for inner in _items(kind, number)], item, f"{path}[{number}]")
    elif isinstance(value, dict):
        of_values = [kind.value_type for kind in kinds if isinstance(kind, inspect.DictType)]
        fields = _fields(kinds, value)
        for name, item in value.items():
            inner = [*fields.get(name, ()), *of_values]
            if inner:
                yield from _unknown(inner, item, f"{path}.{name}")
            elif name not in fields and fields:
                yield path, name, list(fields)


def _flat(kinds: Iterable[Any]) -> Iterator[Any]:
    from msgspec import inspect

    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _flat([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _flat(kind.types)
        else:
            yield kind


def _fields(kinds: list[Any], value: dict[str, Any]) -> dict[str, list[Any]]:
    """The types of each field that an object may have here; of tagged Structs, only those of the one that the tag names."""
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        tag = getattr(kind, "tag_field", None)
        if tag is not None:
            if value.get(tag, kind.tag) != kind.tag:
                continue
            found.setdefault(tag, [])
        for field in getattr(kind, "fields", ()):
            found.setdefault(field.encode_name, []).append(field.type)
    return found


def _items(kind: Any, number: int) -> list[Any]:
    if hasattr(kind, "item_types"):
        return list(kind.item_types[number : number + 1])
    if hasattr(kind, "item_type"):
        return [kind.item_type]
    return [field.type for field in getattr(kind, "fields", ())[number : number + 1]] if getattr(kind, "array_like", False) else []
