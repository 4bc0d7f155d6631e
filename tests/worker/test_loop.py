"""The loop that carries every duty."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise
from random import Random

import pytest

from onward.errors import StoreUnavailable
from onward.worker.loop import Idle, Loop
from tests.worker.conftest import PATIENCE


class Flaky:
    name = "flaky"

    def __init__(self, *answers: float | Exception) -> None:
        self.answers = list(answers)

    def tick(self) -> float:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_pause_grows_with_each_failure_and_never_beyond_the_longest() -> None:
    """A dead store must not be hammered, and must be found again within half a minute."""
    loop = Loop(Flaky(*[StoreUnavailable("gone")] * 40), chance=Random(1))
    pauses = [loop.step() for _ in range(40)]
    assert pauses[0] <= 0.2
    assert all(later > earlier for earlier, later in pairwise(pauses[:7]))
    assert 20 <= pauses[-1] <= 30


def test_a_success_resets_the_pause() -> None:
    """Old failures must not slow down what works again."""
    loop = Loop(Flaky(*[StoreUnavailable("gone")] * 9, 1.0, StoreUnavailable("gone")), chance=Random(1))
    for _ in range(9):
        loop.step()
    assert loop.step() == 1.0
    assert loop.failures == 0
    assert loop.step() <= 0.2


def test_a_tick_that_did_nothing_is_no_success(caplog: pytest.LogCaptureFixture) -> None:
    """A sweep that only waits for its time must not be reported as working again while the store is away."""
    loop = Loop(Flaky(StoreUnavailable("gone"), Idle(2.0), StoreUnavailable("gone"), 1.0), chance=Random(1))
    with caplog.at_level(logging.INFO):
        assert loop.step() <= 0.2
        assert loop.step() == 2.0
        assert loop.failures == 1
        loop.step()
        assert "works again" not in caplog.text
        loop.step()
    assert caplog.records[-1].getMessage() == "flaky works again after 2 failures"


def test_every_error_is_logged_one_line_for_a_store_and_a_traceback_for_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    """A loop that swallowed its errors would look healthy and do nothing."""
    loop = Loop(Flaky(StoreUnavailable("gone"), ZeroDivisionError()), chance=Random(1))
    with caplog.at_level(logging.WARNING):
        loop.step()
        loop.step()
    first, second = caplog.records
    assert "gone" in first.getMessage()
    assert first.exc_info is None
    assert second.exc_info is not None


def test_jitter_moves_the_pause_both_ways() -> None:
    """Workers that started together should not sweep together for ever."""
    loop = Loop(Flaky(*[10.0] * 50), chance=Random(1), jitter=0.1)
    pauses = [loop.step() for _ in range(50)]
    assert 9 <= min(pauses) < 9.7
    assert 10.3 < max(pauses) <= 11


def test_a_stop_ends_the_longest_pause_at_once() -> None:
    """A stop has the grace for jobs, none for loops."""
    ticked = threading.Event()

    class Slow:
        name = "slow"

        def tick(self) -> float:
            ticked.set()
            return 3600.0

    loop = Loop(Slow(), chance=Random(1))
    loop.start()
    assert ticked.wait(PATIENCE)
    loop.stop()
    assert loop.join(PATIENCE)


def test_a_pause_with_nothing_to_do_can_be_ended_also_after_a_failure() -> None:
    """Jobs that end meanwhile must not wait for half a minute to be stored because a claim's answer was lost before."""
    rested: list[float] = []
    loop: Loop

    def rest(seconds: float) -> None:
        rested.append(seconds)
        loop.stop()

    loop = Loop(Flaky(StoreUnavailable("gone"), Idle(3600.0)), chance=Random(1), rest=rest)
    loop.start()
    assert loop.join(PATIENCE)
    assert (rested, loop.failures) == ([3600.0], 1)
