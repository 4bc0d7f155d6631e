"""What ``Onward`` and ``Onward.worker`` take: its own file, so that the application can name the options without importing the worker."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from onward.alert_rules import AlertRules
from onward.definition import check_name
from onward.errors import InvalidDefinition
from onward.events import ByName, EventName
from onward.inspection import Retention
from onward.limit import Limit
from onward.settings import check_queues, check_url
from onward.signature import is_async
from onward.spelling import did_you_mean, shown, with_article
from onward.webhooks import Webhook

if TYPE_CHECKING:
    from random import Random

    from onward.clock import Clock
    from onward.definition import Duration
    from onward.worker.started import StartedJobs


class WorkerOptions(TypedDict, total=False):
    """The options of a worker; what each means stands at ``onward.worker.worker.Worker``. A test holds both lists equal."""

    queues: Iterable[str]
    concurrency: int
    poll: Duration
    sweep_every: Duration
    prune_every: Duration
    grace: Duration | None
    timeout_grace: Duration
    name: str | None
    max_jobs: int | None
    drain: bool
    lease_owner: str | None
    started: StartedJobs | None
    supervised: bool
    application: str | None
    clock: Clock | None
    chance: Random | None


def check_worker_options(options: WorkerOptions) -> WorkerOptions:
    """Give the options back. Raises ``InvalidDefinition`` for one that a worker does not have, or a queue that no job can be in."""
    for option in options:
        if option not in WorkerOptions.__annotations__:
            raise InvalidDefinition(f"a worker has no option {option!r}{did_you_mean(option, WorkerOptions.__annotations__)}")
    if options.get("application") is not None:
        _check_application(options["application"])
    if "queues" in options:
        options["queues"] = check_queues(options["queues"])
    return options


def _check_application(name: Any) -> None:
    """Raise ``InvalidDefinition`` for what no process could load. Imports nothing: the module may be the one that is running."""
    module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not module or not colon or not attribute or module == "__main__":
        raise InvalidDefinition(
            f"application= is module:attribute of a module that can be imported, such as 'myapp.jobs:app', not {shown(name)}"
        )
    try:
        is_there = module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        raise InvalidDefinition(f"application={name!r}: there is no module {module!r} that a process of an isolated job could load")
    loaded = sys.modules.get(module)
    if loaded is not None and not hasattr(loaded, attribute.partition(".")[0]):
        raise InvalidDefinition(f"application={name!r}: the module {module} has no {attribute!r}")


def read_url(url: Any) -> str | None:
    """The URL that an application was given. Raises ``InvalidDefinition`` for a path, and ``InvalidSetting``."""
    if url is None or isinstance(url, str):
        return None if url is None else check_url(url)
    example = f"sqlite:///{url}" if hasattr(url, "__fspath__") else "sqlite:///app.db"
    raise InvalidDefinition(f"the first argument of Onward is a URL as text, such as {example!r}, not {with_article(type(url).__name__)}")


def read_many(name: str, given: Any, example: str) -> tuple[Any, ...]:
    """What was given as a list. Raises ``InvalidDefinition`` for one thing without its brackets."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise InvalidDefinition(f"{name}= takes a list, such as {name}=[{example}], not {with_article(type(given).__name__)}")
    return tuple(given)


def read_subscribers(given: Any) -> tuple[Any, ...]:
    """The functions to be told of events. Raises ``InvalidDefinition``."""
    return _check_subscribers("subscribers=", read_many("subscribers", given, "print"))


def _check_subscribers(what: str, subscribers: tuple[Any, ...]) -> tuple[Any, ...]:
    for one in subscribers:
        if not callable(one):
            raise InvalidDefinition(f"{what} takes functions that are called with each Event, not {with_article(type(one).__name__)}")
        if is_async(one):
            raise InvalidDefinition(
                f"{what} takes functions that are called from a thread of the worker, where nothing of an async one would run: "
                "take a plain function, and let it enqueue a job for what takes long"
            )
    return subscribers


def read_on(given: Any) -> tuple[ByName, ...]:
    """The functions to be told of events of one name, by that name. Raises ``InvalidDefinition``."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f'on= takes a function for the name of an event, such as {{"dead_lettered": tell}}, not {shown(given)}')
    names = get_args(EventName)
    for name in given:
        if name not in names:
            raise InvalidDefinition(f"on= names events, and there is no event {shown(name)}{did_you_mean(str(name), names)}")
        one = given[name]
        if not callable(one) and (isinstance(one, str) or not hasattr(one, "__iter__")):
            raise InvalidDefinition(f"on[{name!r}] takes a function, or a list of them, not {with_article(type(one).__name__)}")
    functions = {name: _check_subscribers(f"on[{name!r}]", (one,) if callable(one) else tuple(one)) for name, one in given.items()}
    return (ByName(functions),) if functions else ()


def read_limits(given: Any) -> dict[str, Limit]:
    """The limits of queues, by their names. Raises ``InvalidDefinition``."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f'limits= takes a limit for each queue, such as {{"mail": Limit(concurrency=5)}}, not {shown(given)}')
    for name, limit in given.items():
        if not isinstance(limit, Limit):
            raise InvalidDefinition(f"limits= takes a Limit for queue {shown(name)}, such as Limit(concurrency=5), not {shown(limit)}")
    return {check_name("queue", name): limit for name, limit in given.items()}


def read_retention(given: Any) -> Retention:
    """How long final jobs are kept. Raises ``InvalidDefinition``."""
    if given is not None and not isinstance(given, Retention):
        raise InvalidDefinition(f'retention= takes a Retention, such as Retention(completed="7d"), not {shown(given)}')
    return given or Retention()


def read_alert_rules(given: Any) -> AlertRules:
    """When alerts open by themselves. Raises ``InvalidDefinition``."""
    if given is not None and not isinstance(given, AlertRules):
        raise InvalidDefinition(f"alert_rules= takes AlertRules, such as AlertRules(depth=5000), not {shown(given)}")
    return given or AlertRules()


def read_webhooks(given: Any) -> tuple[Webhook, ...]:
    """Who is told of alerts by HTTP. Raises ``InvalidDefinition``."""
    webhooks = read_many("webhooks", given, "Webhook(url, secret=...)")
    for one in webhooks:
        if not isinstance(one, Webhook):
            raise InvalidDefinition(f"webhooks= takes Webhooks, such as Webhook(url, secret=...), not {with_article(type(one).__name__)}")
    return webhooks
