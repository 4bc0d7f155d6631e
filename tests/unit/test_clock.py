from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onward.clock import FakeClock, SystemClock


def test_the_system_clock_is_aware_utc_and_its_monotonic_time_does_not_fall() -> None:
    """Stored instants are compared across hosts, local deadlines are not."""
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    """Tests decide what time it is."""
    clock = FakeClock()
    assert clock.now() == clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    assert clock.monotonic() == clock.monotonic() == 0


def test_advance_moves_both_clocks_and_step_only_the_wall() -> None:
    """A step of the wall clock, by NTP or a person, must not look like time that passed."""
    start = datetime(2020, 2, 29, tzinfo=UTC)
    clock = FakeClock(start)
    clock.advance(60)
    clock.advance(timedelta(seconds=1))
    assert (clock.now(), clock.monotonic()) == (start + timedelta(seconds=61), 61)
    clock.step(-3600)
    clock.step(timedelta(seconds=1))
    assert (clock.now(), clock.monotonic()) == (start + timedelta(seconds=61 - 3599), 61)
