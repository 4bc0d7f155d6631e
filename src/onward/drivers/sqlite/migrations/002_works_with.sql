-- works_with is the oldest version whose code may run on the tables from this version on; migrations that only add leave it as it was.
-- Code of version 1 does not ask, and refuses whatever is newer.
ALTER TABLE {prefix}schema_version ADD COLUMN works_with INTEGER NOT NULL DEFAULT 1;

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (2, {now}, 1);
