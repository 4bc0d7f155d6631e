-- The tables of Onward. Names and order of columns are those of onward.jobs.Job; who sets each, and when, stands there.
-- Instants are text: ISO-8601, UTC, six fraction digits, Z.

CREATE TABLE {prefix}schema_version (version INTEGER NOT NULL PRIMARY KEY, applied_at TEXT NOT NULL);

CREATE TABLE {prefix}jobs (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    -- Written as a chain: for a list in IN, SQLite would build a small index at every insert (3 µs of 17).
    status TEXT NOT NULL CHECK (
        status = 'queued' OR status = 'in_progress' OR status = 'completed'
        OR status = 'retrying' OR status = 'dead_letter' OR status = 'cancelled'
    ),
    payload TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    scheduled_at TEXT NOT NULL,
    expires_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    lost_leases INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    isolated INTEGER NOT NULL DEFAULT 0,
    ran_isolated INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_until TEXT,
    blocked_by TEXT CHECK (blocked_by IS NULL OR blocked_by = 'type' OR blocked_by = 'breaker' OR blocked_by = 'limit' OR blocked_by = 'serial'),
    idempotency_key TEXT,
    concurrency_key TEXT,
    serial_key TEXT,
    breaker TEXT,
    owner TEXT NOT NULL DEFAULT '',
    cancel_requested_at TEXT,
    error TEXT,
    result TEXT,
    progress TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    -- How long the key lasts (active, forever, or the seconds of a window), so that a retry by a person can take it again.
    scope TEXT
);

-- The claim seeks here. Its predicate stands word for word in every statement that is to use it.
CREATE INDEX {prefix}jobs_claim ON {prefix}jobs (queue, priority DESC, scheduled_at, id)
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL;
-- The sweep and the recovery of a dead process. lease_until is in no index, so that a renewal touches none.
CREATE INDEX {prefix}jobs_running ON {prefix}jobs (lease_owner) WHERE status = 'in_progress';
CREATE INDEX {prefix}jobs_blocked ON {prefix}jobs (blocked_by, type, queue) WHERE blocked_by IS NOT NULL;
CREATE INDEX {prefix}jobs_expiring ON {prefix}jobs (expires_at) WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying');
CREATE INDEX {prefix}jobs_final ON {prefix}jobs (status, finished_at) WHERE status IN ('completed', 'dead_letter', 'cancelled');

-- Who holds a key. expires_at: null until the job ends, the end of the window, or the year 9999 for ever.
CREATE TABLE {prefix}keys (
    owner TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    expires_at TEXT,
    PRIMARY KEY (owner, type, key)
) WITHOUT ROWID;
CREATE INDEX {prefix}keys_expiring ON {prefix}keys (expires_at) WHERE expires_at IS NOT NULL;

-- A row for each attempt that ended and is kept.
CREATE TABLE {prefix}history (
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lease_owner TEXT,
    outcome TEXT NOT NULL,
    error TEXT,
    processed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    started_at TEXT,
    finished_at TEXT NOT NULL,
    PRIMARY KEY (job_id, fence)
) WITHOUT ROWID;

-- What ended, per minute. A worker writes only its own rows, as absolute values.
CREATE TABLE {prefix}rollups (
    minute TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    count INTEGER NOT NULL,
    histogram TEXT NOT NULL,
    PRIMARY KEY (minute, queue, type, outcome, worker)
) WITHOUT ROWID;

-- How many of those who share a key may run, and how many do.
CREATE TABLE {prefix}limits (
    key TEXT NOT NULL PRIMARY KEY,
    allowed INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    updated_at TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO {prefix}schema_version (version, applied_at) VALUES (1, {now});
