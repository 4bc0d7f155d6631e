-- == metrics: what waits and runs just now, counted up to a bound in small indexes, and what has ever ended ==

-- name: waiting_queues
-- Every queue that has something waiting: a skip scan, one seek a queue, however many rows there are.
WITH RECURSIVE lane (queue) AS (
    (
        SELECT queue FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL ORDER BY queue LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT job.queue FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue > lane.queue ORDER BY job.queue LIMIT 1
    ) FROM lane WHERE lane.queue IS NOT NULL
)
SELECT queue FROM lane WHERE queue IS NOT NULL;

-- name: due_types
-- The first :limit due rows of a queue, in the order in which they run, by type. Two seeks a priority, then a walk.
WITH RECURSIVE lane (priority) AS (
    (
        SELECT priority FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue::text ORDER BY priority DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT job.priority FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority < lane.priority
        ORDER BY job.priority DESC LIMIT 1
    ) FROM lane WHERE lane.priority IS NOT NULL
)
SELECT type, count(*), {oldest_text} FROM (
    SELECT due.type, due.scheduled_at FROM lane CROSS JOIN LATERAL (
        SELECT job.type, job.scheduled_at FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority = lane.priority
            AND job.scheduled_at <= :now::text::timestamptz
        ORDER BY job.scheduled_at, job.id LIMIT :limit::bigint
    ) AS due
    LIMIT :limit::bigint
) AS found GROUP BY type;

-- name: longest_due
-- Of each priority of a queue, the one that has been due for longest.
WITH RECURSIVE lane (priority) AS (
    (
        SELECT priority FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue::text ORDER BY priority DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT job.priority FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority < lane.priority
        ORDER BY job.priority DESC LIMIT 1
    ) FROM lane WHERE lane.priority IS NOT NULL
)
SELECT due.type, due.scheduled_at FROM lane CROSS JOIN LATERAL (
    SELECT job.type, {scheduled_text} AS scheduled_at FROM {prefix}jobs AS job
    WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority = lane.priority
        AND job.scheduled_at <= :now::text::timestamptz
    ORDER BY job.scheduled_at, job.id LIMIT 1
) AS due;

-- name: due_before
-- How many due rows of its queue are taken before a job, counted up to :limit: those of each higher priority, then those of its own.
WITH RECURSIVE lane (priority) AS (
    (
        SELECT priority FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue::text ORDER BY priority DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT job.priority FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority < lane.priority
        ORDER BY job.priority DESC LIMIT 1
    ) FROM lane WHERE lane.priority > :priority::bigint
)
SELECT count(*) FROM (
    SELECT FROM lane CROSS JOIN LATERAL (
        SELECT FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue::text AND job.priority = lane.priority
            AND job.scheduled_at <= :now::text::timestamptz
            AND (lane.priority > :priority::bigint OR (job.scheduled_at, job.id) < (:scheduled_at::text::timestamptz, :id::text))
        ORDER BY job.scheduled_at, job.id LIMIT :limit::bigint
    ) AS due
    WHERE lane.priority >= :priority::bigint LIMIT :limit::bigint
) AS found;

-- name: blocked_counts
-- Each (blocked_by, type, queue) that there is, found by one seek each; how many, and since when the oldest of the first thousand is due.
WITH RECURSIVE spot (blocked_by, type, queue) AS (
    (
        SELECT blocked_by, type, queue FROM {prefix}jobs WHERE blocked_by IS NOT NULL ORDER BY blocked_by, type, queue LIMIT 1
    )
    UNION ALL
    SELECT following.blocked_by, following.type, following.queue FROM spot CROSS JOIN LATERAL (
        SELECT job.blocked_by, job.type, job.queue FROM {prefix}jobs AS job
        WHERE job.blocked_by IS NOT NULL AND (job.blocked_by, job.type, job.queue) > (spot.blocked_by, spot.type, spot.queue)
        ORDER BY job.blocked_by, job.type, job.queue LIMIT 1
    ) AS following
)
SELECT spot.blocked_by, spot.type, spot.queue, counted.count, {oldest_text}
FROM spot CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT FROM {prefix}jobs AS job
        WHERE job.blocked_by IS NOT NULL AND job.blocked_by = spot.blocked_by AND job.type = spot.type AND job.queue = spot.queue
        LIMIT :limit::bigint
    ) AS several
) AS counted CROSS JOIN LATERAL (
    SELECT job.scheduled_at FROM {prefix}jobs AS job
    WHERE job.blocked_by IS NOT NULL AND job.blocked_by = spot.blocked_by AND job.type = spot.type AND job.queue = spot.queue
    LIMIT 1000
) AS first GROUP BY spot.blocked_by, spot.type, spot.queue, counted.count;

-- name: running_types
SELECT queue, type, count(*) FROM {prefix}jobs WHERE status = 'in_progress' GROUP BY queue, type;

-- name: dead_types
-- The newest :limit of them.
SELECT queue, type, count(*) FROM (
    SELECT queue, type FROM {prefix}jobs
    WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = 'dead_letter' ORDER BY finished_at DESC LIMIT :limit::bigint
) AS newest GROUP BY queue, type;

-- name: totals
-- What was counted, and the rollups that were not yet, in one look. The first column tells them apart.
SELECT 'total', since, queue, type, outcome, '', count, histogram FROM {prefix}totals WHERE queue <> ''
UNION ALL
SELECT 'rollup', minute, queue, type, outcome, worker, count, histogram FROM {prefix}rollups
WHERE minute >= coalesce((SELECT since FROM {prefix}totals WHERE queue = '' AND type = '' AND outcome = ''), '');

-- name: begin_counting
INSERT INTO {prefix}totals (queue, type, outcome, since, count, histogram) VALUES ('', '', '', '', 0, '') ON CONFLICT DO NOTHING;

-- name: counted_until
-- From which minute on rollups are not counted yet, and the first such minute that there is. Nothing while another pruner counts.
SELECT total.since, (SELECT min(minute) FROM {prefix}rollups WHERE minute >= total.since)
FROM {prefix}totals AS total WHERE total.queue = '' AND total.type = '' AND total.outcome = '' FOR UPDATE SKIP LOCKED;

-- name: rollups_between
SELECT minute, queue, type, outcome, worker, count, histogram FROM {prefix}rollups
WHERE minute >= :since::text AND minute < :before::text;

-- name: write_totals
-- Read by position.
INSERT INTO {prefix}totals (queue, type, outcome, since, count, histogram)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, (value ->> 4)::bigint, value ->> 5
FROM json_array_elements(:rows::text::json) AS row (value)
ON CONFLICT (queue, type, outcome) DO UPDATE SET since = excluded.since, count = excluded.count, histogram = excluded.histogram;
