"""The text that an expression gives, put together from constants: concatenated, formatted, joined, or named elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import product

from onward.enqueue_check.scopes import Scope
from onward.enqueue_check.sql_writes import UNKNOWN
from onward.enqueue_check.tracing import Tracing

_MOST = 16
"""Readings of one expression that are looked at; two names that may be two things each have four."""
_LONGEST = 100_000
_DEEPEST = 40
_PERCENT = re.compile(r"%(?:\((\w+)\))?[-+ #0]*[\d.*]*([sdraif%])")
_BRACES = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")
_PASSES_ON = frozenset({"SQL", "text", "dedent", "str", "literal_column"})


def is_text(node: ast.AST) -> bool:
    """Say whether an expression is written as text, and is not only the name of one."""
    match node:
        case ast.Constant(str()) | ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()):
            return True
        case ast.Call(ast.Attribute(attr="format" | "join" | "replace")):
            return True
    return False


class Texts:
    """Reads texts; what cannot be known in one is a mark."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._depth = 0
        self._named_before: dict[tuple[ast.AST, Scope], list[str]] = {}

    def of(self, node: ast.AST, scope: Scope) -> list[str]:
        """Every text that the expression may give; none when it is no text."""
        if self._depth >= _DEEPEST:
            return []
        self._depth += 1
        try:
            return [text for text in self._of(node, scope) if len(text) <= _LONGEST][:_MOST]
        finally:
            self._depth -= 1

    def _of(self, node: ast.AST, scope: Scope) -> Iterable[str]:
        match node:
            case ast.Constant(str(text)):
                return [text]
            case ast.JoinedStr(parts):
                return self._together(parts, scope)
            case ast.FormattedValue(value):
                return self.of(value, scope) or _constant(value)
            case ast.BinOp(left, ast.Add(), right):
                return self._together([left, right], scope)
            case ast.BinOp(left, ast.Mod(), right):
                return [_fill_percent(text, filled) for text in self.of(left, scope) for filled in self._fillings(right, scope)]
            case ast.IfExp(_, one, other):
                return [*self.of(one, scope), *self.of(other, scope)]
            case ast.NamedExpr(_, value):
                return self.of(value, scope)
            case ast.Name() | ast.Attribute():
                return self._named(node, scope)
            case ast.Call():
                return self._call(node, scope)
        return []

    def _together(self, parts: Sequence[ast.expr], scope: Scope, between: str = "") -> list[str]:
        each = [self.of(part, scope) for part in parts]
        if not any(each):
            return []
        return [between.join(chosen) for chosen, _ in zip(product(*(texts or [UNKNOWN] for texts in each)), range(_MOST), strict=False)]

    def _named(self, node: ast.AST, scope: Scope) -> list[str]:
        found: list[tuple[int, list[str]]] = []
        more: list[tuple[int, list[str]]] = []
        for binding, seen_from in self._tracing.definitions(node, scope):
            if binding.node is None or binding.kind not in ("value", "more text"):
                continue
            asked = (binding.node, seen_from)
            if asked not in self._named_before:
                self._named_before[asked] = []  # a name that is made of itself ends here
                self._named_before[asked] = self.of(binding.node, seen_from)
            kept = more if binding.kind == "more text" else found
            kept.append((getattr(binding.node, "lineno", 0), self._named_before[asked] or [UNKNOWN]))
        if not any(text != UNKNOWN for _, texts in (*found, *more) for text in texts):
            return []
        begun = [text for _, texts in found for text in texts]
        tail = "".join(texts[0] for _, texts in sorted(more, key=lambda one: one[0]))
        return [text + tail for text in begun] if tail else begun

    def _call(self, call: ast.Call, scope: Scope) -> list[str]:
        match call:
            case ast.Call(ast.Attribute(base, "format"), arguments, keywords):
                named = {str(index): one for index, one in enumerate(arguments)} | {one.arg: one.value for one in keywords if one.arg}
                filled = {name: (self.of(one, scope) or [UNKNOWN])[0] for name, one in named.items()}
                return [_fill_braces(text, filled) for text in self.of(base, scope)]
            case ast.Call(ast.Attribute(base, "join"), [ast.List(elements) | ast.Tuple(elements)]):
                return [one for between in self.of(base, scope) for one in self._together(elements, scope, between)]
            case ast.Call(ast.Attribute(base, "replace"), [old, new, *_]):
                changes = product(self.of(base, scope), self.of(old, scope), self.of(new, scope) or [UNKNOWN])
                return [text.replace(before, after) for text, before, after in changes]
            case ast.Call(function, arguments) if arguments:
                name = ast.unparse(function).rpartition(".")[2]
                if name == "Identifier":  # of psycopg: the parts of one quoted name
                    return self._together(arguments, scope, ".")
                return self.of(arguments[0], scope) if name in _PASSES_ON else []
        return []

    def _fillings(self, node: ast.AST, scope: Scope) -> list[dict[str, str] | list[str]]:
        if isinstance(node, ast.Dict):
            keys = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
            return [{str(key): (self.of(value, scope) or [UNKNOWN])[0] for key, value in keys.items()}]
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return [[(self.of(part, scope) or [UNKNOWN])[0] for part in parts]]


def _constant(node: ast.AST) -> list[str]:
    return [str(node.value)] if isinstance(node, ast.Constant) else []


def _fill_percent(text: str, filled: dict[str, str] | list[str]) -> str:
    waiting = iter(filled if isinstance(filled, list) else ())

    def fill(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        return filled.get(match[1] or "", UNKNOWN) if isinstance(filled, dict) else next(waiting, UNKNOWN)

    return _PERCENT.sub(fill, text)


def _fill_braces(text: str, filled: dict[str, str]) -> str:
    count = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] in ("{{", "}}"):
            return match[0][0]
        name = match[1]
        if not name:
            name, count = str(count), count + 1
        return filled.get(name, UNKNOWN)

    return _BRACES.sub(fill, text)
