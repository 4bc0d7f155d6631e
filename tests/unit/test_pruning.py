"""Which finished jobs go, and where to look for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.errors import InvalidDefinition
from onward.inspection import Kept, Retention
from onward.pruning import LARGEST_PAGE, MARGIN, PAGE, Due, Ended, Keeping, Look, Walk, strange_queues
from onward.status import Status

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMPLETED, CANCELLED, DEAD = Status.COMPLETED, Status.CANCELLED, Status.DEAD_LETTER
RETENTION = Retention(
    completed="7d",
    cancelled="1d",
    types={"mail": Kept(completed="1h"), "pay": Kept(completed=None, dead_letter="400d")},
    queues={"slow": Kept(completed="30d", cancelled=None)},
)
NAMES = {"mail": "mail", "post": "mail", "pay": "pay", "plain": "plain"}
"""``post`` is what mail was called once."""


@pytest.mark.parametrize(
    ("status", "type_", "queue", "kept"),
    [
        (COMPLETED, "plain", "default", 7 * DAY),
        (CANCELLED, "plain", "default", DAY),
        (DEAD, "plain", "default", None),
        (COMPLETED, "plain", "slow", 30 * DAY),
        (CANCELLED, "plain", "slow", None),
        (DEAD, "plain", "slow", None),
        (COMPLETED, "mail", "default", HOUR),
        (COMPLETED, "mail", "slow", HOUR),
        (CANCELLED, "mail", "slow", None),
        (COMPLETED, "post", "default", HOUR),
        (COMPLETED, "pay", "slow", None),
        (DEAD, "pay", "default", 400 * DAY),
        (COMPLETED, "strange", "default", 90 * DAY),
        (CANCELLED, "strange", "default", 90 * DAY),
        (CANCELLED, "strange", "slow", None),
        (DEAD, "strange", "default", None),
    ],
)
def test_the_type_counts_before_the_queue_and_that_before_the_rest(status: Status, type_: str, queue: str, kept: timedelta | None) -> None:
    """What is not said at one place is asked of the next; a type that is not ours is kept for longer."""
    assert Keeping(RETENTION, NAMES).age(status, type_, queue) == kept


@pytest.mark.parametrize(
    ("retention", "names", "kept"),
    [
        (Retention(completed="1d", unknown="1h"), {}, DAY),
        (Retention(completed="1d", unknown=None), {}, None),
        (Retention(completed=None), {}, None),
        (Retention(completed="1d"), None, DAY),
        (Retention(types={"strange": Kept(completed="2d")}), None, 2 * DAY),
    ],
)
def test_a_type_that_is_not_known_is_kept_at_least_as_long_as_others(
    retention: Retention, names: dict[str, str] | None, kept: timedelta | None
) -> None:
    """Another application may share the store. Whoever prunes a store by hand knows what is in it."""
    assert Keeping(retention, names).age(COMPLETED, "strange", "default") == kept


@pytest.mark.parametrize(
    ("status", "ages"), [(COMPLETED, [HOUR, 7 * DAY, 30 * DAY, 90 * DAY]), (CANCELLED, [DAY, 90 * DAY]), (DEAD, [400 * DAY])]
)
def test_there_is_a_lane_for_each_age(status: Status, ages: list[timedelta]) -> None:
    assert Keeping(RETENTION, NAMES).ages(status) == ages


def test_every_age_that_a_job_can_have_is_looked_for() -> None:
    """One without a lane would stay for ever."""
    keeping = Keeping(RETENTION, NAMES)
    for status in (COMPLETED, CANCELLED, DEAD):
        found = {keeping.age(status, type_, queue) for type_ in (*NAMES, "strange") for queue in ("default", "slow")}
        assert found - {None} <= set(keeping.ages(status))


def test_a_slip_in_the_name_of_a_type_is_pointed_out() -> None:
    """It would keep nothing, or delete what was to be kept."""
    with pytest.raises(InvalidDefinition, match=r"^Retention\(types=...\): no job is called 'plian': did you mean 'plain'\?$"):
        Keeping(Retention(types={"plian": Kept(completed=None)}), NAMES)


def test_a_queue_that_no_job_is_declared_for_is_told_of() -> None:
    """An enqueue may name it, so it is no error."""
    retention = Retention(queues={"mial": Kept(), "mail": Kept()})
    assert strange_queues(retention, ["mail", "default"]) == [
        "Retention(queues=...): no job of this application is declared for queue 'mial': did you mean 'mail'?"
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"types": {"mail": "1h"}}, r"^types= takes a Kept for 'mail', such as .*, not '1h'$"),
        ({"queues": ["mail"]}, r"^queues= takes a Kept for each name, such as .*, not a list$"),
        ({"types": {"no name": Kept()}}, r"^a job name is 1 to 100 letters"),
        ({"queues": {"": Kept()}}, r"^a queue is 1 to 100 letters"),
        ({"unknown": "soon"}, r"^Retention\(unknown=\.\.\.\): 'soon' is not a duration"),
    ],
)
def test_what_is_no_retention_is_refused_at_once(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidDefinition, match=says):
        Retention(**given)


@pytest.mark.parametrize("status", ["completed", "cancelled", "dead_letter"])
def test_what_is_no_age_of_a_type_is_refused_at_once(status: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"^Kept\({status}=\.\.\.\): '-1s' is negative"):
        Kept(**{status: "-1s"})


# -- the walk --------------------------------------------------------------------------------------------------------

TWO_AGES = Retention(completed="1d", cancelled=None, types={"mail": Kept(completed="1h")})


def rows(count: int, type_: str = "plain", *, age: timedelta = 2 * HOUR, step: timedelta = timedelta(seconds=1)) -> list[Ended]:
    """So many, the oldest first; ``age`` is that of the last one."""
    ages = [age + step * number for number in reversed(range(count))]
    return [Ended(f"{type_}-{one}", type_, "default", NOW - one, one) for one in ages]


@pytest.fixture
def walk() -> Walk:
    made = Walk(Keeping(TWO_AGES))
    made.begin()
    return made


def test_each_age_is_walked_and_then_the_round_is_over(walk: Walk) -> None:
    assert walk.look == Look(COMPLETED, HOUR)
    walk.move(rows(1), 0)
    assert walk.look == Look(COMPLETED, DAY)
    walk.move([], 0)
    assert walk.look is None


def test_where_none_is_old_enough_no_older_one_is_asked_for(walk: Walk) -> None:
    """An idle worker asks once for each status. Behind a place where it was before, there may be older ones."""
    walk.move([], 0)
    assert walk.look is None
    walk.begin()
    walk.move(rows(1), 0)
    walk.begin()
    walk.move([], 0)
    assert walk.look == Look(COMPLETED, DAY)


def test_nothing_is_asked_where_everything_is_kept() -> None:
    walk = Walk(Keeping(Retention(completed=None, cancelled=None)))
    walk.begin()
    assert walk.look is None


def test_of_what_was_looked_at_goes_what_is_due(walk: Walk) -> None:
    """A mail is after an hour, others are not."""
    kept, mails = rows(2), rows(3, "mail")
    assert walk.due([*kept, *mails]) == Due(COMPLETED, mails[-1].finished_at, tuple(one.id for one in mails))
    assert walk.due(kept) is None
    assert walk.due([]) is None
    assert walk.due(rows(1, "mail", age=HOUR - timedelta(microseconds=1))) is None
    assert walk.due(rows(1, "mail", age=HOUR)) is not None


def test_what_is_kept_is_passed_once(walk: Walk) -> None:
    """A full page is followed by the one behind it, and the next round begins where this one ended, but for what is committed late."""
    page = rows(PAGE)
    walk.move(page, 0)
    assert walk.look == Look(COMPLETED, HOUR, since=page[-1].finished_at)
    walk.move(rows(3, age=HOUR + timedelta(minutes=5)), 0)
    assert walk.look == Look(COMPLETED, DAY)
    walk.begin()
    assert walk.look == Look(COMPLETED, HOUR, since=NOW - HOUR - MARGIN)
    walk.move([], 0)
    walk.begin()
    assert walk.look == Look(COMPLETED, HOUR, since=NOW - HOUR - MARGIN)


def test_a_round_never_goes_back(walk: Walk) -> None:
    """Behind a full page a short one of the same seconds would lead to before it."""
    page = rows(PAGE, age=HOUR)
    walk.move(page, 0)
    walk.move(page[-1:], 0)
    walk.begin()
    assert walk.look == Look(COMPLETED, HOUR, since=page[-1].finished_at)


def test_a_walk_that_forgets_begins_at_the_oldest(walk: Walk) -> None:
    walk.move(rows(PAGE), 0)
    walk.forget()
    walk.begin()
    assert walk.look == Look(COMPLETED, HOUR)


def test_many_that_finished_in_one_instant_are_passed(walk: Walk) -> None:
    """The place is an instant, so where all of a page have the same and stay, the page has to be larger; at last the instant is left."""
    limit = PAGE
    together = rows(limit, step=timedelta(0))
    walk.move(together, 0)
    seen = []
    while walk.look is not None and walk.look.since == together[-1].finished_at:
        seen.append(walk.look.limit)
        walk.move(rows(walk.look.limit, step=timedelta(0)), 0)
    assert seen == [PAGE * 2**power for power in range(6)]
    assert seen[-1] == LARGEST_PAGE
    assert walk.look == Look(COMPLETED, HOUR, since=together[-1].finished_at + timedelta(microseconds=1))


def test_where_some_of_an_instant_go_it_is_looked_at_again(walk: Walk) -> None:
    """Others of it stand behind them."""
    together = rows(PAGE, "mail", step=timedelta(0))
    for _ in range(20):
        walk.move(together, PAGE)
        assert walk.look == Look(COMPLETED, HOUR, since=together[-1].finished_at)
