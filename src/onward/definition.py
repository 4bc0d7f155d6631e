"""``define_job`` and ``@job``: what a job type is called, what runs it, and under which rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeAlias, TypedDict, TypeVar, overload

from onward.breaker import Breaker
from onward.constraints import AfterDeadLetter, Constraints, SharedKey
from onward.durations import parse_duration, parse_moment
from onward.errors import InvalidDefinition, InvalidPayload, InvalidTime
from onward.ids import is_id, new_id
from onward.jobs import HIGHEST_PRIORITY, LONGEST_LEASE, LOWEST_PRIORITY, EnqueueOptions, NewJob, OnDuplicate, Scope
from onward.limit import Limit
from onward.payload import Codec, encode_metadata, name_of_type, payload_hash
from onward.retry import RetryPolicy
from onward.signature import is_async, read_signature
from onward.spelling import did_you_mean, shown, with_article
from onward.unique import check_key, check_key_function, made_of, read_on_duplicate, read_scope

if TYPE_CHECKING:
    from typing import Unpack

    from onward.context import JobContext

P = TypeVar("P")
T = TypeVar("T")
Duration: TypeAlias = timedelta | float | str
KeyRule: TypeAlias = Callable[[P], str] | Literal["payload"] | None
"""How the key is made: from the payload by a function, or from the payload's canonical hash."""

_OF_THE_POLICY = frozenset(RetryPolicy.__init__.__kwdefaults__ or ()) | {"max_attempts"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}", re.ASCII)


class Rules(TypedDict, Generic[P], total=False):
    """The keywords of ``define_job`` and ``@job``; what each means stands at ``JobDefinition``."""

    payload: type[P] | None
    queue: str
    priority: int
    retry: RetryPolicy | None
    lease: Duration
    timeout: Duration | None
    expires: Duration | None
    key: KeyRule[P]
    scope: Scope | str
    on_duplicate: OnDuplicate
    isolated: bool
    history: Literal["failures", "all"]
    aliases: Iterable[str]
    breaker: Breaker[P] | None
    concurrency_key: SharedKey[P]
    limit: Limit | None
    serial_key: SharedKey[P]
    after_dead_letter: AfterDeadLetter


class JobDefinition(Generic[P]):
    """What ``define_job`` returns: the type of a job, its handler and its rules. Callable like its handler.

    Durations are a ``timedelta``, seconds, or text such as ``"5m"``.

    ``payload`` is the payload's type where the handler's annotation does not say it. ``queue`` and ``priority`` (-100 to 100, higher
    first) say where its jobs wait, ``retry`` how often and how late a failed one runs again. ``lease`` (1 s to 1 day) is how long a
    claim holds without a heartbeat; ``timeout`` how long a run may take, None for ever; ``expires`` how long after it is due a job
    is still worth running. ``key`` makes a job unique among its owner and type: a function of the payload, or ``"payload"``. It is
    held for ``scope``: ``"active"`` while the job is live, a window such as ``"24h"``, or ``"forever"``; ``on_duplicate`` says what
    another enqueue gets: ``"return"`` the holder, ``"same"`` the holder or ``KeyReused`` if the payload differs, ``"raise"``
    ``DuplicateJob``. ``isolated`` runs the job with no neighbour in its process. ``history`` keeps the attempts that did not complete
    (``"failures"``), or ``"all"``. ``aliases`` are names under which older jobs are stored; they run here as well.

    The others make a due job wait for other jobs, and spend no try. While ``breaker`` is open, jobs of its key wait. Of jobs with the same
    ``concurrency_key`` no more run at once, or begin in a time, than ``limit`` says, on all machines together; without a key it is of all
    jobs of this name. Those with the same ``serial_key`` run one at a time, each to its end with all its tries, in the order of priority,
    ``scheduled_at`` and id; ``after_dead_letter`` says whether the next goes on (``"continue"``) or waits until the dead-lettered one is
    retried or deleted (``"stop"``). A key is text, or a function of the payload that gives text, or None for none.
    """

    def __init__(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        payload: type[P] | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: RetryPolicy | None = None,
        lease: Duration = "60s",
        timeout: Duration | None = None,
        expires: Duration | None = None,
        key: KeyRule[P] = None,
        scope: Scope | str = "active",
        on_duplicate: OnDuplicate = "return",
        isolated: bool = False,
        history: Literal["failures", "all"] = "failures",
        aliases: Iterable[str] = (),
        breaker: Breaker[P] | None = None,
        concurrency_key: SharedKey[P] = None,
        limit: Limit | None = None,
        serial_key: SharedKey[P] = None,
        after_dead_letter: AfterDeadLetter = "continue",
    ) -> None:
        self.name = check_name("job name", name)
        self.aliases = tuple(check_name("alias", alias) for alias in aliases)
        if not callable(handler):
            raise InvalidDefinition(f"the handler of {name} is not callable: it is {shown(handler)}")
        self.handler = handler
        self.is_async = is_async(handler)
        self.arguments, found = read_signature(name, handler, payload)
        self.payload_type: Any = found
        self.codec: Codec[P] = Codec(found)
        self.queue = check_name("queue", queue)
        self.priority = check_priority(priority)
        self.retry = _policy(name, retry)
        self.scope = read_scope(scope)
        self.on_duplicate = read_on_duplicate(on_duplicate)
        if not (key is None or key == "payload" or callable(key)):
            raise InvalidDefinition(
                f"key of {name} must be a function of the payload or 'payload', not {shown(key)}; a fixed key is given at enqueue"
            )
        if callable(key):
            check_key_function(key, f"key of {name}")
        self.key = key
        self.isolated = isolated
        if history not in ("failures", "all"):
            raise InvalidDefinition(f"history of {name} must be 'failures' or 'all', not {shown(history)}")
        self.keeps_history = history == "all"
        self.constraints = Constraints[P](
            name,
            breaker=breaker,
            concurrency_key=concurrency_key,
            limit=limit,
            serial_key=serial_key,
            after_dead_letter=after_dead_letter,
        )
        try:
            self.lease = parse_duration(lease)
            self.timeout = None if timeout is None else parse_duration(timeout)
            self.expires = None if expires is None else parse_duration(expires)
        except InvalidTime as error:
            raise InvalidDefinition(f"{name}: {error}") from None
        if not timedelta(seconds=1) <= self.lease <= LONGEST_LEASE:
            raise InvalidDefinition(f"the lease of {name} must be from 1s to 1d, not {shown(lease)}")
        if self.timeout is not None and not self.timeout:
            raise InvalidDefinition(f"the timeout of {name} must be longer than nothing; leave it out for no limit")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<JobDefinition {self.name}>"

    def call(self, payload: P, context: JobContext) -> Any:
        """Call the handler with as many arguments as it takes."""
        return self.handler(*(payload, context)[: self.arguments])

    def new_job(
        self,
        payload: P,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        at: datetime | str | None = None,
        key: str | None = None,
        scope: Scope | str | None = None,
        on_duplicate: OnDuplicate | None = None,
        owner: str = "",
        priority: int | None = None,
        queue: str | None = None,
        expires: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> NewJob:
        """Check everything that can be checked without a store, and say what is asked for.

        Raises ``InvalidPayload``, ``InvalidTime`` or ``InvalidDefinition``; nothing has been stored then.
        """
        for option in unknown:
            raise InvalidDefinition(
                f"{self.name}: there is no option {option!r} at an enqueue{did_you_mean(option, EnqueueOptions.__annotations__)}"
            )
        if delay is not None and at is not None:
            raise InvalidTime("give delay= or at=, not both")
        if id is not None and not is_id(id):
            raise InvalidDefinition(f"an id is a ULID of 26 characters, not {shown(id)}; leave it out to have one made")
        if not isinstance(owner, str) or len(owner) > 255 or not (owner == "" or owner.isprintable()):
            raise InvalidDefinition(f"an owner is text of at most 255 printable characters, not {shown(owner)}")
        try:
            text = self.codec.encode(payload)
        except InvalidPayload as error:
            kind = name_of_type(self.codec.payload_type)
            of_the_job = f"{self.name}({kind}): {error}"  # an application has many
            error.args = (f"{self.name} needs a payload: give {with_article(kind)}" if payload is None else of_the_job,)
            raise
        digest = payload_hash(text)
        try:
            held = self._key(payload, digest) if key is None else check_key(key)
            shared = self.constraints.keys(payload)
        except InvalidPayload as error:
            raise self.codec.secrets.leave_out(error, text)  # noqa: B904 - the same error
        if scope is not None and held is None:
            raise InvalidDefinition(f"{self.name}: scope= says how long a key stays taken, and this job has no key: give key= as well")
        return NewJob(
            id=id or new_id(),
            type=self.name,
            payload=text,
            payload_hash=digest,
            queue=self.queue if queue is None else check_name("queue", queue),
            priority=self.priority if priority is None else check_priority(priority),
            delay=timedelta(0) if delay is None else _read("delay", delay, parse_duration),
            at=None if at is None else _read("at", at, _parse_storable),
            expires=self.expires if expires is None else _read("expires", expires, parse_duration),
            max_attempts=self.retry.max_attempts,
            isolated=self.isolated,
            key=held,
            scope=self.scope if scope is None else read_scope(scope),
            on_duplicate=self.on_duplicate if on_duplicate is None else read_on_duplicate(on_duplicate),
            owner=owner,
            metadata=encode_metadata(metadata or {}),
            **shared,
        )

    def _key(self, payload: P, digest: str) -> str | None:
        if self.key is None:
            return None
        if callable(self.key):
            return check_key(made_of(self.key, payload, f"key of {self.name}"))
        return digest


@overload
def define_job(name: str, handler: Callable[[P, JobContext], Any], **rules: Unpack[Rules[P]]) -> JobDefinition[P]: ...
@overload
def define_job(name: str, handler: Callable[[P], Any], **rules: Unpack[Rules[P]]) -> JobDefinition[P]: ...
@overload
def define_job(name: str, handler: Callable[[], Any], **rules: Unpack[Rules[None]]) -> JobDefinition[None]: ...
def define_job(name: str, handler: Callable[..., Any], **rules: Any) -> JobDefinition[Any]:
    """Declare a job type.

    ``name`` is stored with every job and never depends on where the code lives. ``handler`` takes payload and ctx, the payload
    only, or nothing; the payload's type is read from its annotation, or given as ``payload=``. The other rules are the keywords of
    ``JobDefinition``. Raises ``InvalidDefinition``.
    """
    _refuse_unknown(check_name("job name", name), rules)
    return JobDefinition(name, handler, **rules)


class _Decorator:
    """What ``@job(name)`` returns; a class so that a type checker reads the payload's type from the handler."""

    def __init__(self, name: str, rules: dict[str, Any]) -> None:
        self._name = name
        self._rules = rules

    @overload
    def __call__(self, handler: Callable[[P, JobContext], Any]) -> JobDefinition[P]: ...
    @overload
    def __call__(self, handler: Callable[[P], Any]) -> JobDefinition[P]: ...
    @overload
    def __call__(self, handler: Callable[[], Any]) -> JobDefinition[None]: ...
    def __call__(self, handler: Callable[..., Any]) -> JobDefinition[Any]:
        return JobDefinition(self._name, handler, **self._rules)


def job(name: str, **rules: Unpack[Rules[Any]]) -> _Decorator:
    """``define_job`` as a decorator; the decorated function stays callable."""
    if not isinstance(name, str):
        raise InvalidDefinition('@job takes the name of the job, such as @job("send-welcome"), not the function itself')
    _refuse_unknown(check_name("job name", name), rules)
    return _Decorator(name, dict(rules))


def _refuse_unknown(name: str, rules: Mapping[str, object]) -> None:
    for rule in rules:
        if rule in _OF_THE_POLICY:
            raise InvalidDefinition(f"{name}: unknown rule {rule!r}: it belongs to retry=RetryPolicy({rule}=...)")
        if rule not in Rules.__annotations__:
            raise InvalidDefinition(f"{name}: unknown rule {rule!r}{did_you_mean(rule, Rules.__annotations__)}")


def check_name(what: str, name: str) -> str:
    """Give a name back if it can be one. Raises ``InvalidDefinition``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidDefinition(
            f"{with_article(what)} is 1 to 100 letters, digits and _ . : / -, beginning with a letter or digit, not {shown(name)}"
        )
    return name


def check_priority(priority: int) -> int:
    """Give a priority back if it can be one. Raises ``InvalidDefinition``."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidDefinition(
            f"a priority is a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, higher first, not {shown(priority)}"
        )
    return priority


def _policy(name: str, retry: RetryPolicy | None) -> RetryPolicy:
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidDefinition(f"retry of {name} must be a RetryPolicy, such as retry=RetryPolicy(max_attempts=3), not {shown(retry)}")
    return retry or RetryPolicy()


def _read(option: str, given: Any, parse: Callable[[Any], T]) -> T:
    """The value of an option. Raises ``InvalidTime``, which names it."""
    try:
        return parse(given)
    except InvalidTime as error:
        raise InvalidTime(f"{option}={error}") from None


def _parse_storable(given: datetime | str) -> datetime:
    moment = parse_moment(given)
    # Far enough inside year 1 to 9999 that back-off and expiry can be added in every store.
    if not 1970 <= moment.year <= 9000:
        raise InvalidTime(f"{moment.isoformat()} is out of range: a job is due between the years 1970 and 9000")
    return moment
