-- Which workers there are, for people to look at; what the rules of alerts found; and history by its time. Code of before does not look here.
CREATE TABLE {prefix}workers (
    lease_owner TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    queues TEXT NOT NULL,
    types TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    seen_at TEXT NOT NULL
) WITHOUT ROWID;

-- One row for each cause that a rule has found, until it is over: since when it holds, or since when it does not any more while its alert is
-- open still. The row whose cause is empty says when somebody looked last.
CREATE TABLE {prefix}conditions (
    cause TEXT NOT NULL PRIMARY KEY,
    is_open INTEGER NOT NULL DEFAULT 0,
    since TEXT
) WITHOUT ROWID;

CREATE INDEX {prefix}history_finished ON {prefix}history (finished_at, job_id, fence);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (9, {now}, 1);
