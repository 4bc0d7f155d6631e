"""Alerts that are told by HTTP: what is sent can be trusted, and what is known of the receiver stays a secret."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import InvalidDefinition, Onward, Webhook, define_job
from onward.alerts import Alert, Told
from onward.clock import FakeClock
from onward.ids import new_id
from onward.status import Status
from onward.testing import drain
from onward.webhooks import QUEUE, WebhookFailed, Webhooks, body_of
from tests.loopback import free_port
from tests.receiver import Receiver, receiver

SECRET = "a secret of the test, long enough"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def make_alert(**fields: Any) -> Alert:
    defaults = {"category": "depth", "severity": "warning", "cause": "depth:mail/work", "message": "too many", "context": '{"value": 11}'}
    return Alert(id=new_id(), opened_at=NOW, **(defaults | fields))


def test_a_message_carries_the_signature_of_the_standard() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks, spec, with its key, id, time and body."""
    webhook = Webhook("https://example.com", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert webhook.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_arrives_is_signed_as_it_arrives(there: Receiver) -> None:
    webhook = Webhook(there.url, secret=SECRET)
    assert webhook.send("the id", b"{}", 1_700_000_000) == 204
    (request,) = there.received
    assert (request.path, request.body) == ("/hook?token=not-to-be-shown", b"{}")
    assert (request.headers["webhook-id"], request.headers["webhook-timestamp"]) == ("the id", "1700000000")
    assert request.headers["webhook-signature"] == webhook.signature("the id", 1_700_000_000, b"{}")
    assert request.headers["content-type"] == "application/json"


def test_the_body_says_what_happened_when() -> None:
    alert = make_alert()
    opened = json.loads(body_of("alert.opened", alert))
    assert (opened["type"], opened["timestamp"], opened["data"]["context"]) == ("alert.opened", "2026-03-01T12:00:00Z", {"value": 11})
    over = json.loads(body_of("alert.resolved", make_alert(resolved_at=NOW + timedelta(hours=1))))
    assert (over["type"], over["timestamp"], over["data"]["message"]) == ("alert.resolved", "2026-03-01T13:00:00Z", "too many")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_signed_message_is_not_carried_to_another_place(there: Receiver, status: int) -> None:
    there.answers, there.location = [status], there.url
    assert Webhook(there.url, secret=SECRET).send("id", b"{}") == status
    assert len(there.received) == 1


def make_app(clock: FakeClock, *webhooks: Webhook) -> Onward:
    return Onward("memory://", jobs=[define_job("note", lambda: None)], webhooks=webhooks, clock=clock)


def told(app: Onward) -> None:
    """A breaker opens, and the lookout of a worker tells of it."""
    app.breakers.open("s3", "30m")
    app.worker().lookout.tick()


def test_each_webhook_is_told_once_by_a_job_of_its_own(there: Receiver) -> None:
    with receiver() as other:
        app = make_app(FakeClock(), Webhook(there.url, secret=SECRET), Webhook(other.url, secret=SECRET * 2, name="pager"))
        told(app)
        app.worker().lookout.tick()
        assert drain(app).counts == {"completed": 2}
    assert [len(one.received) for one in (there, other)] == [1, 1]
    (alert,) = app.alerts.list()
    message = json.loads(there.received[0].body)
    assert (message["type"], message["data"]["id"], message["data"]["cause"]) == ("alert.opened", alert.id, "breaker:s3")


def test_a_receiver_that_is_down_is_asked_again_with_the_same_id(there: Receiver) -> None:
    clock = FakeClock()
    app = make_app(clock, Webhook(there.url, secret=SECRET))
    told(app)
    there.answers = [500, 503]
    for _ in range(3):
        drain(app)
        clock.advance(3600)
    ids = {request.headers["webhook-id"] for request in there.received}
    assert (len(there.received), len(ids)) == (3, 1)
    (job,) = app.find(definition=app.webhooks.job)
    assert (job.status, job.attempts) == (Status.COMPLETED, 3)


def test_one_that_says_it_is_gone_is_not_asked_again(there: Receiver) -> None:
    app = make_app(FakeClock(), Webhook(there.url, secret=SECRET))
    told(app)
    there.answers = [410]
    drain(app)
    (job,) = app.find(definition=app.webhooks.job)
    assert (job.status, job.attempts) == (Status.DEAD_LETTER, 1)


def test_neither_url_nor_secret_are_stored_or_said(there: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Not in the payload, not in the error, not in a log."""
    gone = f"http://127.0.0.1:{free_port()}/hook?token=not-to-be-shown"
    app = make_app(FakeClock(), Webhook(gone, secret=SECRET))
    told(app)
    drain(app)
    (job,) = app.find(definition=app.webhooks.job)
    assert "webhook alerts cannot be reached" in (job.error or "")
    seen = repr(job) + repr(app.history(job.id)) + caplog.text + repr(app.webhooks) + repr(list(app.webhooks))
    assert "not-to-be-shown" not in seen
    assert "127.0.0.1" not in seen
    assert SECRET not in seen


def test_a_webhook_that_the_application_has_no_more_ends_as_a_dead_letter() -> None:
    clock = FakeClock()
    app = make_app(clock, Webhook("http://127.0.0.1:9", secret=SECRET, name="old"))
    told(app)
    other = Onward(store=app.store, webhooks=[Webhook("http://127.0.0.1:9", secret=SECRET, name="new")])
    drain(other)
    (job,) = app.find(definition=app.webhooks.job)
    assert job.status is Status.DEAD_LETTER
    assert "no webhook 'old' any more" in (job.error or "")


def test_nobody_there_is_an_error_in_a_line() -> None:
    with pytest.raises(WebhookFailed, match=r"^webhook alerts cannot be reached: ConnectionRefusedError$"):
        Webhook(f"http://127.0.0.1:{free_port()}/", secret=SECRET).send("id", b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host/",
        "https://",
        "host",
        "https://a b",
        "http://[",
        "http://host:99999/",
        "http://ada:pass@host/",
        None,
        "https://hö.example",
    ],
)
def test_what_can_be_no_url_is_refused_and_not_shown(url: Any) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        Webhook(url, secret=SECRET)
    assert str(refused.value) == "the URL of a webhook is http:// or https:// and a host, in ASCII and without a user's name"


@pytest.mark.parametrize(
    ("secret", "words"),
    [("short", "16 bytes"), ("whsec_???", "base64"), ("whsec_" + base64.b64encode(b"short").decode(), "16 bytes"), (None, "text")],
    ids=["short", "not base64", "short base64", "none"],
)
def test_what_can_be_no_secret_is_refused_and_not_shown(secret: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words) as refused:
        Webhook("https://example.com", secret=secret)
    assert "short" not in str(refused.value)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidDefinition, match="two webhooks are called 'alerts'"):
        Webhooks([Webhook("https://a.example", secret=SECRET), Webhook("https://b.example", secret=SECRET)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"webhooks": "https://a"}, "webhooks= takes a list"),
        ({"webhooks": ["https://a"]}, "webhooks= takes Webhooks"),
        ({"alert_rules": {}}, "alert_rules="),
    ],
    ids=["text", "a list of text", "rules"],
)
def test_what_an_application_cannot_take_is_refused_in_a_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        Onward("memory://", **given)


def test_the_jobs_stand_before_all_others_in_a_queue_of_their_own() -> None:
    """No backlog, pause or limit of the application holds up what tells of it."""
    webhooks = Webhooks([Webhook("https://a.example", secret=SECRET)])
    jobs = webhooks.jobs_for(Told(opened=(make_alert(),), resolved=(make_alert(resolved_at=NOW),)))
    assert [(job.queue, job.priority, json.loads(job.payload)["event"]) for job in jobs] == [
        (QUEUE, 100, "alert.opened"),
        (QUEUE, 100, "alert.resolved"),
    ]


@pytest.mark.parametrize(("queues", "served"), [((), ()), (("mail",), ("mail", QUEUE))])
def test_a_worker_of_some_queues_serves_alerts_as_well(queues: tuple[str, ...], served: tuple[str, ...]) -> None:
    app = make_app(FakeClock(), Webhook("http://127.0.0.1:9", secret=SECRET))
    app.worker(queues=queues).lookout.tick()
    assert app.store.workers()[0].queues == served
    assert Onward("memory://").worker(queues=["mail"])._queues == ("mail",)


def test_an_alert_that_somebody_wrote_by_hand_keeps_no_other_from_being_told() -> None:
    """However long it is, and whatever is in it."""
    webhooks = Webhooks([Webhook("https://a.example", secret=SECRET)])
    odd = make_alert(cause="c" * 300_000, message="m\0" * 200_000, category="x" * 5000, context="{" * 50_000)
    odd_one, other = webhooks.jobs_for(Told(opened=(odd, make_alert())))
    assert len(odd_one.payload) < 8000
    assert json.loads(odd_one.payload)["alert"]["context"] == "{}"
    assert json.loads(other.payload)["alert"]["message"] == "too many"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 100 Continue\r\n\r\n", b"z"], ids=["continue", "no answer"])
def test_a_receiver_that_answers_for_ever_is_given_up_in_time(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout of a socket begins anew with every byte."""
    monkeypatch.setattr("onward.webhooks.SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        is_over = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                while not is_over.wait(0.01):
                    connection.sendall(answer)

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(WebhookFailed, match=r"^webhook alerts cannot be reached: \w+$"):
            Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/", secret=SECRET).send("id", b"{}")
        is_over.set()
        thread.join()


def test_what_a_receiver_echoes_is_not_repeated() -> None:
    """Nor is what could not be understood of its answer: it may be the URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(65536))

        thread = threading.Thread(target=echo)
        thread.start()
        with pytest.raises(WebhookFailed, match=r"^webhook alerts cannot be reached: BadStatusLine$") as failed:
            Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/services/T0/SECRETPATH", secret=SECRET).send("id", b"{}")
        thread.join()
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
