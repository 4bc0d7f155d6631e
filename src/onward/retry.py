"""How often and how late a failed job runs again, and which errors deserve it."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Literal, TypeAlias

from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime, PermanentJobError, TransientJobError

Backoff: TypeAlias = Literal["exponential", "linear", "fixed"]
Judgement: TypeAlias = Literal["permanent", "transient", "unknown"]
ErrorClasses: TypeAlias = tuple[type[BaseException], ...]


class RetryPolicy:
    """Says how many tries a job has, how long it waits between them, and what each error means.

    ``max_attempts`` counts tries, the first one included. The wait after failed try n is ``base * factor ** (n - 1)``
    (exponential), ``base * n`` (linear) or ``base`` (fixed), moved by ``jitter`` (a share, both ways) and ``jitter_up_to`` (a duration,
    upwards), and never longer than ``cap``: near the cap, jitter only shortens.

    ``permanent`` and ``transient`` are exception classes, one or a tuple of them; ``on_unknown`` says what any other exception means.
    Raises ``InvalidDefinition`` when an argument makes no sense.
    """

    def __init__(
        self,
        max_attempts: int = 3,
        *,
        backoff: Backoff = "exponential",
        base: timedelta | float | str = "30s",
        factor: float = 2.0,
        jitter: float = 0.15,
        jitter_up_to: timedelta | float | str = "0s",
        cap: timedelta | float | str = "1h",
        permanent: ErrorClasses | type[BaseException] = (),
        transient: ErrorClasses | type[BaseException] = (),
        on_unknown: Literal["retry", "dead_letter"] = "retry",
    ) -> None:
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or not 1 <= max_attempts <= 1_000_000:
            raise InvalidDefinition(f"max_attempts must be a whole number from 1 to 1,000,000, not {max_attempts!r}")
        if backoff not in ("exponential", "linear", "fixed"):
            raise InvalidDefinition(f"backoff must be 'exponential', 'linear' or 'fixed', not {backoff!r}")
        if not 1 <= factor <= 1000:
            raise InvalidDefinition(f"factor must be from 1 to 1000, not {factor!r}")
        if not 0 <= jitter <= 1:
            raise InvalidDefinition(f"jitter is a share from 0 to 1, not {jitter!r}; for a duration use jitter_up_to=")
        if on_unknown not in ("retry", "dead_letter"):
            raise InvalidDefinition(f"on_unknown must be 'retry' or 'dead_letter', not {on_unknown!r}")
        try:
            self.base = parse_duration(base)
            self.jitter_up_to = parse_duration(jitter_up_to)
            self.cap = parse_duration(cap)
        except InvalidTime as error:
            raise InvalidDefinition(f"RetryPolicy: {error}") from None
        self.max_attempts = max_attempts
        self.backoff: Backoff = backoff
        self.factor = float(factor)  # a whole number to a high power would be computed digit by digit
        self.jitter = jitter
        self.permanent = _classes("permanent", permanent)
        self.transient = _classes("transient", transient)
        self.on_unknown = on_unknown

    def delay(self, failed_attempts: int, chance: Random) -> timedelta:
        """How long to wait after this many failed tries: from 0 to the cap, whatever the number."""
        cap = self.cap.total_seconds()
        wait = min(self._without_jitter(failed_attempts), cap)
        upward = self.jitter_up_to.total_seconds()
        longest = wait * (1 + self.jitter) + upward
        # A window that sticks out over the cap is cut at its top, so the draws do not pile up on the cap itself.
        shortest = min(wait * (1 - self.jitter), max(cap - upward, 0.0)) if longest > cap else wait * (1 - self.jitter)
        return timedelta(seconds=min(chance.uniform(shortest, min(longest, cap)), cap))

    def _without_jitter(self, failed_attempts: int) -> float:
        base, failed = self.base.total_seconds(), max(failed_attempts, 1)
        if self.backoff == "fixed":
            return base
        if self.backoff == "linear":
            return base * failed
        try:
            return base * self.factor ** (failed - 1)
        except OverflowError:
            return float("inf") if base else 0.0

    def judge(self, error: BaseException) -> Judgement:
        """Say what an error means: the raised class speaks first, then the policy's lists, the permanent one before the other."""
        if isinstance(error, PermanentJobError | InvalidPayload):
            return "permanent"
        if isinstance(error, TransientJobError):
            return "transient"
        if isinstance(error, self.permanent):
            return "permanent"
        if isinstance(error, self.transient):
            return "transient"
        return "unknown"

    def allows_another_try(self, error: BaseException, attempts: int, max_attempts: int) -> bool:
        """Say whether a job that failed its ``attempts``-th try with ``error`` runs again."""
        judgement = self.judge(error)
        if judgement == "permanent" or (judgement == "unknown" and self.on_unknown == "dead_letter"):
            return False
        return attempts < max_attempts


def _classes(name: str, classes: ErrorClasses | type[BaseException]) -> ErrorClasses:
    listed = (classes,) if isinstance(classes, type) else classes
    if not isinstance(listed, tuple) or not all(isinstance(one, type) and issubclass(one, BaseException) for one in listed):
        raise InvalidDefinition(f"{name} must be an exception class or a tuple of them, not {classes!r}")
    return listed
