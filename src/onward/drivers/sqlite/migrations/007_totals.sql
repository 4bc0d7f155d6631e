-- What has ever ended, so that counters of metrics never go back when rollups are deleted. Code of before does not look here.
-- The row whose names are empty says in `since` from which minute on rollups are not counted yet.
CREATE TABLE {prefix}totals (
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    outcome TEXT NOT NULL,
    since TEXT NOT NULL,
    count INTEGER NOT NULL,
    histogram TEXT NOT NULL,
    PRIMARY KEY (queue, type, outcome)
) WITHOUT ROWID;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (7, {now}, 1);
