-- == lookout: which workers there are, and what the rules of alerts have found ==

-- name: see_worker
-- Nothing where it says something else of itself than before.
UPDATE {prefix}workers SET seen_at = :now
WHERE lease_owner = :lease_owner AND name = :name AND queues = :queues AND types = :types AND concurrency = :concurrency
RETURNING lease_owner;

-- name: announce_worker
INSERT INTO {prefix}workers (lease_owner, name, queues, types, concurrency, started_at, seen_at)
VALUES (:lease_owner, :name, :queues, :types, :concurrency, :now, :now)
ON CONFLICT (lease_owner) DO UPDATE SET
    name = excluded.name, queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency, seen_at = excluded.seen_at;

-- name: withdraw_worker
DELETE FROM {prefix}workers WHERE lease_owner = :lease_owner;

-- name: workers
SELECT {worker_columns} FROM {prefix}workers ORDER BY lease_owner;

-- name: prune_workers
-- A row of after :future was written before the clock was set back.
DELETE FROM {prefix}workers WHERE seen_at < :before OR seen_at > :future;

-- name: begin_looking
INSERT INTO {prefix}conditions (cause, is_open, since) VALUES ('', 0, :now) ON CONFLICT DO NOTHING;

-- name: look_out
-- When somebody looked last, and whether there is an alert of which nobody was told yet.
SELECT (SELECT since FROM {prefix}conditions WHERE cause = ''), EXISTS (
    SELECT 1 FROM {prefix}alerts WHERE opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL)
);

-- name: take_look
-- One caller gets the row, and looks. A look of after now was taken before the clock was set back.
UPDATE {prefix}conditions SET since = :now WHERE cause = '' AND (since IS NULL OR since <= :before OR since > :now) RETURNING cause;

-- name: hold_conditions
-- So that nobody else judges meanwhile: a write holds the file as it is.
SELECT 1;

-- name: conditions
SELECT cause, is_open, since FROM {prefix}conditions WHERE cause <> '';

-- name: write_conditions
-- Read by position.
INSERT INTO {prefix}conditions (cause, is_open, since)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true
ON CONFLICT (cause) DO UPDATE SET is_open = excluded.is_open, since = excluded.since;

-- name: forget_conditions
DELETE FROM {prefix}conditions WHERE cause IN (SELECT value FROM json_each(:causes));
