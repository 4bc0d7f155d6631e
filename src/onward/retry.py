"""How often and how late a failed job runs again, and which errors deserve it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Literal, TypeAlias

from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime, PermanentJobError, TransientJobError
from onward.spelling import shown

Backoff: TypeAlias = Literal["exponential", "linear", "fixed"]
Judgement: TypeAlias = Literal["permanent", "transient", "unknown"]
ErrorTest: TypeAlias = type[BaseException] | Callable[[BaseException], bool]
"""Which errors are meant: those of a class, or those of which a function says so."""
ErrorTests: TypeAlias = tuple[ErrorTest, ...]


class RetryPolicy:
    """Says how many tries a job has, how long it waits between them, and what each error means.

    ``max_attempts`` counts tries, the first one included. The wait after failed try n is ``base * factor ** (n - 1)``
    (exponential), ``base * n`` (linear) or ``base`` (fixed), moved by ``jitter`` (a share, both ways) and ``jitter_up_to`` (a duration,
    upwards), and never longer than ``cap``: near the cap, jitter only shortens.

    ``permanent`` and ``transient`` are exception classes, or functions that say yes or no of an exception; one or a tuple of them, such as
    ``CONNECTION_ERRORS``. ``on_unknown`` says what any other exception means.
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
            raise InvalidDefinition(f"backoff must be 'exponential', 'linear' or 'fixed', not {backoff!r}")
        if not 1 <= factor <= 1000:
            raise InvalidDefinition(f"factor must be from 1 to 1000, not {shown(factor)}")
        if not 0 <= jitter <= 1:
            raise InvalidDefinition(f"jitter is a share from 0 to 1, not {shown(jitter)}; for a duration use jitter_up_to=")
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
        self.permanent = _tests("permanent", permanent)
        self.transient = _tests("transient", transient)
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
        if _is_meant(error, self.permanent):
            return "permanent"
        if _is_meant(error, self.transient):
            return "transient"
        return "unknown"

    def allows_another_try(self, error: BaseException, attempts: int, max_attempts: int) -> bool:
        """Say whether a job that failed its ``attempts``-th try with ``error`` runs again."""
        judgement = self.judge(error)
        if judgement == "permanent" or (judgement == "unknown" and self.on_unknown == "dead_letter"):
            return False
        return attempts < max_attempts


def _tests(name: str, tests: ErrorTests | ErrorTest) -> ErrorTests:
    listed = tests if isinstance(tests, tuple) else (tests,)
    for one in listed:
        if not (issubclass(one, BaseException) if isinstance(one, type) else callable(one)):
            raise InvalidDefinition(f"{name} must be an exception class, a function of an exception, or a tuple of them, not {tests!r}")
    return listed


def _is_meant(error: BaseException, tests: ErrorTests) -> bool:
    return any(isinstance(error, one) if isinstance(one, type) else one(error) for one in tests)


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
        return all(map(is_connection_error, error.exceptions))
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
