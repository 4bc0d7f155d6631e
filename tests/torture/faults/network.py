"""What happens between the processes and a Postgres server."""

from __future__ import annotations

from collections.abc import Callable

from tests.tcp_proxy import BOTH, TO_CLIENT, TO_SERVER
from tests.torture.application import LEASE
from tests.torture.faults.kinds import POSTGRES, Fault, last
from tests.torture.fleet import Fleet

WAYS = (BOTH, (TO_SERVER,), (TO_CLIENT,))
LISTENER = b"onward listener"
"""The name that a listening connection gives itself in its greeting."""
LONGEST_WITHOUT_NEWS = 32.0
"""Seconds within which a job is started whose notification was lost, and a margin."""


def lose_answer(fleet: Fleet) -> None:
    """Somebody's commit arrives, and the connection is reset before the answer comes: nobody can know what became of it."""
    fleet.site.network.silence_at(b"COMMIT", TO_CLIENT)
    fleet.wait_for(lambda: fleet.site.network.is_silent, "somebody committed")
    fleet.history.write("fault", "lose answer to commit")
    last(0.05)
    fleet.site.network.drop()
    fleet.site.network.restore()
    fleet.history.write("healed", "lose answer to commit")


def drop_network(fleet: Fleet) -> None:
    """All connections are reset, and new ones refused, for a while."""
    _break_network(fleet, "drop network", fleet.site.network.drop, 1.0)


def silence_network(fleet: Fleet) -> None:
    """Connections stay open, and nothing comes through, one way or both."""
    directions = fleet.chance.choice(WAYS)
    _break_network(fleet, "silence network", lambda: fleet.site.network.silence(*directions), fleet.chance.uniform(0.5, 2 * LEASE))


def half_close_network(fleet: Fleet) -> None:
    """One direction of every connection ends."""
    direction = fleet.chance.choice(BOTH)
    _break_network(fleet, "half-close network", lambda: fleet.site.network.half_close(direction), 1.0)


def refuse_connections(fleet: Fleet) -> None:
    """Nobody new is let in, and all who were in before are reset for once."""

    def refuse() -> None:
        fleet.site.network.refuse()
        fleet.site.network.reset()

    _break_network(fleet, "refuse connections", refuse, 1.0)


def reset_connections(fleet: Fleet) -> None:
    """All connections are reset, again and again; new ones are taken."""
    fleet.history.write("fault", "reset connections")
    for _ in range(8):
        fleet.site.network.reset()
        last(fleet.chance.uniform(0, 0.4))
    fleet.history.write("healed", "reset connections")


def slow_network(fleet: Fleet) -> None:
    """Everything arrives late, both ways."""
    _break_network(fleet, "slow network", lambda: fleet.site.network.delay(fleet.chance.uniform(0.02, 0.3)), LEASE)


def stall_in_a_message(fleet: Fleet) -> None:
    """Somewhere in the middle of a message, nothing more comes."""
    _break_at_a_byte(fleet, "stall in a message", fleet.site.network.stall_after, LEASE)


def cut_in_a_message(fleet: Fleet) -> None:
    """Each connection is reset after some bytes, and so is the next one."""
    for _ in range(4):
        _break_at_a_byte(fleet, "cut in a message", fleet.site.network.cut_after, 0.4)


def silence_listeners(fleet: Fleet) -> None:
    """Only the connections that listen for notifications hear nothing more; polling carries on."""
    fleet.history.write("fault", "silence listeners")
    hits = fleet.site.network.hits
    fleet.site.network.silence_those(LISTENER)
    fleet.wait_for(lambda: fleet.site.network.hits > hits, "something was kept from a listener")
    fleet.wait_until_final(fleet.enqueue("plain"), LONGEST_WITHOUT_NEWS)
    last(LEASE)
    fleet.site.network.restore()
    fleet.history.write("healed", "silence listeners")


def _break_at_a_byte(fleet: Fleet, fault: str, how: Callable[..., None], seconds: float) -> None:
    """In a direction by chance, after bytes by chance: from within the greeting to some statements later."""
    count, directions = fleet.chance.choice((fleet.chance.randrange(1, 400), fleet.chance.randrange(1, 8000))), fleet.chance.choice(WAYS)
    hits = fleet.site.network.hits
    fleet.history.write("fault", fault, detail=f"after {count} bytes {' and '.join(directions)}")
    how(count, *directions)
    fleet.wait_for(lambda: fleet.site.network.hits > hits, "a message was broken")
    last(seconds)
    fleet.site.network.restore()
    fleet.history.write("healed", fault)


def _break_network(fleet: Fleet, fault: str, how: Callable[[], None], seconds: float) -> None:
    fleet.history.write("fault", fault)
    how()
    last(seconds)
    fleet.site.network.restore()
    fleet.history.write("healed", fault)


FAULTS = (
    Fault("lose answer to commit", 29, lose_answer, POSTGRES, quick=4),
    Fault("drop network", 37, drop_network, POSTGRES),
    Fault("silence network", 37, silence_network, POSTGRES, quick=2),
    Fault("half-close network", 37, half_close_network, POSTGRES),
    Fault("refuse connections", 37, refuse_connections, POSTGRES),
    Fault("reset connections", 37, reset_connections, POSTGRES),
    Fault("slow network", 37, slow_network, POSTGRES),
    Fault("stall in a message", 37, stall_in_a_message, POSTGRES, quick=2),
    Fault("cut in a message", 37, cut_in_a_message, POSTGRES, quick=2),
    Fault("silence listeners", 36, silence_listeners, POSTGRES),
)
