"""When people are told by themselves: what may be, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from onward.definition import Duration
from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.inspection import MOST_COUNTED
from onward.spelling import did_you_mean, shown


class AlertRules:
    """When an alert opens by itself: ``AlertRules(depth=5000, age="10m", run_p95_of={"train": "2h"})``. None leaves a rule out.

    Of each queue and type: ``depth`` is how many jobs may be due, ``age`` how long the oldest of them, ``run_p95`` how long 95 % of the
    runs may take at most (``run_p95_of`` says it of single types), ``success_rate`` which share must complete (0 to 1), ``dead_letters``
    how many jobs may end as such, the last three within the ``window`` and of at least ``samples`` runs. ``unserved`` is how long jobs may
    be due that no living worker serves. It is looked at ``every`` so often, by one worker of all; what is found must last for ``lasts``,
    and be over for as long before the alert is resolved. Applications that share a store should have the same rules.

    Raises ``InvalidDefinition``.
    """

    def __init__(
        self,
        *,
        depth: int | None = 1000,
        age: Duration | None = "1h",
        run_p95: Duration | None = "10s",
        run_p95_of: Mapping[str, Duration | None] | None = None,
        success_rate: float | None = 0.95,
        dead_letters: int | None = 10,
        unserved: Duration | None = "5m",
        samples: int = 20,
        window: Duration = "1h",
        every: Duration = "5m",
        lasts: Duration = "5m",
    ) -> None:
        self.depth = None if depth is None else _whole("depth", depth, MOST_COUNTED - 1)
        self.age = None if age is None else _length("age", age)
        self.run_p95 = None if run_p95 is None else _length("run_p95", run_p95)
        self.run_p95_of = {
            type_: None if budget is None else _length("run_p95_of", budget) for type_, budget in _mapping(run_p95_of or {}).items()
        }
        self.success_rate = None if success_rate is None else _share("success_rate", success_rate)
        self.dead_letters = None if dead_letters is None else _whole("dead_letters", dead_letters)
        self.unserved = None if unserved is None else _length("unserved", unserved)
        self.samples = _whole("samples", samples, or_none="")
        self.window = _length("window", window, timedelta(minutes=1))
        self.every = _length("every", every, timedelta(seconds=1))
        self.lasts = _length("lasts", lasts)

    def check_types(self, names: Collection[str]) -> None:
        """Raise ``InvalidDefinition`` for a type of ``run_p95_of`` that the application does not have: its budget would never count."""
        for name in self.run_p95_of:
            if name not in names:
                raise InvalidDefinition(
                    f"AlertRules(run_p95_of=...): no job is called {shown(name)}{did_you_mean(str(name), sorted(names))}"
                )

    def budget(self, type_: str) -> timedelta | None:
        """How long 95 % of the runs of a type may take."""
        return self.run_p95_of.get(type_, self.run_p95)


def _whole(name: str, given: Any, most: int | None = None, *, or_none: str = ", or None") -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0 or (most is not None and given > most):
        upto = "" if most is None else f" to {most:,}: more are not counted"
        raise InvalidDefinition(f"AlertRules({name}=...) is a whole number from 0{upto}{or_none}, not {shown(given)}")
    return given


def _share(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise InvalidDefinition(f"AlertRules({name}=...) is a share from 0 to 1, such as 0.95, or None, not {shown(given)}")
    return float(given)


def _length(name: str, given: Any, least: timedelta = timedelta(0)) -> timedelta:
    try:
        length = parse_duration(given)
    except InvalidTime as error:
        raise InvalidDefinition(f"AlertRules({name}=...): {error}") from None
    if length < least:
        raise InvalidDefinition(f"AlertRules({name}=...) must be {format_duration(least)} or longer, not {shown(given)}")
    return length


def _mapping(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f'AlertRules(run_p95_of=...) is a duration for each type, such as {{"train": "2h"}}, not {shown(given)}')
    return given
