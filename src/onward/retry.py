"""How often and how late a failed job runs again, and which errors deserve it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from onward.durations import parse_duration, parse_retry_after
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime, PermanentJobError, TransientJobError
from onward.spelling import shown

Backoff: TypeAlias = Literal["exponential", "linear", "fixed"]
Judgement: TypeAlias = Literal["permanent", "transient", "unknown"]
ErrorTest: TypeAlias = type[BaseException] | Callable[[BaseException], bool]
"""Which errors are meant: those of a class, or those of which a function says so."""
ErrorTests: TypeAlias = tuple[ErrorTest, ...]


class Weighed(NamedTuple):
    """What an error means, and what an application's test of it raised instead of an answer, if one did."""

    judgement: Judgement
    failed_test: Exception | None = None


class RetryPolicy:
    """Says how many tries a job has, how long it waits between them, and what each error means.

    ``max_attempts`` counts tries, the first one included. The wait after failed try n is ``base * factor ** (n - 1)``
    (exponential), ``base * n`` (linear) or ``base`` (fixed), moved by ``jitter`` (a share, both ways) and ``jitter_up_to`` (a duration,
    upwards), and never longer than ``cap``: near the cap, jitter only shortens, down to the shortest wait after the first try at most.

    ``permanent`` and ``transient`` are exception classes, or functions that say yes or no of an exception; one or a tuple of them, such as
    ``CONNECTION_ERRORS``. A function that raises has not said yes. ``on_unknown`` says what any other exception means.
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
        permanent: ErrorTests | ErrorTest = (),
        transient: ErrorTests | ErrorTest = (),
        on_unknown: Literal["retry", "dead_letter"] = "retry",
    ) -> None:
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or not 1 <= max_attempts <= 1_000_000:
            raise InvalidDefinition(f"max_attempts must be a whole number from 1 to 1,000,000, not {shown(max_attempts)}")
        if backoff not in ("exponential", "linear", "fixed"):
            raise InvalidDefinition(f"backoff must be 'exponential', 'linear' or 'fixed', not {shown(backoff)}")
        if not _is_number(factor) or not 1 <= factor <= 1000:
            raise InvalidDefinition(f"factor must be a number from 1 to 1000, not {shown(factor)}")
        if not _is_number(jitter) or not 0 <= jitter <= 1:
            raise InvalidDefinition(f"jitter is a share from 0 to 1, not {shown(jitter)}; for a duration use jitter_up_to=")
        if on_unknown not in ("retry", "dead_letter"):
            raise InvalidDefinition(f"on_unknown must be 'retry' or 'dead_letter', not {shown(on_unknown)}")
        self.base = _duration("base", base)
        self.jitter_up_to = _duration("jitter_up_to", jitter_up_to)
        self.cap = _duration("cap", cap)
        self.max_attempts = max_attempts
        self.backoff: Backoff = backoff
        self.factor = float(factor)  # a whole number to a high power would be computed digit by digit
        self.jitter = jitter
        self.permanent = _tests("permanent", permanent)
        self.transient = _tests("transient", transient)
        self.on_unknown = on_unknown

    def delay(self, failed_attempts: int, chance: Random) -> timedelta:
        """How long to wait after this many failed tries, whatever the number: from ``base`` less its jitter to the cap."""
        cap = self.cap.total_seconds()
        wait = min(self._without_jitter(failed_attempts), cap)
        upward = self.jitter_up_to.total_seconds()
        shortest = wait * (1 - self.jitter)
        longest = wait * (1 + self.jitter) + upward
        if longest > cap:
            # A window that sticks out over the cap is moved down, so that the draws do not pile up on the cap itself.
            first = min(self.base.total_seconds(), cap) * (1 - self.jitter)
            shortest = min(shortest, max(cap - upward, first))
        return timedelta(seconds=min(chance.uniform(shortest, min(longest, cap)), cap))

    def _without_jitter(self, failed_attempts: int) -> float:
        base, failed = self.base.total_seconds(), max(failed_attempts, 1)
        if self.backoff == "fixed":
            return base
        try:
            return base * failed if self.backoff == "linear" else base * self.factor ** (failed - 1)
        except OverflowError:
            return float("inf") if base else 0.0

    def judge(self, error: BaseException) -> Judgement:
        """Say what an error means: the raised class speaks first, then the policy's lists, the permanent one before the other.

        A group of which none of them speaks, such as an ``asyncio.TaskGroup`` raises, is permanent if one of its members is, and transient
        if all are.
        """
        return self.weigh(error).judgement

    def weigh(self, error: BaseException) -> Weighed:
        """``judge``, and what went wrong while the application's own tests were asked."""
        failed: list[Exception] = []
        judgement = self._judge_one(error, failed)
        if judgement == "unknown" and isinstance(error, BaseExceptionGroup):
            members = {self._judge_one(one, failed) for one in members_of(error)}
            if "permanent" in members:
                judgement = "permanent"
            elif members == {"transient"}:
                judgement = "transient"
        return Weighed(judgement, failed[0] if failed else None)

    def _judge_one(self, error: BaseException, failed: list[Exception]) -> Judgement:
        if isinstance(error, PermanentJobError | InvalidPayload):
            return "permanent"
        if isinstance(error, TransientJobError):
            return "transient"
        if _is_meant(error, self.permanent, failed):
            return "permanent"
        if _is_meant(error, self.transient, failed):
            return "transient"
        return "unknown"

    def allows_another_try(self, error: BaseException, attempts: int, max_attempts: int) -> bool:
        """Say whether a job that failed its ``attempts``-th try with ``error`` runs again."""
        return self.grants(self.judge(error), attempts, max_attempts)

    def grants(self, judgement: Judgement, attempts: int, max_attempts: int) -> bool:
        """``allows_another_try``, of an error that is judged already."""
        if judgement == "permanent" or (judgement == "unknown" and self.on_unknown == "dead_letter"):
            return False
        return attempts < max_attempts


def wait_asked_for(error: BaseException, now: datetime) -> tuple[timedelta | None, InvalidTime | None]:
    """The wait of a ``TransientJobError``, the longest of a group's; and what is wrong with one that cannot be read."""
    asked: timedelta | None = None
    unreadable: InvalidTime | None = None
    for one in members_of(error):
        if isinstance(one, TransientJobError) and one.retry_after is not None:
            try:
                asked = max(parse_retry_after(one.retry_after, now), asked or timedelta(0))
            except InvalidTime as wrong:
                unreadable = wrong
    return asked, unreadable


def members_of(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group that are none themselves, however deep they lie; of any other error, itself."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)
        else:
            yield one


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _duration(name: str, given: timedelta | float | str) -> timedelta:
    try:
        return parse_duration(given)
    except InvalidTime as error:
        raise InvalidDefinition(f"RetryPolicy({name}=...): {error}") from None


def _tests(name: str, tests: ErrorTests | ErrorTest) -> ErrorTests:
    listed = tests if isinstance(tests, tuple) else (tests,)
    for one in listed:
        if not (issubclass(one, BaseException) if isinstance(one, type) else callable(one)):
            raise InvalidDefinition(f"{name} must be an exception class, a function of an exception, or a tuple of them, not {shown(one)}")
    return listed


def _is_meant(error: BaseException, tests: ErrorTests, failed: list[Exception]) -> bool:
    for one in tests:
        try:
            if isinstance(error, one) if isinstance(one, type) else one(error):
                return True
        except Exception as own:  # noqa: BLE001 - an application's test that looks for what this error does not have
            failed.append(own)
    return False


# -- connection errors -----------------------------------------------------------------------------------------------

_BY_NAME = frozenset(
    {
        "socket.gaierror",
        "ssl.SSLEOFError",
        "ssl.SSLZeroReturnError",
        "http.client.BadStatusLine",
        "http.client.IncompleteRead",
        "asyncio.exceptions.IncompleteReadError",
        "smtplib.SMTPServerDisconnected",
        "smtplib.SMTPConnectError",
        "httpx.TimeoutException",
        "httpx.NetworkError",
        "httpx.ProxyError",
        "httpx.RemoteProtocolError",
    }
)
"""Known by name, so that none of these modules is loaded to look at an error of another one."""
_UNREACHABLE = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETRESET})


def is_connection_error(error: BaseException) -> bool:
    """Say whether the standard library or httpx raised this because the other side could not be reached, or did not answer in time.

    An answer is none, whatever it says: not a status of 503, not a refused certificate. Neither is an address that makes no sense.
    A group, such as an ``asyncio.TaskGroup`` raises, is one if all its members are.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_connection_error, members_of(error)))
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return True
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    if "urllib.error.URLError" in names:  # wraps what went wrong below; an HTTPError has text there
        reason = getattr(error, "reason", None)
        return isinstance(reason, BaseException) and is_connection_error(reason)
    return not names.isdisjoint(_BY_NAME)


CONNECTION_ERRORS: ErrorTests = (is_connection_error,)
"""What a policy is given as ``transient=``, alone or with an application's own: ``(*CONNECTION_ERRORS, ProviderIsAway)``."""
