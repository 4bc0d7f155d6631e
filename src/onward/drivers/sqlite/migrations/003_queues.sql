-- The queues that are paused: no job of theirs is claimed. Code of before does not ask, so its workers go on.
CREATE TABLE {prefix}queues (
    name TEXT NOT NULL PRIMARY KEY,
    paused_at TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (3, {now}, 1);
