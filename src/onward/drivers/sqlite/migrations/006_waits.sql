-- Why a due job waits for others: breakers, limits, serial order; and the alerts that people are told of.
-- Code of before neither asks nor counts, so what is said here holds once every worker is newer.
-- The first design counted who runs; a count that outlives a crash would be wrong, so now the rows are counted.
ALTER TABLE {prefix}limits RENAME TO {prefix}limits_before;

CREATE TABLE {prefix}breakers (
    key TEXT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('closed', 'open', 'half_open')),
    failures INTEGER NOT NULL DEFAULT 0,
    opened_at TEXT,
    retry_at TEXT,
    probe_id TEXT,
    probe_fence INTEGER,
    pause TEXT NOT NULL,
    pace TEXT NOT NULL,
    updated_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX {prefix}breakers_retry ON {prefix}breakers (retry_at) WHERE retry_at IS NOT NULL;

CREATE TABLE {prefix}limits (
    kind TEXT NOT NULL CHECK (kind IN ('queue', 'key')),
    name TEXT NOT NULL,
    concurrency INTEGER,
    rate TEXT,
    burst INTEGER,
    is_by_hand INTEGER NOT NULL DEFAULT 0,
    spent_until TEXT,
    check_at TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
INSERT INTO {prefix}limits (kind, name, concurrency, is_by_hand, updated_at)
SELECT 'key', key, allowed, 1, updated_at FROM {prefix}limits_before WHERE allowed > 0;
DROP TABLE {prefix}limits_before;
CREATE INDEX {prefix}limits_check ON {prefix}limits (check_at) WHERE check_at IS NOT NULL;

-- cause says what it is about; of one cause, one alert at most is open.
CREATE TABLE {prefix}alerts (
    id TEXT NOT NULL PRIMARY KEY,
    category TEXT NOT NULL,
    severity TEXT NOT NULL,
    cause TEXT NOT NULL,
    message TEXT NOT NULL,
    context TEXT NOT NULL DEFAULT '{}',
    opened_at TEXT NOT NULL,
    acknowledged_at TEXT,
    acknowledged_by TEXT,
    resolved_at TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX {prefix}alerts_open ON {prefix}alerts (cause) WHERE resolved_at IS NULL;

-- Who is next, of those that wait for the same. The expression stands word for word in every statement that is to use it.
-- One index for the three reasons: each costs every insert and every change of a status, also of jobs that share nothing.
CREATE INDEX {prefix}jobs_behind ON {prefix}jobs (
    blocked_by, (CASE blocked_by WHEN 'breaker' THEN breaker WHEN 'limit' THEN concurrency_key ELSE serial_key END),
    priority DESC, scheduled_at, id
) WHERE blocked_by IS NOT NULL AND blocked_by <> 'type';
CREATE INDEX {prefix}jobs_under_limit ON {prefix}jobs (concurrency_key) WHERE concurrency_key IS NOT NULL AND status = 'in_progress';
-- Those of a serial key that were begun, then those that were not, which are queued. Final ones are left out, but for dead letters.
CREATE INDEX {prefix}jobs_in_line ON {prefix}jobs (serial_key, (fence = 0), status, priority DESC, scheduled_at, id)
    WHERE serial_key IS NOT NULL AND status IN ('queued', 'retrying', 'in_progress', 'dead_letter');

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (6, {now}, 1);
