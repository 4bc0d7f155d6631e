-- Jobs that the clock enqueues. Code of before does not look here, so its workers go on.
CREATE TABLE {prefix}periodic (
    name TEXT NOT NULL PRIMARY KEY,
    rule TEXT NOT NULL,
    request TEXT NOT NULL,
    is_declared INTEGER NOT NULL,
    next_moment TEXT NOT NULL,
    paused_at TEXT,
    paused_by TEXT,
    last_moment TEXT,
    last_job_id TEXT,
    skipped INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL,
    updated_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX {prefix}periodic_due ON {prefix}periodic (next_moment) WHERE paused_at IS NULL;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (4, {now}, 1);
