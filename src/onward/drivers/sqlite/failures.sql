-- == dead letters, as they are looked at many at once ==

-- name: dead_letters
-- A page without payloads, by the index of what has ended; those that became so last first. With a text behind all others for no page
-- before, the moment is a bound of the index, whatever is asked.
SELECT {dead_letter_columns} FROM {prefix}jobs
WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = 'dead_letter'
    AND finished_at <= coalesce(:at, '~') AND (:at IS NULL OR finished_at < :at OR id < :id)
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
ORDER BY finished_at DESC, id DESC LIMIT :limit;
