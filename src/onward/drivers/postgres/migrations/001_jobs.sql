-- The tables of Onward. Names and order of columns are those of onward.jobs.Job; who sets each, and when, stands there.
-- What is compared is text in the collation "C": ids sort by time, indexes serve every comparison, and no upgrade of the system's
-- locales can spoil them. Payloads are text and not jsonb, which would change their bytes.
-- Counts are bigint: up to 2^53 is legal.

-- Not CREATE SCHEMA IF NOT EXISTS: that asks for the right to create schemas also where somebody has made this one for us.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{schema}') THEN
        CREATE SCHEMA "{schema}";
    END IF;
END
$$;

-- works_with is the oldest version whose code may run on the tables from this version on; migrations that only add leave it as it was.
-- identity, that of the first row, tells this store from every other whose tables have the same names.
CREATE TABLE {prefix}schema_version (
    version integer NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL,
    works_with integer NOT NULL DEFAULT 1,
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);

CREATE TABLE {prefix}jobs (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL CHECK (priority BETWEEN -100 AND 100),
    status text COLLATE "C" NOT NULL CHECK (status IN ('queued', 'in_progress', 'retrying', 'completed', 'dead_letter', 'cancelled')),
    payload text NOT NULL,
    payload_hash text NOT NULL,
    scheduled_at timestamptz NOT NULL,
    expires_at timestamptz,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    lost_leases bigint NOT NULL DEFAULT 0,
    releases bigint NOT NULL DEFAULT 0,
    snoozes bigint NOT NULL DEFAULT 0,
    isolated boolean NOT NULL DEFAULT false,
    ran_isolated boolean NOT NULL DEFAULT false,
    lease_owner text COLLATE "C",
    lease_until timestamptz,
    blocked_by text COLLATE "C" CHECK (blocked_by IN ('type', 'breaker', 'limit', 'serial')),
    idempotency_key text COLLATE "C",
    concurrency_key text COLLATE "C",
    serial_key text COLLATE "C",
    breaker text COLLATE "C",
    owner text COLLATE "C" NOT NULL DEFAULT '',
    cancel_requested_at timestamptz,
    error text,
    result text,
    progress text,
    metadata text NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    -- How long the key lasts (active, forever, or the seconds of a window), so that a retry by a person can take it again.
    scope text COLLATE "C",
    -- 'infinity', and years that no program can read. A job that is due then would wait for ever, and one that has ended then stay for ever.
    CONSTRAINT jobs_instants CHECK (
        least(scheduled_at, expires_at, lease_until, cancel_requested_at, created_at, updated_at, started_at, finished_at)
            >= '0001-01-01 00:00:00+00'
        AND greatest(scheduled_at, expires_at, lease_until, cancel_requested_at, created_at, updated_at, started_at, finished_at)
            <= '9999-12-31 23:59:59.999999+00'
    )
) WITH (
    -- Room in each page for the new versions of a row; one that is only renewed then touches no index. 30,000 jobs, renewed three times
    -- each, were run in 2.7 s and left 41 MB (100: 3.7 s and 76 MB; 85: 3.0 s and 54 MB); never renewed, they left 36 MB (100: 40 MB).
    fillfactor = 70,
    -- A job leaves two dead versions of its row. By the server's defaults they would be cleaned away when they are a fifth of the table,
    -- which is never where millions of finished jobs are kept, and slowly.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    -- A queue goes from empty to full and back within minutes, so the planner's picture of it must be young.
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000,
    -- Large payloads die when finished jobs are pruned.
    toast.autovacuum_vacuum_scale_factor = 0.02,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- The claim seeks here. Its predicate stands word for word in every statement that is to use it.
CREATE INDEX jobs_claim ON {prefix}jobs (queue, priority DESC, scheduled_at, id)
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL;
-- The sweep and the recovery of a dead process. lease_until, updated_at and progress are in no index, so that a renewal touches none.
CREATE INDEX jobs_running ON {prefix}jobs (lease_owner) WHERE status = 'in_progress';
CREATE INDEX jobs_blocked ON {prefix}jobs (blocked_by, type, queue) WHERE blocked_by IS NOT NULL;
CREATE INDEX jobs_expiring ON {prefix}jobs (expires_at) WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying');
CREATE INDEX jobs_final ON {prefix}jobs (status, finished_at) WHERE status IN ('completed', 'dead_letter', 'cancelled');

-- Who holds a key. expires_at: null until the job ends, the end of the window, or the last moment of the year 9999 for ever.
CREATE TABLE {prefix}keys (
    owner text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    payload_hash text NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (owner, type, key),
    CONSTRAINT keys_instants CHECK (expires_at >= '0001-01-01 00:00:00+00' AND expires_at <= '9999-12-31 23:59:59.999999+00')
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000
);
CREATE INDEX keys_expiring ON {prefix}keys (expires_at) WHERE expires_at IS NOT NULL;

-- A row for each attempt that ended and is kept.
CREATE TABLE {prefix}history (
    job_id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    attempt bigint NOT NULL,
    lease_owner text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    error text,
    processed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, fence),
    CONSTRAINT history_instants CHECK (
        least(started_at, finished_at) >= '0001-01-01 00:00:00+00' AND greatest(started_at, finished_at) <= '9999-12-31 23:59:59.999999+00'
    )
);

-- What ended, per minute. A worker writes only its own rows, as absolute values.
CREATE TABLE {prefix}rollups (
    minute text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    histogram text NOT NULL,
    PRIMARY KEY (minute, queue, type, outcome, worker)
) WITH (
    -- Every row is rewritten for a minute, in place as long as there is room.
    fillfactor = 70
);

-- How many of those who share a key may run, and how many do.
CREATE TABLE {prefix}limits (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    allowed integer NOT NULL,
    running integer NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL
) WITH (
    -- Few rows, rewritten at every claim and ending of those that share one: in place, and cleaned up before they grow.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (1, {now}, 1);
