"""``check_sources``: the rules, applied to every node of every file."""

from __future__ import annotations

import ast
import tokenize
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from onward.enqueue_check.allowances import read_allowances
from onward.enqueue_check.scopes import Function, Module, Scope
from onward.enqueue_check.sql_writes import Tables, WritePattern
from onward.enqueue_check.texts import Texts, is_text
from onward.enqueue_check.tracing import ENQUEUE_VERBS, Known, Reference, Tracing, Value, asked_attribute
from onward.enqueue_check.violation import Rule, Violation

STORE_VERBS = frozenset({"enqueue", "enqueue_each", "within", "within_async", "turn"})
ONLY_OURS = frozenset({"enqueue_each", "within_async"})
"""Names that nothing else has: they count on any object that is not known to be another."""
INTERNAL = ("onward.drivers", "onward.group_commit")
BEGINS = frozenset({"begin", "begin_nested", "transaction", "atomic"})
_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def check_sources(sources: Mapping[str, bytes], tables: Tables | None = None) -> list[Violation]:
    """Check files that belong together: path → content. A file that is no Python is a violation."""
    modules, found = [], []
    for path, source in sources.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in a string is not ours to mention
                modules.append(Module(path, Path(path).absolute(), source))
        except _UNPARSABLE as error:
            found.append(_unparsable(path, error))
    tracing = Tracing(modules)
    pattern = WritePattern(tables or Tables())
    for module in modules:
        try:
            found += _allowed_taken_out(module, _Visitor(module, tracing, pattern).violations(), sources[module.path])
        except RecursionError as error:
            found.append(_unparsable(module.path, error))
    return sorted(found)


def _unparsable(path: str, error: BaseException) -> Violation:
    line = getattr(error, "lineno", None) or 1
    why = "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else getattr(error, "msg", None) or str(error)
    return Violation(path, line, getattr(error, "offset", None) or 1, "unreadable", f"it is no Python that can be read ({why})")


def _allowed_taken_out(module: Module, found: Iterable[tuple[Violation, int, int]], source: bytes) -> list[Violation]:
    try:
        allowances = read_allowances(source)
    except (tokenize.TokenError, SyntaxError):
        return [violation for violation, _, _ in found]
    kept = [violation for violation, first, last in found if not allowances.covers(first, last)]
    return kept + [
        Violation(module.path, line, 1, "allow-without-reason", "'# onward: allow' without a reason allows nothing")
        for line in allowances.without_reason()
    ]


class _Visitor:
    """Walks one file; knows the scope it is in, the statement, and the transactions that are open around it."""

    def __init__(self, module: Module, tracing: Tracing, pattern: WritePattern) -> None:
        self._module = module
        self._tracing = tracing
        self._texts = Texts(tracing)
        self._pattern = pattern
        self._scope: Scope = module.scope
        self._open: list[int] = []
        """The lines on which the transactions around this node were opened."""
        self._statement: tuple[int, int] = (1, 1)
        self._found: dict[tuple[int, int, Rule], tuple[Violation, int, int]] = {}

    def violations(self) -> list[tuple[Violation, int, int]]:
        """Each with the first and the last line of what it stands in."""
        self._body(self._module.tree.body)
        return list(self._found.values())

    def _say(self, node: ast.AST, rule: Rule, found: str) -> None:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        violation = Violation(self._module.path, line, column, rule, found)
        self._found.setdefault((line, column, rule), (violation, *self._statement))

    # -- the way through the file ------------------------------------------------------------------------------------

    def _body(self, statements: Iterable[ast.AST]) -> None:
        for statement in statements:
            self._visit(statement)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            self._statement = _lines_of(node)
        match node:
            case ast.Import() | ast.ImportFrom():
                self._check_import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit_function(node)
            case ast.ClassDef():
                self._body([*node.decorator_list, *node.bases, *node.keywords])
                self._inside(self._module.scopes[node], node.body, [])
            case ast.Lambda():
                self._body(node.args.defaults)
                self._inside(self._module.scopes[node], [node.body], self._open)
            case ast.With() | ast.AsyncWith():
                self._visit_with(node)
            case ast.Expr(ast.Constant(str())):
                return  # a docstring, or a comment that is written as one
            case _:
                if is_text(node) and self._check_text(node):
                    self._body(one for one in ast.walk(node) if isinstance(one, ast.Call | ast.Attribute) and not is_text(one))
                    return
                self._check_expression(node)
                self._body(ast.iter_child_nodes(node))

    def _visit_function(self, node: Function) -> None:
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        self._body([*node.decorator_list, *defaults])
        is_atomic = any(self._begins(one) for one in node.decorator_list)
        self._inside(self._module.scopes[node], node.body, [node.lineno] if is_atomic else [])

    def _visit_with(self, node: ast.With | ast.AsyncWith) -> None:
        opened = 0
        for item in node.items:
            self._body([item.context_expr])
            if self._begins(item.context_expr):
                self._open.append(node.lineno)
                opened += 1
        self._body(node.body)
        del self._open[len(self._open) - opened :]

    def _inside(self, scope: Scope, body: Iterable[ast.AST], open_around: list[int]) -> None:
        before = self._scope, self._open
        self._scope, self._open = scope, list(open_around)
        self._body(body)
        self._scope, self._open = before

    # -- the rules ---------------------------------------------------------------------------------------------------

    def _value(self, node: ast.AST) -> Value:
        return self._tracing.value(node, self._scope)

    def _check_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        else:
            module = self._module.absolute(node)
            paths = [module if _is_internal(module) else f"{module}.{alias.name}" for alias in node.names]
        for path in dict.fromkeys(paths):
            if _is_internal(path):
                self._say(node, "internal-import", f"imports {path}, which is inside of Onward")

    def _check_text(self, node: ast.AST) -> bool:
        for text in self._texts.of(node, self._scope):
            if written := self._pattern.find(text):
                self._say(node, "raw-sql", f"SQL writes a table of Onward ({written})")
                return True
        return False

    def _check_expression(self, node: ast.AST) -> None:
        match node:
            case ast.Attribute(base, name):
                self._check_attribute(node, base, name)
            case ast.Call(function, arguments):
                if asked := asked_attribute(node):
                    self._check_attribute(node, *asked)
                for argument in (*arguments[:1], *(one.value for one in node.keywords)):
                    self._check_named_attribute(node, function, argument)
                if self._open:
                    self._check_within(node)

    def _check_attribute(self, node: ast.AST, base: ast.expr, name: str) -> None:
        value = self._value(base)
        if value is Known.APP and name == "_commits":
            self._say(node, "private", "app._commits is inside of Onward")
        elif name in STORE_VERBS and (value is Known.STORE or (value is None and name in ONLY_OURS and not _is_super(base))):
            self._say(node, "store-verb", f"the store's own {name} goes around the application")
        elif isinstance(value, Reference) and _is_internal(path := f"{value.path}.{name}") and not _is_internal(value.path):
            self._say(node, "internal-import", f"reaches for {path}, which is inside of Onward")

    def _check_named_attribute(self, node: ast.Call, function: ast.expr, argument: ast.expr) -> None:
        """What is asked for by a name in text: a module to import, an attribute to get."""
        name = ast.unparse(function).rpartition(".")[2] if isinstance(function, ast.Name | ast.Attribute) else ""
        if name not in ("import_module", "__import__", "attrgetter", "methodcaller"):
            return
        for text in self._texts.of(argument, self._scope):
            if name in ("import_module", "__import__"):
                if _is_internal(text):
                    self._say(node, "internal-import", f"imports {text}, which is inside of Onward")
            elif ONLY_OURS & set(text.split(".")) or text.endswith(("store.enqueue", "store.within", "store.turn")):
                self._say(node, "store-verb", f"the store's own {text.rpartition('.')[2]} goes around the application")
            elif "_commits" in text.split("."):
                self._say(node, "private", "app._commits is inside of Onward")

    def _check_within(self, call: ast.Call) -> None:
        is_direct = self._value(call.func) is Known.ENQUEUE
        is_passed_on = any(self._value(argument) is Known.ENQUEUE for argument in call.args)
        if not is_direct and not is_passed_on:
            return
        for keyword in call.keywords:
            if keyword.arg is None:
                return  # it may be among what is unpacked
            if keyword.arg == "within" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None):
                return
        verb = next(
            (one.attr for one in (call.func, *call.args) if isinstance(one, ast.Attribute) and one.attr in ENQUEUE_VERBS), "enqueue"
        )
        self._say(call, "missing-within", f"{verb} without within= inside the transaction that line {self._open[-1]} opens")

    def _begins(self, node: ast.expr) -> bool:
        """Say whether a ``with`` block, or a decorator, opens a transaction."""
        match node:
            case ast.Call(ast.Attribute(_, name)) if name in BEGINS:
                return True
            case ast.Attribute(_, "atomic"):
                return True
        value = self._value(node.func if isinstance(node, ast.Call) else node)
        if isinstance(value, Reference) and value.path == "django.db.transaction.atomic":
            return True
        return self._value(node) is Known.CONNECTION


def _lines_of(node: ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
    """The first and the last line of a statement, of one with a block those of its head."""
    first = min((one.lineno for one in getattr(node, "decorator_list", ())), default=node.lineno)
    body = getattr(node, "body", None)
    last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
    return first, last or node.lineno


def _is_super(node: ast.expr) -> bool:
    """A store of the application's own making, which wraps another, overrides this very verb."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_internal(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in INTERNAL)
