"""``define_job`` and ``@job``: what a job type is called, what runs it, and under which rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, get_type_hints, overload

from onward.durations import parse_duration, parse_moment
from onward.errors import InvalidDefinition, InvalidTime, UnknownJobType
from onward.ids import is_id, new_id
from onward.jobs import HIGHEST_PRIORITY, LOWEST_PRIORITY, NewJob, OnDuplicate, Scope
from onward.payload import Codec, encode_metadata, payload_hash
from onward.retry import RetryPolicy
from onward.unique import check_key, read_on_duplicate, read_scope

if TYPE_CHECKING:
    from typing import Unpack

    from onward.context import JobContext

P = TypeVar("P")
Duration: TypeAlias = timedelta | float | str
KeyRule: TypeAlias = Callable[[P], str] | Literal["payload"] | None
"""How the key is made: from the payload by a function, or from the payload's canonical hash."""

LONGEST_LEASE = timedelta(days=1)
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
    breaker: str | None
    concurrency_key: Callable[[P], str] | str | None
    serial_key: Callable[[P], str] | str | None
    isolated: bool
    history: Literal["failures", "all"]
    aliases: Iterable[str]


class JobDefinition(Generic[P]):
    """What ``define_job`` returns: the type of a job, its handler and its rules. Callable like its handler."""

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
        breaker: str | None = None,
        concurrency_key: Callable[[P], str] | str | None = None,
        serial_key: Callable[[P], str] | str | None = None,
        isolated: bool = False,
        history: Literal["failures", "all"] = "failures",
        aliases: Iterable[str] = (),
    ) -> None:
        self.name = check_name("job name", name)
        self.aliases = tuple(check_name("alias", alias) for alias in aliases)
        if not callable(handler):
            raise InvalidDefinition(f"the handler of {name} is not callable: {handler!r}")
        self.handler = handler
        self.is_async = _is_async(handler)
        self.arguments, found = _read_signature(name, handler, payload)
        self.payload_type: Any = found
        self.codec: Codec[P] = Codec(found)
        self.queue = check_name("queue", queue)
        self.priority = check_priority(priority)
        self.retry = retry or RetryPolicy()
        self.scope = read_scope(scope)
        self.on_duplicate = read_on_duplicate(on_duplicate)
        if not (key is None or key == "payload" or callable(key)):
            raise InvalidDefinition(
                f"key of {name} must be a function of the payload or 'payload', not {key!r}; a fixed key is given at enqueue"
            )
        self.key = key
        self.breaker = breaker
        self.concurrency_key = concurrency_key
        self.serial_key = serial_key
        self.isolated = isolated
        if history not in ("failures", "all"):
            raise InvalidDefinition(f"history of {name} must be 'failures' or 'all', not {history!r}")
        self.keeps_history = history == "all"
        try:
            self.lease = parse_duration(lease)
            self.timeout = None if timeout is None else parse_duration(timeout)
            self.expires = None if expires is None else parse_duration(expires)
        except InvalidTime as error:
            raise InvalidDefinition(f"{name}: {error}") from None
        if not timedelta(seconds=1) <= self.lease <= LONGEST_LEASE:
            raise InvalidDefinition(f"the lease of {name} must be from 1s to 1d, not {lease!r}")
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
    ) -> NewJob:
        """Check everything that can be checked without a store, and say what is asked for.

        Raises ``InvalidPayload``, ``InvalidTime`` or ``InvalidDefinition``; nothing has been stored then.
        """
        if delay is not None and at is not None:
            raise InvalidTime("give delay= or at=, not both")
        if id is not None and not is_id(id):
            raise InvalidDefinition(f"an id is a ULID of 26 characters, not {id!r:.60}; leave it out to have one made")
        if not isinstance(owner, str) or len(owner) > 255 or not (owner == "" or owner.isprintable()):
            raise InvalidDefinition(f"an owner is text of at most 255 printable characters, not {owner!r:.300}")
        text = self.codec.encode(payload)
        digest = payload_hash(text)
        return NewJob(
            id=id or new_id(),
            type=self.name,
            payload=text,
            payload_hash=digest,
            queue=self.queue if queue is None else check_name("queue", queue),
            priority=self.priority if priority is None else check_priority(priority),
            delay=timedelta(0) if delay is None else parse_duration(delay),
            at=None if at is None else _storable(parse_moment(at)),
            expires=self.expires if expires is None else parse_duration(expires),
            max_attempts=self.retry.max_attempts,
            isolated=self.isolated,
            key=self._key(payload, digest) if key is None else check_key(key),
            scope=self.scope if scope is None else read_scope(scope),
            on_duplicate=self.on_duplicate if on_duplicate is None else read_on_duplicate(on_duplicate),
            concurrency_key=_shared("concurrency_key", self.concurrency_key, payload),
            serial_key=_shared("serial_key", self.serial_key, payload),
            breaker=self.breaker,
            owner=owner,
            metadata=encode_metadata(metadata or {}),
        )

    def _key(self, payload: P, digest: str) -> str | None:
        if self.key is None:
            return None
        if callable(self.key):
            return check_key(self.key(payload))
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
    _refuse_unknown(rules)
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
    _refuse_unknown(rules)
    return _Decorator(name, dict(rules))


def _refuse_unknown(rules: Mapping[str, object]) -> None:
    for rule in rules:
        if rule in _OF_THE_POLICY:
            raise InvalidDefinition(f"unknown rule {rule!r}: it belongs to retry=RetryPolicy({rule}=...)")
        if rule not in Rules.__annotations__:
            from difflib import get_close_matches

            close = get_close_matches(rule, Rules.__annotations__, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(Rules.__annotations__)}"
            raise InvalidDefinition(f"unknown rule {rule!r}: {hint}")


class Registry:
    """The definitions of one application, by name and by alias."""

    def __init__(self, definitions: Iterable[JobDefinition[Any]] = ()) -> None:
        self._by_name: dict[str, JobDefinition[Any]] = {}
        self._definitions: list[JobDefinition[Any]] = []
        for definition in definitions:
            self.add(definition)

    def add(self, definition: JobDefinition[Any]) -> None:
        """Add a definition. Raises ``InvalidDefinition`` when its name or an alias is taken by another."""
        if not isinstance(definition, JobDefinition):
            raise InvalidDefinition(f"{definition!r} is not a job: make one with define_job(name, handler)")
        if definition in self._definitions:
            return
        names = (definition.name, *definition.aliases)
        for name in names:
            if name in self._by_name or names.count(name) > 1:
                raise InvalidDefinition(f"two jobs are called {name!r}: a name or alias belongs to one definition")
        self._by_name.update(dict.fromkeys(names, definition))
        self._definitions.append(definition)

    def __getitem__(self, name: str) -> JobDefinition[Any]:
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise UnknownJobType(f"no job is called {name!r}; known are: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[JobDefinition[Any]]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def leases(self) -> dict[str, timedelta]:
        """Every name that can be run here, aliases included, with its lease: what a worker tells the store that it knows."""
        return {name: definition.lease for name, definition in self._by_name.items()}


def check_name(what: str, name: str) -> str:
    """Give a name back if it can be one. Raises ``InvalidDefinition``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidDefinition(f"a {what} is 1 to 100 letters, digits and _ . : / -, beginning with a letter or digit, not {name!r:.120}")
    return name


def check_priority(priority: int) -> int:
    """Give a priority back if it can be one. Raises ``InvalidDefinition``."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidDefinition(
            f"a priority is a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, higher first, not {priority!r}"
        )
    return priority


def _shared(what: str, rule: Callable[[P], str] | str | None, payload: P) -> str | None:
    if rule is None:
        return None
    key = rule(payload) if callable(rule) else rule
    if not isinstance(key, str) or not 1 <= len(key) <= 255 or not key.isprintable():
        raise InvalidDefinition(f"a {what} is text of 1 to 255 printable characters, not {key!r:.300}")
    return key


def _storable(moment: datetime) -> datetime:
    # Far enough inside year 1 to 9999 that back-off and expiry can be added in every store.
    if not 1970 <= moment.year <= 9000:
        raise InvalidTime(f"{moment.isoformat()} is out of range: a job is due between the years 1970 and 9000")
    return moment


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _read_signature(name: str, handler: Callable[..., Any], payload: type[Any] | None) -> tuple[int, Any]:
    """Say how many arguments the handler takes, and of which type its payload is."""
    try:
        parameters = [
            one
            for one in inspect.signature(handler).parameters.values()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
        ]
    except (TypeError, ValueError):
        raise InvalidDefinition(f"the arguments of the handler of {name} cannot be read: wrap it in a function") from None
    if len(parameters) > 2:
        raise InvalidDefinition(
            f"the handler of {name} takes {len(parameters)} arguments: it may take payload and ctx, payload, or nothing"
        )
    if not parameters:
        return 0, type(None) if payload is None else payload
    if payload is not None:
        return len(parameters), payload
    first = parameters[0]
    if first.annotation is first.empty:
        raise InvalidDefinition(f"the payload of {name} has no type: annotate {first.name!r} in its handler, or pass payload=")
    target = handler if inspect.isroutine(handler) else type(handler).__call__
    try:
        return len(parameters), get_type_hints(target)[first.name]
    except (NameError, TypeError, KeyError) as error:
        raise InvalidDefinition(f"the payload type {first.annotation!r} of {name} cannot be resolved ({error}): pass payload=") from None
