from datetime import UTC, datetime, timedelta

import pytest

from onward.presence import FORGOTTEN_AFTER, GONE_AFTER, SEEN_EVERY, KnownWorker, Presence, living, who_is_lacking

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def worker(ago: float = 0, queues: tuple[str, ...] = (), types: tuple[str, ...] = ("work",)) -> KnownWorker:
    seen = NOW - timedelta(seconds=ago)
    return KnownWorker(lease_owner="a", name="a", queues=queues, types=types, concurrency=1, started_at=seen, seen_at=seen)


@pytest.mark.parametrize(("ago", "is_alive"), [(0, True), (180, True), (180.1, False), (-180, True), (-180.1, False), (86400, False)])
def test_a_worker_is_alive_for_three_minutes_after_its_last_word_whichever_way_the_clock_went(ago: float, is_alive: bool) -> None:
    assert worker(ago).is_alive(NOW) == is_alive
    assert bool(living([worker(ago)], NOW)) == is_alive


def test_when_a_worker_is_seen_and_forgotten() -> None:
    assert (timedelta(minutes=1), timedelta(minutes=3), timedelta(days=1)) == (SEEN_EVERY, GONE_AFTER, FORGOTTEN_AFTER)
    assert Presence(lease_owner="a", name="a").concurrency == 1


@pytest.mark.parametrize(
    ("workers", "lacking"),
    [
        ([], "worker"),
        ([worker()], None),
        ([worker(queues=("mail",))], None),
        ([worker(queues=("slow",))], "queue"),
        ([worker(types=("other",))], "type"),
        ([worker(queues=("mail",), types=("other",)), worker(queues=("slow",))], "type"),
        ([worker(queues=("mail",), types=("other",)), worker()], None),
        ([worker(types=())], "type"),
    ],
    ids=["nobody", "every queue", "its queue", "another queue", "another type", "one lacks each", "one lacks nothing", "no types"],
)
def test_what_keeps_a_job_from_being_run(workers: list[KnownWorker], lacking: str | None) -> None:
    assert who_is_lacking(workers, "mail", "work") == lacking
