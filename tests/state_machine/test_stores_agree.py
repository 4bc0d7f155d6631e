"""All stores do the same, whatever they are asked in whatever order; and the machine that says so can fail."""

from __future__ import annotations

import pytest

from onward.drivers.memory import MemoryStore
from tests.state_machine.lockstep import Differs
from tests.state_machine.machine import StoresAgree
from tests.state_machine.planted import PLANTED
from tests.state_machine.profiles import HOURS, IS_RELEASE, profile, run
from tests.state_machine.stores import Memory, Place, SharedClock

ENOUGH_TO_FIND = profile(1000, 50, is_planted=True)


@pytest.mark.timeout(HOURS if IS_RELEASE else 300)
def test_memory_and_sqlite_agree(without_server: list[Place], clock: SharedClock) -> None:
    """What a test saw in memory holds on the disk."""
    run(lambda: StoresAgree(without_server, clock), profile(5000, 100) if IS_RELEASE else profile(200, 50))


@pytest.mark.timeout(HOURS if IS_RELEASE else 300)
def test_memory_sqlite_and_postgres_agree(everywhere: list[Place], clock: SharedClock) -> None:
    """What holds on one machine holds on many."""
    run(lambda: StoresAgree(everywhere, clock), profile(5000, 100) if IS_RELEASE else profile(60, 50))


@pytest.mark.parametrize("wrong", PLANTED, ids=lambda wrong: wrong.__name__)
def test_a_store_with_a_planted_fault_is_found(wrong: type[MemoryStore], clock: SharedClock) -> None:
    """A machine that never fails proves nothing."""
    places = [Memory(clock), Memory(clock, wrong)]
    with pytest.raises(Differs, match=wrong.__name__):
        run(lambda: StoresAgree(places, clock), ENOUGH_TO_FIND)


def test_a_right_store_under_another_name_is_not_found(clock: SharedClock) -> None:
    """Else every store would be found."""

    class Right(MemoryStore):
        pass

    places = [Memory(clock), Memory(clock, Right)]
    run(lambda: StoresAgree(places, clock), profile(30, 50, is_planted=True))
