from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.redact import LONGEST_INPUT, LONGEST_SECRET, REDACTED, is_secret_name, redact, redact_value
from tests.lines_run import lines_run

CANARY = "hunter2canary"

LEAKS = [
    "password=§",
    "Password: §",
    "PASSWORD = '§'",
    'passwd="§ with spaces"',
    "pwd:§",
    "db_password=§ host=x",
    "DATABASE_PASSWORD=§",
    "clientSecret=§",
    "client_secret => §",
    '"api_key": "§"',
    "'apiKey': '§'",
    "{'access-token': '§', 'x': 1}",
    "{'home': '/tmp/test_no_secret_here', 'SERVICE_TOKEN': '§'}",
    '{"note":"my_secret","api_key":"§"}',
    '"{\\"note\\": \\"my_secret\\", \\"api_key\\": \\"§\\"}"',
    "[('password', '§'), ('name', 'x')]",
    'token="a\\"§"',
    'token="§ that never closes',
    "password:\n  §",
    "passwords: ['§', '§']",
    '"secrets": {"a": "§"}',
    "Authorization: Bearer §",
    "authorization: Basic §",
    "Authorization: Digest username=bob, response=§",
    "Proxy-Authorization: §",
    "{'Authorization': 'Bearer §'}",
    "('Authorization', 'Bearer §')",
    "[(b'authorization', b'§')]",
    "headers={b'cookie': b'a=§'}",
    "Cookie: a=1; session=§",
    "Set-Cookie: session=§; HttpOnly",
    "X-Api-Key: §",
    "x-auth-token: §",
    "sent Bearer § to the service",
    "sent bearer §, and failed",
    "postgres://user:§@host/db",
    "postgresql+psycopg://user:p@§@host:5432/db?x=1",
    "amqp://user:a/§#b@host",
    "redis://:§@localhost:6379/0",
    "https://h/?next=postgres://u:§@h/db",
    "https://h/path?token=§&user=5",
    "https://h/path?X-Amz-Signature=§&user=5",
    "https://§ghp0123456789@github.com/x/y",
    "root:§@tcp(127.0.0.1:3306)/db",
    "host=x user=y password=§ dbname=z",
    "Server=x;Password=§;Database=y",
    "AccountName=x;AccountKey=§==;EndpointSuffix=y",
    "run --password § now",
    "run --api-key=§",
    "['--token', '§']",
    "-----BEGIN RSA PRIVATE KEY-----\n§\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\\n§",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n§\n-----END PGP PRIVATE KEY BLOCK-----",
    'os.environ["DB_PASSWORD"] = "§"',
    "<password>§</password>",
    'body: "{\\"password\\": \\"§\\", \\"a\\": 1}"',
    'body: "{\\"password\\": \\"a\\\\\\"§\\"}"',
    "aws_secret_access_key = §/+x",
    "ConnectionString=§",
    "private_key: §",
    "session_id=§",
    "password=a,§",
    "password=a;§",
    "password=a\x1c§",
    "password=\u00a0§",
]

KNOWN_TOKENS = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_" + "11AAAAAAA0aaaaaaaaaaaa",
    "glpat-" + "abcdefghij0123456789",
    "xoxb-" + "123456789012-abcdefghij",
    "sk-" + "proj-abcdefghij0123456789",
    "sk_live_" + "abcdefghij0123456789",
    "AIza" + "SyA0123456789abcdefghijABCDEFGHIJKL",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "SG." + "abcdefghij0123456789.abcdefghij",
    "dXNlcjpodW50ZXIyY2FuYXJ5",
]

HARMLESS = [
    "",
    "ValueError: 5 is not a name",
    "max_tokens=4096 exceeded by 12 tokens",
    "the secretary and the author met",
    "https://localhost:8080/@scope/package",
    "ssh://git@github.com/x/y.git",
    "user@example.com wrote to other@example.com",
    "sqlite:///home/a@b/app.db is locked",
    "Basic authentication failed",
    "password=None, token=null, secret=False",
    "IndexError: list index out of range (at $.items[2].name)",
    'File "/app/tokens.py", line 3, in tokenize',
    "12:30: the bypass: opened",
    "SELECT id FROM jobs WHERE status = 'queued'",
]


@pytest.mark.parametrize("leak", LEAKS, ids=range(len(LEAKS)))
def test_no_part_of_a_secret_is_left(leak: str) -> None:
    """Errors are stored, shown, logged and mailed."""
    text = "before " + leak.replace("§", CANARY)
    redacted = redact(text)
    assert CANARY not in redacted
    assert "canary" not in redacted
    assert REDACTED in redacted
    assert redacted.startswith("before ")
    assert redact(redacted) == redacted


@pytest.mark.parametrize("token", KNOWN_TOKENS, ids=range(len(KNOWN_TOKENS)))
def test_tokens_of_known_form_are_found_without_a_name(token: str) -> None:
    """They stand alone in messages of client libraries."""
    prefix = "Basic " if token == KNOWN_TOKENS[-1] else "got "
    for text in (f"{prefix}{token}", f"({prefix}{token})", f"'{prefix}{token}' was refused"):
        assert token not in redact(text)
        assert token[-8:] not in redact(text)


@pytest.mark.parametrize("text", HARMLESS, ids=range(len(HARMLESS)))
def test_ordinary_text_is_left_alone(text: str) -> None:
    """An error that is all stars helps nobody."""
    assert redact(text) == text


def test_what_stands_around_a_secret_is_kept() -> None:
    """The host, the user and the other fields are what one looks for."""
    assert redact("postgres://app:x@db.internal:5432/shop failed") == f"postgres://app:{REDACTED}@db.internal:5432/shop failed"
    assert redact('{"user": "bob", "password": "x", "n": 1}') == f'{{"user": "bob", "password": "{REDACTED}", "n": 1}}'
    assert redact("https://h/x?token=abc&page=2") == f"https://h/x?token={REDACTED}&page=2"
    assert redact("cookie=b'a' and token=b\"b\"") == f"cookie='{REDACTED}' and token=\"{REDACTED}\""


secrets = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'<>&\\"), min_size=6, max_size=40)


@given(
    st.sampled_from(
        ["password={}", "token: {}", '"secret": "{}"', "'api_key': '{}'", "Authorization: Bearer {}", "Cookie: a={}", "x --password {}"]
    ),
    secrets,
)
def test_a_canary_is_gone_whatever_it_is_made_of(form: str, secret: str) -> None:
    """Punctuation is what good passwords are full of."""
    secret = "Q" + secret + "Q7"
    assert secret not in redact(form.format(secret))
    assert secret[-5:] not in redact(form.format(secret)).replace(REDACTED, "")


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["password", "api_key"]))
def test_json_of_any_value_loses_its_secrets(secret: str, note: str, name: str) -> None:
    """Escapes included, and what follows stays readable."""
    secret = f"Qx{secret}Qy"
    redacted = redact(json.dumps({name: secret, "n": 5}) + " " + note.replace("Q", "q"))
    assert "Qx" not in redacted
    assert "Qy" not in redacted
    assert redacted.startswith(f'{{"{name}": "{REDACTED}", "n": 5}}')


fragments = st.lists(
    st.sampled_from(
        [
            "password",
            "token",
            "=",
            ":",
            " ",
            '"',
            "'",
            "\\",
            "\n",
            "://",
            "@",
            "a",
            "Bearer ",
            "Basic ",
            "[",
            "{",
            "(",
            "]",
            "--",
            "-----BEGIN PRIVATE KEY-----",
            "cookie",
            "eyJ",
            ".",
            ",",
            "&",
            "<",
            ">",
            "None",
            REDACTED,
            "AKIA",
            "=>",
            "b'",
        ]
    )
    | st.text(max_size=3),
    max_size=14,
).map("".join)


@given(fragments)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """A text passes more than one seam."""
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize("end", ["head", "tail"])
@pytest.mark.parametrize(
    "form",
    [
        "password={}",
        'token="{} and {}"',
        "postgres://u:{}@h/db",
        "Bearer {}",
        "-----BEGIN PRIVATE KEY-----\n{0}\n{0}\n-----END PRIVATE KEY-----",
        "Cookie: a={}; b={}",
    ],
    ids=range(6),
)
def test_a_long_text_is_cut_without_leaving_half_a_secret(form: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the cut goes through it: what is left of a secret has lost the name that gave it away."""
    secret = CANARY * 10
    longest, longest_secret = LONGEST_INPUT // 8, LONGEST_SECRET // 4  # so that many places can be tried
    monkeypatch.setattr("onward.redact.LONGEST_INPUT", longest)
    monkeypatch.setattr("onward.redact.LONGEST_SECRET", longest_secret)
    half = longest // 2
    for between, border in itertools.product((" ", ","), (0, longest_secret)):
        filler, hidden = ("word" + between) * 5_000, between + form.format(secret, secret) + between
        for inside in range(-80, len(hidden) + 80, 11):
            near, far = filler[: half - border - inside], filler
            redacted = redact(near + hidden + far if end == "head" else far + hidden + near)
            assert "canary" not in redacted
            assert "hunter2" not in redacted
            assert "characters cut" in redacted
            assert len(redacted) <= longest
            assert redact(redacted) == redacted


def test_64_kibibytes_are_kept_whole() -> None:
    """Of one character more the middle is left out, and said how much."""
    assert redact("a" * LONGEST_INPUT) == "a" * LONGEST_INPUT
    head, said, tail = redact("a" * (LONGEST_INPUT + 1)).split("\n")
    assert set(head) == set(tail) == {"a"}
    assert said == f"… {LONGEST_INPUT + 1 - len(head) - len(tail):,} characters cut …"


def test_a_long_private_key_whose_beginning_was_cut_off_is_dropped() -> None:
    """What is left of it is still most of a key."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "hunter2canary line\n" * 1500 + "-----END PRIVATE KEY-----\n"
    for before in (0, 5_000, 20_000, 30_000, 100_000):
        redacted = redact("word " * (before // 5) + key + "word " * 2000)
        assert "canary" not in redacted


REPEATED = [
    "a",
    "password",
    "password=",
    "a://b:",
    'token="',
    'token=\\"',
    "\\",
    "eyJ",
    "eyJaaaaaa.",
    "-----BEGIN ",
    "a@",
    "a:",
    "--",
    "--token ",
    "token=[",
    "bearer ",
    "basic a",
    "1",
    "\n",
    "cookie:",
    '",',
    "é",
    "api_key-",
    "sk-",
    "=",
    "://",
    "@",
    "pass",
    "token>",
]


@pytest.mark.parametrize("unit", REPEATED, ids=ascii)
def test_hostile_text_ends_well_within_the_test_s_own_limit(unit: str) -> None:
    """A pattern that goes back over the text again and again would need minutes for this; the suite's time-out fails it then."""
    for text in ((unit * LONGEST_INPUT)[:LONGEST_INPUT], unit * 1_000_000):
        redacted = redact(text)
        assert len(redacted) <= 12 * LONGEST_INPUT


@pytest.mark.parametrize("unit", REPEATED, ids=ascii)
def test_our_own_steps_grow_no_faster_than_the_text(unit: str) -> None:
    """Twice the text, at most about twice the lines run."""
    small, large = (unit * 60_000)[:15_000], (unit * 60_000)[:60_000]
    assert lines_run(lambda: redact(large)) <= 5 * lines_run(lambda: redact(small)) + 100


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "db_password",
        "DB-PASSWORD",
        "clientSecret",
        "X-Api-Key",
        "authorization",
        "Set-Cookie",
        "private_key",
        "aws_secret_access_key",
        "token",
        "passwd",
        "pass",
        "auth_token",
        "sessionid",
    ],
)
def test_names_of_secrets(name: str) -> None:
    """However they are spelled."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["", "name", "max_tokens", "author", "secretary", "compass", "key", "id", "passenger", "tokenizer"])
def test_names_that_are_none(name: str) -> None:
    """A table of stars helps nobody."""
    assert not is_secret_name(name)


def test_values_are_redacted_by_name_and_by_pattern() -> None:
    """Mappings and lists at any depth; the original is left as it was."""
    original = {
        "user": "bob",
        "password": CANARY,
        "db": {"url": f"postgres://u:{CANARY}@h/db", "port": 5432, "api_key": {"nested": CANARY}},
        "headers": [("Authorization", f"Bearer {CANARY}"), {"Cookie": CANARY}],
        "raw": f"token={CANARY}".encode(),
        "secret": None,
        "token": False,
        5: (1, 2.5),
    }
    redacted = redact_value(original)
    assert CANARY not in repr(redacted)
    assert redacted["user"] == "bob"
    assert redacted["password"] == REDACTED
    assert redacted["db"]["port"] == 5432
    assert redacted["secret"] is None
    assert redacted["token"] is False
    assert redacted[5] == [1, 2.5]
    assert original["password"] == CANARY
    assert redact_value(redacted) == redacted


def test_a_value_inside_itself_ends() -> None:
    """A cycle is cut, not followed."""
    cycle: dict[str, Any] = {"password": CANARY}
    cycle["self"] = cycle
    assert CANARY not in repr(redact_value(cycle))


def nest(levels: int, inner: object, *, in_mappings: bool) -> Any:
    for _ in range(levels):
        inner = {"a": inner} if in_mappings else [inner]
    return inner


@pytest.mark.parametrize("in_mappings", [False, True])
def test_what_a_payload_may_hold_is_shown_whole_and_nothing_deeper(in_mappings: bool) -> None:
    """64 levels, as in a payload; of what lies below them nobody can say that it is no secret."""
    fine = nest(64, "plain", in_mappings=in_mappings)
    assert redact_value(fine) == fine
    deeper = redact_value(nest(65, "plain", in_mappings=in_mappings))
    assert "plain" not in repr(deeper)
    assert REDACTED in repr(deeper)


def test_bytes_that_are_no_text_are_redacted_all_the_same() -> None:
    """A header or a body that is cut in the middle of a character must not keep the error from being stored."""
    assert redact_value(b"\xff token=hunter2") == f"\ufffd token={REDACTED}".encode()
