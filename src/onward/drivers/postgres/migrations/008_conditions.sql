-- Which workers there are, for people to look at; what the rules of alerts found; and history by its time. Code of before does not look here.
CREATE TABLE {prefix}workers (
    lease_owner text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    queues text NOT NULL,
    types text NOT NULL,
    concurrency bigint NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL
);

-- One row for each cause that a rule has found, until it is over: since when it holds, or since when it does not any more while its alert is
-- open still. The row whose cause is empty says when somebody looked last.
CREATE TABLE {prefix}conditions (
    cause text COLLATE "C" NOT NULL PRIMARY KEY,
    is_open boolean NOT NULL DEFAULT false,
    since timestamptz
);

CREATE INDEX history_finished ON {prefix}history (finished_at, job_id, fence);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (8, {now}, 1);
