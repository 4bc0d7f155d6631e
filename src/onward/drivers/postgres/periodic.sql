-- The statements of periodic jobs. {periodic_columns} are those of `onward.drivers.sql.periodic`, in its order, of a table called `periodic`.

-- name: next_moment
-- The clock, when the first is due that is not paused, and when the first of those that are not due yet.
SELECT
    {clock_text},
    (SELECT {least_moment} FROM {prefix}periodic AS periodic WHERE paused_at IS NULL),
    (SELECT {least_moment} FROM {prefix}periodic AS periodic WHERE paused_at IS NULL AND next_moment > clock.now)
FROM (SELECT {moment} AS now) AS clock;

-- name: due_periodic
SELECT {periodic_columns} FROM {prefix}periodic AS periodic
WHERE paused_at IS NULL AND next_moment <= :now::text::timestamptz ORDER BY next_moment, name;

-- name: periodic
SELECT {periodic_columns} FROM {prefix}periodic AS periodic
WHERE :names::text IS NULL OR name = ANY (ARRAY(SELECT json_array_elements_text(:names::text::json))) ORDER BY name;

-- name: live_among
-- Which of these jobs are not done with.
SELECT id FROM {prefix}jobs
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status IN ('queued', 'retrying', 'in_progress');

-- name: add_periodic
-- One that is there already is left as it is, and its name does not come back.
INSERT INTO {prefix}periodic (
    name, rule, request, is_declared, next_moment, paused_at, paused_by, last_moment, last_job_id, skipped, version, updated_at
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, (value ->> 3)::bigint <> 0, (value ->> 4)::timestamptz, (value ->> 5)::timestamptz,
    value ->> 6, (value ->> 7)::timestamptz, value ->> 8, (value ->> 9)::bigint, 1, (value ->> 11)::timestamptz
FROM json_array_elements(:rows::text::json) WITH ORDINALITY AS asked (value, place)
WHERE (value ->> 10)::bigint = 0 ORDER BY place
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: change_periodic
-- Only those that are as they were read: somebody else may have been quicker. Who is just now being so is not waited for.
WITH asked AS MATERIALIZED (
    SELECT value ->> 0 AS name, (value ->> 10)::bigint AS version, value
    FROM json_array_elements(:rows::text::json) AS one (value)
), mine AS MATERIALIZED (
    SELECT periodic.name, asked.value FROM {prefix}periodic AS periodic JOIN asked USING (name, version)
    ORDER BY periodic.name FOR UPDATE OF periodic SKIP LOCKED
)
UPDATE {prefix}periodic AS periodic SET
    rule = value ->> 1, request = value ->> 2, is_declared = (value ->> 3)::bigint <> 0, next_moment = (value ->> 4)::timestamptz,
    paused_at = (value ->> 5)::timestamptz, paused_by = value ->> 6, last_moment = (value ->> 7)::timestamptz,
    last_job_id = value ->> 8, skipped = (value ->> 9)::bigint, version = version + 1, updated_at = (value ->> 11)::timestamptz
FROM mine WHERE periodic.name = mine.name
RETURNING periodic.name;

-- name: note_last_job
-- The job that stands for the last moment, where that is one which held its key already.
UPDATE {prefix}periodic SET last_job_id = :job_id::text WHERE name = :name::text;

-- name: delete_periodic
DELETE FROM {prefix}periodic WHERE name = :name::text RETURNING name;
