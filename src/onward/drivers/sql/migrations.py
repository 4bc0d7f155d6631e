"""Migrations: numbered files of SQL, and the rule that says what they and the tables that were found ask for.

A file ``003_words.sql`` brings the tables to version 3, and ends by recording that in ``schema_version``. One that has been released never
changes. Its record says ``works_with``: the oldest version whose code may run on the tables afterwards, both while it is running already
and when it starts. A migration that only adds what old statements need not know (nullable columns, columns with a default, indexes,
tables) repeats the number that was there before. One that old code would misunderstand writes its own number, and must rename something
that every statement of old code names, such as the table ``jobs``: then a worker of the older release that is running meets an error,
and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import Enum
from importlib.resources import files

TABLES = (
    "jobs",
    "keys",
    "history",
    "rollups",
    "limits",
    "queues",
    "periodic",
    "actions",
    "breakers",
    "alerts",
    "totals",
    "workers",
    "conditions",
)
_TABLE = re.compile(r"^CREATE TABLE \{prefix\}(\w+)", re.MULTILINE)
_FILE = re.compile(r"(\d{3})_\w+\.sql", re.ASCII)


class Step(Enum):
    """What has to be done before the tables can be used."""

    NOTHING = "nothing"
    MIGRATE = "migrate"
    REFUSE_AS_OUT_OF_DATE = "the tables are missing or older than this code, and nobody asked to change them"
    REFUSE_AS_TOO_NEW = "the tables are newer than this code, and only newer code may use them"


def next_step(found: int, works_with: int, known: Collection[int], *, may_migrate: bool) -> Step:
    """Say what to do with tables of version ``found`` (0: none) that code of version ``works_with`` and newer may use.

    ``known`` are the versions that this code can make.
    """
    newest = max(known)
    if found < newest:
        return Step.MIGRATE if may_migrate else Step.REFUSE_AS_OUT_OF_DATE
    return Step.REFUSE_AS_TOO_NEW if works_with > newest else Step.NOTHING


def too_new(place: str, found: int, works_with: int) -> str:
    """The line for whoever has to upgrade Onward."""
    return (
        f"the tables of {place} have version {found}, are newer than this Onward, and need one that knows at least version {works_with}: "
        "upgrade Onward"
    )


def load_migrations(package: str) -> dict[int, str]:
    """Read the folder ``migrations`` of a package: the text of each file by its number, in order."""
    found = {}
    for file in files(package).joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            found[int(match[1])] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def tables_at(version: int, migrations: Mapping[int, str]) -> list[str]:
    """Which tables there must be once the migrations up to this version have run."""
    made = {name for number, text in migrations.items() if number <= version for name in _TABLE.findall(text)}
    return [name for name in TABLES if name in made]


def fill_in(text: str, replacements: Mapping[str, str]) -> str:
    """Put the names of one store into the text of a migration."""
    for word, value in replacements.items():
        text = text.replace("{" + word + "}", value)
    return text


def whole_script(found: int, migrations: Mapping[int, str], replacements: Mapping[str, str], *, place: str, how: str, begin: str) -> str:
    """Write all that tables of version ``found`` lack as one transaction, to be run by hand; a comment when that is nothing.

    It is one transaction so that a shell which goes on after an error cannot apply the second migration without the first.
    """
    place = " ".join(place.splitlines())  # it stands in a comment, which a line break would end
    wanted = {number: text for number, text in migrations.items() if number > found}
    if not wanted:
        return f"-- The tables of {place} have version {found}: there is nothing to do.\n"
    title = f"-- Brings the tables of {place} from version {found} to {max(wanted)}, once: {how}"
    parts = [fill_in(text, replacements).rstrip() for text in wanted.values()]
    return "\n\n".join([title, begin, *parts, "COMMIT;"]) + "\n"
