"""The application's own tables."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Table(DeclarativeBase):
    """What they have in common: ``Table.metadata`` makes them."""


class State(StrEnum):
    """Where an episode is, as far as the application alone can say. That it failed is known from its job, and stored only there."""

    DRAFT = "draft"
    GENERATING = "generating"
    READY = "ready"


class User(Table):
    """Somebody who can sign in."""

    __tablename__ = "users"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    password: Mapped[bytes]
    """Salt and scrypt hash."""


class Token(Table):
    """What a signed-in user sends along. Only its hash is stored, so that a copy of the table opens no door."""

    __tablename__ = "tokens"

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey(User.id))


class Episode(Table):
    """A script, and its audio once there is some."""

    __tablename__ = "episodes"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    owner_id: Mapped[UUID] = mapped_column(ForeignKey(User.id), index=True)
    title: Mapped[str] = mapped_column(String(200))
    script: Mapped[str]
    state: Mapped[str] = mapped_column(String(16), default=State.DRAFT)
    """A ``State``; set to generating with the enqueue of the job, to ready with its completion."""
    job_id: Mapped[str | None] = mapped_column(String(26))
    """The newest job that makes the audio; set with its enqueue."""
    audio: Mapped[str | None]
    """Which file below the audio directory; set with the completion. A file that no row names is left over, and nobody's audio."""
    seconds: Mapped[float | None]
