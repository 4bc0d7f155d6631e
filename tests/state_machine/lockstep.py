"""Several stores driven together: each verb is called on all of them, and what can be seen of them must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from onward.app import Onward
from onward.driver import Store
from onward.errors import DuplicateJob, LeaseLost, OnwardError, TransactionOpen
from onward.inspection import QUESTIONS, JobFilter
from onward.jobs import Attempt, Job
from onward.turn import Extended, Swept, Turn
from tests.state_machine.definitions import DEFINITIONS
from tests.state_machine.stores import Place, SharedClock

EVERYTHING = JobFilter()
MOST = 1000


class Raised(NamedTuple):
    """What a verb raised: the error's name, what it says, and the job that it names."""

    error: str
    text: str
    job_id: str | None


class Differs(AssertionError):
    """Two stores did not answer alike."""


class Lockstep:
    """The stores of an example, in one list; the first is what the others are compared with."""

    def __init__(self, places: Sequence[Place], clock: SharedClock) -> None:
        clock.begin_anew()
        self.places = places
        self.stores = [place.emptied() for place in places]
        self.apps = [Onward(store=store, jobs=DEFINITIONS) for store in self.stores]
        self.jobs: dict[str, Job] = {}
        """What is stored, as it was seen after the last verb."""
        self.ids: set[str] = set()
        """Every job that ever was."""
        self.has_differed = False

    # -- verbs -----------------------------------------------------------------------------------------------------------

    def each(self, what: str, verb: Callable[[Store], Any]) -> Any:
        """Call a verb of every store, and give what the first said. Raises ``Differs``."""
        return self._same(what, [answer_of(lambda store=store: verb(store)) for store in self.stores])  # type: ignore[misc]

    def each_app(self, what: str, verb: Callable[[Onward], Any]) -> Any:
        """Call a method of every application."""
        return self._same(what, [answer_of(lambda app=app: verb(app)) for app in self.apps])  # type: ignore[misc]

    def reopen(self) -> None:
        """Close every store, and go on with another object over the same jobs."""
        self.stores = [place.reopened(store) for place, store in zip(self.places, self.stores, strict=True)]
        self.apps = [Onward(store=store, jobs=DEFINITIONS) for store in self.stores]

    # -- what can be seen ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare all jobs, and the history of those that have changed."""
        seen = self.each("find", lambda store: store.find(EVERYTHING, limit=MOST))
        before, self.jobs = self.jobs, {job.id: job for job in seen}
        self.ids.update(self.jobs)
        changed = [job_id for job_id in self.ids if self.jobs.get(job_id) != before.get(job_id)]
        for job_id in sorted(changed):
            self.history(job_id)

    def look_closely(self, keys: Iterable[tuple[str, str, str]]) -> None:
        """Compare all that can be asked. ``keys`` are (owner, type, key)."""
        for job_id in sorted(self.ids):
            self.each("get", lambda store: store.get(job_id))  # noqa: B023 - called at once
            self.history(job_id)
        for owner, type_, key in keys:
            self.each("find_active", lambda store: store.find_active([type_], key, owner=owner))  # noqa: B023 - as above
        for question in QUESTIONS:
            self.each(question, lambda store: sorted(store.answer(question).rows, key=repr))  # noqa: B023 - as above
        assert self.each("count", lambda store: store.count(EVERYTHING)) == len(self.jobs)

    def history(self, job_id: str) -> list[Attempt]:
        kept: list[Attempt] = self.each("history", lambda store: store.history(job_id))
        return kept

    def _same(self, what: str, answers: list[Any]) -> Any:
        shown = [comparable(answer) for answer in answers]
        for place, one in zip(self.places[1:], shown[1:], strict=True):
            if one != shown[0]:
                self.has_differed = True
                raise Differs(f"{what}: {self.places[0].name} and {place.name} differ\n{difference(shown[0], one)}")
        return answers[0]


def answer_of(verb: Callable[[], Any]) -> Any:
    """Give what a verb returned, or which of Onward's errors it raised; any other is a fault."""
    try:
        return verb()
    except OnwardError as error:
        text = "" if isinstance(error, LeaseLost | TransactionOpen) else str(error)  # stores say it in words of their own
        return Raised(type(error).__name__, text, error.job_id if isinstance(error, DuplicateJob) else None)


def comparable(answer: Any) -> Any:
    """Give an answer without what the contract leaves open: the order of what has none."""
    if isinstance(answer, Turn):
        return asdict(answer) | {"expired": _by_id(answer.expired)}
    if isinstance(answer, Swept):
        return asdict(answer) | {"expired": _by_id(answer.expired)}
    if isinstance(answer, Extended):
        return asdict(answer)
    return answer


def _by_id(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=lambda job: job.id))


def difference(one: Any, other: Any, at: str = "") -> str:
    """Say where two answers differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return "\n".join(difference(one[name], other[name], f"{at}.{name}") for name in one if one[name] != other[name])
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other) and type(one) is type(other):
        pairs = enumerate(zip(one, other, strict=True))
        return "\n".join(difference(left, right, f"{at}[{place}]") for place, (left, right) in pairs if left != right)
    if hasattr(one, "__struct_fields__") and type(one) is type(other):
        return difference(asdict(one), asdict(other), f"{at}:{type(one).__name__}")
    return f"{at or 'answer'}: {one!r}\n{' ' * len(at or 'answer')}  {other!r}"
