-- == attempts of all jobs, by when they ended ==
--
-- Of the place where a look ends nothing is said where the walk begins: if the planner believed that little lies between both, it would
-- read all of that and sort it. With one end and a LIMIT it takes the index, whatever it knows of the table.

-- name: attempts_end
-- The place of the last one that a page may look at, where there are more behind it. A walk of the index alone.
SELECT {attempt_finished} AS finished_at, attempt.job_id, attempt.fence FROM {prefix}history AS attempt
WHERE (attempt.finished_at, attempt.job_id, attempt.fence) < (:at::text::timestamptz, :job_id::text, :fence::bigint)
ORDER BY attempt.finished_at DESC, attempt.job_id DESC, attempt.fence DESC LIMIT 2 OFFSET :skipped::bigint;

-- name: attempts
-- Newest first, from one place to another, and never more than :looks. LATERAL with its LIMIT, so that each job is sought.
SELECT {attempt_columns}, job.type, job.queue
FROM (
    SELECT * FROM {prefix}history AS walked
    WHERE (walked.finished_at, walked.job_id, walked.fence) < (:at::text::timestamptz, :job_id::text, :fence::bigint)
    ORDER BY walked.finished_at DESC, walked.job_id DESC, walked.fence DESC LIMIT :looks::bigint
) AS attempt
CROSS JOIN LATERAL (SELECT found.type, found.queue FROM {prefix}jobs AS found WHERE found.id = attempt.job_id LIMIT 1) AS job
WHERE (attempt.finished_at, attempt.job_id, attempt.fence) >= (:end_at::text::timestamptz, :end_job_id::text, :end_fence::bigint)
    AND (:types::text IS NULL OR job.type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json))))
    AND (:queues::text IS NULL OR job.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json))))
    AND (:outcomes::text IS NULL OR attempt.outcome = ANY (ARRAY(SELECT json_array_elements_text(:outcomes::text::json))))
    AND (:lease_owner::text IS NULL OR attempt.lease_owner = :lease_owner::text)
ORDER BY attempt.finished_at DESC, attempt.job_id DESC, attempt.fence DESC LIMIT :limit::bigint;
