"""Busy workers leave gaps together, long enough for a writer that knows nothing of them."""

from __future__ import annotations

from onward.drivers.sqlite.courtesy import EVERY, GAP, Courtesy

LONGEST_SLEEP_OF_SQLITE = 0.1


class Stopwatch:
    """A clock that a test moves on."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def work(courtesy: Courtesy, clock: Stopwatch, *, until: float, turn: float, rest: float) -> list[tuple[float, float]]:
    """Take turns until a moment. Gives the pauses: when each began and when it ended."""
    pauses = []
    while clock.now < until:
        pause = courtesy.begin()
        if pause:
            pauses.append((clock.now, clock.now + pause))
        clock.now += pause + turn
        courtesy.end()
        clock.now += rest
    return pauses


def test_processes_that_never_rest_pause_at_the_same_moments() -> None:
    """Else each would only make room for the others, and an application's insert would wait for seconds."""
    one = work(Courtesy(one_clock := Stopwatch()), one_clock, until=20, turn=0.003, rest=0.0004)
    other = work(Courtesy(other_clock := Stopwatch(0.7)), other_clock, until=20, turn=0.007, rest=0.0)
    assert len(one) == len(other) == int(20 // EVERY)
    for (began, ended), (its_begin, its_end) in zip(one, other, strict=True):
        assert min(ended, its_end) - max(began, its_begin) > LONGEST_SLEEP_OF_SQLITE


def test_the_gaps_cost_at_most_a_twentieth_of_the_time() -> None:
    """What they give to others is taken from the jobs."""
    pauses = work(Courtesy(clock := Stopwatch()), clock, until=100, turn=0.001, rest=0.0)
    assert 0 < sum(ended - began for began, ended in pauses) <= 100 / 20
    assert GAP / EVERY <= 1 / 20 + 1e-9


def test_a_process_that_rests_between_its_turns_never_pauses() -> None:
    """The lock is free often enough, and a job that has just come should start at once."""
    assert work(Courtesy(clock := Stopwatch()), clock, until=20, turn=0.001, rest=0.005) == []


def test_the_first_turn_after_a_long_rest_does_not_pause() -> None:
    """What was busy some time ago says nothing of now."""
    courtesy, clock = Courtesy(watch := Stopwatch()), watch
    work(courtesy, clock, until=EVERY * 0.9, turn=0.001, rest=0.0)
    clock.now = EVERY * 5
    assert courtesy.begin() == 0
