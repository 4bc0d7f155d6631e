"""What a call was given by mistake: the error says what to give instead, and shows nothing that may be secret or endless."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from msgspec import Struct

from onward.app import Onward
from onward.definition import define_job
from onward.errors import InvalidDefinition, InvalidPayload, OnwardError, UnknownJobType
from onward.inspection import Retention
from onward.options import check_worker_options
from onward.spelling import shown
from onward.transaction import with_transactional_state_and_enqueue


class Secret:
    def __repr__(self) -> str:
        return "Secret('hunter2')"


class Letter(Struct):
    order: int
    to: str


def send(payload: str) -> None: ...


mail = define_job("send-mail", send)
ASKED = mail.new_job("hunter2")


@pytest.fixture
def app() -> Iterator[Onward]:
    with Onward("memory://", jobs=[mail]) as app:
        yield app


# -- a job where its id is asked for -----------------------------------------------------------------------------------

BY_ID = ["get", "history", "cancel", "retry", "run_now", "delete"]
AWAITED = ["aget", "ahistory", "acancel", "aretry"]


def call(app: Onward, verb: str, job: Any) -> Any:
    answer = getattr(app, verb)(job, owner="ada") if "owned" in verb else getattr(app, verb)(job)
    return asyncio.run(answer) if verb.startswith("a") else answer


@pytest.mark.parametrize("verb", [*BY_ID, *AWAITED, "get_owned_job_or_not_found", "aget_owned_job_or_not_found"])
def test_a_handle_stands_for_its_id(app: Onward, verb: str) -> None:
    """It is what an enqueue gave, so it is what is at hand."""
    handle = app.enqueue(mail, "x", owner="ada")
    if verb.endswith("retry"):
        app.cancel(handle)
    given = call(app, verb, handle)
    assert given is None or given == [] or given.id == handle.id


@pytest.mark.parametrize("verb", [*BY_ID, "get_owned_job_or_not_found", *AWAITED, "aget_owned_job_or_not_found"])
@pytest.mark.parametrize("wrong", [5, None, b"01JE0000000000000000000000", Secret(), ASKED], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_id_is_refused_with_the_name_of_the_call(app: Onward, verb: str, wrong: Any) -> None:
    """A TypeError out of a regular expression says neither which call was wrong nor what it takes."""
    with pytest.raises(InvalidDefinition) as refused:
        call(app, verb, wrong)
    named = verb.removeprefix("a")
    assert str(refused.value) == f"{named} takes the id of a job, not {shown(wrong)}: give its id, such as handle.id"
    assert "hunter2" not in str(refused.value)


def test_a_page_begins_behind_a_handle_as_well(app: Onward) -> None:
    """The id of a job is asked for there too."""
    older, newer = app.enqueue(mail, "x"), app.enqueue(mail, "y")
    assert [job.id for job in app.find(before=newer)] == [older.id]
    with pytest.raises(InvalidDefinition, match=r"give its id, such as handle\.id"):
        app.find(before=5)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidDefinition, match="before= is the id of a job, 26 characters, not 'nope'"):
        app.find(before="nope")


@pytest.mark.parametrize("wrong", [5, Secret()], ids=["a number", "an object"])
def test_an_id_to_enqueue_under_that_is_none_is_refused(app: Onward, wrong: Any) -> None:
    """As above."""
    with pytest.raises(InvalidDefinition, match=r"an id is a ULID of 26 characters, not (5|a Secret);"):
        app.enqueue(mail, "x", id=wrong)


# -- what is not shown -------------------------------------------------------------------------------------------------


def test_a_job_made_already_goes_to_enqueue_many(app: Onward) -> None:
    """The two calls are easily mistaken, and its payload belongs into no log."""
    with pytest.raises(UnknownJobType, match=r"give that to enqueue_many\(\[...\]\)$") as refused:
        app.enqueue(ASKED)  # type: ignore[call-overload]  # that is the point
    assert "hunter2" not in str(refused.value)


SECRETS: dict[str, Callable[[Onward], object]] = {
    "enqueue": lambda app: app.enqueue(Secret()),
    "enqueue_many": lambda app: app.enqueue_many([Secret()]),
    "add": lambda app: app.add(ASKED),
    "jobs": lambda app: Onward("memory://", jobs=[ASKED]),
    "retention": lambda app: Onward("memory://", retention=Secret()),
    "owner who asks": lambda app: app.get_owned_job_or_not_found("x", Secret()),
    "owner of a key": lambda app: app.find_active_job(mail, "x", owner=Secret()),
    "status": lambda app: app.find(status=Secret()),
    "limit": lambda app: app.find(limit=Secret()),
    "application": lambda app: app.worker(application=Secret()),
    "handler": lambda app: define_job("a", Secret()),
    "key": lambda app: define_job("a", send, key=Secret()),
    "history": lambda app: define_job("a", send, history=Secret()),
    "retry": lambda app: define_job("a", send, retry=Secret()),
    "lease": lambda app: define_job("a", send, lease=Secret()),
    "primitive": lambda app: with_transactional_state_and_enqueue(app, print, lambda _: Secret(), print),
}


@pytest.mark.parametrize("mistake", SECRETS.values(), ids=SECRETS)
def test_an_object_of_the_applications_is_told_by_its_type(app: Onward, mistake: Callable[[Onward], object]) -> None:
    """Its repr may hold a password, or a payload."""
    with pytest.raises(OnwardError) as refused:
        mistake(app)
    assert "hunter2" not in str(refused.value)
    assert "a Secret" in str(refused.value) or "a NewJob" in str(refused.value)


ENDLESS: dict[str, Callable[[Onward], object]] = {
    "status": lambda app: app.find(status="x" * 5000),
    "before": lambda app: app.find(before="x" * 5000),
    "application": lambda app: app.worker(application="x" * 5000),
    "key": lambda app: define_job("a", send, key="x" * 5000),
    "history": lambda app: define_job("a", send, history="x" * 5000),
}


@pytest.mark.parametrize("mistake", ENDLESS.values(), ids=ENDLESS)
def test_a_long_text_is_cut(app: Onward, mistake: Callable[[Onward], object]) -> None:
    """One line is one line."""
    with pytest.raises(OnwardError) as refused:
        mistake(app)
    assert len(str(refused.value)) < 300


def test_a_function_and_a_class_are_told_by_their_names(app: Onward) -> None:
    """It is the handler that is enqueued by mistake, most of the time."""
    with pytest.raises(UnknownJobType, match=r"^the function send is not a job: enqueue what define_job\(name, handler\) returned$"):
        app.enqueue(send)  # type: ignore[call-overload]  # that is the point
    assert shown(Retention) == "the class Retention"
    assert (shown(None), shown(7), shown("seven"), shown([7])) == ("None", "7", "'seven'", "a list")


def test_a_missing_field_stands_in_quotes() -> None:
    """Some fields are called like words of the sentence: ``to``, ``at``, ``from``."""
    with pytest.raises(InvalidPayload, match=r"missing required field 'to' \(at \$\)"):
        define_job("a", lambda payload: None, payload=Letter).codec.decode('{"order":1}')


# -- the application that a process of an isolated job loads ----------------------------------------------------------


def test_a_module_that_is_there_is_taken_without_importing_it() -> None:
    """It may be the one that is running: imported again, its jobs would be defined twice."""
    assert check_worker_options({"application": "this:app"}) == {"application": "this:app"}
    assert "this" not in sys.modules


def test_a_module_that_was_made_while_running_is_taken_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As notebooks and tests make them: there is no file that could be found."""
    made = ModuleType("made_while_running")
    made.jobs = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_while_running", made)
    for application in ("made_while_running:jobs", "made_while_running:jobs.app"):
        check_worker_options({"application": application})


@pytest.mark.parametrize(
    ("application", "says"),
    [
        ("nowhere_to_be_found:app", "there is no module 'nowhere_to_be_found' that a process of an isolated job could load"),
        ("json.nowhere.deeper:app", "there is no module 'json.nowhere.deeper' that a process of an isolated job could load"),
        ("json:nope", "the module json has no 'nope'"),
        ("json", "application= is module:attribute of a module that can be imported"),
        ("json:", "application= is module:attribute of a module that can be imported"),
        (":app", "application= is module:attribute of a module that can be imported"),
        ("__main__:app", "application= is module:attribute of a module that can be imported"),
    ],
)
def test_an_application_that_no_process_could_load_is_refused_at_the_start(app: Onward, application: str, says: str) -> None:
    """Else every isolated job fails, one by one, at night."""
    with pytest.raises(InvalidDefinition, match=re.escape(says)):
        app.worker(application=application)
