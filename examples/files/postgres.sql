-- What sqlite.sql makes, for Postgres: the same columns, words and texts. Run as one transaction. Of two processes that make things
-- which are not there yet one would fail, IF NOT EXISTS or not, so that they take turns.
SELECT pg_advisory_xact_lock(hashtext('examples.files'));

-- Instants are written as SQLite has them: UTC, six digits of a second, and so in the order of their text.
CREATE OR REPLACE VIEW jobs AS
SELECT
    id,
    type,
    payload,
    CASE status
        WHEN 'queued' THEN 'pending'
        WHEN 'retrying' THEN 'pending'
        WHEN 'in_progress' THEN 'claimed'
        WHEN 'completed' THEN 'completed'
        ELSE 'failed'  -- dead_letter, and cancelled (the error says so)
    END AS status,
    priority,
    attempts,
    max_attempts,
    error AS last_error,
    lease_owner AS locked_by,
    CASE WHEN status = 'in_progress' THEN to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END AS locked_at,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at,
    to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS claimed_at,
    to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS completed_at
FROM onward.jobs;

CREATE TABLE IF NOT EXISTS file_versions (
    path text NOT NULL PRIMARY KEY,
    accepted bigint NOT NULL DEFAULT 0,
    accepted_job text,
    placed bigint NOT NULL DEFAULT 0
);
