"""What the machine may ask for. Few values of each kind, so that jobs meet: the same keys, owners and instants again and again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from onward.admission import Constraint
from onward.breaker import BreakerPolicy
from onward.ids import encode
from onward.inspection import JobFilter, Retention
from onward.jobs import NewJob, OnDuplicate
from onward.limit import Limit
from onward.outcome import Cancelled, Completed, DeadLettered, Released, Retried, Snoozed
from onward.rate import Rate
from onward.status import Status
from onward.testing.factories import make_new_job

LEASES = {"work": timedelta(seconds=10), "mail": timedelta(seconds=60), "odd": timedelta(seconds=10)}
TYPES = tuple(LEASES)
OWNERS = ("", "ada")
KEYS = ("a", "b")
QUEUES = ("default", "slow")
WORKERS = ("host:1:one", "host:2:two", "host:3:three")
BREAKERS, SERIAL_KEYS, CONCURRENCY_KEYS = ("s3", "b2"), ("k", "l"), ("c", "d")
SHARED: tuple[dict[str, Any], ...] = (
    *({"breaker": key} for key in BREAKERS),
    *({"serial_key": key} for key in SERIAL_KEYS),
    *({"concurrency_key": key} for key in CONCURRENCY_KEYS),
    {"breaker": BREAKERS[0], "refuses_open_breaker": True},
    {"serial_key": SERIAL_KEYS[0], "concurrency_key": CONCURRENCY_KEYS[0]},
    {"breaker": BREAKERS[0], "serial_key": SERIAL_KEYS[0], "concurrency_key": CONCURRENCY_KEYS[0]},
)
"""What a job may share with others."""
CODES: tuple[dict[str, Constraint], ...] = (
    {"work": Constraint(Limit(concurrency=1))},
    {"work": Constraint(Limit(concurrency=2), stops_at_dead_letter=True), "odd": Constraint(stops_at_dead_letter=True)},
    {"work": Constraint(Limit(concurrency=2, rate="2/10s", burst=2)), "mail": Constraint(Limit(rate="1/5s"))},
)
"""What the code of workers may say of types."""
_FIRST_ID = 1_767_225_600_000 << 80


def seconds(*choices: float) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(seconds=one) for one in choices])


def job_id(number: int) -> str:
    """Give the id of the job with this number: ids rise with it."""
    return encode(_FIRST_ID + number)


picks = st.integers(0, 11)
"""Which of what there is: 0 is the newest."""
seldom = st.sampled_from([False, False, False, True])
on_duplicate: st.SearchStrategy[OnDuplicate] = st.sampled_from(["return", "same", "raise"])
owners = st.sampled_from([None, *OWNERS])
steps = seconds(1, 5, 11, 61, 3600, 2 * 86400)
clock_steps = seconds(-2 * 86400, -3600, -30, -1, 1, 30, 3600, 2 * 86400)

_wishes: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["work", "work", "mail", "odd"]),
    "payload": st.integers(1, 2),
    "queue": st.sampled_from(QUEUES),
    "priority": st.integers(0, 1),
    "delay": seconds(0, 0, 5, 30),
    "after": st.none() | st.sampled_from([-30, 0, 20]),
    "expires": st.none() | seconds(10, 40),
    "max_attempts": st.integers(1, 3),
    "isolated": st.booleans(),
    "key": st.sampled_from([None, None, *KEYS]),
    "scope": st.sampled_from(["active", "active", "forever", timedelta(seconds=20)]),
    "on_duplicate": on_duplicate,
    "owner": st.sampled_from(OWNERS),
    "shares": st.sampled_from([{}, {}, *SHARED]),
}
requests = st.fixed_dictionaries({}, optional=_wishes)
"""What a ``NewJob`` asks for, but for its id; ``after`` is ``at`` in seconds from now."""

app_options = st.fixed_dictionaries(
    {},
    optional={
        "delay": st.sampled_from(["5s", 0, 30]),
        "key": st.sampled_from(KEYS),
        "owner": st.sampled_from(OWNERS),
        "priority": st.integers(0, 1),
        "queue": st.sampled_from(QUEUES),
        "expires": st.sampled_from(["10s", "1h"]),
        "on_duplicate": on_duplicate,
    },
)

_texts = st.sampled_from(["boom", "a NUL \0 in it", "half a \ud83d pair"])
outcomes = st.one_of(
    st.builds(Completed, st.sampled_from([None, '{"rows":3}', '"\ud800"'])),
    st.builds(Retried, seconds(0, 5, 60), _texts, st.booleans()),
    st.builds(DeadLettered, _texts),
    st.just(Released()),
    st.builds(Snoozed, seconds(0, 30)),
    st.builds(Cancelled, st.sampled_from(["cancelled", "not needed"])),
)
policies = st.sampled_from(
    [
        BreakerPolicy(threshold=1, pause=timedelta(seconds=20), pace=Rate(1, timedelta(seconds=5))),
        BreakerPolicy(threshold=2, pause=timedelta(seconds=5), pace=Rate(100, timedelta(seconds=1))),
    ]
)
endings = st.fixed_dictionaries(
    {"pick": picks, "is_late": seldom, "outcome": outcomes},
    optional={
        "children": st.lists(requests, min_size=1, max_size=2),
        "progress": st.sampled_from(["1", '"\0"']),
        "processed": st.integers(0, 2),
        "keeps_history": st.booleans(),
        "breaker": policies,
        "run_ending": st.sampled_from(["success", "failure", "failure", "other"]),
    },
)
demands = st.fixed_dictionaries(
    {"worker": st.sampled_from(WORKERS), "slots": st.sampled_from([1, 2, 100])},
    optional={
        "types": st.sampled_from([("work",), ("work", "mail"), TYPES]),
        "queues": st.sampled_from([("default",), ("slow", "default")]),
        "unblocks": st.booleans(),
        "constraints": st.sampled_from(CODES),
    },
)
extensions = st.fixed_dictionaries(
    {"pick": picks, "is_late": seldom, "began_isolated": st.booleans(), "progress": st.sampled_from([None, "2", "\ud800"])}
)
filters = st.builds(
    JobFilter,
    statuses=st.lists(st.sampled_from(list(Status)), max_size=2, unique=True).map(tuple),
    types=st.lists(st.sampled_from(TYPES), max_size=2, unique=True).map(tuple),
    queues=st.lists(st.sampled_from(QUEUES), max_size=1).map(tuple),
    key=st.sampled_from([None, None, *KEYS]),
    owner=owners,
)
_ages = st.sampled_from([None, "0s", "1h"])
retentions = st.builds(Retention, completed=_ages, cancelled=_ages, dead_letter=_ages, actions=st.none())
kinds = st.sampled_from(["enqueue", "get", "cancel", "retry", "confirm", "settle", "outside"])
joined = st.fixed_dictionaries({"kind": kinds, "pick": picks, "is_late": seldom, "request": requests, "outcome": outcomes})
"""A verb in somebody's transaction."""


def new_job(id: str, wish: dict[str, Any], now: Any) -> NewJob:
    """Make the request of a wish."""
    fields = dict(wish)
    after = fields.pop("after", None)
    at = None if after is None else now + timedelta(seconds=after)
    fields |= fields.pop("shares", {})
    return make_new_job(fields.pop("type", "work"), fields.pop("payload", 1), id=id, at=at, **fields)
