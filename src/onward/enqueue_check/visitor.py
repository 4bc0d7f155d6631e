"""The rules, applied to every node of a file on the way through it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from onward.enqueue_check.known import INTERNAL, ONLY_OURS, STORE_VERBS, Known
from onward.enqueue_check.scopes import Function, Module, Scope
from onward.enqueue_check.sql_writes import WritePattern
from onward.enqueue_check.texts import Texts, is_text
from onward.enqueue_check.tracing import Defined, Reference, Tracing, Value, asked_attribute
from onward.enqueue_check.transactions import BEGINS, Open, after_branches, leaves, runs_after_commit
from onward.enqueue_check.violation import Finding, Rule, Violation


class Visitor:
    """Walks one file; knows the scope it is in, the statement, and the transactions that are open around it."""

    def __init__(self, module: Module, tracing: Tracing, pattern: WritePattern) -> None:
        self._module = module
        self._tracing = tracing
        self._texts = Texts(tracing)
        self._pattern = pattern
        self._scope: Scope = module.scope
        self._open = Open()
        self._statement: tuple[int, int] = (1, 1)
        self._found: dict[tuple[int, int, Rule], Finding] = {}

    def findings(self) -> list[Finding]:
        """All that the rules find."""
        self._body(self._module.tree.body)
        return list(self._found.values())

    def _say(self, node: ast.AST, rule: Rule, found: str) -> None:
        self._keep(self._finding(node, rule, found))

    def _keep(self, finding: Finding) -> None:
        violation, _, _ = finding
        self._found.setdefault((violation.line, violation.column, violation.rule), finding)

    def _finding(self, node: ast.AST, rule: Rule, found: str) -> Finding:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return Violation(self._module.path, line, column, rule, found), *self._statement

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
                self._inside(self._module.scopes[node], node.body, Open())
            case ast.Lambda():
                self._body(node.args.defaults)
                self._inside(self._module.scopes[node], [node.body], self._open)
            case ast.With() | ast.AsyncWith():
                self._visit_with(node)
            case ast.If():
                self._visit_if(node)
            case ast.ExceptHandler(body=body) if leaves(body):
                self._inside(self._scope, ast.iter_child_nodes(node), self._open)
            case ast.Call() if runs_after_commit(node) and not self._open.is_after_commit:
                self._check_named_functions(node)
                self._inside(self._scope, [node], Open(is_after_commit=True))
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
        is_after_commit = any(runs_after_commit(one) for one in node.decorator_list)
        around = Open((node.lineno,) if is_atomic else (), is_after_commit=is_after_commit)
        self._inside(self._module.scopes[node], node.body, around)

    def _visit_with(self, node: ast.With | ast.AsyncWith) -> None:
        before = self._open
        for item in node.items:
            self._body([item.context_expr])
            if self._begins(item.context_expr):
                self._open = self._open.within_block(node.lineno)
        is_session = any(self._value(item.context_expr) is Known.SESSION for item in node.items)
        ends_here = is_session or self._open.blocks != before.blocks
        self._body(node.body)
        if ends_here:
            self._open = before

    def _visit_if(self, node: ast.If) -> None:
        self._body([node.test])
        before, ends = self._open, []
        for branch in (node.body, node.orelse):
            self._open = before
            self._body(branch)
            if not leaves(branch):
                ends.append(self._open)
        self._open = after_branches(before, ends)

    def _inside(self, scope: Scope, body: Iterable[ast.AST], open_around: Open) -> None:
        before = self._scope, self._open
        self._scope, self._open = scope, open_around
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
                self._check_within(node)
                self._follow_session(node)

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
        enqueues = [one for one in (call.func, *_arguments(call)) if self._value(one) is Known.ENQUEUE]
        if not enqueues:
            return
        verb = getattr(enqueues[0], "attr", "enqueue")
        if self._open.is_after_commit:
            self._say_after_commit(call, verb)
        for keyword in call.keywords:
            if keyword.arg is None:
                return  # it may be among what is unpacked
            if keyword.arg == "within" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None):
                return

        def found(line: int) -> Finding:
            return self._finding(call, "missing-within", f"{verb} without within= inside the transaction that line {line} opens")

        self._open = self._open.after_enqueue(found)
        if (line := self._open.line) is not None:
            self._keep(found(line))

    def _follow_session(self, call: ast.Call) -> None:
        if not isinstance(call.func, ast.Attribute) or self._value(call.func.value) is not Known.SESSION:
            return
        session, verb = ast.unparse(call.func.value), call.func.attr
        for finding in self._open.forgotten(session, verb):
            self._keep(finding)
        self._open = self._open.after_use(session, verb, call.lineno)

    def _check_named_functions(self, call: ast.Call) -> None:
        """Look for an enqueue in the functions whose names are given to what runs them after a commit."""
        for argument in _arguments(call):
            named = self._value(argument)
            if isinstance(named, Defined):
                scope = named.scope.module.scopes[named.node]
                if any(self._tracing.value(one, scope) is Known.ENQUEUE for one in ast.walk(named.node)):
                    self._say_after_commit(argument, "an enqueue in it")

    def _say_after_commit(self, node: ast.AST, what: str) -> None:
        self._say(node, "after-commit", f"{what} runs after the commit, and a crash in between loses the job")

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


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(one.value for one in call.keywords)]


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
