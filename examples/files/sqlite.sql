-- The jobs in the words of the document that this application was built from: thirteen columns, four statuses.
-- A view over the one table: there is no second copy of the state.
CREATE VIEW IF NOT EXISTS jobs AS
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
    CASE WHEN status = 'in_progress' THEN started_at END AS locked_at,
    created_at,
    started_at AS claimed_at,
    finished_at AS completed_at
FROM onward_jobs;

-- Which write of a file is the newest that was accepted, and which one is on disk. Coordination only: the content is in the job, then in the file.
CREATE TABLE IF NOT EXISTS file_versions (
    path TEXT NOT NULL PRIMARY KEY,
    accepted INTEGER NOT NULL DEFAULT 0,
    accepted_job TEXT,
    placed INTEGER NOT NULL DEFAULT 0
);
