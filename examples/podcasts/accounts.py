"""Users: signing up, signing in, and whose token this is."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from examples.podcasts.database import reading, writing
from examples.podcasts.errors import Conflict
from examples.podcasts.tables import Token, User

SALT_BYTES = 16


async def sign_up(name: str, password: str) -> User:
    """Add a user. Raises ``Conflict`` when the name is taken."""
    user = User(name=name, password=await asyncio.to_thread(_hash, password, secrets.token_bytes(SALT_BYTES)))
    try:
        async with writing.begin() as session:
            session.add(user)
    except IntegrityError:
        raise Conflict("This name is taken.") from None
    return user


async def sign_in(name: str, password: str) -> str | None:
    """Give a new token, or None: wrong name and wrong password are told apart neither by the answer nor by its time."""
    async with reading() as session:
        user = await session.scalar(select(User).where(User.name == name))
    stored = bytes(SALT_BYTES) if user is None else user.password
    is_right = hmac.compare_digest(await asyncio.to_thread(_hash, password, stored[:SALT_BYTES]), stored)
    if user is None or not is_right:
        return None
    token = secrets.token_urlsafe(32)
    async with writing.begin() as session:
        session.add(Token(digest=_digest(token), user_id=user.id))
    return token


async def user_of(token: str) -> User | None:
    """Whose token this is."""
    async with reading() as session:
        return await session.scalar(select(User).join(Token).where(Token.digest == _digest(token)))


def _hash(password: str, salt: bytes) -> bytes:
    return salt + hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
