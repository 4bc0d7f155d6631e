"""What is sent and received, in the words of the document that this application was built from."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from examples.podcasts.episodes import Shown
from onward import Job, Status
from onward.reasons import public_reason

JobWord = Literal["pending", "processing", "completed", "failed"]
WORDS: dict[Status, JobWord] = {
    Status.QUEUED: "pending",
    Status.RETRYING: "pending",
    Status.IN_PROGRESS: "processing",
    Status.COMPLETED: "completed",
    Status.DEAD_LETTER: "failed",
    Status.CANCELLED: "failed",
}


class Received(BaseModel):
    """A request's body: an unknown field is a mistake, not a comment."""

    model_config = ConfigDict(extra="forbid")


class Credentials(Received):
    """Who."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.-]+$")]
    password: Annotated[str, Field(min_length=8, max_length=200)]


class Script(Received):
    """A new episode."""

    title: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
    script: Annotated[str, Field(max_length=5_000, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    """At least one word."""


class UserView(BaseModel):
    """A user."""

    id: UUID
    name: str


class TokenView(BaseModel):
    """What to send along from now on."""

    token: str


class JobView(BaseModel):
    """A job as its owner may see it: nothing of the error but a reason that was written for users."""

    id: str
    status: JobWord
    attempts: int
    reason: str | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """Translate."""
        return cls(id=job.id, status=WORDS[job.status], attempts=job.attempts, reason=public_reason(job))


class EpisodeView(BaseModel):
    """An episode as its owner sees it."""

    id: UUID
    title: str
    script: str
    state: Literal["draft", "generating", "ready", "failed"]
    job_id: str | None
    seconds: float | None
    reason: str | None

    @classmethod
    def of(cls, shown: Shown) -> Self:
        """Translate."""
        episode, job = shown.episode, shown.job
        return cls.model_validate(
            {
                "id": episode.id,
                "title": episode.title,
                "script": episode.script,
                "state": "failed" if shown.has_failed else episode.state,
                "job_id": episode.job_id,
                "seconds": episode.seconds,
                "reason": None if job is None else public_reason(job),
            }
        )
