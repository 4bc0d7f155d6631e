"""``PostgresStore``: a store over one schema of a Postgres database. The verbs are operations; the database runs them."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from onward.admission import Constraint
from onward.clock import Clock
from onward.driver import AsyncWithin, Capabilities, Within
from onward.drivers.borrowed import find_bridge
from onward.drivers.postgres import claim
from onward.drivers.postgres.accept import accept
from onward.drivers.postgres.connections import Connections
from onward.drivers.postgres.database import ONE_WAITS, TURN_WAITS, Database
from onward.drivers.postgres.examine import examine
from onward.drivers.postgres.home import Home
from onward.drivers.postgres.lanes import Lanes
from onward.drivers.postgres.people import VerbsForPeople
from onward.drivers.postgres.schema import Schema
from onward.drivers.postgres.statement_text import StatementText, as_milliseconds
from onward.drivers.postgres.suspects import Suspects
from onward.drivers.postgres.url import CONNECTIONS, SCHEMA, TIMEOUT, check_schema, write_url
from onward.drivers.postgres.waker import Waker
from onward.drivers.postgres.within import BRIDGES, Joined
from onward.drivers.sql import people, pruning, rollups, sweep
from onward.drivers.sql.found import Found
from onward.drivers.sql.joined import AsyncJoinedWithin
from onward.drivers.sql.metrics import count_totals
from onward.drivers.sql.recheck import Cursors, portions, recheck
from onward.drivers.sql.statements import Statement, as_json
from onward.drivers.sql.turn import turn
from onward.drivers.wakers import Wakers
from onward.errors import OutcomeUnknown, StoreBusy, StoreError
from onward.inspection import IDLE_FOR, Finding, Retention
from onward.jobs import Accepted, Job, NewJob
from onward.pruning import Due, Ended, Gone, Look
from onward.rollups import MERGED_AFTER, MERGED_WITHIN, Rollup, Tally
from onward.turn import Demand, Extended, Extension, Settlement, Swept, Turn

logger = logging.getLogger("onward.worker")
MOST_HELD_UP = 3
"""After that many in a row the others wait for the next turn as well: the whole table may be locked."""


class PostgresStore(VerbsForPeople):
    """Jobs in the tables of ``schema`` in the database that ``url`` names, a connection string for libpq.

    ``timeout`` is how long a write waits for other transactions. ``connections`` is how many are lent to the application at once.
    ``notify`` says whether enqueues notify workers; without it they poll. ``prepare`` says whether statements may be prepared by name,
    which some poolers cannot have. ``listen_url`` is where notifications are listened for, if a pooler stands before ``url``.
    ``migrate`` makes or changes the tables at the first use; else they must be there. Nothing is opened before the first use.
    """

    capabilities = Capabilities(name="postgres", waits_for_keys=True)

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        schema: str = SCHEMA,
        timeout: timedelta = TIMEOUT,
        connections: int = CONNECTIONS,
        notify: bool = True,
        prepare: bool = True,
        relaxed: bool = False,
        listen_url: str | None = None,
        migrate: bool = False,
    ) -> None:
        self.clock = clock
        self.schema = check_schema(schema)
        self.url = write_url(url, schema)
        self._relaxed = relaxed
        self._text = StatementText(schema, notify=notify, relaxed=relaxed)
        self._schema = Schema(url, schema, migrate=migrate, place=self.url)
        self._connections = Connections(url, most=connections, timeout=timeout.total_seconds(), prepare=prepare)
        self._database = Database(self._connections, self._text, clock, timeout=timeout.total_seconds(), place=self.url, check=self.open)
        self._suspects = Suspects(clock)
        self._lanes = Lanes(clock)
        self._rechecked = Cursors()
        self._home = Home(self._database.place)
        self._listen_url = (listen_url or url) if notify else None
        self._waker = Wakers(self._make_waker)

    # -- every backend -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.schema_version = self._schema.open()
        self._home.place()

    def needs_migration(self) -> bool:
        return self._schema.needs_migration()

    def migrate(self) -> None:
        self.schema_version = self._schema.migrate()

    def migration_sql(self) -> str:
        return self._schema.migration_sql()

    def close(self) -> None:
        self._database.refuse_inside()
        for waker in self._waker.all():
            waker.close()
        self._connections.close()

    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        answers = accept(self._database, requests)
        self._waker.wake()
        return answers

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        if demand is not None:
            self._waker.mine().serve(demand.queues)
        if not settlements:
            return Turn() if demand is None else self._claim(demand)
        is_one = len(settlements) == 1 and demand is None
        try:
            if self._relaxed and demand is not None and any(one.children for one in settlements):
                # It is the claim that lets a commit be relaxed, and a child may answer somebody else's enqueue.
                done = self._settle(settlements, None, tally, TURN_WAITS)
                return replace(self._claim(demand), settled=done.settled, lost=done.lost)
            return self._settle(settlements, demand, tally, ONE_WAITS if is_one else TURN_WAITS)
        except StoreBusy:
            return Turn(held_up=tuple(settlements)) if is_one else self._settle_singly(settlements, demand, tally)

    def _settle(self, settlements: Sequence[Settlement], demand: Demand | None, tally: Tally | None, waits: float) -> Turn:
        done = self._database.write(
            lambda now: turn(settlements, demand, now, partial(claim.claim, lanes=self._lanes), tally),
            lambda: tuple(one.claim.id for one in settlements),
            lock_timeout=waits,
            is_spare=True,
        )
        if tally is not None:
            tally.confirm()
        return done

    def _settle_singly(self, settlements: Sequence[Settlement], demand: Demand | None, tally: Tally | None) -> Turn:
        """Somebody's open transaction holds a row of a job that ended, or a key that a child needs: it must not hold up the others."""
        done: list[Turn] = []
        held_up: list[Settlement] = []
        in_a_row = 0
        for one in settlements:
            if in_a_row >= MOST_HELD_UP:
                held_up.append(one)
                continue
            try:
                done.append(self._settle([one], None, tally, ONE_WAITS))
                in_a_row = 0
            except StoreBusy:
                held_up.append(one)
                in_a_row += 1
        found = Turn() if demand is None else self._claim(demand)
        return Turn(
            settled=tuple(one for turned in done for one in turned.settled),
            lost=tuple(one for turned in done for one in turned.lost),
            held_up=tuple(held_up),
            claims=found.claims,
            expired=found.expired,
            next_due=found.next_due,
            blocked=found.blocked,
            leaves_blocked=found.leaves_blocked,
        )

    def _claim(self, demand: Demand) -> Turn:
        if demand.unblocks or self._lanes.are_limited:
            try:
                return self._settle([], demand, None, TURN_WAITS)
            except OutcomeUnknown:
                raise
            except StoreError as error:  # as below: what is in the way must not keep the worker from what is ready
                logger.warning("jobs that were set aside, or whose queue has a limit, could not be taken: %s", error)
        # One round trip, which is also all that an idle worker asks.
        found = Found()
        plan = Statement("plan_to_seek", {"lock_timeout": as_milliseconds(TURN_WAITS)})
        asked = claim.ask(demand, found, self._database.now_text(), self._lanes.known(demand.queues))
        look = claim.read(self._database.alone(plan, asked), asked, demand, found, self._lanes)
        if not look.is_enough:
            try:
                rest = partial(claim.go_on_anew, found, look, demand, lanes=self._lanes)
                found = self._database.write(rest, lock_timeout=TURN_WAITS, is_spare=True)
            except OutcomeUnknown:
                raise  # the worker looks up what it holds, which is all of it
            except StoreError as error:
                # What the look has claimed is ours, whatever becomes of the rest: the next turn tries that again.
                if not found.claims:
                    raise
                logger.warning("rows that are in the way of claims could not be moved aside: %s", error)
        return Turn(
            claims=tuple(found.claims),
            expired=tuple(found.expired),
            next_due=found.next_due,
            blocked=found.blocked,
            leaves_blocked=found.leaves_blocked,
        )

    def extend(self, extensions: Sequence[Extension]) -> Extended:
        return self._database.write(lambda now: sweep.extend(extensions, now), is_spare=True)

    def wait(self, timeout: timedelta) -> bool:
        self._database.refuse_inside()
        return self._waker.mine().wait(timeout.total_seconds())

    def wake(self) -> None:
        self._waker.wake()

    @property
    def wakes_surely(self) -> bool:
        if (own := self._waker.own()) is not None:
            return own.is_proven
        wakers = self._waker.living()
        return bool(wakers) and all(waker.is_proven for waker in wakers)

    def _make_waker(self) -> Waker:
        if self._listen_url is None:
            return Waker()
        return Waker.listening(self._listen_url, self.schema, _pinging(weakref.ref(self)))

    @property
    def inside_transaction(self) -> bool:
        return self._database.is_inside

    def ping(self, payload: str) -> None:
        """Send a notification over a connection that does not listen, for the waker's self-check."""
        self._database.alone(Statement("notify", {"channel": self.schema, "payload": payload}))

    # -- a database --------------------------------------------------------------------------------------------------

    def transaction(self, *, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        return self._transaction(limit)

    @contextmanager
    def _transaction(self, limit: timedelta | None) -> Any:
        with self._database.transaction(limit) as connection:
            yield connection
        self._waker.wake()

    def within(self, connection: Any) -> Within:
        bridge = find_bridge(connection, BRIDGES, "sync")
        self.open()
        joined: Within = bridge.join(connection, self._joined())
        return joined

    def within_async(self, connection: Any) -> AsyncWithin:
        bridge = find_bridge(connection, BRIDGES, "async")
        joined: AsyncWithin = bridge.join(connection, self._joined())
        if not self._home.is_known and isinstance(joined, AsyncJoinedWithin):
            joined.before = self.open
        return joined

    def _joined(self) -> Joined:
        return Joined(self._text.raw, self._database.own_clock, self.url, self.schema, self._home)

    def held(self, lease_owner: str) -> list[Job]:
        return self._database.read(lambda: people.held(lease_owner), is_spare=True)

    def cancel_requested(self, lease_owner: str) -> frozenset[str]:
        return self._database.read(lambda: people.cancel_requested(lease_owner), is_spare=True)

    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        """Looks first: most sweeps have nothing to do, and one statement that only reads says so."""
        looked = Statement("overdue", {"now": self._database.now_text(), "types": as_json(sorted(types))})
        ran_out, expired, blocked, waits = self._database.look(looked)[0]
        swept = Swept()
        if ran_out or expired:
            swept = self._database.write(lambda now: sweep.sweep(now, lambda rows: self._suspects.ripe(rows, patience)), is_spare=True)
        unblocked = 0
        while blocked:  # in transactions of their own, so that none is long
            batch = self._database.write(lambda now: sweep.unblock(types, now), is_spare=True)
            unblocked += batch
            blocked = batch >= sweep.UNBLOCKED_AT_ONCE
        for reasons in portions(self._rechecked) if waits else ():
            unblocked += self._database.write(
                lambda now: recheck(self._rechecked, now, types, constraints, reasons),  # noqa: B023 - called at once
                is_spare=True,
            )
        if swept.requeued or unblocked:
            self._waker.wake()
        return replace(swept, unblocked=unblocked)

    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        return self._write_and_wake(lambda now: sweep.recover(lease_owner, started, now), is_spare=True)

    def rollups(self, since: datetime) -> list[Rollup]:
        return self._database.read(lambda: rollups.rollups(since))

    def finished(self, look: Look) -> list[Ended]:
        own = self._database.own_clock
        return self._database.read(lambda: pruning.finished(look, None if own is None else own()), is_spare=True)

    def delete_finished(self, due: Due, *, relaxed: bool = False) -> Gone:
        began = time.monotonic()
        count = self._database.write(lambda now: pruning.delete_finished(due, relaxed=relaxed), is_spare=True)
        return Gone(count, time.monotonic() - began)

    def tidy(self, retention: Retention, *, limit: int = 1000) -> bool:
        asked = {
            "now": self._database.now_text(),
            "merged_after": MERGED_AFTER.total_seconds(),
            "merged_within": MERGED_WITHIN.total_seconds(),
            "rollups_age": None if retention.rollups is None else retention.rollups.total_seconds(),
            "idle_age": IDLE_FOR.total_seconds(),
            "alerts_age": None if retention.alerts is None else retention.alerts.total_seconds(),
            "actions_age": None if retention.actions is None else retention.actions.total_seconds(),
        }
        if not self._database.look(Statement("prunable", asked))[0][0]:
            return False
        while self._database.write(count_totals, is_spare=True):
            pass  # in transactions of their own, so that none is long
        while self._database.write(lambda now: rollups.merge_rollups(now, retention.rollups, limit), is_spare=True):
            pass
        return self._database.write(lambda now: pruning.tidy(retention, limit, now), is_spare=True)

    def examine(self) -> list[Finding]:
        return examine(self._database, self._schema, self._text, self._listen_url)


def _pinging(reference: weakref.ref[PostgresStore]) -> Callable[[str], None]:
    """Ping through a store without keeping it: a store that nobody holds any more ends, and its listening with it."""

    def ping(payload: str) -> None:
        store = reference()
        if store is not None:
            store.ping(payload)

    return ping
