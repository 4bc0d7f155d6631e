"""The names of a file and what each was bound to, as far as the text says: imports, assignments, annotations, definitions.

Nothing here knows what a binding is worth; ``tracing.py`` works that out. Order does not count: a name that is bound twice may be either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Literal, TypeAlias

from onward.enqueue_check.sql_writes import UNKNOWN

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Kind: TypeAlias = Literal["value", "annotation", "entered", "import", "function", "class", "more text", "unknown"]


class Binding:
    """One way in which a name was bound."""

    __slots__ = ("kind", "node", "path")

    def __init__(self, kind: Kind, node: ast.AST | None = None, path: str = "") -> None:
        self.kind = kind
        self.node = node
        self.path = path
        """Of an import: the dotted name."""


class Scope:
    """The names of a module, a function or a lambda; of a class, its attributes, ``self.x`` of its methods among them."""

    def __init__(self, module: Module, parent: Scope | None, node: ast.AST) -> None:
        self.module = module
        self.parent = parent
        self.node = node
        self.names: dict[str, list[tuple[Binding, Scope]]] = {}
        self.of_class: Scope | None = None
        """Of a method: its class."""
        self.instance_name: str | None = None
        """Of a method: what it calls its instance, usually ``self``."""

    def bind(self, name: str, binding: Binding, seen_from: Scope | None = None) -> None:
        """Add a way in which the name is bound; what it was bound to means what it means in ``seen_from``."""
        self.names.setdefault(name, []).append((binding, seen_from or self))


class Module:
    """One file. Raises ``SyntaxError``, ``ValueError`` or ``RecursionError`` when it is no Python."""

    def __init__(self, path: str, absolute: PurePath, source: bytes) -> None:
        self.path = path
        parts = [*absolute.parts[:-1], absolute.stem]
        self.is_package = parts[-1] == "__init__"
        self.parts = tuple(part.replace(".", UNKNOWN) for part in (parts[:-1] if self.is_package else parts))
        """The absolute path as a dotted name would have it: any end of it may be the module's name."""
        self.tree = ast.parse(source)
        self.stars: list[str] = []
        """Modules whose names are all imported."""
        self.scopes: dict[ast.AST, Scope] = {}
        self.scope = Scope(self, None, self.tree)
        self._build(self.tree.body, self.scope, None)

    def _build(self, body: Iterable[ast.AST], scope: Scope, class_scope: Scope | None) -> None:
        """Fill a scope from its own nodes, and those of the functions and classes in it from theirs."""
        self.scopes[scope.node] = scope
        outer = scope if class_scope is None else scope.parent
        assert outer is not None
        nodes = list(_own_nodes(body))
        shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        for node in nodes:
            self._bind(node, scope, shared)
            if isinstance(node, Function):
                self._build_function(node, Scope(self, outer, node), class_scope)
            elif isinstance(node, ast.Lambda):
                inner = Scope(self, outer, node)
                _bind_parameters(node.args, inner)
                self._build([node.body], inner, None)
            elif isinstance(node, ast.ClassDef):
                inner = Scope(self, outer, node)
                self._build(node.body, inner, inner)

    def _build_function(self, node: Function, inner: Scope, class_scope: Scope | None) -> None:
        _bind_parameters(node.args, inner)
        parameters = [*node.args.posonlyargs, *node.args.args]
        if class_scope is not None and parameters and not _has_decorator(node, "staticmethod"):
            inner.of_class, inner.instance_name = class_scope, parameters[0].arg
        elif inner.parent is not None:  # a function in a method sees the method's instance
            inner.of_class, inner.instance_name = inner.parent.of_class, inner.parent.instance_name
        self._build(node.body, inner, None)

    def _bind(self, node: ast.AST, scope: Scope, shared: set[str]) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._bind_import(node, scope)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                scope.bind(name, Binding("function", node))
            case ast.ClassDef(name):
                scope.bind(name, Binding("class", node))
            case ast.Assign(targets, value):
                for target in targets:
                    self._bind_target(target, Binding("value", value), scope, shared)
            case ast.AnnAssign(target, annotation, value):
                self._bind_target(target, Binding("annotation", annotation), scope, shared)
                if value is not None:
                    self._bind_target(target, Binding("value", value), scope, shared)
            case ast.AugAssign(target, ast.Add(), value):
                self._bind_target(target, Binding("more text", value), scope, shared)
            case ast.NamedExpr(target, value):
                self._bind_target(target, Binding("value", value), scope, shared)
            case ast.withitem(context, ast.expr() as target):
                self._bind_target(target, Binding("entered", context), scope, shared)
            case ast.For(target) | ast.AsyncFor(target):
                self._bind_target(target, Binding("unknown"), scope, shared)

    def _bind_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]  # what 'import a.b' binds; with 'as' it is the whole
                scope.bind(alias.asname or top, Binding("import", path=alias.name if alias.asname else top))
            return
        package = self.absolute(node)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(package)
            else:
                scope.bind(alias.asname or alias.name, Binding("import", path=f"{package}.{alias.name}"))

    def _bind_target(self, target: ast.AST, binding: Binding, scope: Scope, shared: set[str]) -> None:
        match target:
            case ast.Name(name):
                where = self.scope if name in shared else scope
                where.bind(name, binding, scope)
            case ast.Attribute(ast.Name(base), attribute) if scope.of_class is not None and base == scope.instance_name:
                scope.of_class.bind(attribute, binding, scope)
            case ast.Tuple(elements) | ast.List(elements):
                values = binding.node.elts if isinstance(binding.node, ast.Tuple | ast.List) else []
                for index, element in enumerate(elements):
                    is_paired = len(values) == len(elements)
                    self._bind_target(element, Binding("value", values[index]) if is_paired else Binding("unknown"), scope, shared)

    def absolute(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that is imported from, relative ones as the whole path says."""
        if not node.level:
            return node.module or ""
        package = self.parts if self.is_package else self.parts[:-1]
        above = package[: len(package) - (node.level - 1)]
        return ".".join((*above, *(node.module or "").split("."))).rstrip(".")


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node below, but nothing inside of functions, lambdas and classes; of those only what is evaluated outside of them."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Function):
            waiting += [*node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
        elif isinstance(node, ast.Lambda):
            waiting += node.args.defaults
        elif isinstance(node, ast.ClassDef):
            waiting += [*node.decorator_list, *node.bases]
        else:
            waiting += ast.iter_child_nodes(node)


def _bind_parameters(arguments: ast.arguments, scope: Scope) -> None:
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None:
            scope.bind(one.arg, Binding("unknown") if one.annotation is None else Binding("annotation", one.annotation))


def _has_decorator(node: Function, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in node.decorator_list)
