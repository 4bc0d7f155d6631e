"""URLs of stores: what is read comes back when it is written, and a password is in nothing that is shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from onward.clock import SystemClock
from onward.drivers import connect
from onward.drivers.postgres import url as postgres
from onward.drivers.sqlite import url as sqlite
from onward.errors import InvalidSetting
from onward.settings import safe_url
from tests.fuzz.target import Target, as_text, declared, must, texts

SECRET = "Vogelfrei7Kanari"
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
LONGEST_TEXT = 5 * 4096
CLOCK = SystemClock()


def check(data: bytes) -> None:
    text = as_text(data)
    _check_sqlite(f"sqlite:///{text}")
    _check_postgres(f"postgresql://{text}")
    for scheme in ("postgresql", "mysql"):
        _check_hidden(f"the password of a {scheme} URL", f"{scheme}://user:{SECRET}{text}@host/shop")
    _check_hidden("the end of a password", f"postgresql://user:{text}{SECRET}@host/shop")
    for name in SECRETS if "#" not in text else ():
        _check_hidden(name, f"postgresql://host/shop?{name}={SECRET}&{text}")
    for scheme in ("sqlite", "memory"):
        _check_hidden(f"the password of a {scheme} URL", f"{scheme}://user:{SECRET}{text}@host/shop")


def _check_sqlite(url: str) -> None:
    with declared(InvalidSetting, longest=LONGEST_TEXT):
        path, options = sqlite.read_url(url)
        written = sqlite.write_url(
            Path("/", path),
            prefix=options.get("prefix", sqlite.PREFIX),
            timeout=options.get("timeout", sqlite.TIMEOUT),
            allow_network_file_system=options.get("allow_network_file_system", False),
            relaxed=options.get("relaxed", False),
        )
        read, again = sqlite.read_url(written)
        must(Path("/", read) == Path("/", path), f"the path {path!r} comes back as {read!r}")
        must({**_usual(), **again} == {**_usual(), **options}, f"{options} come back as {again}")
    with declared(InvalidSetting, longest=LONGEST_TEXT):
        connect(url, clock=CLOCK).close()


def _usual() -> dict[str, object]:
    return {"prefix": sqlite.PREFIX, "timeout": sqlite.TIMEOUT, "allow_network_file_system": False, "relaxed": False}


def _check_postgres(url: str) -> None:
    with declared(InvalidSetting, longest=LONGEST_TEXT):
        conninfo, options = postgres.read_url(url)
        shown = postgres.write_url(conninfo, options.get("schema", postgres.SCHEMA))
        _, again = postgres.read_url(shown)
        must(again.get("schema", postgres.SCHEMA) == options.get("schema", postgres.SCHEMA), "the schema does not come back")
        known = conninfo_to_dict(conninfo)
        others = " ".join(str(value) for name, value in known.items() if name not in SECRETS)
        for name in SECRETS:
            value = str(known.get(name) or "")
            if len(value) >= 6 and value not in others:
                must(value not in shown and quote(value, safe="") not in shown, f"what is shown has the {name}")


def _check_hidden(what: str, url: str) -> None:
    with declared(InvalidSetting, longest=LONGEST_TEXT) as told:
        with_store = connect(url, clock=CLOCK)
        told.append(with_store.url)
        with_store.close()
    must(not any(SECRET in one for one in told), f"an error, or the printable URL, holds {what}")
    must(SECRET not in safe_url(url), f"a setting is shown with {what}")


TARGET = Target(
    "urls",
    check,
    texts("file.db", "/", "//", "?prefix=", "?timeout=5s", "&network_file_system=allow", "%2F", "%00", "%zz", ":memory:", "file:", "#")
    | texts("user:", "password=", "@", "host", ":5432", "/shop", "?schema=", "connections=", "sslmode=", "&", "[::1]", "%40", "℀")
    | texts("oauth_client_secret=abcdefgh", "connections=" + "9" * 5000, "notify=off", "options=-c%20x", "host=/tmp", "service=x"),
    ("prefix=", "timeout=", "schema=", "connections=", "password=", "sslpassword=", "user=", "host=", "%00", "://", "network_file_system="),
)
