"""The check for code that enqueues around the primitives: planted violations are found where they stand, ordinary code is left alone."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from textwrap import dedent

import pytest

from onward.enqueue_check import Tables, Violation, check_paths, check_sources
from onward.testing import check_enqueues

ROOT = Path(__file__).parents[2]

APP = """\
from onward import Onward, define_job

def send() -> None: ...

welcome = define_job("welcome", send)
app = Onward("sqlite:///shop.db", jobs=[welcome])
"""


def found_in(*codes: str, tables: Tables | None = None, **files: str) -> list[tuple[int, str]]:
    """Check one file, or several that import each other; give line and rule of each violation of the first."""
    sources = {"shop/here.py": "".join(dedent(code) for code in codes).encode()}
    sources |= {f"{name.replace('__', '/')}.py": dedent(text).encode() for name, text in files.items()}
    return [(one.line, one.rule) for one in check_sources(sources, tables) if one.path == "shop/here.py"]


def marked_lines(code: str) -> list[int]:
    return [number for number, line in enumerate(dedent(code).splitlines(), 1) if "# HERE" in line]


# -- planted violations: each stands on the line that is marked ------------------------------------------------------

STORE_VERBS = {
    "attribute": """
        from onward import Onward
        app = Onward("memory://")
        app.store.enqueue([])  # HERE
        """,
    "import alias": """
        from onward import Onward as Queue
        jobs = Queue("memory://")
        jobs.store.enqueue_each([[]])  # HERE
        """,
    "module alias": """
        import onward as o
        jobs = o.Onward("memory://")
        jobs.store.enqueue([])  # HERE
        """,
    "full module": """
        import onward.app
        jobs = onward.app.Onward("memory://")
        jobs.store.turn([], None)  # HERE
        """,
    "star import": """
        from onward import *
        jobs = Onward("memory://")
        jobs.store.enqueue([])  # HERE
        """,
    "by another name": """
        from onward import Onward
        app = Onward("memory://")
        mine = app
        store = mine.store
        store.enqueue([])  # HERE
        """,
    "without a call": """
        from onward import Onward
        put = Onward("memory://").store.enqueue  # HERE
        put([])
        """,
    "within": """
        from onward import Onward
        app = Onward("memory://")
        def save(connection):
            app.store.within(connection).enqueue([])  # HERE
        """,
    "getattr": """
        from onward import Onward
        app = Onward("memory://")
        getattr(app.store, "enqueue")([])  # HERE
        getattr(app, "store").enqueue([])  # HERE
        """,
    "attrgetter": """
        from operator import attrgetter, methodcaller
        def put(app):
            attrgetter("store.enqueue")(app)([])  # HERE
            methodcaller("enqueue_each", [[]])(app.store)  # HERE
        """,
    "annotated parameter": """
        from onward import Onward
        def put(app: Onward, other: "Onward | None") -> None:
            app.store.enqueue([])  # HERE
            other.store.enqueue([])  # HERE
        """,
    "dependency": """
        from typing import Annotated
        from fastapi import Depends
        from onward import Onward
        AppDep = Annotated[Onward, Depends(print)]
        def put(app: Annotated[Onward, Depends(print)], other: AppDep, third: Annotated["Onward", "words, and no code ("]) -> None:
            app.store.enqueue([])  # HERE
            other.store.enqueue([])  # HERE
            third.store.enqueue([])  # HERE
        """,
    "returned": """
        from onward import Onward
        def get_app() -> Onward:
            return make()
        get_app().store.enqueue([])  # HERE
        """,
    "attribute of an object": """
        from onward import Onward
        class Service:
            def __init__(self, app: Onward) -> None:
                self.app = app
                self._store = app.store
            @property
            def queue(self) -> Onward:
                return self.app
            def put(self) -> None:
                self.app.store.enqueue([])  # HERE
                self._store.enqueue([])  # HERE
                self.queue.store.enqueue([])  # HERE
        Service(None).app.store.enqueue([])  # HERE
        """,
    "field of a class": """
        from dataclasses import dataclass
        from onward import Onward
        @dataclass
        class Service:
            app: Onward
            def put(self) -> None:
                def later():
                    self.app.store.enqueue([])  # HERE
                later()
        """,
    "subclass": """
        from onward import Onward
        class Jobs(Onward):
            def put(self):
                self.store.enqueue([])  # HERE
        Jobs("memory://").store.enqueue([])  # HERE
        """,
    "with block": """
        from onward import Onward
        with Onward("memory://") as app:
            app.store.enqueue([])  # HERE
        """,
    "own context manager": """
        from collections.abc import Iterator
        from contextlib import contextmanager
        from onward import Onward
        @contextmanager
        def opened() -> Iterator[Onward]:
            yield Onward("memory://")
        with opened() as app:
            app.store.enqueue([])  # HERE
        """,
    "global": """
        from onward import Onward
        app = None
        def start():
            global app
            app = Onward("memory://")
        def put():
            app.store.enqueue([])  # HERE
        """,
    "walrus": """
        from onward import Onward
        if (app := Onward("memory://")):
            app.store.enqueue([])  # HERE
        """,
    "a name only stores have": """
        def put(state):
            state.app.store.enqueue_each([[]])  # HERE
        """,
    "inside a lambda": """
        from onward import Onward
        app = Onward("memory://")
        put = lambda job: app.store.enqueue([job])  # HERE
        """,
    "several lines": """
        from onward import Onward
        app = Onward("memory://")
        app.enqueue(
            None,
            app.store.enqueue(  # HERE
                [],
            ),
        )
        """,
}


@pytest.mark.parametrize("code", STORE_VERBS.values(), ids=STORE_VERBS)
def test_a_verb_of_the_store_is_found_whatever_it_is_called(code: str) -> None:
    """It skips the definitions, the events and the group commit, and takes any type."""
    assert found_in(code) == [(line, "store-verb") for line in marked_lines(code)]


PRIVATE = """
    from onward import Onward
    app = Onward("memory://")
    app._commits.enqueue([])  # HERE
    getattr(app, "_commits").enqueue([])  # HERE
    attrgetter("_commits")(app)  # HERE
    """


def test_what_is_private_to_the_application_object_is_found() -> None:
    """The group commit checks nothing of a job."""
    assert found_in(PRIVATE) == [(line, "private") for line in marked_lines(PRIVATE)]


IMPORTS = """
    import onward
    import onward.drivers.sqlite.driver  # HERE
    from onward.drivers import connect  # HERE
    from onward.drivers.sql.statements import Statement as S  # HERE
    from onward import drivers as d  # HERE
    from onward.group_commit import GroupCommit  # HERE
    import importlib
    importlib.import_module("onward.drivers.memory")  # HERE
    __import__("onward." + "drivers.memory")  # HERE
    def later():
        from onward.drivers import memory  # HERE
    onward.drivers.connect("memory://")  # HERE
    S("enqueue")
    """


def test_an_import_from_inside_of_onward_is_found() -> None:
    """What is there takes statements and rows, and changes without notice."""
    assert found_in(IMPORTS) == [(line, "internal-import") for line in marked_lines(IMPORTS)]


SQL = {
    "constant": """connection.execute("INSERT INTO onward_jobs (id) VALUES (?)")  # HERE""",
    "lower case": """connection.execute("insert  into\\n onward_jobs (id) values (?)")  # HERE""",
    "or replace": """connection.execute("INSERT OR REPLACE INTO onward_keys VALUES (1)")  # HERE""",
    "replace": """connection.execute("REPLACE INTO onward_keys VALUES (1)")  # HERE""",
    "update": """connection.execute("UPDATE onward_jobs SET status = 'queued'")  # HERE""",
    "update only": """connection.execute("UPDATE ONLY onward.jobs SET status = 'queued'")  # HERE""",
    "delete": """connection.execute("DELETE FROM onward_history")  # HERE""",
    "schema": """connection.execute("DELETE FROM onward.keys WHERE key = %s", ("a",))  # HERE""",
    "quoted": """connection.execute('INSERT INTO "onward"."jobs" DEFAULT VALUES')  # HERE""",
    "quoted name": """connection.execute('INSERT INTO main."onward_jobs" DEFAULT VALUES')  # HERE""",
    "truncate": """connection.execute("TRUNCATE TABLE onward.history")  # HERE""",
    "merge": """connection.execute("MERGE INTO onward.jobs USING x ON y WHEN MATCHED THEN DELETE")  # HERE""",
    "drop": """connection.execute("DROP TABLE IF EXISTS onward_jobs")  # HERE""",
    "copy": """connection.execute("COPY onward.jobs (id, type) FROM STDIN")  # HERE""",
    "behind another statement": """connection.execute("SELECT 1; DELETE FROM onward_jobs")  # HERE""",
    "in a common table": """connection.execute("WITH gone AS (DELETE FROM onward_jobs RETURNING id) SELECT * FROM gone")  # HERE""",
    "SQL comments": """connection.execute("DELETE /* all */ FROM -- of them\\n onward_jobs")  # HERE""",
    "neighbouring constants": """
        connection.execute(
            "INSERT INTO "  # HERE
            "onward_jobs (id) VALUES (?)"
        )
        """,
    "concatenated": """connection.execute("INSERT INTO " + "onward_" + "jobs VALUES (1)")  # HERE""",
    "f-string": """
        def put(status, number):
            connection.execute(f"UPDATE onward_jobs SET status = '{status}' WHERE n = {number:d}")  # HERE
        """,
    "name in an f-string": """
        TABLE = "onward_jobs"
        connection.execute(f"INSERT INTO {TABLE} (id) VALUES (?)")  # HERE
        """,
    "prefix in an f-string": """
        PREFIX: str = "onward_"
        connection.execute(f"DELETE FROM {PREFIX}jobs")  # HERE
        """,
    "both parts named": """
        HEAD, TAIL = "DELETE FROM ", "onward_jobs"
        connection.execute(HEAD + TAIL)  # HERE
        """,
    "added to": """
        sql = "DELETE FROM "
        sql += "onward_jobs"
        connection.execute(sql + ";")  # HERE
        """,
    "one of two": """
        def put(is_old):
            table = "archive" if is_old else "onward_jobs"
            connection.execute("DELETE FROM " + table)  # HERE
        """,
    "percent": """connection.execute("DELETE FROM %s WHERE id = %%s" % "onward_jobs")  # HERE""",
    "percent of several": """connection.execute("%s FROM %s" % ("DELETE", "onward_jobs"))  # HERE""",
    "percent by name": """connection.execute("DELETE FROM %(table)s" % {"table": "onward_jobs"})  # HERE""",
    "format": """connection.execute("DELETE FROM {}".format("onward_jobs"))  # HERE""",
    "format by name": """connection.execute("DELETE FROM {table} WHERE {{}}".format(table="onward_jobs"))  # HERE""",
    "join": """connection.execute(" ".join(["DELETE", "FROM", "onward_jobs", condition]))  # HERE""",
    "replace in text": """connection.execute("DELETE FROM TABLE".replace("TABLE", "onward_jobs"))  # HERE""",
    "SQLAlchemy": """
        from sqlalchemy import text
        session.execute(text("DELETE FROM onward_jobs"))  # HERE
        """,
    "psycopg": """
        from psycopg import sql
        connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier("onward", "jobs")))  # HERE
        """,
    "attribute of a class": """
        class Names:
            jobs = "onward_jobs"
        connection.execute(f"DELETE FROM {Names.jobs}")  # HERE
        """,
    "kept in a name": """
        STATEMENT = '''
            DELETE FROM onward_jobs
        '''
        """,
}


@pytest.mark.parametrize("code", SQL.values(), ids=SQL)
def test_sql_that_writes_a_table_of_onward_is_found(code: str) -> None:
    """However it was put together from constants; no key is taken by it, no worker woken, no history kept."""
    lines = marked_lines(code) or [2]
    assert found_in(code) == [(line, "raw-sql") for line in lines]


def test_a_name_from_another_checked_file_is_followed() -> None:
    """The usual application keeps its ``Onward`` in one module and imports it everywhere else; tables have names there too."""
    code = """
        from shop.jobs import app as queue, TABLE
        from . import jobs
        from .jobs import app
        import shop.jobs
        import shop.jobs as s
        from shop.reexports import mine
        queue.store.enqueue([])  # HERE
        jobs.app.store.enqueue([])  # HERE
        app.store.enqueue([])  # HERE
        shop.jobs.app.store.enqueue([])  # HERE
        s.app.store.enqueue([])  # HERE
        mine.store.enqueue([])  # HERE
        """
    found = found_in(code, shop__jobs=f"{APP}\nTABLE = 'onward_jobs'\n", shop__reexports="from shop.jobs import app as mine")
    assert found == [(line, "store-verb") for line in marked_lines(code)]
    sql = "from shop.jobs import TABLE\nconnection.execute(f'DELETE FROM {TABLE}')\n"
    assert found_in(sql, shop__jobs=f"{APP}\nTABLE = 'onward_jobs'\n") == [(2, "raw-sql")]


def test_files_that_import_each_other_in_a_circle_are_checked() -> None:
    """So do classes that are each other's base, and names that are made of themselves."""
    here = "from shop.there import app\napp.store.enqueue([])\nclass A(B): ...\nclass B(A): ...\nA().x.store\nx = x + 'a'\ny = f'{x}{y}'\n"
    assert found_in(here, shop__there="from shop.here import app") == []
    types = "from typing import Union\nA = Union[B, 'C']\nB = Union[C, A]\nC = Union[A, B, C]\ndef f(a: A): a.store.enqueue([])\n"
    assert found_in(types) == []
    many = [f"try:\n    from m{n + 1} import app\nexcept ImportError:\n    from m{n + 2} import app\n" for n in range(80)]
    assert found_in("from m0 import app\napp.store.enqueue([])\n", **{f"m{n}": text for n, text in enumerate(many)}) == []  # type: ignore[arg-type]  # file names


def test_of_two_modules_of_one_name_the_nearer_one_is_meant() -> None:
    """Two applications in one repository both have a ``jobs.py``."""
    code = "from jobs import app\napp.store.enqueue([])\n"
    assert found_in(code, other__jobs="app = []", shop__jobs=APP) == [(2, "store-verb")]
    assert found_in(code, other__jobs=APP, shop__jobs="class Store: ...\nclass App:\n    store = Store()\napp = App()") == []


# -- an enqueue that forgets its transaction -------------------------------------------------------------------------

FORGETS = {
    "session": """
        with session.begin():
            app.enqueue(welcome)  # HERE
        """,
    "session and begin": """
        with Session() as session, session.begin():
            app.enqueue(welcome, None, owner="ada")  # HERE
        """,
    "the store's own": """
        with app.transaction() as connection:
            connection.execute("INSERT INTO books VALUES (1)")
            if connection:
                app.enqueue(welcome)  # HERE
        """,
    "Django": """
        from django.db import transaction
        with transaction.atomic():
            app.enqueue_many([welcome.new_job(None)])  # HERE
        """,
    "Django's name alone": """
        from django.db.transaction import atomic as all_or_none
        with all_or_none(), other():
            app.enqueue_in(welcome, None, "5m")  # HERE
        """,
    "decorator": """
        from django.db import transaction
        @transaction.atomic
        def save():
            app.enqueue(welcome)  # HERE
        @transaction.atomic(using="other")
        def save_elsewhere():
            app.enqueue(welcome)  # HERE
        """,
    "awaited": """
        async def save(connection):
            async with connection.transaction():
                await app.aenqueue(welcome)  # HERE
                await app.aenqueue_at(welcome, None, when)  # HERE
        """,
    "sqlite3": """
        import sqlite3
        connection = sqlite3.connect("shop.db")
        with connection:
            app.enqueue(welcome)  # HERE
        """,
    "psycopg": """
        import psycopg
        with psycopg.connect("") as connection:
            app.enqueue(welcome)  # HERE
        """,
    "None": """
        with session.begin():
            app.enqueue(welcome, within=None)  # HERE
        """,
    "by another name": """
        put = app.enqueue
        with session.begin():
            put(welcome)  # HERE
        """,
    "handed on": """
        async def save():
            async with session.begin():
                await asyncio.to_thread(app.enqueue, welcome)  # HERE
        """,
    "in a lambda": """
        with session.begin():
            each(lambda one: app.enqueue(welcome, one))  # HERE
        """,
}


@pytest.mark.parametrize("code", FORGETS.values(), ids=FORGETS)
def test_an_enqueue_without_within_inside_a_transaction_is_found(code: str) -> None:
    """The classic mistake: the job is accepted, and may run, whether the transaction commits or not."""
    before = APP.count("\n")
    assert found_in(APP, code) == [(before + line, "missing-within") for line in marked_lines(code)]


AFTER_COMMIT = {
    "in a lambda": """
        from django.db import transaction
        with transaction.atomic():
            book.save()
            transaction.on_commit(lambda: app.enqueue(welcome))  # HERE
        """,
    "without a block": """
        from django.db.transaction import on_commit
        def save(book):
            book.save()
            on_commit(lambda: app.enqueue(welcome), robust=True)  # HERE
        """,
    "partial": """
        from functools import partial
        from django.db import transaction
        @transaction.atomic
        def save():
            transaction.on_commit(partial(app.enqueue, welcome, None))  # HERE
        """,
    "the verb itself": """
        from django.db import connection
        connection.on_commit(func=app.enqueue_many)  # HERE
        """,
    "a function that is named": """
        from django.db import transaction
        def save(book):
            def later():
                app.enqueue(welcome, None)
            with transaction.atomic():
                transaction.on_commit(later)  # HERE
        """,
    "with within all the same": """
        from django.db import connection, transaction
        with transaction.atomic():
            transaction.on_commit(lambda: app.enqueue(welcome, within=connection))  # HERE
        """,
    "SQLAlchemy's event": """
        from sqlalchemy import event
        event.listen(session, "after_commit", lambda _: app.enqueue(welcome))  # HERE
        @event.listens_for(session, "after_commit")
        def later(session):
            app.enqueue(welcome)  # HERE
            app.enqueue(welcome, within=session)  # HERE
        """,
}


@pytest.mark.parametrize("code", AFTER_COMMIT.values(), ids=AFTER_COMMIT)
def test_an_enqueue_that_is_put_off_until_after_the_commit_is_found(code: str) -> None:
    """The usual way with other queues. It is not inside the transaction, so within= alone would mend nothing."""
    before = APP.count("\n")
    assert found_in(APP, code) == [(before + line, "after-commit") for line in marked_lines(code)]


def test_what_belongs_in_place_of_an_enqueue_after_the_commit_is_said() -> None:
    """Who reads it has been told elsewhere that this is how it is done."""
    source = f"{APP}from django.db import transaction\ntransaction.on_commit(lambda: app.enqueue(welcome))\n"
    (violation,) = check_sources({"shop.py": source.encode()})
    assert str(violation) == (
        "shop.py:8:31: enqueue runs after the commit, and a crash in between loses the job: "
        "call it inside the transaction, with within= and its connection or session"
    )


SESSIONS = {
    "a parameter": """
        from fastapi import Depends
        from sqlalchemy.ext.asyncio import AsyncSession
        async def create(session: AsyncSession = Depends(get_session)):
            session.add(book)
            await app.aenqueue(welcome)  # HERE
            await session.commit()
        """,
    "annotated": """
        from typing import Annotated
        from fastapi import Depends
        from sqlalchemy.orm import Session
        def create(session: Annotated[Session, Depends(get_session)]):
            session.add(book)
            session.flush()
            app.enqueue(welcome)  # HERE
        """,
    "annotated by an alias": """
        from typing import Annotated
        from fastapi import Depends
        from sqlmodel import Session
        SessionDep = Annotated[Session, Depends(get_session)]
        def create(session: SessionDep):
            session.delete(book)
            app.enqueue(welcome)  # HERE
            session.commit()
        """,
    "a change of what was read": """
        import sqlalchemy.orm as orm
        def rename(session: "orm.Session | None"):
            book = session.get(Book, 1)
            book.title = "x"
            app.enqueue(welcome)  # HERE
            if book.title:
                session.commit()
        """,
    "the next transaction of the same session": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            session.add(one)
            session.commit()
            app.enqueue(welcome)
            session.add(other)
            app.enqueue(welcome)  # HERE
            session.rollback()
        """,
    "made in the function": """
        from sqlalchemy.orm import Session, sessionmaker
        from sqlalchemy.ext.asyncio import async_sessionmaker
        Maker = sessionmaker(engine)
        def create():
            with Session(engine) as session:
                session.add(book)
                app.enqueue(welcome)  # HERE
                session.commit()
            with Maker() as session:
                session.add(book)
                app.enqueue(welcome)  # HERE
                session.commit()
        async def acreate():
            async with async_sessionmaker(engine)() as session:
                session.add(book)
                await app.aenqueue(welcome)  # HERE
        """,
    "of an object": """
        from sqlalchemy.orm import Session
        class Books:
            def __init__(self, session: Session):
                self.session = session
            def create(self):
                self.session.add(book)
                app.enqueue(welcome)  # HERE
        """,
    "changed in a branch": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            if session.get(Book, 1) is None:
                session.add(book)
            app.enqueue(welcome)  # HERE
        """,
    "behind an error that ends the function": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            try:
                session.add(book)
                session.flush()
            except IntegrityError:
                session.rollback()
                raise
            app.enqueue(welcome)  # HERE
            session.commit()
        """,
    "in a branch": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            if book:
                session.add(book)
            else:
                session.add(other)
                return
            app.enqueue(welcome)  # HERE
        """,
}


@pytest.mark.parametrize("code", SESSIONS.values(), ids=SESSIONS)
def test_an_enqueue_in_the_transaction_that_a_session_began_by_itself_is_found(code: str) -> None:
    """The usual form of a web handler: no block opens the transaction, and a commit at the end closes it."""
    before = APP.count("\n")
    assert found_in(APP, code) == [(before + line, "missing-within") for line in marked_lines(code)]


RIGHT = {
    "within a session that began by itself": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            session.add(book)
            app.enqueue(welcome, within=session)
            session.commit()
        """,
    "behind the commit of a session": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            session.add(book)
            session.commit()
            app.enqueue(welcome)
        """,
    "behind the block of a session": """
        from sqlalchemy.orm import Session
        with Session(engine) as session:
            session.add(book)
            session.commit()
            session.refresh(book)
        app.enqueue(welcome)
        session.commit()
        """,
    "before the session is used": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            app.enqueue(welcome)
            session.add(book)
            session.commit()
        """,
    "beside a session that only reads": """
        from sqlalchemy.orm import Session
        def show(session: Session):
            if session.get(Book, 1) is None:
                app.enqueue(welcome)
        """,
    "in a branch that ends before the commit": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            if session.get(Book, 1):
                app.enqueue(welcome)
                return
            session.add(book)
            session.commit()
        """,
    "behind a branch that may have committed": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            session.add(book)
            if book:
                session.commit()
            app.enqueue(welcome)
        """,
    "behind a block that is rolled back on an error": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            try:
                session.add(book)
                session.commit()
            except IntegrityError:
                session.rollback()
            app.enqueue(welcome)
        """,
    "in another function than the session": """
        from sqlalchemy.orm import Session
        def create(session: Session):
            session.add(book)
            def later():
                app.enqueue(welcome)
            session.commit()
        """,
    "something else that is called a session": """
        def create(session, other: requests.Session):
            session.add(book)
            other.add(book)
            app.enqueue(welcome)
        """,
    "something else that runs after a commit": """
        from django.db import transaction
        with transaction.atomic():
            transaction.on_commit(lambda: mail.send(welcome))
            transaction.on_commit(print)
            app.enqueue(welcome, within=connection)
        """,
    "within": """
        with session.begin():
            app.enqueue(welcome, within=session)
            app.enqueue_many([], within=session)
            to_thread(app.enqueue, welcome, within=session)
        """,
    "unpacked": """
        with session.begin():
            app.enqueue(welcome, **options)
        """,
    "behind the block": """
        with session.begin():
            session.add(book)
        app.enqueue(welcome)
        """,
    "a function that is made there and called later": """
        with session.begin():
            def later():
                app.enqueue(welcome)
        """,
    "another kind of block": """
        with open("x") as file, lock:
            app.enqueue(welcome)
        """,
    "a child of the job": """
        def handle(payload, ctx):
            with ctx.transaction() as connection:
                ctx.enqueue(welcome)
        """,
    "reading the store": """
        app.store.open()
        app.store.find(where)
        with app.transaction() as connection:
            connection.execute("SELECT * FROM onward_jobs WHERE status = 'queued' FOR UPDATE")
        """,
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_the_primitives_themselves_are_left_alone(code: str) -> None:
    """A check that cries at right code is switched off."""
    assert found_in(APP, code) == []


ORDINARY = {
    "another queue": """
        class Queue:
            def enqueue(self, item): ...
            def enqueue_each(self, items): ...
        queue = Queue()
        with session.begin():
            queue.enqueue(1)
            queue.enqueue_each([1])
        """,
    "another store": """
        class Service:
            def __init__(self, store):
                self.store = store
            def put(self):
                self.store.enqueue(1)
                self.store.within(box)
        """,
    "a parameter of the same name": """
        from onward import Onward
        app = Onward("memory://")
        def put(app):
            app.store.enqueue(1)
        """,
    "other libraries": """
        from rq import Queue
        from celery import Celery
        import drivers.sqlite
        from shop.onward.drivers import connect
        app = Celery()
        with transaction.atomic():
            Queue().enqueue(print)
            app.enqueue(print)
        """,
    "other tables": """
        connection.execute("INSERT INTO jobs VALUES (1)")
        connection.execute("INSERT INTO onward_jobs_archive VALUES (1)")
        connection.execute("UPDATE backward_jobs SET a = 1")
        connection.execute("CREATE VIEW v AS SELECT * FROM onward_jobs")
        connection.execute("INSERT INTO copies SELECT * FROM onward_jobs")
        connection.execute("COPY onward.jobs TO STDOUT")
        connection.execute("SELECT id FROM books FOR UPDATE OF onward_jobs")
        connection.execute("DELETE FROM books -- not UPDATE onward_jobs")
        connection.execute(f"DELETE FROM {table}")
        """,
    "docstrings": '''
        """UPDATE onward_jobs is what nobody may write."""
        def f():
            """DELETE FROM onward_jobs."""
        ''',
    "the contract for drivers": """
        from onward.driver import Store
        from onward.jobs import NewJob
        class Mine(Store):
            def enqueue_each(self, requests):
                return super().enqueue_each(requests)
        """,
    "numbers and paths": """
        total = 1 + 2 % 3
        path = base / "a" / "b"
        text = "%d %s" % (1,) + "{}{".format(1)
        "".join(x for x in y)
        def f(x: Annotated[int, "words, and no code ("]): ...
        f.store.turn()
        """,
}


@pytest.mark.parametrize("code", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_code_is_left_alone(code: str) -> None:
    """Only what can be traced to Onward is spoken of."""
    assert found_in(code) == []


def test_the_examples_keep_to_the_primitives() -> None:
    """They are what people copy. The demo of the files stores one damaged job on purpose."""
    checked = check_paths([ROOT / "examples"])
    assert checked.files > 20
    assert [str(one) for one in checked.violations] == []


# -- what a person lets stand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "app.store.enqueue([])  # onward: allow the import of last year's jobs",
        "app.store.enqueue([])  # noqa: X1  # onward: allow: the import of last year's jobs",
        "# onward: allow (the import of last year's jobs)\napp.store.enqueue([])",
        "# onward: allow - the import of last year's jobs,\n# which were exported as they stand\napp.store.enqueue([])",
        "app.store.enqueue(  # onward: allow the import\n    [],\n)",
        "app.store.enqueue(\n    [],\n)  # onward: allow the import",
        "@event.listens_for(session, 'after_commit')\ndef f(_):\n    # onward: allow no harm if it is lost\n    app.enqueue(welcome)",
        "print(\n    1,\n    app.store.enqueue([]),  # onward: allow the import\n)",
        "with open(app.store.enqueue([])):  # onward: allow the import\n    pass",
    ],
)
def test_a_comment_with_a_reason_lets_a_place_stand(code: str) -> None:
    """On a line of the statement, or on a line of its own above."""
    assert found_in(APP, code) == []


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("app.store.enqueue([])  # onward: allow", {"store-verb", "allow-without-reason"}),
        ("app.store.enqueue([])  # onward: allow -", {"store-verb", "allow-without-reason"}),
        ("app.store.enqueue([])  # onward: allowed because", {"store-verb"}),
        ("app.store.enqueue(['# onward: allow because'])", {"store-verb"}),
        ("# onward: allow because\n\napp.store.enqueue([])", {"store-verb"}),
        ("app.store.enqueue([])\n# onward: allow because", {"store-verb"}),
        ("x = 1  # onward: allow because\napp.store.enqueue([])", {"store-verb"}),
        ("def f():  # onward: allow because\n    app.store.enqueue([])", {"store-verb"}),
        ("# onward: allow because\nif app:\n    app.store.enqueue([])", {"store-verb"}),
    ],
)
def test_a_comment_without_a_reason_or_elsewhere_lets_nothing_stand(code: str, rules: set[str]) -> None:
    """An exception that nobody can explain is a hole; a comment on a block would cover what is added to it later."""
    assert {rule for _, rule in found_in(APP, code)} == rules


# -- names, files and words ------------------------------------------------------------------------------------------


def test_tables_of_other_names_are_found_under_them() -> None:
    """Prefix and schema are settings of the store."""
    tables = Tables(prefix="work_", schema="queue")
    code = 'run("DELETE FROM work_jobs")\nrun("DELETE FROM queue.jobs")\nrun("DELETE FROM onward_jobs")\nrun("DELETE FROM onward.jobs")\n'
    assert found_in(code, tables=tables) == [(1, "raw-sql"), (2, "raw-sql")]


def test_a_violation_says_where_it_is_and_what_belongs_there() -> None:
    """In the form that editors and CI make a link of."""
    (violation,) = check_sources({"shop.py": f"{APP}\n\nif app:\n    app.store.enqueue([])\n".encode()})
    assert str(violation) == (
        "shop.py:10:5: the store's own enqueue goes around the application: "
        "use app.enqueue(definition, payload), with within=connection to join a transaction"
    )


@pytest.mark.parametrize(
    "source",
    [b"def f(:\n", b"x = '\xff'\n", b"# coding: klingon\n", b"x = 1\0", b"(" * 500 + b")" * 500, b"x = " + b"-" * 100_000 + b"1"],
    ids=["syntax", "bytes", "coding", "NUL", "brackets", "nested"],
)
def test_a_file_that_is_no_python_is_one_violation_and_stops_no_other(source: bytes) -> None:
    """Passed over, it would be the place to hide."""
    found = check_sources({"bad.py": source, "good.py": f"{APP}app.store.enqueue([])".encode()})
    assert [(one.path, one.rule) for one in found] == [("bad.py", "unreadable"), ("good.py", "store-verb")]
    assert "\n" not in str(found[0])


def test_deeply_nested_code_neither_hangs_nor_passes_unseen() -> None:
    """A generated file is checked, or is said not to be."""
    long_sum = b"x = " + b" + ".join([b"'a'"] * 3000)
    assert [one.rule for one in check_sources({"long.py": long_sum})] in ([], ["unreadable"])
    doubling = "\n".join(["x0 = 'a' if y else 'b'", *(f"x{n + 1} = x{n} + x{n}" for n in range(60))])
    assert check_sources({"doubling.py": doubling.encode()}) == []
    knot = "\n".join(f"x{n} = x{n + 1} or x{n + 2} or y.x{n + 3}" for n in range(200))
    assert check_sources({"knot.py": f"{knot}\nx0.store.enqueue([])\n".encode()}) == []


def test_an_odd_escape_in_checked_code_is_no_warning_of_ours() -> None:
    """Under -W error it would end the check."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_sources({"odd.py": rb'x = "\d"'}) == []


def test_folders_are_checked_without_what_is_not_the_applications(tmp_path: Path) -> None:
    """Installed packages use what they like; the same file given twice is checked once."""
    bad = f"{APP}app.store.enqueue([])\n"
    for name in ("shop/jobs.py", "shop/.hidden/a.py", "shop/venv/pyvenv.cfg", "shop/venv/a.py", "shop/node_modules/a.py", "shop/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(bad)
    (tmp_path / "shop/script").write_text(bad)
    checked = check_paths([tmp_path / "shop", tmp_path / "shop" / ".." / "shop" / "jobs.py"])
    assert (checked.files, [one.path for one in checked.violations]) == (1, [str(tmp_path / "shop/jobs.py")])
    assert len(check_paths([tmp_path / "shop/script"]).violations) == 1


def test_what_cannot_be_read_is_a_violation(tmp_path: Path) -> None:
    """A link that leads nowhere stands for whatever the file would be in production."""
    os.symlink("nowhere", tmp_path / "jobs.py")
    (violation,) = check_paths([tmp_path]).violations
    assert (violation.rule, violation.line) == ("unreadable", 1)
    assert "No such file or directory" in str(violation)


def test_the_check_as_a_test_lists_everything(tmp_path: Path) -> None:
    """One run shows all there is to do."""
    (tmp_path / "jobs.py").write_text(APP)
    check_enqueues(tmp_path)
    (tmp_path / "shop.py").write_text("from jobs import app\napp.store.enqueue([])\nrun('DELETE FROM work_jobs')\n")
    with pytest.raises(AssertionError, match=r"1 to mend:\n.*shop.py:2:1: the store's own enqueue"):
        check_enqueues(tmp_path)
    with pytest.raises(AssertionError, match=r"2 to mend:\n.*shop.py:2:1: .*\n.*shop.py:3:5: SQL"):
        check_enqueues(tmp_path, prefix="work_")


def test_the_check_as_a_test_fails_where_there_is_nothing_to_check(tmp_path: Path) -> None:
    """A folder that was moved would pass for ever."""
    with pytest.raises(AssertionError, match="so nothing was checked"):
        check_enqueues(tmp_path)
    with pytest.raises(AssertionError, match="no path at all"):
        check_enqueues()


def test_violations_are_sorted_by_place() -> None:
    """The same code gives the same report."""
    source = b"from onward.drivers import connect\nrun('DELETE FROM onward_jobs')\n"
    found = check_sources({"b.py": source, "a.py": source})
    assert [(one.path, one.line) for one in found] == [("a.py", 1), ("a.py", 2), ("b.py", 1), ("b.py", 2)]
    assert all(isinstance(one, Violation) and one.instead for one in found)
