"""The HTTP API, which ``serve.py`` serves. Routes translate; what they mean stands in ``episodes.py`` and ``accounts.py``."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from examples.podcasts import accounts, episodes
from examples.podcasts.database import engine
from examples.podcasts.errors import DATABASE_IS_AWAY, Conflict, NotFound, first_line
from examples.podcasts.jobs import app
from examples.podcasts.tables import User
from examples.podcasts.views import Credentials, EpisodeView, JobView, Script, TokenView, UserView
from onward import OutcomeUnknown


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Give everything back at the end."""
    yield
    await engine.dispose()
    app.close()


logger = logging.getLogger("podcasts")
api = FastAPI(title="Podcasts", lifespan=lifespan)
bearer = HTTPBearer(auto_error=False)


async def signed_in(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> User:
    """The user whose token the request carries."""
    user = None if sent is None else await accounts.user_of(sent.credentials)
    if user is None:
        raise HTTPException(401, "Sign in first.", headers={"WWW-Authenticate": "Bearer"})
    return user


SignedIn = Annotated[User, Depends(signed_in)]


@api.post("/users", status_code=201)
async def sign_up(sent: Credentials) -> UserView:
    """Add a user."""
    user = await accounts.sign_up(sent.name, sent.password)
    return UserView(id=user.id, name=user.name)


@api.post("/session", status_code=201)
async def sign_in(sent: Credentials) -> TokenView:
    """Get a token, to be sent as ``Authorization: Bearer …``."""
    token = await accounts.sign_in(sent.name, sent.password)
    if token is None:
        raise HTTPException(401, "Name or password is wrong.")
    return TokenView(token=token)


@api.post("/episodes", status_code=201)
async def create_episode(user: SignedIn, sent: Script) -> EpisodeView:
    """Add a draft."""
    return EpisodeView.of(episodes.Shown(await episodes.create(user, sent.title, sent.script), None))


@api.get("/episodes/{episode_id}")
async def show_episode(user: SignedIn, episode_id: UUID) -> EpisodeView:
    """How the episode is: draft, generating, ready or failed."""
    return EpisodeView.of(await episodes.show(user, episode_id))


@api.get("/episodes/{episode_id}/audio")
async def audio(user: SignedIn, episode_id: UUID) -> FileResponse:
    """The audio, as WAV."""
    return FileResponse(await episodes.audio(user, episode_id), media_type="audio/wav")


@api.post("/episodes/{episode_id}/generate", status_code=202)
async def generate(user: SignedIn, episode_id: UUID) -> JobView:
    """Begin to make the audio; again, it gives the job that is at it."""
    return JobView.of(await episodes.start(user, episode_id))


@api.get("/jobs/{job_id}")
async def show_job(user: SignedIn, job_id: str) -> JobView:
    """How the job is: pending, processing, completed or failed."""
    return JobView.of(await episodes.read_job(user, job_id))


@api.post("/jobs/{job_id}/retry", status_code=202)
async def retry_job(user: SignedIn, job_id: str) -> JobView:
    """Run a failed job again."""
    return JobView.of(await episodes.retry_job(user, job_id))


@api.exception_handler(NotFound)
async def not_found(_: Request, error: NotFound) -> JSONResponse:
    """The same answer whether the thing is missing or somebody else's."""
    return JSONResponse({"detail": str(error)}, 404)


@api.exception_handler(Conflict)
async def conflict(_: Request, error: Conflict) -> JSONResponse:
    """What was asked for does not go with how things are."""
    return JSONResponse({"detail": str(error)}, 409)


async def unavailable(_: Request, error: Exception) -> JSONResponse:
    """Nothing was accepted, or what was is found again by its key: asking again is safe."""
    logger.error("the database is away: %s", first_line(error))
    return JSONResponse({"detail": "Try again in a moment."}, 503, headers={"Retry-After": "1"})


for kind in (*DATABASE_IS_AWAY, OutcomeUnknown):
    api.add_exception_handler(kind, unavailable)
