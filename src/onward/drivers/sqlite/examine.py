"""What ``onward doctor`` says about a SQLite store."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from onward.drivers.sqlite.file_system import is_network
from onward.drivers.sqlite.free_space import FreeSpace, free_space
from onward.drivers.sqlite.migrate import migrations, version
from onward.inspection import Finding

FIXED_IN = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
LARGE_LOG = 256 * 1024 * 1024
LARGE_FILE = 1024 * 1024 * 1024
"""Bytes beyond which the indexes are not compared with their tables: it reads everything, some seconds for a file of this size."""


def examine(cursor: sqlite3.Cursor, statements: Mapping[str, str], path: Path, file_system: str, prefix: str) -> list[Finding]:
    """Look at everything that could weaken a promise."""
    return [
        _library(sqlite3.sqlite_version_info),
        _journal(cursor),
        _synchronous(cursor),
        _mode(path),
        _writable(path),
        _where(file_system),
        _schema(cursor, statements, prefix, path),
        _soundness(cursor, path.stat().st_size),
        *_sizes(path),
        _free(free_space(cursor), path),
        _census(cursor, statements),
        Finding("database", "ok", f"{path} (device {os.stat(path).st_dev}, inode {os.stat(path).st_ino})"),
    ]


def has_reset_bug(number: tuple[int, ...]) -> bool:
    """Say whether this SQLite may, very rarely, lose a commit that resets the log beside a checkpoint."""
    if not (3, 7, 0) <= number < FIXED_IN[-1]:
        return False
    return not any(number[:2] == fixed[:2] and number >= fixed for fixed in FIXED_IN)


def _library(number: tuple[int, int, int]) -> Finding:
    text = ".".join(map(str, number))
    if has_reset_bug(number):
        return Finding(
            "sqlite version",
            "warning",
            f"SQLite {text} has a rare bug that can lose a commit during a checkpoint: use 3.51.3 or newer (or 3.50.7, 3.44.6)",
        )
    return Finding("sqlite version", "ok", f"SQLite {text}")


def _journal(cursor: sqlite3.Cursor) -> Finding:
    mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        return Finding("journal mode", "ok", "write-ahead log")
    return Finding("journal mode", "error", f"{mode}: something has switched the write-ahead log off; restart the workers")


def _synchronous(cursor: sqlite3.Cursor) -> Finding:
    level = cursor.execute("PRAGMA synchronous").fetchone()[0]
    name = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}.get(level, str(level))
    if level >= 2:
        return Finding("synchronous", "ok", f"{name}: an accepted job survives a power cut")
    return Finding("synchronous", "error", f"{name}: a power cut may lose accepted jobs")


def _mode(path: Path) -> Finding:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        return Finding("file mode", "warning", f"{mode:04o}: other users may read payloads or write jobs; chmod 600 {path}")
    return Finding("file mode", "ok", f"{mode:04o}")


def _writable(path: Path) -> Finding:
    """Whoever may only read the file can look at everything, and neither enqueue nor work."""
    needed = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"), path.parent)
    effective = os.access in os.supports_effective_ids
    closed = [str(one) for one in needed if one.exists() and not os.access(one, os.W_OK, effective_ids=effective)]
    if closed:
        who = f"this user ({os.geteuid()})"
        text = f"{who} may not write {', '.join(closed)}: it can neither enqueue nor run jobs; use the user of the workers"
        return Finding("writable", "error", text)
    return Finding("writable", "ok", "this user may write the file, and beside it")


def _where(file_system: str) -> Finding:
    if is_network(file_system):
        return Finding("file system", "error", f"{file_system} is shared over a network: SQLite loses data there")
    return Finding("file system", "ok", file_system or "not known on this system")


def _schema(cursor: sqlite3.Cursor, statements: Mapping[str, str], prefix: str, path: Path) -> Finding:
    found, newest = version(cursor.connection, statements, prefix, str(path)), max(migrations())
    if found < newest:
        return Finding("schema", "error", f"version {found}, and this Onward needs {newest}: run onward migrate")
    return Finding("schema", "ok", f"version {found}")


def _soundness(cursor: sqlite3.Cursor, size: int) -> Finding:
    is_large = size > LARGE_FILE
    found = [row[0] for row in cursor.execute("PRAGMA quick_check(3)" if is_large else "PRAGMA integrity_check(3)").fetchall()]
    if found == ["ok"]:
        text = "the file is sound, but for its indexes, which are too large to be compared here: PRAGMA integrity_check does"
        return Finding("integrity", "ok", text if is_large else "the file is sound")
    return Finding("integrity", "error", f"the file is damaged ({'; '.join(found)}): restore a backup, or run SQLite's .recover")


def _sizes(path: Path) -> list[Finding]:
    log = Path(f"{path}-wal")
    size, log_size = path.stat().st_size, log.stat().st_size if log.exists() else 0
    findings = [Finding("size", "ok", f"{size:,} bytes")]
    if log_size > LARGE_LOG:
        text = f"{log_size:,} bytes: a transaction that stays open keeps the log from being reused"
        findings.append(Finding("log size", "warning", text))
    else:
        findings.append(Finding("log size", "ok", f"{log_size:,} bytes"))
    return findings


def _free(found: FreeSpace, path: Path) -> Finding:
    """What is free is used again, and nobody need do anything; but whoever looks for space is to find it."""
    size = found.free * found.page_size
    text = f"{size:,} bytes of the file are free, and new jobs use them"
    if found.surplus and found.shrinks:
        text += "; workers give them back, a little at a time"
    elif found.surplus:
        text += f"; with every worker stopped, sqlite3 {quote(str(path))} VACUUM gives them back"
    return Finding("free space", "ok", text)


def _census(cursor: sqlite3.Cursor, statements: Mapping[str, str]) -> Finding:
    rows = cursor.execute(statements["census"]).fetchall()
    if not rows:
        return Finding("jobs", "ok", "none")
    counts = ", ".join(f"{count:,} {status}" for status, count, _ in sorted(rows, key=lambda row: str(row[0])))
    newest = max((row[2] for row in rows if isinstance(row[2], str)), default="no instant that can be read")
    return Finding("jobs", "ok", f"{counts}; the newest was enqueued at {newest}")
