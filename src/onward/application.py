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


def load_application(name: str) -> Onward:
    """Import ``module:attribute`` and give the ``Onward`` it names; the attribute may be a function that makes one.

    The current directory is searched first, as ``python -m`` does. Raises ``ApplicationNotFound`` with one line that says what is
    missing; the application's own error at import is shown with the line it came from. Its ``OnwardError`` is passed on.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise ApplicationNotFound(f"{name!r} names no application: write module:attribute, such as myapp.jobs:app")
    module = _import(module_name)
    found = _walk(module, module_name, attribute)
    if isinstance(found, JobDefinition):
        raise ApplicationNotFound(f"{name} is a job, not an application{_hint(module)}")
    if not isinstance(found, Onward) and callable(found) and not isinstance(found, type):
        found = _call(found, name)
    if not isinstance(found, Onward):
        raise ApplicationNotFound(f"{name} is {with_article(type(found).__name__)}, not an Onward application or a function that makes one")
    return found


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
    except OnwardError:
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
    except OnwardError:
        raise
    except (Exception, SystemExit) as error:
        raise ApplicationNotFound(_blame(f"calling {name}", error)) from error


def _blame(doing: str, error: BaseException) -> str:
    """One line: what failed, and the last line of the application's own code on the way. Without secrets: it connects to much at import."""
    if isinstance(error, SyntaxError):
        return bound_error(f"{doing} failed: {type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename and frame.filename != __file__]
    place = f" ({own[-1].filename}, line {own[-1].lineno}: {own[-1].line})" if own else ""
    return bound_error(f"{doing} failed: {type(error).__name__}: {error}{place}")
