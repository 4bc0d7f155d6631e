"""What a dead letter died of: which errors are one cause, and which are not."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from onward.error_text import LONGEST_ERROR, describe_error
from onward.failures import LENGTH_OF_ID, Cause, cause_of, group_of, members, normalised
from onward.ids import new_id
from onward.inspection import DeadLetter
from onward.outcome import LEASE_RAN_OUT
from onward.worker.lease_owner import make_lease_owner

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = '  File "/srv/shop/mail.py", line 12, in send'
LIBRARY = '  File "/venv/lib/python3.12/site-packages/httpx/_client.py", line 900, in send'
STANDARD = '  File "/usr/lib/python3.12/ssl.py", line 1, in read'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("user 4711 not found", "user <n> not found"),
        ("-3 of 10,000 took 1.5e-07 s (50%)", "<n> of <n> took <n> s (<n>)"),
        ("order1234 and order7", "order<n> and order<n>"),
        ("object at 0x7f12ab34cd", "object at <n>"),
        ("commit 0123456789abcdef0123456789abcdef01234567", "commit <n>"),
        ("job 01HZX000000000000000000000 of 550e8400-e29b-41d4-a716-446655440000", "job <n> of <n>"),
        ("upload A1b2C3d4E5f6G7h8I9 failed", "upload <n> failed"),
        ("""no 'it's' and "a \\" b" or `x`""", "no <text> and <text> or <text>"),
        ("can't open the user's file", "can't open the user's file"),
        ("missing: 1, 2, 3 of ['a', 'b']", "missing: <n> of [<text>]"),
        ("since 2026-01-02T10:00:00.123Z or 2026-01-02 10:00 +0100", "since <date> or <date>"),
        ("on Mon, 12 Jan 2026 10:00:00 GMT, at 10:00:01", "on <date>, at <date>"),
        ("10.0.0.1:5432 and fe80::1 and ada@example.org", "<n>:<n> and <address> and <address>"),
        ("see https://example.org/a?b=1#c for more", "see <url> for more"),
        ("no /var/lib/x.csv, ./y, ~/z or data/2026/a.csv", "no <path> or <path>"),
        ("no C:\\Users\\ada\\x.txt", "no <path>"),
        ("read/write and/or nothing", "read/write and/or nothing"),
        ("two\tspaces  are one", "two spaces are one"),
        ("", ""),
    ],
)
def test_what_differs_from_job_to_job_is_taken_out(message: str, expected: str) -> None:
    assert normalised(message) == expected


@pytest.mark.parametrize("end", ["'", "", "x'", "]"])
def test_a_quote_whose_end_was_cut_off_is_one(end: str) -> None:
    """A body of thousands of characters would tell each error apart from the others."""
    assert normalised(f"bad body: '{'<p>some text</p>' * 500}{end}").startswith("bad body: <text>")


def chance_of(seed: int) -> dict[str, str]:
    """Values as they differ from job to job, of every length."""
    chance = random.Random(seed)
    moment = NOW + timedelta(microseconds=chance.randrange(10**15))
    host = ".".join(str(chance.randrange(256)) for _ in range(4))
    word = "".join(chance.choice("abcdefghijklmnop 'é") for _ in range(chance.randrange(1, 30)))
    return {
        "number": str(seed * 10 ** chance.randrange(1, 15) + chance.randrange(10)),
        "amount": repr(chance.uniform(-(10**6), 10**6)),
        "pointer": hex(chance.randrange(16, 2**48)),
        "digest": f"{chance.randrange(2**256):064x}",
        "uuid": str(UUID(int=chance.randrange(2**128))),
        "ulid": new_id(),
        "quoted": repr(word),
        "date": moment.isoformat(),
        "address": f"{host}:{chance.randrange(1, 65536)}",
        "mail": f"u{seed}@host{seed % 7}.example",
        "path": f"/srv/{'/'.join(f'd{chance.randrange(99)}' for _ in range(chance.randrange(1, 5)))}/f{seed}.csv",
        "url": f"https://h{seed}.example/{chance.randrange(10**6)}?q={seed}",
    }


@pytest.mark.parametrize("name", chance_of(0))
def test_the_group_is_the_same_whatever_stands_there(name: str) -> None:
    """For a hundred values of each kind."""
    texts = {f"ShopError: the thing {chance_of(seed)[name]} is gone, again\n{OWN}" for seed in range(100)}
    assert len(texts) >= 99
    assert len({cause_of("send", text).id for text in texts}) == 1, {cause_of("send", text).message for text in texts}


def test_a_cause_is_type_exception_message_and_place() -> None:
    """One more than another in any of them is another group."""
    error = f"shop.errors.Gone: user 7 is gone\nand a second line\n{STANDARD}\n{OWN}\n    raise Gone(user)\n{LIBRARY}\n{STANDARD}"
    cause = cause_of("send", error)
    assert cause == Cause("send", "shop.errors.Gone", "user <n> is gone", "shop/mail.py:send")
    assert len(cause.id) == LENGTH_OF_ID
    others = [
        cause_of("other", error),
        cause_of("send", error.replace("Gone", "Lost")),
        cause_of("send", error.replace("is gone", "is here")),
        cause_of("send", error.replace("in send", "in receive")),
        cause_of("send", error.replace("mail.py", "post.py")),
    ]
    assert len({cause.id, *(one.id for one in others)}) == 6
    same = error.replace("line 12", "line 13").replace("/srv/shop", "/opt/v2/shop").replace("second", "third").replace("user 7", "user 8")
    assert cause_of("send", same).id == cause.id


def test_an_id_is_the_same_for_ever() -> None:
    """It is written down in tickets and scripts."""
    assert cause_of("send", f"ValueError: no user 7\n{OWN}").id == "3d922116db"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("lease lost: the worker a:1:00c0ffee stopped renewing it", ("", "lease lost: the worker <address> stopped renewing it", "")),
        ("expired", ("", "expired", "")),
        ("snoozed 1,000 times: it is not making progress", ("", "snoozed <n> times: it is not making progress", "")),
        ("the row cannot be read: Expected `int`", ("", "the row cannot be read: Expected <text>", "")),
        ("TimeoutError: timed out after 5m", ("TimeoutError", "timed out after <n>m", "")),
        (f"lower: case\n{OWN}", ("lower", "case", "shop/mail.py:send")),
        (f"t.<locals>.Odd\n{OWN}", ("t.<locals>.Odd", "", "shop/mail.py:send")),
        (f"ValueError: \n\nlater\n{OWN}", ("ValueError", "later", "shop/mail.py:send")),
        (f"not a name: x\n{OWN}", ("", "not a name: x", "shop/mail.py:send")),
        (f"E: x\n{LIBRARY}\n{STANDARD}", ("E", "x", "httpx/_client.py:send")),
        (f'E: x\n{OWN}\n  File "<string>", line 2, in __init__\n  File "<frozen os>", line 2, in open', ("E", "x", "shop/mail.py:send")),
        (f'E: x\n{OWN}\n  File "C:\\Python312\\Lib\\ssl.py", line 2, in read', ("E", "x", "shop/mail.py:send")),
        ('E: x\n  File "D:\\app\\v12\\a.py", line 2, in f.<locals>.g', ("E", "x", "v<n>/a.py:f.<locals>.g")),
        ('E: x\n  File "job.py", line 2, in f', ("E", "x", "job.py:f")),
        (f"E: x\n{OWN}\ncaused by: F: y\n" + OWN.replace("send", "below"), ("E", "x", "shop/mail.py:send")),
        (
            f'E: child failed:\nTraceback (most recent call last):\n  File "/b/c.py", line 1, in m\nF: y\n{OWN}',
            ("E", "child failed:", "shop/mail.py:send"),
        ),
        ('E: x\n  File "broken', ("E", "x", "")),
        (None, ("", "", "")),
        ("", ("", "", "")),
        (" \n ", ("", "", "")),
    ],
)
def test_every_form_of_an_error_has_a_cause(error: str | None, expected: tuple[str, str, str]) -> None:
    """Also those without a traceback, whose reason is a sentence of ours, and those that somebody wrote by hand."""
    assert cause_of("send", error) == Cause("send", *expected)


def test_a_lost_lease_is_one_cause_whichever_worker_lost_it() -> None:
    """The machine's name is in the reason."""
    owners = [make_lease_owner(), "web-1.example.org:7:00c0ffee", "host:123456:12345678"]
    assert len({cause_of("send", LEASE_RAN_OUT.format(owner=one)) for one in owners}) == 1


def test_what_is_raised_here_is_found_here() -> None:
    """Through a library's frames and Onward's, with the words that the error really has."""

    def handler(number: int) -> None:
        try:
            UUID(f"no uuid {number}")
        except ValueError as error:
            raise RuntimeError(f"order {number} has no id") from error

    def caught(number: int) -> str:
        try:
            handler(number)
        except RuntimeError as error:
            return describe_error(error)
        raise AssertionError("it raises")

    assert cause_of("t", caught(1)) == cause_of("t", caught(22))
    where = "unit/test_failures.py:test_what_is_raised_here_is_found_here.<locals>.handler"
    assert cause_of("t", caught(1)) == Cause("t", "RuntimeError", "order <n> has no id", where)


@pytest.mark.parametrize("ending", ["", "!", "x", "'", "\n" + OWN])
@pytest.mark.parametrize(
    "part", ["'", '"', " 'a", "\\'", "a", "1,", "a/", "/", "a@", ":", "ab:", "+", "Jan ", "1 Jan ", "a://", "`", "<n>, ", OWN]
)
def test_an_error_that_is_made_to_be_slow_is_read_at_once(part: str, ending: str) -> None:
    """8 KiB of what a pattern might try again and again: nothing that grows with the square of it would come to an end."""
    text = part * (LONGEST_ERROR // len(part))
    for _ in range(3):
        assert len(cause_of("send", text + ending).message) <= 240
        assert len(cause_of("send", "E: " + text + ending).id) == LENGTH_OF_ID


def dead(number: int, error: str, **fields: str) -> DeadLetter:
    at = NOW - timedelta(minutes=number)
    return DeadLetter(**({"id": f"j{number}", "type": "send", "queue": "mail", "attempts": 1, "finished_at": at, "error": error} | fields))  # type: ignore[arg-type]


def test_a_group_tells_of_its_members() -> None:
    """How many, since when, where, and the newest as an example."""
    found = members([dead(1, "E: user 1"), dead(2, "F: x"), dead(3, "E: user 2", queue="bulk")])
    assert [[one.id for one in group] for group in found.values()] == [["j1", "j3"], ["j2"]]
    cause, group = next(iter(found.items()))
    told = group_of(cause, group, is_capped=True)
    assert (told.id, told.type, told.exception, told.message, told.where) == (cause.id, *cause)
    assert (told.count, told.is_capped, told.example_id, told.queues) == (2, True, "j1", ("bulk", "mail"))
    assert (told.first_at, told.last_at) == (NOW - timedelta(minutes=3), NOW - timedelta(minutes=1))


def test_a_secret_in_a_message_is_shown_to_nobody_who_may_not_see_it() -> None:
    """Errors are redacted when they are stored; this one was written by hand. The id is the same for both."""
    cause = cause_of("send", "E: login with password=hunter failed")
    group = [dead(1, "")]
    assert group_of(cause, group).message == "login with password=[redacted] failed"
    assert group_of(cause, group, raw=True).message == "login with password=hunter failed"
    assert group_of(cause, group).id == group_of(cause, group, raw=True).id
