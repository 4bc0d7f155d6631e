-- What has ever ended, so that counters of metrics never go back when rollups are deleted. Code of before does not look here.
-- The row whose names are empty says in `since` from which minute on rollups are not counted yet.
CREATE TABLE {prefix}totals (
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    since text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    histogram text NOT NULL,
    PRIMARY KEY (queue, type, outcome)
);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (6, {now}, 1);
