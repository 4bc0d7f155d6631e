"""What is done to a fleet: which faults, in which order, and how large it is. Everything comes from the store, the seed and the tier."""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec import Struct

from tests.torture.faults import FAULTS
from tests.torture.fleet import Size
from tests.torture.planted import IN_EVERY_TEST_RUN, NEED_A_PERSON
from tests.torture.report import Tier

KILLS_IN_GROUP = 100
"""So many kills are judged together."""
KILL_GROUPS = {"sqlite": 50, "postgres": 15}
RESTARTS_IN_GROUP = 14
"""Of the rounds of a group on Postgres, how many are crashes of the server: in all groups together 200 at least."""
SIZE_FOR_KILLS = Size(supervisors=2, processes=4, slots=1, senders=2, persons=1)
"""Many processes with little to do: then a dead one can be followed by the next, and few jobs need a new process to be run again in."""
OTHER_KILLS = {"kill supervisor and workers": 4, "kill sender": 8, "cancel and kill worker": 20}
QUICK_KILLS = {"sqlite": 50, "postgres": 20}
HISTORIES = 50
"""Recorded histories on each store."""
FAULTS_IN_HISTORY = 4
LEAST_OPERATIONS = 500
"""Requests, claims and ends of claims in each history of a release."""
OPERATIONS_WITH_BUG = 1500
"""In a run with a planted bug that does harm only at times, so that jobs of each type and many pairs of them are among the operations."""
OVERLAPPED = frozenset(
    {
        *("pause", "freeze tree", "starve CPU", "few descriptors", "worker without memory", "hold GIL", "swap links", "edit files"),
        *("long write lock", "long reader", "full disk", "drop network", "silence network", "half-close network", "slow network"),
    }
)
"""Faults that last, and during which another may come."""
DURING = ("kill worker", "kill sender", "kill supervisor and workers")
AND = " + "
"""Stands between the names of a fault and of the one that comes while it is on."""
QUICK_HISTORIES = 2
"""Over how many histories a quick run spreads the faults of a store."""


class Plan(Struct, frozen=True, kw_only=True):
    """One fleet, from its start to its verdict."""

    part: str
    """``kills`` or ``histories``."""
    store: str
    seed: int
    tier: Tier
    faults: tuple[str, ...]
    """Names, in their order; two with a ``+`` for one that comes while the other is on."""
    size: Size = Size()
    waits: bool = True
    """After each fault the next job must run before there is another fault. Otherwise they come as fast as processes can be killed."""
    least_operations: int = 0
    bug: str = ""
    again: str = ""
    """The options that repeat it."""


def only(fault: str, store: str, seed: int, tier: Tier, times: int = 0, bug: str = "") -> Plan:
    """One fault, a few times."""
    again = ("" if tier == "smoke" else f"--tier {tier} ") + f"--fault '{fault}'"
    again += (f" --times {times}" if times else "") + (f" --planted '{bug}'" if bug else "")
    faults = (fault,) * (times or FAULTS[fault].quick or 1)
    least = 0 if bug in ("", *IN_EVERY_TEST_RUN) else OPERATIONS_WITH_BUG
    size = Size(persons=int(bug in NEED_A_PERSON))
    return Plan(part="histories", store=store, seed=seed, tier=tier, faults=faults, size=size, bug=bug, again=again, least_operations=least)


def histories(store: str, seed: int, tier: Tier, groups: int = 0) -> Iterator[Plan]:
    """A quick run has each fault of the store, spread over a few histories; in a release each history has some of them, in turn."""
    every = sorted(name for name, fault in FAULTS.items() if store in fault.stores)
    if tier == "release":
        random.Random(store).shuffle(every)
        for one in range(seed, seed + (groups or HISTORIES)):
            turn = [every[(one * FAULTS_IN_HISTORY + place) % len(every)] for place in range(FAULTS_IN_HISTORY)]
            chance = random.Random(f"{store} {one}")
            turn = [name + AND + chance.choice(DURING) if name in OVERLAPPED and chance.random() < 0.5 else name for name in turn]
            yield _history(store, one, tier, turn, "--groups 1", LEAST_OPERATIONS)
        return
    chosen = [name for name in every for _ in range(FAULTS[name].quick)]
    random.Random(f"{store} {seed}").shuffle(chosen)
    for place in range(QUICK_HISTORIES):
        yield _history(store, seed, tier, chosen[place::QUICK_HISTORIES], "", 0)


def _history(store: str, seed: int, tier: Tier, faults: list[str], again: str, least: int) -> Plan:
    again = f"--tier {tier} --part histories {again}".strip()
    return Plan(part="histories", store=store, seed=seed, tier=tier, faults=tuple(faults), again=again, least_operations=least)


def kills(store: str, seed: int, tier: Tier, groups: int = 0) -> Iterator[Plan]:
    """Groups of kills, each on a fleet of its own."""
    count = (groups or KILL_GROUPS[store]) if tier == "release" else 1
    for one in range(seed, seed + count):
        rounds = KILLS_IN_GROUP if tier == "release" else QUICK_KILLS[store]
        share = {**OTHER_KILLS, **({"restart server": RESTARTS_IN_GROUP} if store == "postgres" else {})}
        others = [name for name, times in share.items() for _ in range(times * rounds // KILLS_IN_GROUP)]
        faults = others + ["kill worker"] * (rounds - len(others))
        random.Random(f"{store} {one}").shuffle(faults)
        yield Plan(
            part="kills",
            store=store,
            seed=one,
            tier=tier,
            faults=tuple(faults),
            size=SIZE_FOR_KILLS,
            waits=False,
            again=f"--tier {tier} --part kills" + (" --groups 1" if tier == "release" else ""),
        )
