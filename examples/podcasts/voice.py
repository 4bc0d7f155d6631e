"""The voice: the built-in one, or a service that is asked over HTTP."""

from __future__ import annotations

from typing import Annotated

import httpx
from pydantic import BaseModel, Field, TypeAdapter

from examples.podcasts.audio import Note, notes_of
from examples.podcasts.home import VOICE
from onward import PermanentJobError, TransientJobError

TIMEOUT = httpx.Timeout(60, connect=5)


class SpokenNote(BaseModel):
    """A note as the service sends it; one that lasts for hours would fill the disk."""

    hertz: Annotated[float, Field(ge=0, le=8_000)]
    seconds: Annotated[float, Field(ge=0, le=10)]


_ANSWER = TypeAdapter(list[SpokenNote])


async def speak(script: str) -> list[Note]:
    """Make notes of a script.

    Raises ``PermanentJobError`` when the script is refused, ``TransientJobError`` or an error of the connection while the service is
    away; anything else is a bug.
    """
    if VOICE is None:
        return notes_of(script)
    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        response = await client.post(VOICE, json={"text": script})
    try:
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        if response.is_client_error and response.status_code != httpx.codes.TOO_MANY_REQUESTS:
            raise PermanentJobError("The voice does not speak this script.") from error
        raise TransientJobError("the voice service is away", retry_after=response.headers.get("Retry-After")) from error
    return [Note(note.hertz, note.seconds) for note in _ANSWER.validate_json(response.content)]
