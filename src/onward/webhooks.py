"""Alerts told to others by HTTP: signed, and sent by a job, so that a receiver that is down is asked again.

Signed as https://www.standardwebhooks.com says: the receiver checks ``webhook-signature`` with the secret that both know.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onward.alerts import Alert, Told
from onward.context import JobContext
from onward.definition import JobDefinition, check_name, define_job
from onward.errors import InvalidDefinition
from onward.ids import new_id
from onward.jobs import NewJob
from onward.outcome import storable
from onward.retry import RetryPolicy
from onward.spelling import shown

JOB_TYPE = "onward.webhook"
QUEUE = "onward.alerts"
"""Of their own, so that no backlog, pause or limit of the application holds them up. Workers of an application with webhooks serve it."""
FIRST = 100
"""Before everything else, so that an alert does not wait behind the backlog that it tells of."""
SECONDS = 10.0
"""For which a receiver may take to answer, all in all."""
LONGEST = {"category": 100, "cause": 300, "message": 1000, "context": 4000}
"""Characters of an alert that are sent. Ours are shorter; a row that was written by hand may hold anything."""
SHORTEST_SECRET = 16
"""Bytes."""
GONE = 410


class Webhook:
    """Somebody who is told of alerts by HTTP: ``Webhook("https://hooks.example.com/onward", secret=os.environ["ALERT_SECRET"])``.

    ``name`` is what logs and stored jobs call it: neither the URL nor the secret is ever stored or shown. A ``secret`` that begins with
    ``whsec_`` is base64, any other is used as it is. Raises ``InvalidDefinition``.
    """

    def __init__(self, url: str, *, secret: str, name: str = "alerts") -> None:
        self.name = check_name("webhook", name)
        self.url = _check_url(url)
        self._secret = _read_secret(secret)

    def __repr__(self) -> str:
        return f"<Webhook {self.name}>"

    def send(self, message_id: str, body: bytes, timestamp: int | None = None) -> int:
        """Send it, and give the status of the answer. Raises ``WebhookFailed`` where there is none within ``SECONDS``."""
        # Not imported before somebody has a webhook: it takes as long as half of this package.
        from http.client import HTTPException

        from onward.http_post import post

        at = int(time.time()) if timestamp is None else timestamp
        headers = {
            "content-type": "application/json",
            "user-agent": "onward",
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": self.signature(message_id, at, body),
        }
        try:
            return post(self.url, body, headers, seconds=SECONDS)
        except (OSError, HTTPException, ValueError) as error:
            # Only what kind it is: its text may have the URL, or what the receiver makes of it.
            raise WebhookFailed(f"webhook {self.name} cannot be reached: {type(error).__name__}") from None

    def signature(self, message_id: str, timestamp: int, body: bytes) -> str:
        """What goes with a message so that its receiver can know whose it is."""
        signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
        return "v1," + base64.b64encode(hmac.new(self._secret, signed, hashlib.sha256).digest()).decode()


class WebhookFailed(Exception):
    """A receiver did not take a message. The job is tried again."""


class WebhookGone(WebhookFailed):
    """A receiver says that it will never take one again."""


class WebhookMessage(Struct, frozen=True, kw_only=True):
    """The payload of a job that tells a webhook of one alert."""

    webhook: str
    """Its name."""
    event: str
    """``alert.opened`` or ``alert.resolved``."""
    alert: Alert


class Webhooks:
    """All that an application has, and the one job that sends to them. Raises ``InvalidDefinition`` where two have the same name."""

    def __init__(self, webhooks: Iterable[Webhook]) -> None:
        self._webhooks: dict[str, Webhook] = {}
        for one in webhooks:
            if one.name in self._webhooks:
                raise InvalidDefinition(f"two webhooks are called {one.name!r}: give one of them another name=")
            self._webhooks[one.name] = one
        self.job: JobDefinition[WebhookMessage] = define_job(
            JOB_TYPE,
            self._send,
            queue=QUEUE,
            priority=FIRST,
            retry=RetryPolicy(max_attempts=10, base="10s", cap="1h", permanent=WebhookGone),
            timeout="30s",
        )

    def __bool__(self) -> bool:
        return bool(self._webhooks)

    def __iter__(self) -> Iterator[Webhook]:
        return iter(self._webhooks.values())

    def jobs_for(self, told: Told) -> Sequence[NewJob]:
        """The jobs that tell every webhook of these alerts."""
        events = [("alert.opened", one) for one in told.opened] + [("alert.resolved", one) for one in told.resolved]
        return [
            self.job.new_job(WebhookMessage(webhook=name, event=event, alert=_bounded(alert)))
            for event, alert in events
            for name in self._webhooks
        ]

    def _send(self, message: WebhookMessage, ctx: JobContext) -> None:
        webhook = self._webhooks.get(message.webhook)
        if webhook is None:
            raise WebhookGone(f"this application has no webhook {message.webhook!r} any more")
        status = webhook.send(ctx.job.id, body_of(message.event, message.alert))
        if status == GONE:
            raise WebhookGone(f"webhook {webhook.name} answered {status}")
        if not 200 <= status < 300:
            raise WebhookFailed(f"webhook {webhook.name} answered {status}")


def _bounded(alert: Alert) -> Alert:
    """An alert that can be sent, whatever somebody has written into its row."""
    texts = {name: storable(getattr(alert, name)) for name in LONGEST}
    cut = {name: text[: LONGEST[name]] for name, text in texts.items()}
    is_json = len(texts["context"]) <= LONGEST["context"] and _is_json(texts["context"])
    return replace(alert, **cut | {"context": cut["context"] if is_json else "{}"})


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def body_of(event: str, alert: Alert) -> bytes:
    """The message, as JSON: its type, when it happened, and the alert."""
    at = alert.resolved_at if event == "alert.resolved" else alert.opened_at
    data = msgspec.to_builtins(alert) | {"context": msgspec.json.decode(alert.context)}
    return msgspec.json.encode({"type": event, "timestamp": at, "data": data})


def test_message(now: datetime) -> tuple[str, bytes]:
    """The id and the body of a message that only says that messages arrive."""
    message_id = new_id()
    body = {"type": "alert.test", "timestamp": now, "data": {"message": "this is a test: alerts of Onward arrive here"}}
    return message_id, msgspec.json.encode(body)


def _check_url(url: Any) -> str:
    if not _is_url(url):
        # Not shown: it may hold what only the receiver should know.
        raise InvalidDefinition("the URL of a webhook is http:// or https:// and a host, in ASCII and without a user's name")
    return str(url)


def _is_url(url: Any) -> bool:
    if not (isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False


def _read_secret(secret: Any) -> bytes:
    if not isinstance(secret, str):
        raise InvalidDefinition(f"the secret of a webhook is text, not {shown(type(secret).__name__)}")
    prefix, found, encoded = secret.partition("whsec_")
    try:
        key = base64.b64decode(encoded, validate=True) if found and not prefix else secret.encode()
    except ValueError:
        raise InvalidDefinition("the secret of a webhook begins with whsec_ and is not base64 behind it") from None
    if len(key) < SHORTEST_SECRET:
        raise InvalidDefinition(f"the secret of a webhook is {SHORTEST_SECRET} bytes or more, so that nobody can guess it")
    return key
