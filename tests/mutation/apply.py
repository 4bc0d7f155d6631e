"""Puts a mutant into the running process: into functions that exist, into modules yet to be imported, into statements yet to be loaded."""

from __future__ import annotations

import functools
import gc
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutation.mutant import ROOT, Mutant

STATEMENT_LOADERS = ("onward.drivers.sqlite.driver", "onward.drivers.postgres.statement_text")
"""The modules that load a store's statements, each under the name ``load_statements``."""


class NotApplied(Exception):
    """The change cannot be made in a process that has imported the module already."""


def is_for_new_process(mutant: Mutant) -> bool:
    """Whether it is in what a module runs when it is imported, so that it must be there before."""
    return mutant.file.endswith(".py") and not mutant.place


def apply(mutant: Mutant) -> None:
    """Make the change in this process. Raises ``NotApplied``."""
    if mutant.file.endswith(".sql"):
        _change_statements(mutant)
    elif (module := module_name(mutant.file)) in sys.modules:
        _change_functions(mutant)
    else:
        apply_at_import(mutant, module)


def apply_at_import(mutant: Mutant, module: str = "") -> None:
    """Make the change when the module is imported, which has not happened yet."""
    sys.meta_path.insert(0, _Finder(module or module_name(mutant.file), mutant))


def module_name(file: str) -> str:
    """The dotted name of a file under ``src``."""
    parts = Path(file).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _change_statements(mutant: Mutant) -> None:
    original = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(original)
    for name in STATEMENT_LOADERS:
        module: Any = importlib.import_module(name)
        load = module.load_statements

        def load_changed(text: str, load: Any = load, **replacements: str) -> Any:
            return load(text.replace(original.strip(), changed.strip()), **replacements)

        module.load_statements = load_changed


def _change_functions(mutant: Mutant) -> None:
    path = ROOT / mutant.file
    original = path.read_text(encoding="utf-8")
    before = _code_of(compile(original, str(path), "exec"), mutant.place)
    after = _code_of(compile(mutant.applied(original), str(path), "exec"), mutant.place)
    pairs = [pair for old, new in zip(before, after, strict=True) for pair in _pairs(old, new)]
    changed = [(function, new) for old, new in pairs if old != new for function in _functions().get(old, ())]
    if not changed:
        raise NotApplied(f"no function {mutant.place} of {mutant.file} was found")
    for function, new in changed:
        if len(new.co_freevars) != len(function.__code__.co_freevars):
            raise NotApplied(f"{mutant.place} would close over other names")
        function.__code__ = new


@functools.cache
def _functions() -> Mapping[CodeType, Sequence[FunctionType]]:
    """Every function of ours by its code. Asked for first in the process that forks the others."""
    found: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(f"{ROOT}/src/"):
            found.setdefault(one.__code__, []).append(one)
    return found


def prepare() -> None:
    """Do once what every forked process would do again, and let them share the memory."""
    _functions()
    gc.collect()
    gc.freeze()


def _code_of(module: CodeType, place: str) -> list[CodeType]:
    """The code of every function of this qualified name: a property may have two."""

    def walk(code: CodeType) -> Iterator[CodeType]:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                if constant.co_qualname == place:
                    yield constant
                elif place.startswith(constant.co_qualname + "."):
                    yield from walk(constant)

    return list(walk(module))


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """A function's code before and after, and that of the functions inside it: some were made from it when the module was imported."""
    yield old, new
    inner_old, inner_new = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    for one, other in zip(inner_old, inner_new, strict=False):
        if one.co_qualname == other.co_qualname:
            yield from _pairs(one, other)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, mutant: Mutant) -> None:
        self.module = module
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        return importlib.util.spec_from_file_location(
            fullname, ROOT / self.mutant.file, loader=_Loader(fullname, str(ROOT / self.mutant.file), self.mutant)
        )


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text(encoding="utf-8")
        code: CodeType = compile(self.mutant.applied(text), self.path, "exec")
        return code


class Recording(dict[str, str]):
    """Statements that remember which of them were asked for. ``files`` says where each stands."""

    def __init__(self, statements: Mapping[str, str], asked: set[str], files: Mapping[str, str]) -> None:
        super().__init__(statements)
        self.asked = asked
        self.files = files

    def __getitem__(self, name: str) -> str:
        self.asked.add(f"{self.files[name]}:{name}")
        return super().__getitem__(name)
