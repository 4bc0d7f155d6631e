"""A store's verbs in a caller's transaction: written once for every library, in both colours.

What differs is a ``Link``: how one library's connection runs a statement, and what the store does around an operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, TypeVar

from onward.driver import AsyncWithin, Within
from onward.drivers.borrowed import Bridge, Colour, ended_inside, find_bridge
from onward.drivers.sql import people
from onward.drivers.sql.enqueue import enqueue
from onward.drivers.sql.statements import Many, Operation, Statement
from onward.drivers.unwrap import OWNERS, Beneath, Owner
from onward.errors import NoTransaction, OnwardError
from onward.jobs import NewJob
from onward.steps import drive, drive_awaited
from onward.turn import Claim, Settlement

T = TypeVar("T")


class Elsewhere(Exception):
    """The connection leads to other tables than those that the store remembers as its own. ``place`` says to which."""

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.place = place


class Link(ABC):
    """One driver's connection, joined for one operation. ``joined`` is what the store gives its links."""

    colour: ClassVar[Colour]
    advice: ClassVar[str]
    """How a transaction is begun with this library, if nobody else looks after the connection."""

    def __init__(self, connection: Any, joined: Any, beneath: Beneath | None = None) -> None:
        self.connection = connection
        self.joined = joined
        self._beneath = beneath

    @abstractmethod
    def check(self) -> None:
        """Raise ``NoTransaction`` for a connection that is in no transaction and will not be in one by the next statement."""

    def opening(self) -> Operation[None]:
        """What is done before the first operation."""
        return
        yield

    @abstractmethod
    def whole(self, make: Callable[[datetime], Operation[T]], held: Any = None) -> Operation[T]:
        """Make an operation of the present instant that is done whole or not at all, inside the caller's transaction.

        Raises ``Elsewhere`` on another store's tables, and ``TransactionOpen`` where ``held``, which ``hold`` gave, has ended meanwhile.
        """

    @abstractmethod
    def hold(self) -> Operation[Any]:
        """Behind an operation: give what tells its transaction from every other one of this connection."""

    def is_home(self, place: Any) -> bool:
        """Look where the store's tables are by now, and say whether that is ``place`` after all. May take long."""
        return False

    def reading(self, operation: Operation[T]) -> Operation[T]:
        """Make an operation that changes nothing one for the caller's connection."""
        return operation

    @abstractmethod
    def execute(self, wanted: Statement | Many) -> Any:
        """Run one statement and give its rows as tuples; awaited where the colour is async."""

    @abstractmethod
    def explain(self, error: Exception) -> Exception:
        """Say in Onward's words what went wrong, or give the error itself if it is nobody's but the caller's."""

    @property
    def how_to_begin(self) -> str:
        """How the caller begins a transaction."""
        return self.advice if self._beneath is None else self._beneath.advice

    def as_raised(self, error: Exception) -> Exception:
        """An error that the caller's own loop of tries expects, as the library raises it that the caller uses."""
        return error if self._beneath is None else self._beneath.as_raised(error)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Around statements: every error that leaves is Onward's, or one that the caller expects."""
        try:
            yield
        except OnwardError:
            raise
        except Exception as error:
            explained = self.explain(error)
            if explained is error:
                raise
            raise explained from error


class _Verbs(ABC):
    """The verbs as operations; a colour says how an operation is run."""

    _held: Any = None
    """The transaction in which a claim was confirmed."""

    @abstractmethod
    def _run(self, make: Callable[[Link], Operation[Any]]) -> Any: ...

    def _check(self, link: Link) -> None:
        """Refuse a connection that is in no transaction; where a claim was confirmed in one, that has ended since."""
        try:
            link.check()
        except NoTransaction:
            if self._held is None:
                raise
            raise ended_inside() from None

    def _write(self, make: Callable[[datetime], Operation[Any]]) -> Any:
        return self._run(lambda link: link.whole(make))

    def enqueue(self, jobs: Sequence[NewJob]) -> Any:
        return self._write(lambda now: enqueue(jobs, now))

    def get(self, job_id: str, *, owner: str | None = None) -> Any:
        return self._run(lambda link: link.reading(people.get(job_id, owner)))

    def cancel(self, job_id: str, *, owner: str | None = None) -> Any:
        return self._write(lambda now: people.cancel(job_id, owner, now, frees=False))

    def retry(self, job_id: str, *, owner: str | None = None) -> Any:
        return self._write(lambda now: people.retry(job_id, owner, now))

    def confirm(self, claim: Claim) -> Any:
        return self._run(lambda link: self._confirm(link, claim))

    def settle(self, settlement: Settlement) -> Any:
        return self._run(lambda link: self._settle(link, settlement))

    def _confirm(self, link: Link, claim: Claim) -> Operation[None]:
        yield from link.whole(lambda now: people.confirm(claim, now))
        self._held = yield from link.hold()

    def _settle(self, link: Link, settlement: Settlement) -> Operation[None]:
        """What ``confirm`` has proved holds for its transaction alone: behind a commit the writes are two effects, not one."""
        held, self._held = self._held, None
        yield from link.whole(lambda now: people.settle_one(settlement, now), held)


class JoinedWithin(_Verbs, Within):
    """``Within`` over links. ``take`` gives the link anew for each operation: a session may have another connection by then."""

    def __init__(self, take: Callable[[], Link]) -> None:
        self._take = take
        self._run(lambda link: link.opening())

    def _run(self, make: Callable[[Link], Operation[T]]) -> T:
        link = self._take()
        with link.explaining():
            self._check(link)
            try:
                return drive(link.execute, make(link))
            except Elsewhere as error:
                if not link.is_home(error.place):
                    raise
            return drive(link.execute, make(link))


class AsyncJoinedWithin(_Verbs, AsyncWithin):
    """``AsyncWithin`` over links whose statements are awaited."""

    def __init__(self, take: Callable[[], Awaitable[Link]]) -> None:
        self._take = take
        self._is_open = False
        self.before: Callable[[], object] | None = None
        """What has to be done before the first statement, and may take long: it is done in a thread."""

    async def _run(self, make: Callable[[Link], Operation[T]]) -> T:
        from asyncio import to_thread  # whoever gets here runs on it; others need not load it

        if self.before is not None and not self._is_open:
            await to_thread(self.before)
        link = await self._take()
        with link.explaining():
            self._check(link)
            if not self._is_open:
                await drive_awaited(link.execute, link.opening())
                self._is_open = True
            try:
                return await drive_awaited(link.execute, make(link))
            except Elsewhere as error:
                if not await to_thread(link.is_home, error.place):
                    raise
            return await drive_awaited(link.execute, make(link))


def bridges_over(links: Mapping[str, type[Link]]) -> dict[str, Bridge]:
    """Make a store's table: its links by the name of the connection's class, and whatever may look after such a connection."""
    own = {name: Bridge(link.colour, partial(_join, link)) for name, link in links.items()}
    owned = {name: Bridge(owner.colour, partial(_join_beneath, owner, links)) for name, owner in OWNERS.items()}
    return own | owned


def _join(kind: type[Link], connection: Any, joined: Any) -> Within | AsyncWithin:
    link = kind(connection, joined)
    if kind.colour == "sync":
        return JoinedWithin(lambda: kind(connection, joined))
    link.check()

    async def take() -> Link:
        return kind(connection, joined)

    return AsyncJoinedWithin(take)


def _join_beneath(owner: Owner, links: Mapping[str, type[Link]], owned: Any, joined: Any) -> Within | AsyncWithin:
    def link_to(beneath: Beneath) -> Link:
        kind: type[Link] = find_bridge(beneath.connection, links, owner.colour)
        return kind(beneath.connection, joined, beneath)

    if owner.colour == "sync":
        return JoinedWithin(lambda: link_to(owner.unwrap(owned)))

    async def take() -> Link:
        return link_to(await owner.unwrap(owned))

    return AsyncJoinedWithin(take)
