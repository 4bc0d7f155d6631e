-- == dead letters, as they are looked at many at once ==

-- name: dead_letters
-- A page without payloads, by the index of what has ended; those that became so last first. With a moment behind all others for no page
-- before, the moment is a bound of the index, whatever is asked.
SELECT {dead_letter_columns} FROM {prefix}jobs AS job
WHERE job.status IN ('completed', 'dead_letter', 'cancelled') AND job.status = 'dead_letter'
    AND job.finished_at <= coalesce(:at::text::timestamptz, 'infinity') AND (:at::text IS NULL OR job.finished_at < :at::text::timestamptz OR job.id < :id::text)
    AND (:types::text IS NULL OR job.type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json))))
    AND (:queues::text IS NULL OR job.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json))))
ORDER BY job.finished_at DESC, job.id DESC LIMIT :limit::bigint;
