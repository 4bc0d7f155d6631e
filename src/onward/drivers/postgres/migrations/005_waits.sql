-- Why a due job waits for others: breakers, limits, serial order; and the alerts that people are told of.
-- Code of before neither asks nor counts, so what is said here holds once every worker is newer.
-- The first design counted who runs; a count that outlives a crash would be wrong, so now the rows are counted.
ALTER TABLE {prefix}limits RENAME TO limits_before;

CREATE TABLE {prefix}breakers (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    status text NOT NULL CHECK (status IN ('closed', 'open', 'half_open')),
    failures bigint NOT NULL DEFAULT 0,
    opened_at timestamptz,
    retry_at timestamptz,
    probe_id text COLLATE "C",
    probe_fence bigint,
    pause text NOT NULL,
    pace text NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT breakers_instants CHECK (
        least(opened_at, retry_at, updated_at) >= '0001-01-01 00:00:00+00'
        AND greatest(opened_at, retry_at, updated_at) <= '9999-12-31 23:59:59.999999+00'
    )
) WITH (fillfactor = 50);
CREATE INDEX breakers_retry ON {prefix}breakers (retry_at) WHERE retry_at IS NOT NULL;

CREATE TABLE {prefix}limits (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('queue', 'key')),
    name text COLLATE "C" NOT NULL,
    concurrency bigint,
    rate text,
    burst bigint,
    is_by_hand boolean NOT NULL DEFAULT false,
    spent_until timestamptz,
    check_at timestamptz,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (kind, name),
    CONSTRAINT limits_instants CHECK (
        least(spent_until, check_at, updated_at) >= '0001-01-01 00:00:00+00'
        AND greatest(spent_until, check_at, updated_at) <= '9999-12-31 23:59:59.999999+00'
    )
) WITH (
    -- A row whose rate is used is rewritten by every claim, in place as long as there is room.
    fillfactor = 50
);
INSERT INTO {prefix}limits (kind, name, concurrency, is_by_hand, updated_at)
SELECT 'key', key, allowed, true, updated_at FROM {prefix}limits_before WHERE allowed > 0;
DROP TABLE {prefix}limits_before;
CREATE INDEX limits_check ON {prefix}limits (check_at) WHERE check_at IS NOT NULL;

-- cause says what it is about; of one cause, one alert at most is open.
CREATE TABLE {prefix}alerts (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    category text COLLATE "C" NOT NULL,
    severity text COLLATE "C" NOT NULL,
    cause text COLLATE "C" NOT NULL,
    message text NOT NULL,
    context text NOT NULL DEFAULT '{}',
    opened_at timestamptz NOT NULL,
    acknowledged_at timestamptz,
    acknowledged_by text,
    resolved_at timestamptz,
    CONSTRAINT alerts_instants CHECK (
        least(opened_at, acknowledged_at, resolved_at) >= '0001-01-01 00:00:00+00'
        AND greatest(opened_at, acknowledged_at, resolved_at) <= '9999-12-31 23:59:59.999999+00'
    )
);
CREATE UNIQUE INDEX alerts_open ON {prefix}alerts (cause) WHERE resolved_at IS NULL;

-- Who is next, of those that wait for the same. The expression stands word for word in every statement that is to use it.
CREATE INDEX jobs_behind ON {prefix}jobs (
    blocked_by, (CASE blocked_by WHEN 'breaker' THEN breaker WHEN 'limit' THEN concurrency_key ELSE serial_key END),
    priority DESC, scheduled_at, id
) WHERE blocked_by IS NOT NULL AND blocked_by <> 'type';
CREATE INDEX jobs_under_limit ON {prefix}jobs (concurrency_key) WHERE concurrency_key IS NOT NULL AND status = 'in_progress';
-- Those of a serial key that were begun, then those that were not, which are queued. Final ones are left out, but for dead letters.
CREATE INDEX jobs_in_line ON {prefix}jobs (serial_key, (fence = 0), status, priority DESC, scheduled_at, id)
    WHERE serial_key IS NOT NULL AND status IN ('queued', 'retrying', 'in_progress', 'dead_letter');

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (5, {now}, 1);
