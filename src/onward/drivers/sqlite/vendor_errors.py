"""``sqlite3``'s errors become Onward's: one clear line that says what happened and what to do."""

from __future__ import annotations

import sqlite3

from onward.errors import InvalidPayload, OnwardError, SchemaOutOfDate, StoreBusy, StoreUnavailable, ValueRefused

BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB, PERM = 5, 6, 8, 10, 11, 13, 14, 26, 3
TOOBIG, CONSTRAINT, MISMATCH = 18, 19, 20
BUSY_SNAPSHOT = 517


def code_of(error: BaseException) -> int:
    """SQLite's primary result code; 0 when the error is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """True when another connection holds the lock, so that trying again may help."""
    return code_of(error) in (BUSY, LOCKED) and getattr(error, "sqlite_errorcode", 0) != BUSY_SNAPSHOT


def is_refusal(error: BaseException) -> bool:
    """True when it is a value that cannot be stored, so that trying again cannot help, and leaving the value out can.

    SQLite's texts for these name columns and types, never values.
    """
    if code_of(error) in (TOOBIG, CONSTRAINT, MISMATCH) or isinstance(error, OverflowError | sqlite3.DataError):
        return True
    return isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError) and "binding parameter" in str(error)


def is_undecodable(error: BaseException) -> bool:
    """True when a text in the table is not UTF-8."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode to UTF-8")


def translate(error: BaseException, path: str) -> OnwardError:
    """Say in Onward's words what went wrong with the file at ``path``."""
    code, text = code_of(error), str(error)
    if getattr(error, "sqlite_errorcode", 0) == BUSY_SNAPSHOT:
        return StoreBusy(
            "another writer committed after this transaction had read, so it cannot write any more: "
            "roll back, and begin with BEGIN IMMEDIATE before the first read"
        )
    if code in (BUSY, LOCKED):
        return StoreBusy(f"another connection holds the write lock of {path}: nothing was stored; keep transactions short, and try again")
    if code == FULL:
        return StoreUnavailable(f"the disk under {path} is full, or the file may not grow: nothing was stored; free some space")
    if code in (READONLY, PERM):
        return StoreUnavailable(f"{path} cannot be written: check who owns the file and its directory, and whether the disk is read-only")
    if code == CANTOPEN:
        return StoreUnavailable(f"{path} cannot be opened: check the path, and who may read and write the file and its directory")
    if code == NOTADB:
        error = StoreUnavailable(f"{path} is not a SQLite database: give another path, or move that file away")
        error.is_lasting = True
        return error
    if code == CORRUPT:
        return StoreUnavailable(f"{path} is damaged ({text}): stop all workers, and restore a backup or run SQLite's .recover")
    if code == IOERR:
        return StoreUnavailable(f"reading or writing {path} failed ({text}): check the disk")
    if is_refusal(error):
        return ValueRefused(f"a value cannot be stored ({text})")
    if isinstance(error, UnicodeEncodeError):
        return InvalidPayload("text contains a lone surrogate, which no database stores")
    if "no such table" in text or "no such column" in text or "has no column" in text:
        return SchemaOutOfDate(f"{path} does not have the tables of this Onward ({text}): give the right file, or run onward migrate")
    return StoreUnavailable(f"{path}: {text}")
