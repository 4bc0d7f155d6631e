"""What can be done with an episode and with its job. Nobody gets at another user's, or learns that there is one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from examples.podcasts.audio_files import path_of
from examples.podcasts.database import reading, writing
from examples.podcasts.errors import Conflict, NotFound
from examples.podcasts.jobs import Generate, app, generate
from examples.podcasts.tables import Episode, State, User
from onward import DuplicateJob, IllegalTransition, Job, JobNotFound, Status
from onward.errors import ValueRefused
from onward.transaction import awith_transactional_state_and_enqueue


@dataclass(frozen=True)
class Shown:
    """An episode and, while it is being made or when that failed, its job."""

    episode: Episode
    job: Job | None

    @property
    def has_failed(self) -> bool:
        """The job will not run again by itself, and did not complete."""
        return self.job is not None and self.job.status.is_final


async def create(user: User, title: str, script: str) -> Episode:
    """Add a draft."""
    episode = Episode(owner_id=user.id, title=title, script=script)
    async with writing.begin() as session:
        session.add(episode)
    return episode


async def start(user: User, episode_id: UUID) -> Job:
    """Begin to make the audio: the episode's new state and its job are one commit.

    While a job is live, starting again gives that job, whoever asks at the same time: the key sees to it. Raises ``NotFound``, and
    ``Conflict`` when the audio is there.
    """
    async with writing.begin() as session:
        handle = await awith_transactional_state_and_enqueue(
            app,
            partial(_set_generating, user, episode_id),
            lambda episode: generate.new_job(Generate(episode.id), owner=str(user.id)),
            within=session,
        )
        await session.execute(update(Episode).where(Episode.id == episode_id).values(job_id=handle.id))
    return await app.aget(handle.id)


async def _set_generating(user: User, episode_id: UUID, session: AsyncSession) -> Episode:
    episode = await _find(session, user, episode_id, for_update=True)
    if episode.state == State.READY:
        raise Conflict("This episode is ready.")
    episode.state = State.GENERATING
    return episode


async def show(user: User, episode_id: UUID) -> Shown:
    """Read an episode, with its job unless it is done with. Raises ``NotFound``."""
    episode = await _read(user, episode_id)
    if episode.state != State.GENERATING or episode.job_id is None:
        return Shown(episode, None)
    job = await read_job(user, episode.job_id)
    if job.status is Status.COMPLETED:  # it made the episode ready between the two looks
        return Shown(await _read(user, episode_id), None)
    return Shown(episode, job)


async def audio(user: User, episode_id: UUID) -> Path:
    """Where the audio is. Raises ``NotFound``, and ``Conflict`` while there is none."""
    episode = await _read(user, episode_id)
    if episode.audio is None:
        raise Conflict("This episode has no audio yet.")
    return path_of(episode.audio)


async def read_job(user: User, job_id: str) -> Job:
    """Read a job. Raises ``NotFound``, the same for a missing and for somebody else's."""
    try:
        return await app.aget_owned_job_or_not_found(job_id, str(user.id))
    except (JobNotFound, ValueRefused):  # the latter for an id that no database could hold
        raise NotFound("There is no such job.") from None


async def retry_job(user: User, job_id: str) -> Job:
    """Run a failed job again, for its owner only. Raises ``NotFound``, and ``Conflict`` when there is nothing to retry."""
    job = await read_job(user, job_id)
    async with reading() as session:
        if await session.scalar(select(Episode.id).where(Episode.job_id == job.id)) is None:
            raise Conflict("A newer job has taken over.")
    try:
        return await app.aretry(job.id, owner=str(user.id))
    except IllegalTransition:
        raise Conflict("Only a failed job can be run again.") from None
    except DuplicateJob:
        raise Conflict("A newer job has taken over.") from None


async def _read(user: User, episode_id: UUID) -> Episode:
    async with reading() as session:
        return await _find(session, user, episode_id)


async def _find(session: AsyncSession, user: User, episode_id: UUID, *, for_update: bool = False) -> Episode:
    asked = select(Episode).where(Episode.id == episode_id, Episode.owner_id == user.id)
    episode = await session.scalar(asked.with_for_update() if for_update else asked)
    if episode is None:
        raise NotFound("There is no such episode.")
    return episode
