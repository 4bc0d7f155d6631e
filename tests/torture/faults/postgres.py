"""What happens to a Postgres server and to the sessions on it."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

import psycopg

from tests.torture.application import LEASE
from tests.torture.faults.felt import felt
from tests.torture.faults.kinds import POSTGRES, Fault, last
from tests.torture.fleet import Fleet


def end_backends(fleet: Fleet) -> None:
    """The server ends some connections, at random."""
    fleet.history.write("fault", "end backends")
    for _ in range(10):
        fleet.site.postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2"
        )
        last(fleet.chance.uniform(0, 0.2))
    fleet.history.write("healed", "end backends")


def restart_server(fleet: Fleet) -> None:
    """The server dies as in a crash, and comes back."""
    fleet.history.write("fault", "restart server")
    fleet.site.postgres.restart("immediate")
    fleet.history.write("healed", "restart server")


LIMITS = {"statement_timeout": "30ms", "lock_timeout": "1ms", "idle_in_transaction_session_timeout": "20ms"}
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL (%s)"


def short_limits(fleet: Fleet) -> None:
    """The role of the workers and senders gets a short limit of the server's, and they new connections; one limit after the other."""
    fault = "short limits of the server"
    # Who is connected keeps the limits of then.
    with psycopg.connect(fleet.site.direct, autocommit=True) as before, felt(fleet, fault, "failed ("):
        for name, value in LIMITS.items():
            fleet.history.write("fault", fault, detail=name)
            before.execute(f"ALTER ROLE postgres SET {name} = '{value}'".encode())
            before.execute(OTHERS, [[before.info.backend_pid]])
            last(LEASE / 2)
            before.execute(f"ALTER ROLE postgres RESET {name}".encode())
            before.execute(OTHERS, [[before.info.backend_pid]])
            fleet.history.write("healed", fault)


def exhaust_connections(fleet: Fleet) -> None:
    """Others take every connection that the server has; those of workers and senders are ended, and their places taken as well."""
    held: list[psycopg.Connection[Any]] = []
    try:
        with psycopg.connect(fleet.site.direct, autocommit=True) as first:
            fleet.history.write("fault", "no connections left")
            with felt(fleet, "no connections left", "too many clients", "takes no more connections"):
                for _ in range(8):
                    with suppress(psycopg.OperationalError):
                        while True:
                            held.append(psycopg.connect(fleet.site.direct, connect_timeout=2))
                    first.execute(OTHERS, [[one.info.backend_pid for one in (first, *held)]])
                    last(LEASE / 4)
    finally:
        for one in held:
            one.close()
    fleet.history.write("healed", "no connections left")


def idle_transaction(fleet: Fleet) -> None:
    """Another's transaction is open and does nothing, so that no row that was changed since can be cleaned up."""
    with closing(psycopg.connect(fleet.site.direct)) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM onward.jobs").fetchone()
        fleet.history.write("fault", "idle transaction")
        last(5 * LEASE)
        connection.rollback()
        fleet.history.write("healed", "idle transaction")


FAULTS = (
    Fault("end backends", 29, end_backends, POSTGRES, quick=2),
    Fault("restart server", 30, restart_server, POSTGRES, quick=2),
    Fault("short limits of the server", 32, short_limits, POSTGRES),
    Fault("no connections left", 33, exhaust_connections, POSTGRES),
    Fault("idle transaction", 34, idle_transaction, POSTGRES, quick=0),
)
