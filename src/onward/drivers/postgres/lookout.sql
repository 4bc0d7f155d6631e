-- == lookout: which workers there are, and what the rules of alerts have found ==

-- name: see_worker
-- Nothing where it says something else of itself than before.
UPDATE {prefix}workers SET seen_at = {moment}
WHERE lease_owner = :lease_owner::text AND name = :name::text AND queues = :queues::text AND types = :types::text
    AND concurrency = :concurrency::bigint
RETURNING lease_owner;

-- name: announce_worker
INSERT INTO {prefix}workers (lease_owner, name, queues, types, concurrency, started_at, seen_at)
VALUES (
    :lease_owner::text, :name::text, :queues::text, :types::text, :concurrency::bigint, :now::text::timestamptz, :now::text::timestamptz
)
ON CONFLICT (lease_owner) DO UPDATE SET
    name = excluded.name, queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency, seen_at = excluded.seen_at;

-- name: withdraw_worker
DELETE FROM {prefix}workers WHERE lease_owner = :lease_owner::text;

-- name: workers
SELECT {worker_columns} FROM {prefix}workers AS worker ORDER BY worker.lease_owner;

-- name: prune_workers
-- A row of after :future was written before the clock was set back.
WITH old AS MATERIALIZED (
    SELECT lease_owner FROM {prefix}workers WHERE seen_at < :before::text::timestamptz OR seen_at > :future::text::timestamptz
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}workers WHERE lease_owner = ANY (ARRAY(SELECT lease_owner FROM old));

-- name: begin_looking
INSERT INTO {prefix}conditions (cause, is_open, since) VALUES ('', false, :now::text::timestamptz) ON CONFLICT DO NOTHING;

-- name: look_out
-- When somebody looked last, and whether there is an alert of which nobody was told yet.
SELECT (SELECT {since_text} FROM {prefix}conditions WHERE cause = ''), EXISTS (
    SELECT 1 FROM {prefix}alerts WHERE opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL)
);

-- name: take_look
-- One caller gets the row, and looks. A look of after now was taken before the clock was set back.
UPDATE {prefix}conditions SET since = :now::text::timestamptz
WHERE cause = '' AND (since IS NULL OR since <= :before::text::timestamptz OR since > :now::text::timestamptz) RETURNING cause;

-- name: hold_conditions
-- So that nobody else judges meanwhile.
SELECT cause FROM {prefix}conditions WHERE cause = '' FOR UPDATE;

-- name: conditions
SELECT cause, is_open::int, {since_text} FROM {prefix}conditions WHERE cause <> '';

-- name: write_conditions
-- Read by position.
INSERT INTO {prefix}conditions (cause, is_open, since)
SELECT value ->> 0, (value ->> 1)::bigint = 1, (value ->> 2)::timestamptz FROM json_array_elements(:rows::text::json)
ON CONFLICT (cause) DO UPDATE SET is_open = excluded.is_open, since = excluded.since;

-- name: forget_conditions
DELETE FROM {prefix}conditions WHERE cause = ANY (ARRAY(SELECT json_array_elements_text(:causes::text::json)));
