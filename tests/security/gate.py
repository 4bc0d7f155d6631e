"""Finds, in source text, the ways in which data could become code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

LOADERS = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "yaml", "ruamel"),
    *("code", "codeop", "runpy", "imp", "xmlrpc", "copyreg"),
}
"""Modules that make objects, or run code, out of what they read."""
CALLS = {"eval", "exec", "compile", "__import__", "execfile", "breakpoint"}
SHELLS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
IMPORTS = {"import_module", "load_module", "exec_module", "resolve_name", "EntryPoint"}


def dangers(source: str) -> Iterator[tuple[int, str]]:
    """Give the line and the name of each: an import by a name that is computed, a loader, a call of ``eval`` and its like, a shell."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name.partition(".")[0] in LOADERS)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in LOADERS:
                yield node.lineno, str(node.module)
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in _of_call(node))


def _of_call(node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
    is_plain = isinstance(node.func, ast.Name) or (isinstance(node.func, ast.Attribute) and _root(node.func) == "builtins")
    if (name in CALLS and is_plain) or name in SHELLS:
        yield name
    if name in IMPORTS and not (node.args and isinstance(node.args[0], ast.Constant)):
        yield name
    for keyword in node.keywords:
        if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False):
            yield "shell="


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
