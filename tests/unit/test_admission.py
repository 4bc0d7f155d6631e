"""Which candidates of one claim may begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.admission import Admitted, Candidate, Constraint, SerialLine, Standing, admit
from onward.breaker import BreakerState
from onward.limit import CHECK_EVERY, LEAST_CHECK, Limit, LimitState
from onward.rate import Rate

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OPEN = BreakerState(key="s3", status="open", failures=5, opened_at=NOW - MINUTE, retry_at=NOW + MINUTE, pause=2 * MINUTE)
OVER = BreakerState(key="s3", status="open", failures=5, opened_at=NOW - MINUTE, retry_at=NOW, pause=2 * MINUTE)
TWO = {"sync": Constraint(Limit(concurrency=2))}


def candidate(id_: str, **keys: Any) -> Candidate:
    return Candidate(id=id_, type="sync", fence=1, **keys)


def asked(candidates: list[Candidate], constraints: Any = None, **standing: Any) -> Admitted:
    return admit(candidates, Standing(**standing), constraints or {}, NOW, room=100)


def keyed(count: int, **keys: Any) -> list[Candidate]:
    return [candidate(f"{n}", **keys) for n in range(count)]


def test_a_closed_breaker_and_one_that_was_never_stored_let_all_through() -> None:
    assert asked(keyed(3, breaker="s3")).let == ("0", "1", "2")
    assert asked(keyed(3, breaker="s3"), breakers={"s3": BreakerState(key="s3", failures=4)}) == Admitted(let=("0", "1", "2"))


def test_an_open_breaker_refuses_its_own_and_nobody_else() -> None:
    answer = asked([*keyed(2, breaker="s3"), candidate("x", breaker="b2"), candidate("y")], breakers={"s3": OPEN})
    assert (answer.let, answer.refused, answer.breakers) == (("x", "y"), {"breaker": ("0", "1")}, ())


def test_after_the_pause_the_first_is_the_probe_and_the_others_wait() -> None:
    answer = asked(keyed(3, breaker="s3"), breakers={"s3": OVER})
    assert (answer.let, answer.refused) == (("0",), {"breaker": ("1", "2")})
    (state,) = answer.breakers
    assert (state.status, state.probe_id, state.probe_fence) == ("half_open", "0", 1)


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_probe_is_replaced_once_its_claim_is_held_no_more(is_alive: bool) -> None:
    state = BreakerState(key="s3", status="half_open", probe_id="gone", probe_fence=1)
    answer = asked(keyed(2, breaker="s3"), breakers={"s3": state}, alive_probes=frozenset({"s3"} if is_alive else ()))
    assert answer.let == (() if is_alive else ("0",))


def test_who_is_refused_by_something_else_is_no_probe() -> None:
    first, second = candidate("0", breaker="s3", serial_key="k"), candidate("1", breaker="s3")
    answer = asked([first, second], breakers={"s3": OVER}, lines={"0": SerialLine(is_behind=True)})
    assert (answer.let, answer.refused) == (("1",), {"serial": ("0",)})
    assert answer.breakers[0].probe_id == "1"


def test_one_of_a_serial_key_begins_and_none_behind_another() -> None:
    answer = asked([*keyed(2, serial_key="a"), candidate("x", serial_key="b")], lines={"x": SerialLine(is_behind=True)})
    assert (answer.let, answer.refused) == (("0",), {"serial": ("1", "x")})


@pytest.mark.parametrize(("stops", "let"), [(True, ()), (False, ("0",))])
def test_a_dead_letter_stops_the_line_where_its_jobs_say_so(stops: bool, let: tuple[str, ...]) -> None:
    constraints = {"sync": Constraint(stops_at_dead_letter=stops)}
    lines = {"0": SerialLine(is_behind=False, has_dead_letter=True)}
    assert asked(keyed(1, serial_key="a"), constraints, lines=lines).let == let


@pytest.mark.parametrize(("running", "let"), [(0, 2), (1, 1), (2, 0), (5, 0)])
def test_no_more_begin_than_a_limit_leaves_room_for(running: int, let: int) -> None:
    answer = asked(keyed(4, concurrency_key="s3"), TWO, running={"s3": running})
    assert (len(answer.let), len(answer.refused["limit"])) == (let, 4 - let)


def test_a_limit_that_is_met_for_the_first_time_is_kept() -> None:
    (kept,) = asked(keyed(3, concurrency_key="s3"), TWO).limits
    assert kept == LimitState(kind="key", name="s3", limit=Limit(concurrency=2))


def test_what_a_person_set_counts_and_not_what_code_says() -> None:
    by_hand = LimitState(kind="key", name="s3", limit=Limit(concurrency=1), is_by_hand=True)
    assert len(asked(keyed(4, concurrency_key="s3"), TWO, limits={"s3": by_hand}).let) == 1
    from_code = LimitState(kind="key", name="s3", limit=Limit(concurrency=1))
    answer = asked(keyed(4, concurrency_key="s3"), TWO, limits={"s3": from_code})
    assert (len(answer.let), answer.limits[0].limit) == (2, Limit(concurrency=2))


def test_a_key_without_a_limit_holds_nobody_back() -> None:
    assert asked(keyed(4, concurrency_key="s3")) == Admitted(let=("0", "1", "2", "3"))


def test_a_changed_rate_goes_on_from_what_was_spent() -> None:
    spent = LimitState(kind="key", name="s3", limit=Limit(rate="1/s", burst=1), spent_until=NOW + timedelta(seconds=1))
    constraints = {"sync": Constraint(Limit(rate="2/s", burst=1))}
    assert asked(keyed(1, concurrency_key="s3"), constraints, limits={"s3": spent}).let == ()


def test_those_that_wait_for_a_rate_are_looked_at_as_before_when_code_says_another() -> None:
    waiting = LimitState(kind="key", name="s3", limit=Limit(rate="1/h", burst=2), check_at=NOW + MINUTE)
    answer = asked(keyed(1, concurrency_key="s3"), {"sync": Constraint(Limit(rate="2/h", burst=2))}, limits={"s3": waiting})
    assert (answer.let, answer.limits[0].limit.rate, answer.limits[0].check_at) == (("0",), "2/h", NOW + MINUTE)


@pytest.mark.parametrize(("running", "let"), [(0, ("0", "1")), (1, ("1",)), (2, ("1",)), (3, ())])
def test_types_that_share_a_key_are_counted_together_and_each_is_judged_by_its_own_limit(running: int, let: tuple[str, ...]) -> None:
    constraints = {"sync": Constraint(Limit(concurrency=1)), "send": Constraint(Limit(concurrency=3))}
    candidates = [candidate("0", concurrency_key="s3"), Candidate(id="1", type="send", fence=1, concurrency_key="s3")]
    assert asked(candidates, constraints, running={"s3": running}).let == let


def test_tokens_are_taken_for_those_that_begin_alone() -> None:
    constraints = {"sync": Constraint(Limit(rate="10/s", burst=4))}
    answer = asked(keyed(9, concurrency_key="s3"), constraints)
    assert (len(answer.let), len(answer.refused["limit"])) == (4, 5)
    assert answer.limits[0].room(0, NOW) == 0
    assert answer.limits[0].room(0, NOW + timedelta(seconds=0.2)) == 2


def test_what_another_claim_holds_is_passed_over() -> None:
    answer = asked([candidate("0", serial_key="a"), candidate("1", serial_key="b")], held=frozenset({"serial:a"}))
    assert (answer.let, answer.passed_over, answer.refused) == (("1",), ("0",), {})


def test_the_first_reason_is_told_and_nothing_is_taken_for_who_is_refused() -> None:
    constraints = {"sync": Constraint(Limit(rate="10/s", burst=1))}
    both = [candidate("0", serial_key="a", concurrency_key="s3"), candidate("1", concurrency_key="s3")]
    answer = asked(both, constraints, lines={"0": SerialLine(is_behind=True)})
    assert (answer.let, answer.refused) == (("1",), {"serial": ("0",)})


def test_a_try_and_a_place_are_left_to_the_next_where_one_cannot_begin_for_something_else() -> None:
    behind = {"0": SerialLine(is_behind=True)}
    keys = {"serial_key": "line", "breaker": "s3", "concurrency_key": "k"}
    answer = asked([candidate("0", **keys)], TWO, lines=behind, breakers={"s3": OVER})
    assert (answer.free_breakers, answer.free_limits) == (("s3",), ("k",))
    taken = asked([candidate("0", **keys)], TWO, lines=behind, breakers={"s3": OPEN}, running={"k": 2})
    assert (taken.refused, taken.free_breakers, taken.free_limits) == ({"breaker": ("0",)}, (), ())
    used = [candidate("0", **keys), candidate("1", breaker="s3", concurrency_key="k"), candidate("2", concurrency_key="k")]
    answer = asked(used, TWO, lines=behind, breakers={"s3": OVER})
    assert (answer.let, answer.free_breakers, answer.free_limits) == (("1", "2"), (), ())


def test_the_pace_of_a_breaker_that_was_opened_by_hand_is_what_code_says() -> None:
    pace = Rate(1, MINUTE)
    constraints = {"sync": Constraint(pace=pace)}
    assert [one.pace for one in asked(keyed(3, breaker="s3"), constraints, breakers={"s3": OPEN}).breakers] == [pace]
    known = {"s3": replace(OPEN, pace=pace)}
    assert asked(keyed(3, breaker="s3"), constraints, breakers=known).breakers == ()


def test_no_more_are_looked_at_than_there_is_room_for() -> None:
    rows = [candidate("0", serial_key="a"), candidate("1", serial_key="a"), candidate("2"), candidate("3"), candidate("4")]
    answer = admit(rows, Standing(), {}, NOW, room=2)
    assert (answer.let, answer.refused, answer.left) == (("0", "2"), {"serial": ("1",)}, 2)


@pytest.mark.parametrize(
    ("rate", "burst", "wait"),
    [
        ("1/s", 1, timedelta(seconds=1)),
        ("1000/s", 60, CHECK_EVERY),
        ("100/s", 2, timedelta(milliseconds=20)),
        ("100000/s", 1, LEAST_CHECK),
    ],
)
def test_who_waits_for_the_rate_is_looked_at_when_it_lets_one_begin_and_not_all_the_time(rate: str, burst: int, wait: timedelta) -> None:
    constraints = {"sync": Constraint(Limit(rate=rate, burst=burst))}
    (kept,) = asked(keyed(burst + 1, concurrency_key="s3"), constraints).limits
    assert kept.check_at == NOW + wait


def test_a_limit_that_is_known_and_unchanged_is_not_written_again() -> None:
    known = LimitState(kind="key", name="s3", limit=Limit(concurrency=2))
    assert asked(keyed(4, concurrency_key="s3"), TWO, limits={"s3": known}).limits == ()
