"""What an expression stands for, traced through the names of all files that are checked together: an ``Onward``, its store, a verb.

A name may be several things; if one of them is Onward's, that counts. What cannot be traced is None, and nothing is said of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, TypeAlias

from msgspec import Struct

from onward.enqueue_check.known import APP, CLASSES, ENQUEUE_VERBS, MAKES, WRAPPERS, Known
from onward.enqueue_check.scopes import Binding, Module, Scope


class Reference(Struct, frozen=True):
    """Something imported that is not among the checked files."""

    path: str


class Defined(Struct, frozen=True, eq=False):
    """A class or a function of the checked files, or (``is_instance``) an instance of such a class."""

    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    scope: Scope
    """Where it is defined."""
    is_instance: bool = False


Value: TypeAlias = Known | Reference | Defined | None
Definitions: TypeAlias = list[tuple[Binding, Scope]]

_DEEPEST = 60


class Tracing:
    """Looks names up across files."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._by_name: dict[str, list[Module]] = {}
        for module in modules:
            self._by_name.setdefault(module.parts[-1] if module.parts else "", []).append(module)
        self._depth = 0
        self._answers: dict[Hashable, Any] = {}
        """What was worked out before. What is being worked out stands here as nothing, so that a circle ends."""

    def _once(self, asked: Hashable, work_out: Callable[[], Any], nothing: Any = None) -> Any:
        if self._depth >= _DEEPEST:
            return nothing
        if asked not in self._answers:
            self._answers[asked] = nothing
            self._depth += 1
            try:
                self._answers[asked] = work_out()
            finally:
                self._depth -= 1
        return self._answers[asked]

    # -- definitions -------------------------------------------------------------------------------------------------

    def definitions(self, node: ast.AST, scope: Scope) -> Definitions:
        """Every way in which a name or an attribute was bound."""
        match node:
            case ast.Name(name):
                return self._named(name, scope)
            case ast.Attribute(base, attribute):
                return self._attribute(self.value(base, scope), attribute, scope)
        return []

    def _named(self, name: str, scope: Scope) -> Definitions:
        found_in = _scope_of(name, scope)
        if found_in is None:
            return [one for package in scope.module.stars for one in self._imported(f"{package}.{name}", scope.module)]
        found: Definitions = []
        for binding, seen_from in found_in.names[name]:
            if binding.kind == "import":
                found += self._imported(binding.path, scope.module)
            else:
                found.append((binding, seen_from))
        return list(dict.fromkeys(found))  # two ways to the same binding would double at every file

    def _imported(self, path: str, importer: Module) -> Definitions:
        """What a dotted name is bound to in the checked files; else, and for all of Onward, the import itself."""
        itself = [(Binding("import", path=path), importer.scope)]
        found: Definitions = self._once(("imported", path, importer), lambda: self._look_up(path.split("."), importer) or itself, [])
        return found

    def _look_up(self, parts: list[str], importer: Module) -> Definitions:
        for length in range(len(parts) - 1 if parts[0] != "onward" else 0, 0, -1):
            module = self._module(parts[:length], importer)
            if module is not None and module is not importer and parts[length] in module.scope.names:
                found = self._named(parts[length], module.scope)
                for attribute in parts[length + 1 :]:
                    found = [one for each in found for one in self._attribute(self._worth(*each), attribute, module.scope)]
                return list(dict.fromkeys(found))
        return []

    def _module(self, parts: list[str], importer: Module) -> Module | None:
        """The checked module of this name; of several, the one whose path has most in common with the importer's."""
        found = [one for one in self._by_name.get(parts[-1], ()) if list(one.parts[-len(parts) :]) == parts]

        def in_common(one: Module) -> int:
            return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one.parts, importer.parts, strict=False))))

        return max(found, key=in_common, default=None)

    def _attribute(self, value: Value, attribute: str, scope: Scope) -> Definitions:
        match value:
            case Reference(path):
                return self._imported(f"{path}.{attribute}", scope.module)
            case Defined(ast.ClassDef()):
                for one in self._bases(value):
                    if isinstance(one, Defined) and attribute in (names := one.scope.module.scopes[one.node].names):
                        return names[attribute]
        return []

    def _bases(self, defined: Defined) -> Iterator[Value]:
        """A class, and everything that it is made from; of the checked files' classes each once, though they be each other's base."""
        waiting: list[Value] = [defined]
        seen = set()
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, Defined) and isinstance(one.node, ast.ClassDef):
                if one.node in seen:
                    continue
                seen.add(one.node)
                waiting += [self.value(base, one.scope) for base in one.node.bases]
            yield one

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, node: ast.AST | None, scope: Scope) -> Value:
        """What an expression stands for."""
        found: Value = None if node is None else self._once(("value", node, scope), lambda: self._value(node, scope))
        return found

    def _value(self, node: ast.AST, scope: Scope) -> Value:
        match node:
            case ast.Name(name):
                return self._instance(name, scope) or _first(self._worth(*one) for one in self._named(name, scope))
            case ast.Attribute(base, attribute):
                return self.member(self.value(base, scope), attribute, scope)
            case ast.Call(function):
                return self._result(node, self.value(function, scope), scope)
            case ast.Await(inner) | ast.NamedExpr(_, inner):
                return self.value(inner, scope)
            case ast.IfExp(_, one, other):
                return _first(self.value(each, scope) for each in (one, other))
            case ast.BoolOp(_, values):
                return _first(self.value(one, scope) for one in values)
        return None

    def _instance(self, name: str, scope: Scope) -> Value:
        """What ``self`` is."""
        found_in = _scope_of(name, scope)
        if found_in is None or found_in.instance_name != name or found_in.of_class is None:
            return None
        node = found_in.of_class.node
        assert isinstance(node, ast.ClassDef)
        assert found_in.of_class.parent is not None
        return self._made(Defined(node, found_in.of_class.parent))

    def member(self, value: Value, attribute: str, scope: Scope) -> Value:
        """What an attribute of a value stands for."""
        if value is Known.APP:
            if attribute in ENQUEUE_VERBS:
                return Known.ENQUEUE
            return Known.STORE if attribute == "store" else None
        found = self._attribute(value, attribute, scope)
        return _first(self._property(*one) if isinstance(value, Defined) and value.is_instance else self._worth(*one) for one in found)

    def _property(self, binding: Binding, scope: Scope) -> Value:
        node = binding.node
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(one).endswith("property") for one in node.decorator_list):
            return self.annotated(node.returns, scope)
        return self._worth(binding, scope)

    def _worth(self, binding: Binding, scope: Scope) -> Value:
        match binding.kind, binding.node:
            case "import", _:
                return Reference(binding.path)
            case "value" | "entered", node:
                return self.value(node, scope)
            case "annotation", node:
                return self.annotated(node, scope)
            case "function" | "class", (ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef()) as node:
                return Defined(node, scope)
        return None

    def _result(self, call: ast.Call, function: Value, scope: Scope) -> Value:
        match function:
            case Defined(ast.ClassDef(), _, False):
                return self._made(function)
            case Defined((ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns)), defined_in):
                return self.annotated(returns, defined_in)
            case Reference(path) if path.rpartition(".")[2] == "cast" and call.args:
                return self.annotated(call.args[0], scope)
            case Reference(path):
                return MAKES.get(path)
            case Known.SESSION_MAKER:
                return Known.SESSION
            case None if (asked := asked_attribute(call)) is not None:
                return self.member(self.value(asked[0], scope), asked[1], scope)
        return None

    def _made(self, defined: Defined) -> Value:
        """An instance of a class: an ``Onward`` if that is among its bases, or theirs."""
        if any(isinstance(one, Reference) and one.path in APP for one in self._bases(defined)):
            return Known.APP
        return Defined(defined.node, defined.scope, is_instance=True)

    def annotated(self, node: ast.AST | None, scope: Scope) -> Value:
        """What has this annotation, or is in a block whose context manager is made by such a generator."""
        found: Value = None if node is None else self._once(("annotated", node, scope), lambda: self._annotated(node, scope))
        return found

    def _annotated(self, node: ast.AST, scope: Scope) -> Value:
        match node:
            case ast.Constant(str(text)):
                try:
                    return self.annotated(ast.parse(text, mode="eval").body, scope)
                except (SyntaxError, ValueError, RecursionError):
                    return None
            case ast.BinOp(left, ast.BitOr(), right):
                return _first(self.annotated(each, scope) for each in (left, right))
            case ast.Subscript(base, inner) if ast.unparse(base).rpartition(".")[2] in WRAPPERS:
                return _first(self.annotated(one, scope) for one in (inner.elts if isinstance(inner, ast.Tuple) else [inner]))
            case ast.Name() | ast.Attribute():
                value = self.value(node, scope)
                if isinstance(value, Reference):
                    return CLASSES.get(value.path)
                if isinstance(value, Defined):
                    return self._made(value) if isinstance(value.node, ast.ClassDef) else None
                return _first(
                    self.annotated(one.node, seen_from) for one, seen_from in self.definitions(node, scope) if one.kind == "value"
                )
        return None


def asked_attribute(call: ast.Call) -> tuple[ast.expr, str] | None:
    """What ``getattr`` is asked for: of what, and which attribute, if that is a constant."""
    match call:
        case ast.Call(ast.Name("getattr"), [base, ast.Constant(str(name)), *_]):
            return base, name
    return None


def _first(values: Iterator[Value]) -> Value:
    """The first that is one of ours, else the first that is anything."""
    known = None
    for value in values:
        if isinstance(value, Known):
            return value
        known = known or value
    return known


def _scope_of(name: str, scope: Scope) -> Scope | None:
    """The scope that binds the name, as it is seen from this one."""
    found: Scope | None = scope
    while found is not None and name not in found.names:
        found = found.parent
    return found
