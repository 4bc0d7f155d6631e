-- Jobs that the clock enqueues. Code of before does not look here, so its workers go on.
CREATE TABLE {prefix}periodic (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    rule text NOT NULL,
    request text NOT NULL,
    is_declared boolean NOT NULL,
    next_moment timestamptz NOT NULL,
    paused_at timestamptz,
    paused_by text,
    last_moment timestamptz,
    last_job_id text,
    skipped bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT periodic_instants CHECK (
        next_moment >= '0001-01-01 00:00:00+00' AND next_moment <= '9999-12-31 23:59:59.999999+00'
        AND paused_at >= '0001-01-01 00:00:00+00' AND paused_at <= '9999-12-31 23:59:59.999999+00'
        AND last_moment >= '0001-01-01 00:00:00+00' AND last_moment <= '9999-12-31 23:59:59.999999+00'
        AND updated_at >= '0001-01-01 00:00:00+00' AND updated_at <= '9999-12-31 23:59:59.999999+00'
    )
);
CREATE INDEX periodic_due ON {prefix}periodic (next_moment) WHERE paused_at IS NULL;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (3, {now}, 1);
