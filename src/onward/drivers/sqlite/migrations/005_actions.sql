-- Who did what to how many. Code of before does not write it, so its workers go on.
-- filter is JSON text. finished_at stays empty when whoever did it was killed; the counts are exact then, too.
CREATE TABLE {prefix}actions (
    id TEXT NOT NULL PRIMARY KEY,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    filter TEXT NOT NULL,
    matched INTEGER NOT NULL,
    began_at TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    was_stopped INTEGER NOT NULL DEFAULT 0,
    finished_at TEXT
) WITHOUT ROWID;
CREATE INDEX {prefix}actions_old ON {prefix}actions (began_at);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (5, {now}, 1);
