-- Which alerts a worker has told of: each is told once, by one of them. Code of before does not look here.
ALTER TABLE {prefix}alerts ADD COLUMN opening_told_at timestamptz, ADD COLUMN end_told_at timestamptz;
CREATE INDEX alerts_untold ON {prefix}alerts (id) WHERE opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL);
CREATE INDEX alerts_resolved ON {prefix}alerts (resolved_at) WHERE resolved_at IS NOT NULL;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (7, {now}, 1);
