"""``Secret[str]``: how a type says which parts of it are secret, and where those stand in its JSON."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin

from onward.errors import InvalidDefinition

T = TypeVar("T")


class Mark:
    """What marks a type as secret."""

    def __repr__(self) -> str:
        return "Secret"


MARK = Mark()
Secret: TypeAlias = Annotated[T, MARK]
"""``Secret[str]`` is a ``str`` that is shown nowhere: a field of a dataclass, Struct, TypedDict, attrs class or pydantic model, or a
part of one, such as ``list[Secret[str]]``. A type checker takes it for the type itself."""


class Shape:
    """Where in a JSON value secrets are. Several shapes may be possible at one place; what one of them calls secret is."""

    __slots__ = ("fields", "holds_bytes", "is_secret", "items", "positions")

    def __init__(self, *, is_secret: bool = False, holds_bytes: bool = False) -> None:
        self.is_secret = is_secret
        self.holds_bytes = holds_bytes
        """A secret of bytes stands in JSON as base64."""
        self.fields: dict[str, list[Shape]] = {}
        self.positions: list[list[Shape]] = []
        self.items: list[Shape] = []

    def inner(self) -> Iterator[Shape]:
        """Every shape that may be directly inside."""
        for several in (*self.fields.values(), *self.positions, self.items):
            yield from several


def read_shapes(kind: Any) -> list[Shape]:
    """The shapes of a type; none where nothing of it is secret. Raises ``InvalidDefinition`` for a mark that cannot be read."""
    shapes = _Reader().shapes(kind, {})
    return shapes if _has_secret(shapes) else []


def without_mark(kind: Any) -> Any:
    """The type that is marked itself, as codecs know it; its parts stay marked."""
    if get_origin(kind) is not Annotated:
        return kind
    inner, *others = get_args(kind)
    others = [one for one in others if not _is_mark(one)]
    return Annotated[(inner, *others)] if others else inner


def _has_secret(shapes: Iterable[Shape]) -> bool:
    waiting, seen = list(shapes), set()
    while waiting:
        shape = waiting.pop()
        if shape.is_secret:
            return True
        if id(shape) not in seen:
            seen.add(id(shape))
            waiting += shape.inner()
    return False


def _is_mark(one: object) -> bool:
    # Also Annotated[str, Secret], which means the same.
    return one is MARK or one is Secret


_QUALIFIERS = {typing.Required, typing.NotRequired, typing.Final, typing.ClassVar}


class _Reader:
    """Reads types. One that is inside itself is read once."""

    def __init__(self) -> None:
        self._known: dict[Any, Shape] = {}

    def shapes(self, kind: Any, arguments: Mapping[Any, Any]) -> list[Shape]:
        """The shapes that a value of this type may have; ``arguments`` are the types that stand for type variables."""
        kind = _unwrap(kind)
        if isinstance(kind, TypeVar):
            return self.shapes(arguments[kind], {}) if kind in arguments else []
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return (
                [Shape(is_secret=True, holds_bytes=_is_of_bytes(kind))]
                if any(map(_is_mark, parts[1:]))
                else self.shapes(parts[0], arguments)
            )
        if origin in _QUALIFIERS:
            return self.shapes(parts[0], arguments)
        if origin is typing.Union or origin is UnionType:
            return [shape for part in parts for shape in self.shapes(part, arguments)]
        cls = origin or kind
        if not isinstance(cls, type):
            return []
        if getattr(cls, "__pydantic_root_model__", False):
            return [
                shape for names, one in _fields(cls) if "root" in names for shape in self.shapes(one, _arguments(cls, parts, arguments))
            ]
        if _has_fields(cls):
            return [self._object(cls, parts, arguments)]
        if issubclass(cls, tuple):
            return [self._tuple(parts, arguments)]
        if parts and issubclass(cls, Mapping):
            return [self._mapping(parts, arguments)]
        return [self._list(parts, arguments)] if parts and issubclass(cls, Iterable) else []

    def _list(self, parts: Iterable[Any], arguments: Mapping[Any, Any]) -> Shape:
        shape = Shape()
        shape.items = [one for part in parts for one in self.shapes(part, arguments)]
        return shape

    def _tuple(self, parts: tuple[Any, ...], arguments: Mapping[Any, Any]) -> Shape:
        if parts[-1:] == (Ellipsis,):
            return self._list(parts[:1], arguments)
        shape = Shape()
        shape.positions = [self.shapes(part, arguments) for part in parts]
        return shape

    def _mapping(self, parts: tuple[Any, ...], arguments: Mapping[Any, Any]) -> Shape:
        keys, *values = (self.shapes(part, arguments) for part in parts)
        if _has_secret(keys):
            return Shape(is_secret=True)
        shape = Shape()
        shape.items = [one for several in values for one in several]
        return shape

    def _object(self, cls: type[Any], parts: tuple[Any, ...], arguments: Mapping[Any, Any]) -> Shape:
        own = _arguments(cls, parts, arguments)
        known = (cls, tuple(map(repr, own.values())))
        if known in self._known:
            return self._known[known]
        shape = self._known[known] = Shape()
        is_list = hasattr(cls, "_fields") or getattr(getattr(cls, "__struct_config__", None), "array_like", False)
        if is_list and getattr(getattr(cls, "__struct_config__", None), "tag", None) is not None:
            shape.positions.append([])
        for names, kind in _fields(cls):
            found = self.shapes(kind, own)
            if is_list:
                shape.positions.append(found)
            for name in names:
                shape.fields[name] = found
        if hasattr(cls, "__pydantic_extra__"):  # what a model takes beside its fields
            shape.items = [one for extra in self.shapes(_hints(cls).get("__pydantic_extra__"), own) for one in extra.items]
        return shape


def _arguments(cls: type[Any], parts: tuple[Any, ...], arguments: Mapping[Any, Any]) -> dict[Any, Any]:
    """What stands for the type variables of a class and of those it is made of. Where one name stands for several, any of them."""
    own = {
        name: arguments.get(part, part) if isinstance(part, TypeVar) else part
        for name, part in zip(getattr(cls, "__parameters__", ()), parts, strict=False)
    }
    waiting, seen = [cls], set()
    while waiting:
        for base in getattr(waiting.pop(), "__orig_bases__", ()):
            origin = get_origin(base)
            if not isinstance(origin, type) or base in seen:
                continue
            seen.add(base)
            waiting.append(origin)
            for name, part in zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False):
                given = own.get(part, part) if isinstance(part, TypeVar) else part
                own[name] = given if own.get(name, given) == given else typing.Union[own[name], given]  # noqa: UP007 - made at run time
    return own


def _unwrap(kind: Any) -> Any:
    """What a new name for a type stands for."""
    while True:
        inner = getattr(kind, "__supertype__", None)
        if inner is None and type(kind).__name__ == "TypeAliasType":
            inner = kind.__value__
        if inner is None:
            return kind
        kind = inner


def _is_of_bytes(kind: Any) -> bool:
    return kind in (bytes, bytearray, memoryview) or any(_is_of_bytes(part) for part in get_args(kind) if not _is_mark(part))


def _has_fields(cls: type[Any]) -> bool:
    names = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__", "_fields", "model_fields")
    return any(hasattr(cls, name) for name in names)


def _fields(cls: type[Any]) -> Iterator[tuple[set[str], Any]]:
    """The fields of a class in their order: under which names each may stand in JSON, and its type."""
    if isinstance(of_model := getattr(cls, "model_fields", None), Mapping):
        for name, field in of_model.items():
            names = {name, *(one for one in (field.alias, field.serialization_alias) if isinstance(one, str))}
            yield names, Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        return
    hints = _hints(cls)
    if struct := getattr(cls, "__struct_fields__", None):
        for name, encoded in zip(struct, getattr(cls, "__struct_encode_fields__", struct), strict=True):
            yield {name, encoded}, hints.get(name)
    elif in_order := getattr(cls, "_fields", None):
        for name in in_order:
            yield {name}, hints.get(name)
    else:
        for name, kind in hints.items():
            yield {name}, kind


def _hints(cls: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:  # noqa: BLE001 - annotations run code of the application
        for base in cls.__mro__:
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if "Secret" in str(annotation):
                    raise InvalidDefinition(
                        f"the type of {cls.__name__}.{name} cannot be read ({type(error).__name__}: {error}), so what is secret of it "
                        "cannot be known: import what it names where the class is made"
                    ) from None
        return {}
