"""What can go wrong: which errors of the job are worth another try, and what the API refuses.

- Transient (``TRANSIENT`` and ``TransientJobError``: the network, a time-out, a database that is away): tried again, three times in all.
- Terminal (``PermanentJobError``): failed at once. Its message is written for the user, who reads it as the reason.
- Unknown, which is everything else: failed at once, with the stack in the job's error. The user reads only that it failed.
"""

from __future__ import annotations

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from onward import OnwardError, StoreBusy, StoreUnavailable
from onward.retry import CONNECTION_ERRORS

DATABASE_IS_AWAY = (OperationalError, StoreBusy, StoreUnavailable)
TRANSIENT = (*CONNECTION_ERRORS, *DATABASE_IS_AWAY)
"""What the retry policy is told; ``TransientJobError`` is transient by itself."""


UNUSABLE = (OnwardError, SQLAlchemyError)
"""What may be wrong with the database when something is started."""


def first_line(error: BaseException) -> str:
    """What a person needs of an error: SQLAlchemy's goes on with statements and advice."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


class Conflict(Exception):
    """What was asked for does not go with how things are. The text is for the user."""


class NotFound(Exception):
    """There is no such thing, or it is somebody else's: nobody can tell which. The text is for the user."""
