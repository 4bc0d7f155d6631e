"""The job that makes an episode's audio, and the application's ``Onward``: ``onward -A examples.podcasts.jobs:app worker``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

from examples.podcasts import audio_files
from examples.podcasts.audio import RATE, Note, frames_of, wav_of
from examples.podcasts.database import reading, writing
from examples.podcasts.errors import TRANSIENT
from examples.podcasts.home import BACK_OFF, HOME, URL
from examples.podcasts.tables import Episode, State
from examples.podcasts.voice import speak
from onward import JobContext, Onward, PermanentJobError, RetryPolicy, job

RETRY = RetryPolicy(max_attempts=3, base=BACK_OFF, transient=TRANSIENT, on_unknown="dead_letter")


@dataclass
class Generate:
    """Which episode; its script is read when the job runs."""

    episode_id: UUID


@job("generate-episode", key=lambda asked: str(asked.episode_id), retry=RETRY, timeout="5m")
async def generate(payload: Generate, ctx: JobContext) -> None:
    """Have the script spoken, write the file, then make the episode ready and complete in one commit.

    Safe to run twice, and to be killed anywhere: the row names the file only when it is there and durable, and only the newest claim
    of the job gets to name one.
    """
    notes = await speak(await _script(payload.episode_id, ctx))
    name = f"{payload.episode_id}/{ctx.job.id}.{ctx.job.fence}.wav"
    await asyncio.to_thread(_write, name, notes)
    async with writing.begin() as session, ctx.transaction(session):
        episode = await session.get_one(Episode, payload.episode_id, with_for_update=True)
        episode.state, episode.audio, episode.seconds = State.READY, name, frames_of(notes) / RATE
        # The claim is proved by now, so whatever else lies there belongs to a run that will never complete.
        await asyncio.to_thread(audio_files.remove_others, name)


async def _script(episode_id: UUID, ctx: JobContext) -> str:
    async with reading() as session:
        episode = await session.get(Episode, episode_id)
    if episode is None:
        raise PermanentJobError("The episode is gone.")
    if episode.job_id != ctx.job.id:
        raise PermanentJobError("A newer job has taken over.")
    return episode.script


def _write(name: str, notes: list[Note]) -> None:
    audio_files.write(name, wav_of(notes))


HOME.mkdir(parents=True, exist_ok=True)
app = Onward(URL, jobs=[generate])
