"""Mutants of Python source: comparisons, conditions, arithmetic, constants, arguments, returned values, statements.

Text that is only meant for people (docstrings, messages with a space in them, f-strings) is left alone, and so are annotations.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tests.mutation.mutant import Mutant, numbered

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_WITHOUT_MEANING = {"TypeVar", "ParamSpec", "cast", "NewType", "TypeAlias"}


def python_mutants(file: str, text: str) -> list[Mutant]:
    """Every mutant of this file."""
    walk = _Walk(file, text)
    walk.visit(ast.parse(text))
    return numbered(sorted(walk.made, key=lambda one: (one.start, one.shown)))


@dataclass
class _Walk(ast.NodeVisitor):
    file: str
    text: str
    made: list[Mutant] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    place: str = ""
    statement: int = 1

    def __post_init__(self) -> None:
        self.line_starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.source_lines = self.text.splitlines()

    # -- where we are ----------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self.statement = node.lineno
        super().visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        for inner in _without_docstring(node.body):
            self.visit(inner)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list):
            return
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            self.visit(default)
        outermost = not self.place
        if outermost:
            self.place = ".".join([*self.classes, node.name])
        for inner in _without_docstring(node.body):
            self.visit(inner)
        if outermost:
            self.place = ""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        is_alias = isinstance(node.annotation, ast.Name) and node.annotation.id in _WITHOUT_MEANING
        if node.value is not None and not is_alias:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {one.id for one in node.targets if isinstance(one, ast.Name)}
        if names & {"__all__", "__slots__"}:
            return
        if any(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets):
            self._delete(node)
        self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Says something to a person, and the nodes inside have no certain place before Python 3.12."""

    # -- statements --------------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._delete(node)
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._delete(node)
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._delete(node)
        if node.exc is not None:
            self.visit(node.exc)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._delete(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool | None)):
                self._replace(node.value, "None", shown=f"return {self._short(node.value)} → return None")
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Helps the type checker; what it says is true."""

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    # -- expressions -------------------------------------------------------------------------------------------------------

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for index, operator in enumerate(node.ops):
            before, after = _COMPARISONS[type(operator)]
            self._swap(operands[index], operands[index + 1], before, after, node)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        parts = [f"({self._segment(value)})" for value in node.values]
        for index in range(len(parts) - 1):
            left, right = f" {before} ".join(parts[: index + 1]), f" {before} ".join(parts[index + 1 :])
            shown = f"{before} → {after} in {self._short(node.values[index])} {before} {self._short(node.values[index + 1])}"
            self._replace(node, f"(({left}) {after} ({right}))", shown=shown)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _OPERATORS and not _is_text(node.left) and not _is_text(node.right):
            before, after = _OPERATORS[type(node.op)]
            self._swap(node.left, node.right, before, after, node)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._replace(node, f"({self._segment(node.operand)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called in _WITHOUT_MEANING:
            return
        if called in ("Statement", "Many"):  # a name that is not there is an error at once
            for argument in node.args[1:]:
                self.visit(argument)
            return
        for keyword in node.keywords:
            if keyword.arg is not None and called != "field":
                self._without_argument(node, keyword)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and not isinstance(key, ast.Constant):
                self.visit(key)
            self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value))
        elif isinstance(value, int | float):
            self._replace(node, f"({self._segment(node)} + 1)", shown=f"{self._segment(node)} → {self._segment(node)} + 1")
        elif isinstance(value, str) and value.isidentifier():
            self._replace(node, f'"XX{value}XX"')

    # -- making ------------------------------------------------------------------------------------------------------------

    def _negate(self, condition: ast.expr) -> None:
        told_apart = isinstance(condition, ast.Compare) and len(condition.ops) == 1
        if not told_apart and not isinstance(condition, ast.UnaryOp | ast.Constant):
            self._replace(condition, f"(not ({self._segment(condition)}))", shown=f"if {self._short(condition)} → if not")

    def _swap(self, left: ast.expr, right: ast.expr, before: str, after: str, whole: ast.expr) -> None:
        start, end = self._end(left), self._start(right)
        between = self.text[start:end]
        shown = f"{before} → {after} in {self._short(whole)}"
        if between.count(before) == 1:
            self._make(start, end, between.replace(before, after), whole, shown)

    def _without_argument(self, call: ast.Call, keyword: ast.keyword) -> None:
        start, end = self._start(keyword), self._end(keyword)
        rest = self.text[end : self._end(call)]
        if rest.lstrip().startswith(","):
            end += rest.index(",") + 1
        if isinstance(call.func, ast.Name | ast.Attribute):
            self._make(start, end, "", keyword, f"without {keyword.arg}= in {ast.unparse(call.func)}(…)")

    def _delete(self, node: ast.stmt) -> None:
        lines = self._segment(node).count("\n")
        self._make(self._start(node), self._end(node), "pass" + "\n" * lines, node, f"without {self._short(node)}", whole=False)

    def _replace(self, node: ast.expr | ast.stmt, after: str, shown: str = "") -> None:
        self._make(self._start(node), self._end(node), after, node, shown or f"{self._short(node)} → {after}")

    def _make(self, start: int, end: int, after: str, node: ast.AST, shown: str, whole: bool = True) -> None:
        first: int = node.lineno  # type: ignore[attr-defined]
        last: int = node.end_lineno if whole else first  # type: ignore[attr-defined]
        lines = (first, *(line for line in {self.statement, *range(first, last + 1)} if line != first))
        self.made.append(Mutant(self.file, self.place, start, self.text[start:end], after, lines, shown=" ".join(shown.split())))

    def _start(self, node: ast.AST) -> int:
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        before = self.source_lines[line - 1].encode()[:column].decode()
        return self.line_starts[line - 1] + len(before)

    def _segment(self, node: ast.AST) -> str:
        return self.text[self._start(node) : self._end(node)]

    def _short(self, node: ast.AST) -> str:
        plain = " ".join(self._segment(node).split())
        return plain if len(plain) <= 70 else f"{plain[:50]} … {plain[-17:]}"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_docstring else body


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
