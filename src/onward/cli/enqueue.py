"""``onward enqueue``: ask for a job by its name, with a payload as JSON."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO, get_args

import click

from onward.cli.option_words import option_words
from onward.cli.output import put, put_json, say, usage_error
from onward.cli.target import app_option, json_option, open_application
from onward.cli.unknown_fields import refuse_unknown_fields
from onward.jobs import OnDuplicate

MOST_BYTES = 4 << 20
"""Of the text of a payload. The payload itself is smaller by far: spaces, and characters written as escapes, are not stored."""


@click.command()
@click.argument("name")
@click.argument("payload", required=False, metavar="[PAYLOAD|@FILE|-]")
@click.option("--key", metavar="KEY", help="What must be unique among the jobs of this type and owner.")
@click.option(
    "--scope", metavar="SCOPE", help="How long the key stays taken: active (while the job is live), a window such as 24h, or forever."
)
@click.option(
    "--on-duplicate",
    type=click.Choice(get_args(OnDuplicate)),
    help="While the key is taken: return the job that has it, the same unless its payload differs, or raise an error.",
)
@click.option("--delay", metavar="DURATION", help="Run it this much later, such as 5m or 1h30m.")
@click.option("--at", metavar="TIME", help="Run it at this time, with its zone, such as 2026-03-01T09:30:00Z.")
@click.option("--expires", metavar="DURATION", help="Do not run it when it is later than this.")
@click.option("--owner", metavar="OWNER", default="", help="Who may see it.")
@click.option("--priority", type=int, metavar="-100..100", help="Higher runs first.")
@click.option("--queue", metavar="NAME", help="Another queue than the job's own.")
@click.option("--metadata", metavar="JSON", help="A JSON object that is stored beside the payload.")
@click.option("--id", "job_id", metavar="ID", help="The id of a request whose outcome was unknown, to repeat it safely.")
@json_option
@app_option
def command(name: str, payload: str | None, metadata: str | None, job_id: str | None, owner: str, as_json: bool, **options: Any) -> None:
    """Ask for a job, and print its id.

    NAME is the job's name in the application. The payload is JSON: as an argument, from a file (@FILE), or from stdin (-).
    """
    if options["delay"] is not None and options["at"] is not None:
        raise usage_error("give --delay or --at, not both")
    with open_application(may_create=True) as app:
        definition = app.definitions[name]
        value = read_payload(name, definition.codec, payload)
        with option_words():
            handle = app.enqueue(definition, value, id=job_id, owner=owner, metadata=_read_metadata(metadata), **options)
        if as_json:
            put_json({"id": handle.id, "is_new": handle.is_new, "payload_differs": handle.payload_differs})
        else:
            put(handle.id)
        if not handle.is_new and not as_json:
            say("It exists already; this job stands for it." + (" Its payload differs." if handle.payload_differs else ""))


def read_payload(name: str, codec: Any, given: str | None) -> Any:
    """The payload that was given, or left out. Raises ``InvalidPayload``, or a usage error."""
    from onward.errors import InvalidPayload
    from onward.json_text import parse_json

    if given is None:
        try:
            return codec.decode("null")
        except InvalidPayload:
            raise usage_error(f"{name} needs a payload: give JSON, @FILE, or - for stdin") from None
    text = _read_text(given)
    # First as any JSON: a syntax error is told with its line and column.
    parsed = parse_json(text)
    value = codec.decode(text)
    refuse_unknown_fields(codec.payload_type, parsed)
    return value


def _read_text(given: str) -> str:
    if given != "-" and not given.startswith("@"):
        return given
    where = "stdin" if given == "-" else given[1:]
    try:
        data = _read_bounded(sys.stdin.buffer) if given == "-" else _read_file(where)
    except OSError as error:
        raise usage_error(f"the payload cannot be read from {where!r}: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise usage_error(
            f"the payload in {where!r} has more than {MOST_BYTES:,} bytes: store the data elsewhere and enqueue a reference to it"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise usage_error(f"the payload in {where!r} is not UTF-8 (byte {error.start})") from None


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return _read_bounded(file)


def _read_bounded(file: BinaryIO) -> bytes:
    """At most a byte more than is allowed: a pipe or a device may never end."""
    return file.read(MOST_BYTES + 1)


def _read_metadata(text: str | None) -> dict[str, Any] | None:
    from onward.errors import InvalidPayload
    from onward.json_text import parse_json

    if text is None:
        return None
    try:
        metadata = parse_json(text)
    except InvalidPayload as error:
        raise usage_error(f"--metadata: {error}") from None
    if not isinstance(metadata, dict):
        raise usage_error('--metadata must be a JSON object, such as \'{"tag": "x"}\'')
    return metadata
