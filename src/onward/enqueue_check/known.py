"""The names of Onward and of database libraries that the check knows, and what they stand for."""

from __future__ import annotations

from enum import Enum


class Known(Enum):
    """The values that the rules ask for."""

    APP = "an Onward"
    STORE = "its store"
    ENQUEUE = "one of its verbs that enqueue"
    CONNECTION = "a connection whose 'with' block is a transaction"
    SESSION = "a session of SQLAlchemy, which begins a transaction at its first use"
    SESSION_MAKER = "what makes such sessions"


ENQUEUE_VERBS = frozenset(f"{colour}enqueue{form}" for colour in ("", "a") for form in ("", "_in", "_at", "_many"))
STORE_VERBS = frozenset({"enqueue", "enqueue_each", "within", "within_async", "turn"})
ONLY_OURS = frozenset({"enqueue_each", "within_async"})
"""Names that nothing else has: they count on any object that is not known to be another."""
INTERNAL = ("onward.drivers", "onward.group_commit")
APP = frozenset({"onward.Onward", "onward.app.Onward"})
CLASSES: dict[str, Known] = {
    **dict.fromkeys(APP, Known.APP),
    "onward.driver.Store": Known.STORE,
    "onward.driver.Driver": Known.STORE,
    "sqlite3.Connection": Known.CONNECTION,
    "psycopg.Connection": Known.CONNECTION,
    "psycopg.AsyncConnection": Known.CONNECTION,
    "sqlalchemy.orm.Session": Known.SESSION,
    "sqlalchemy.orm.scoped_session": Known.SESSION,
    "sqlalchemy.orm.sessionmaker": Known.SESSION_MAKER,
    "sqlalchemy.ext.asyncio.AsyncSession": Known.SESSION,
    "sqlalchemy.ext.asyncio.async_scoped_session": Known.SESSION,
    "sqlalchemy.ext.asyncio.async_sessionmaker": Known.SESSION_MAKER,
    "sqlmodel.Session": Known.SESSION,
    "sqlmodel.ext.asyncio.session.AsyncSession": Known.SESSION,
}
"""What an instance of them is."""
MAKES: dict[str, Known] = {
    **CLASSES,
    "onward.application.load_application": Known.APP,
    "sqlite3.connect": Known.CONNECTION,
    "psycopg.connect": Known.CONNECTION,
    "psycopg.Connection.connect": Known.CONNECTION,
    "psycopg.AsyncConnection.connect": Known.CONNECTION,
    "psycopg2.connect": Known.CONNECTION,
}
"""What calling them gives."""
_GENERATORS = ("Iterator", "AsyncIterator", "Generator", "AsyncGenerator")
_MANAGERS = ("AbstractContextManager", "AbstractAsyncContextManager", "ContextManager", "AsyncContextManager")
WRAPPERS = frozenset({"Optional", "Union", "Annotated", "Final", "ClassVar", *_GENERATORS, *_MANAGERS})
"""Annotations that stand for what is in their brackets."""
