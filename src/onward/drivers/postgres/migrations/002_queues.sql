-- The queues that are paused: no job of theirs is claimed. Code of before does not ask, so its workers go on.
CREATE TABLE {prefix}queues (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at timestamptz NOT NULL,
    CONSTRAINT queues_instants CHECK (paused_at >= '0001-01-01 00:00:00+00' AND paused_at <= '9999-12-31 23:59:59.999999+00')
);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (2, {now}, 1);
