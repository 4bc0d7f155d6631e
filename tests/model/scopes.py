"""How much is searched: in the normal tests, where it takes seconds, and before a release, where it takes minutes."""

from __future__ import annotations

from dataclasses import replace

from tests.model.rules import CANCELLED, FAILED, PERMANENT, RELEASED, RETURNED, SNOOZED, TIMED_OUT
from tests.model.state import Scope

EVERY_ENDING = (RETURNED, FAILED, TIMED_OUT, PERMANENT, SNOOZED, CANCELLED, RELEASED)
OFTEN = (RETURNED, FAILED)
PERSONS = frozenset({"cancel", "run now", "delete"})
DEATHS = frozenset({"crash", "late"})
EVERYTHING = PERSONS | DEATHS | {"unknown", "two steps"}

ENDINGS = Scope("every ending", max_attempts=2, endings=EVERY_ENDING)
PEOPLE = Scope("persons", slots=2, acts=PERSONS, expiry=2, retries=1, endings=OFTEN)
DYING = Scope("deaths", slots=2, acts=DEATHS | {"cancel"}, give_backs=1, endings=OFTEN)
ISOLATED = Scope("isolated, alone in the process", max_attempts=2, acts=frozenset({"crash"}), is_isolated=True, endings=OFTEN)
OWN_PROCESSES = Scope("isolated, in processes of their own", max_attempts=2, acts=DEATHS, has_own_processes=True, endings=OFTEN)
UNKNOWN = Scope("lost answers", acts=frozenset({"unknown", "cancel", "crash"}), endings=OFTEN)
TWO_STEPS = Scope("sweep and recovery in two steps", acts=frozenset({"two steps", "crash", "cancel"}), give_backs=1, endings=(RETURNED,))
CLOCK = Scope("clock that steps", max_attempts=2, acts=frozenset({"crash"}), expiry=2, steps_back=1, endings=OFTEN)
THREE = Scope("three workers", processes=3, max_attempts=2, acts=frozenset({"crash"}), endings=OFTEN)
NEIGHBOURS = Scope("neighbours", jobs=2, processes=1, slots=2, has_key=False, acts=frozenset({"crash"}), endings=(RETURNED,))
KEY = Scope(
    "one key for three", jobs=3, processes=1, has_time=False, acts=frozenset({"cancel", "delete"}), retries=1, endings=(RETURNED, PERMANENT)
)
KEY_IN_TIME = Scope("one key for two, through their tries", jobs=2, processes=1, max_attempts=2, endings=(FAILED,))
CHILD = Scope("parent and child", has_child=True, acts=DEATHS, endings=OFTEN)
ALL = Scope("everything, one try", acts=EVERYTHING, endings=OFTEN)

NORMAL = (ENDINGS, PEOPLE, DYING, ISOLATED, OWN_PROCESSES, UNKNOWN, TWO_STEPS, CLOCK, THREE, NEIGHBOURS, KEY, KEY_IN_TIME, CHILD, ALL)

RELEASE = (
    *NORMAL,
    replace(ENDINGS, name="every ending, cancelled as well", acts=frozenset({"crash", "cancel"})),
    replace(DYING, name="deaths, two tries", max_attempts=2),
    replace(UNKNOWN, name="lost answers, two tries", max_attempts=2),
    replace(TWO_STEPS, name="two steps, two tries", max_attempts=2, endings=OFTEN),
    replace(THREE, name="three workers, with persons", acts=DEATHS | {"cancel", "run now"}),
    replace(NEIGHBOURS, name="neighbours in two processes", processes=2),
    replace(KEY, name="one key for two, and all that takes time", jobs=2, has_time=True, endings=(RETURNED, FAILED, PERMANENT)),
    replace(KEY_IN_TIME, name="one key for two, two workers", processes=2, acts=frozenset({"delete"})),
    replace(CHILD, name="parent and child, two tries", max_attempts=2, acts=DEATHS | {"cancel", "unknown"}),
    replace(ALL, name="everything, two tries", max_attempts=2),
    replace(ALL, name="everything, retried by a person", retries=1, expiry=2),
)
