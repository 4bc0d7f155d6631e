"""``load_application("module:attribute")``: from a name on a command line to the application's ``Onward``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from onward.app import Onward
from onward.definition import JobDefinition
from onward.error_text import bound_error
from onward.errors import ApplicationNotFound, OnwardError
from onward.spelling import with_article

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def load_application(name: str) -> Onward:
    """Import ``module:attribute`` and give the ``Onward`` it names; the attribute may be a function that makes one.

    The current directory is searched first, as ``python -m`` does. Raises ``ApplicationNotFound`` with one line that says what is
    missing; the application's own error at import is shown with the line it came from. Its ``OnwardError`` stays one, with that line.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise ApplicationNotFound(f"{name!r} names no application: write module:attribute, such as myapp.jobs:app")
    if os.sep in module_name or module_name.startswith(".") or module_name.endswith(".py"):
        raise ApplicationNotFound(f"{name!r} names no module: write {_as_module(module_name, attribute)}")
    module = _import(module_name)
    found = _walk(module, module_name, attribute)
    if isinstance(found, JobDefinition):
        raise ApplicationNotFound(f"{name} is a job, not an application{_hint(module)}")
    if not isinstance(found, Onward) and callable(found) and not isinstance(found, type):
        found = _call(found, name)
    if not isinstance(found, Onward):
        raise ApplicationNotFound(f"{name} is {with_article(type(found).__name__)}, not an Onward application or a function that makes one")
    return found


def _as_module(path: str, attribute: str) -> str:
    """What to write instead of a file's path: the module as it is called from here, or from its own directory if that is elsewhere."""
    relative, where = os.path.relpath(path.removesuffix(".py")), ""
    if relative.startswith(os.pardir + os.sep):
        relative, where = os.path.basename(relative), f", in the directory {os.path.dirname(os.path.abspath(path))}"
    return f"{relative.lstrip('.').replace(os.sep, '.') or 'module'}:{attribute}{where}"


def _import(module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ApplicationNotFound(f"there is no module {error.name!r}: looked in {here} and where Python looks") from None
        raise ApplicationNotFound(_blame(f"importing {module_name}", error)) from error
    except OnwardError as error:
        _add_place(error)
        raise
    except (Exception, SystemExit) as error:
        raise ApplicationNotFound(_blame(f"importing {module_name}", error)) from error


def _walk(module: ModuleType, module_name: str, attribute: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ApplicationNotFound(f"the module {module_name} has no {attribute!r}{_hint(module)}") from None
    return found


def _hint(module: ModuleType) -> str:
    applications = sorted(key for key, value in vars(module).items() if isinstance(value, Onward))
    return f"; the module's application is {' or '.join(applications)}" if applications else ""


def _call(factory: Any, name: str) -> Any:
    try:
        return factory()
    except OnwardError as error:
        _add_place(error)
        raise
    except (Exception, SystemExit) as error:
        raise ApplicationNotFound(_blame(f"calling {name}", error)) from error


def _blame(doing: str, error: BaseException) -> str:
    """One line: what failed, and the last line of the application's own code on the way. Without secrets: it connects to much at import."""
    if isinstance(error, SyntaxError):
        return bound_error(f"{doing} failed: {type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})")
    frame = _own_frame(error)
    place = f" ({frame.filename}, line {frame.lineno}: {frame.line})" if frame else ""
    return bound_error(f"{doing} failed: {type(error).__name__}: {error}{place}")


def _add_place(error: OnwardError) -> None:
    """Say where. The line itself is not shown: it may have a secret that the error has masked, such as one in a mistyped URL."""
    if frame := _own_frame(error):
        error.args = (f"{error} ({frame.filename}, line {frame.lineno})",)


def _own_frame(error: BaseException) -> traceback.FrameSummary | None:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith(_OURS)]
    return own[-1] if own else None
