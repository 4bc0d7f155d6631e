-- The statements of periodic jobs. {periodic_columns} are those of `onward.drivers.sql.periodic`, in its order.

-- name: next_moment
-- The clock, when the first is due that is not paused, and when the first of those that are not due yet.
SELECT
    :now,
    (SELECT min(next_moment) FROM {prefix}periodic WHERE paused_at IS NULL),
    (SELECT min(next_moment) FROM {prefix}periodic WHERE paused_at IS NULL AND next_moment > :now);

-- name: due_periodic
SELECT {periodic_columns} FROM {prefix}periodic WHERE paused_at IS NULL AND next_moment <= :now ORDER BY next_moment, name;

-- name: periodic
SELECT {periodic_columns} FROM {prefix}periodic
WHERE :names IS NULL OR name IN (SELECT value FROM json_each(:names)) ORDER BY name;

-- name: live_among
-- Which of these jobs are not done with.
SELECT +id FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'retrying', 'in_progress');

-- name: add_periodic
-- One that is there already is left as it is, and its name does not come back.
INSERT INTO {prefix}periodic (
    name, rule, request, is_declared, next_moment, paused_at, paused_by, last_moment, last_job_id, skipped, version, updated_at
)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]'),
    json_extract(value, '$[8]'), json_extract(value, '$[9]'), 1, json_extract(value, '$[11]')
FROM json_each(:rows) WHERE json_extract(value, '$[10]') = 0
ON CONFLICT (name) DO NOTHING
RETURNING +name;

-- name: change_periodic
-- Only those that are as they were read: somebody else may have been quicker.
UPDATE {prefix}periodic SET
    rule = json_extract(asked.value, '$[1]'), request = json_extract(asked.value, '$[2]'), is_declared = json_extract(asked.value, '$[3]'),
    next_moment = json_extract(asked.value, '$[4]'), paused_at = json_extract(asked.value, '$[5]'),
    paused_by = json_extract(asked.value, '$[6]'), last_moment = json_extract(asked.value, '$[7]'),
    last_job_id = json_extract(asked.value, '$[8]'), skipped = json_extract(asked.value, '$[9]'),
    version = version + 1, updated_at = json_extract(asked.value, '$[11]')
FROM json_each(:rows) AS asked
WHERE name = json_extract(asked.value, '$[0]') AND version = json_extract(asked.value, '$[10]')
RETURNING +name;

-- name: note_last_job
-- The job that stands for the last moment, where that is one which held its key already.
UPDATE {prefix}periodic SET last_job_id = :job_id WHERE name = :name;

-- name: delete_periodic
DELETE FROM {prefix}periodic WHERE name = :name RETURNING +name;
