"""What a definition says of other jobs that its own have to wait for: its breaker, its limit, its serial order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, get_args

from onward.admission import Constraint
from onward.breaker import Breaker
from onward.errors import InvalidDefinition
from onward.limit import Limit
from onward.spelling import did_you_mean, shown
from onward.unique import check_key, check_key_function, made_of

P = TypeVar("P")
SharedKey: TypeAlias = Callable[[P], str | None] | str | None
"""A text that jobs share, or a function of the payload that gives one; None shares nothing."""
AfterDeadLetter: TypeAlias = Literal["continue", "stop"]


class SharedKeys(TypedDict):
    """What a job shares with others, as ``NewJob`` has it."""

    breaker: str | None
    refuses_open_breaker: bool
    concurrency_key: str | None
    serial_key: str | None


class Constraints(Generic[P]):
    """The part of a definition that makes its jobs wait for others; the keywords are those of ``JobDefinition``.

    Raises ``InvalidDefinition``.
    """

    def __init__(
        self,
        name: str,
        *,
        breaker: Breaker[P] | None = None,
        concurrency_key: SharedKey[P] = None,
        limit: Limit | None = None,
        serial_key: SharedKey[P] = None,
        after_dead_letter: AfterDeadLetter = "continue",
    ) -> None:
        if not (breaker is None or isinstance(breaker, Breaker)):
            raise InvalidDefinition(f"the breaker of {name} must be a Breaker, such as breaker=Breaker('s3'), not {shown(breaker)}")
        if not (limit is None or isinstance(limit, Limit)):
            raise InvalidDefinition(f"the limit of {name} must be a Limit, such as limit=Limit(concurrency=2), not {shown(limit)}")
        if concurrency_key is not None and limit is None:
            raise InvalidDefinition(f"concurrency_key of {name} needs limit=, such as limit=Limit(concurrency=2), for the jobs of each key")
        if after_dead_letter not in get_args(AfterDeadLetter):
            hint = did_you_mean(str(after_dead_letter), get_args(AfterDeadLetter))
            raise InvalidDefinition(f"after_dead_letter of {name} must be 'continue' or 'stop', not {shown(after_dead_letter)}{hint}")
        if after_dead_letter == "stop" and serial_key is None:
            raise InvalidDefinition(f"after_dead_letter of {name} needs serial_key=: which jobs wait behind a dead-lettered one")
        self._name = name
        self.breaker = breaker
        if breaker is not None:
            _checked(name, "the breaker's key", breaker.key)
        if concurrency_key is None and limit is not None:
            concurrency_key = name
        self._concurrency_key = _checked(name, "concurrency_key", concurrency_key)
        self._serial_key = _checked(name, "serial_key", serial_key)
        self.constraint = Constraint(limit, after_dead_letter == "stop", None if breaker is None else breaker.policy.pace)
        """What a store has to know of it when it claims."""

    @property
    def fixed_concurrency_key(self) -> str | None:
        """The concurrency key of all its jobs, where it is one text."""
        return self._concurrency_key if isinstance(self._concurrency_key, str) else None

    @property
    def makes_concurrency_keys(self) -> bool:
        """Whether each payload has a concurrency key of its own."""
        return callable(self._concurrency_key)

    def keys(self, payload: P) -> SharedKeys:
        """What a job with this payload shares with others. Raises ``InvalidDefinition`` for what can be no key."""
        return SharedKeys(
            breaker=None if self.breaker is None else self._key("the breaker's key", self.breaker.key, payload),
            refuses_open_breaker=self.breaker is not None and self.breaker.refuses,
            concurrency_key=self._key("concurrency_key", self._concurrency_key, payload),
            serial_key=self._key("serial_key", self._serial_key, payload),
        )

    def _key(self, what: str, key: SharedKey[P], payload: P) -> str | None:
        made: Any = made_of(key, payload, f"{what} of {self._name}") if callable(key) else key
        if made is None:
            return None
        try:
            return check_key(made)
        except InvalidDefinition as error:
            raise InvalidDefinition(f"{what} of {self._name}: {error}") from None


def _checked(name: str, what: str, key: SharedKey[P]) -> SharedKey[P]:
    if not (key is None or callable(key) or isinstance(key, str)):
        raise InvalidDefinition(f"{what} of {name} is text, or a function of the payload that gives text or None, not {shown(key)}")
    if key == "payload":
        raise InvalidDefinition(
            f"{what} of {name} would be the same text 'payload' for all its jobs: "
            "give a function of the payload, such as lambda payload: payload.customer"
        )
    if isinstance(key, str):
        try:
            check_key(key)
        except InvalidDefinition as error:
            raise InvalidDefinition(f"{what} of {name}: {error}") from None
    if callable(key):
        check_key_function(key, f"{what} of {name}")
    return key
