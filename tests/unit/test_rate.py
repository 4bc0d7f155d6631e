"""Rates as people write them, and the bucket that says how many may begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from onward.errors import InvalidDefinition
from onward.rate import Bucket, Rate, default_burst, parse_rate

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "count", "per", "written"),
    [
        ("10/s", 10, SECOND, "10/s"),
        ("100/m", 100, 60 * SECOND, "100/m"),
        (" 5 / 1h ", 5, 3600 * SECOND, "5/h"),
        ("1/30s", 1, 30 * SECOND, "1/30s"),
        ("3/1m30s", 3, 90 * SECOND, "3/1m30s"),
        ("1/d", 1, timedelta(days=1), "1/d"),
        ("5/100ms", 5, SECOND / 10, "5/100ms"),
    ],
)
def test_a_rate_is_read_and_written(text: str, count: int, per: timedelta, written: str) -> None:
    rate = parse_rate("rate", text)
    assert (rate, str(rate)) == (Rate(count, per), written)
    assert parse_rate("rate", written) == rate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "/s",
        "0/s",
        "-1/s",
        "10/",
        "10/x",
        "10/0s",
        "1000001/d",
        "10/400d",
        "2000/1ms",
        "1/0.5ms",
        "3/1.5ms",
        "200000/s",
        "1.5/s",
        "1/s/s",
        "٣/s",
        7,
        None,
    ],
)
def test_what_is_no_rate_is_refused_with_what_one_looks_like(text: object) -> None:
    with pytest.raises(InvalidDefinition, match=r"rate= is a rate such as '10/s'"):
        parse_rate("rate", text)  # type: ignore[arg-type]


def test_a_full_bucket_has_its_burst_and_fills_at_its_rate() -> None:
    bucket = Bucket(Rate(10, SECOND), 4)
    assert bucket.available(NOW) == 4
    assert bucket.next_at(NOW) == NOW
    empty = Bucket(bucket.rate, 4, bucket.take(4, NOW))
    assert [empty.available(NOW + n * SECOND / 10) for n in (0, 1, 2, 4, 40)] == [0, 1, 2, 4, 4]
    assert empty.available(NOW + SECOND / 10 - timedelta(microseconds=1)) == 0
    assert empty.next_at(NOW) == NOW + SECOND / 10


def test_a_clock_that_went_back_keeps_nobody_waiting_for_longer_than_an_empty_bucket() -> None:
    bucket = Bucket(Rate(10, SECOND), 4, NOW + timedelta(days=3))
    assert bucket.available(NOW) == 0
    assert bucket.next_at(NOW) == NOW + SECOND / 10


@pytest.mark.parametrize(("text", "burst"), [("10/s", 10), ("100/m", 2), ("1/h", 1), ("1/30s", 1), ("5/100ms", 50)])
def test_without_a_burst_it_is_what_comes_in_a_second(text: str, burst: int) -> None:
    assert default_burst(parse_rate("rate", text)) == burst


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_asked_when_no_more_begin_than_the_burst_and_the_rate_allow(seed: int) -> None:
    chance = Random(seed)
    rate, burst = Rate(chance.randint(1, 50), timedelta(seconds=chance.choice([1, 7, 60]))), chance.randint(1, 20)
    bucket, now, begun = Bucket(rate, burst), NOW, 0
    for _ in range(500):
        now += timedelta(seconds=chance.expovariate(1 / rate.interval.total_seconds()))
        took = chance.randint(0, bucket.available(now))
        bucket = Bucket(rate, burst, bucket.take(took, now))
        begun += took
        assert begun <= burst + (now - NOW) / rate.interval


def test_who_always_takes_all_reaches_the_rate() -> None:
    rate = Rate(10, SECOND)
    bucket, begun = Bucket(rate, 10), 0
    for step in range(1, 1201):
        now = NOW + step * SECOND / 20
        begun += (took := bucket.available(now))
        bucket = Bucket(rate, 10, bucket.take(took, now))
    assert 600 <= begun <= 610
