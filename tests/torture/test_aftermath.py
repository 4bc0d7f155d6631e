"""The judge of a store after a crash sees what it is there to see: each test breaks one thing by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.testing import drain
from tests.torture.aftermath import look_at
from tests.torture.promises import Said
from tests.torture.shop import BOOK, NOTE, SHIP, Shop, job_id, make_tables

ONE, TWO, THREE = (job_id(number) for number in (1, 2, 3))
SAID = (
    f"is job:{ONE} queued",
    f"is job:{TWO} completed",
    f"is job:{THREE} queued",
    f"is there:{THREE} yes",
    f"is done:{TWO} yes",
    "is file:a gone",
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A note that waits, a booking that is done, and an order with its shipment."""
    shop = Shop(tmp_path)
    make_tables(shop)
    shop.app.enqueue(BOOK, 2, id=TWO)
    drain(shop.app)
    shop.app.enqueue(NOTE, 1, id=ONE)
    with shop.app.transaction() as connection:
        connection.execute("INSERT INTO orders VALUES (?)", [THREE])
        shop.app.enqueue(SHIP, 3, id=THREE, within=connection)
    return shop


def broken(shop: Shop, sql: str = "", *more: str) -> list[str]:
    """What the judge says after this statement was run behind Onward's back."""
    if sql:
        connection = shop.connect()
        connection.execute(sql)
        connection.close()
    shop.close()
    return look_at(shop.database.parent, Said([*SAID, *more]))


def test_a_sound_store_is_found_sound_and_is_run_empty(shop: Shop) -> None:
    assert broken(shop) == []
    assert {job.status for job in (shop.app.get(ONE), shop.app.get(THREE))} == {"completed"}
    shop.close()


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        (f"DELETE FROM onward_jobs WHERE id = '{ONE}'", f"job {ONE} is gone, and was said to be queued"),
        (f"UPDATE onward_jobs SET status = 'dead_letter' WHERE id = '{ONE}'", f"job {ONE} is dead_letter, and was said to be queued"),
        (f"UPDATE onward_jobs SET status = 'retrying' WHERE id = '{TWO}'", f"job {TWO} is retrying, and was said to be completed"),
        ("DELETE FROM orders", "1 jobs were enqueued together with a row of the application, of which there are 0"),
        ("INSERT INTO effects SELECT job_id FROM effects", "1 jobs were completed together with an effect, of which there are 2"),
        ("DELETE FROM onward_jobs WHERE type = 'receipt'", "1 jobs were completed together with a child, of which there are 0"),
        ("DELETE FROM onward_keys", f"job {ONE} is live and does not hold its key note-1"),
        (f"UPDATE onward_keys SET job_id = '{TWO}'", f"the key note-1 is held by job {TWO}, which is not live"),
        (f"UPDATE onward_jobs SET id = '{job_id(9)}' WHERE id = '{ONE}'", f"job {job_id(9)} is there, and nobody enqueued it"),
    ],
)
def test_each_broken_promise_is_named(shop: Shop, sql: str, line: str) -> None:
    """Else a passed run says nothing."""
    assert line in broken(shop, sql)


def test_half_of_a_commit_is_named(shop: Shop) -> None:
    found = broken(shop, "", f"together {ONE} {job_id(8)}", f"with {ONE} {THREE}")
    assert found == ["of 2 jobs of one commit 1 are there", f"job {ONE} is queued, and its child {THREE} is queued"]


def test_what_was_rolled_back_must_not_be_there(shop: Shop) -> None:
    assert broken(shop, "", f"is job:{ONE} gone") == [f"job {ONE} is queued, and was said to be gone"]


def test_a_file_with_other_content_and_one_that_is_left_over_are_named(shop: Shop) -> None:
    (shop.base / "a").write_text("torn")
    assert broken(shop) == ["the file a is 'torn', and was said to be 'gone'"]


def test_a_damaged_page_is_named(shop: Shop) -> None:
    shop.close()
    with shop.database.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 512)
    assert look_at(shop.database.parent, Said(SAID)) != []


def test_an_announced_change_may_have_come_or_not() -> None:
    """A kill between the commit and its acknowledgement is nobody's fault."""
    said = Said(["will job:a queued", "is job:a queued", "will job:a in_progress", "will job:a completed"])
    assert said.allowed("job", "a") == ["queued", "in_progress", "completed"]
    said.add("is job:a completed")
    assert said.allowed("job", "a") == ["completed"]
    assert said.acknowledged == 2
    assert Said(["will job:a queued", "will there:a yes"]).allowed("job", "a") == ["gone", "queued"]
