-- == attempts of all jobs, by when they ended ==

-- name: attempts_end
-- The place of the last one that a page may look at, where there are more behind it. A walk of the index alone.
SELECT +finished_at, +job_id, +fence FROM {prefix}history WHERE (finished_at, job_id, fence) < (:at, :job_id, :fence)
ORDER BY finished_at DESC, job_id DESC, fence DESC LIMIT 2 OFFSET :skipped;

-- name: attempts
-- Newest first, from one place to another. CROSS JOIN, so that the walk is along the index and each job is sought.
SELECT {attempt_columns}, +type, +queue
FROM {prefix}history CROSS JOIN (SELECT id AS of_job, type, queue FROM {prefix}jobs) ON of_job = job_id
WHERE (finished_at, job_id, fence) < (:at, :job_id, :fence) AND (finished_at, job_id, fence) >= (:end_at, :end_job_id, :end_fence)
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:outcomes IS NULL OR outcome IN (SELECT value FROM json_each(:outcomes)))
    AND (:lease_owner IS NULL OR lease_owner = :lease_owner)
ORDER BY finished_at DESC, job_id DESC, fence DESC LIMIT :limit;
