-- == metrics: what waits and runs just now, counted up to a bound in small indexes, and what has ever ended ==

-- name: waiting_queues
-- Every queue that has something waiting: a skip scan, one seek a queue, however many rows there are.
WITH RECURSIVE lane (queue) AS (
    SELECT min(queue) FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue > lane.queue
    ) FROM lane WHERE lane.queue IS NOT NULL
)
SELECT queue FROM lane WHERE queue IS NOT NULL;

-- name: due_types
-- The first :limit due rows of a queue, in the order in which they run, by type. Two seeks a priority, then a walk.
WITH RECURSIVE lane (priority) AS (
    SELECT max(priority) FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT max(priority) FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority < lane.priority
    ) FROM lane WHERE lane.priority IS NOT NULL
)
SELECT type, count(*), min(scheduled_at) FROM (
    SELECT job.type, job.scheduled_at FROM lane CROSS JOIN {prefix}jobs AS job
    WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue AND job.priority = lane.priority
        AND job.scheduled_at <= :now
    LIMIT :limit
) GROUP BY type;

-- name: longest_due
-- Of each priority of a queue, the one that has been due for longest.
WITH RECURSIVE lane (priority) AS (
    SELECT max(priority) FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT max(priority) FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority < lane.priority
    ) FROM lane WHERE lane.priority IS NOT NULL
)
SELECT job.type, job.scheduled_at FROM lane CROSS JOIN {prefix}jobs AS job ON job.id = (
    SELECT id FROM {prefix}jobs
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority = lane.priority AND scheduled_at <= :now
    ORDER BY scheduled_at, id LIMIT 1
);

-- name: due_before
-- How many due rows of its queue are taken before a job, counted up to :limit: those of each higher priority, then those of its own.
WITH RECURSIVE lane (priority) AS (
    SELECT max(priority) FROM {prefix}jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT max(priority) FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority < lane.priority
    ) FROM lane WHERE lane.priority > :priority
)
SELECT count(*) FROM (
    SELECT job.id FROM lane CROSS JOIN {prefix}jobs AS job
    WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = :queue AND job.priority = lane.priority
        AND lane.priority >= :priority AND job.scheduled_at <= :now
        AND (lane.priority > :priority OR (job.scheduled_at, job.id) < (:scheduled_at, :id))
    LIMIT :limit
);

-- name: blocked_counts
-- Each (blocked_by, type, queue) that there is, found by one seek each; how many, and since when the oldest of the first thousand is due.
WITH RECURSIVE spot (found) AS (
    SELECT (
        SELECT json_array(blocked_by, type, queue) FROM {prefix}jobs WHERE blocked_by IS NOT NULL ORDER BY blocked_by, type, queue LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT json_array(blocked_by, type, queue) FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL
            AND (blocked_by, type, queue) > (spot.found ->> 0, spot.found ->> 1, spot.found ->> 2)
        ORDER BY blocked_by, type, queue LIMIT 1
    ) FROM spot WHERE spot.found IS NOT NULL
)
SELECT found ->> 0, found ->> 1, found ->> 2, (
    SELECT count(*) FROM (
        SELECT 1 FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = spot.found ->> 0 AND type = spot.found ->> 1 AND queue = spot.found ->> 2
        LIMIT :limit
    )
), (
    SELECT min(scheduled_at) FROM (
        SELECT scheduled_at FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = spot.found ->> 0 AND type = spot.found ->> 1 AND queue = spot.found ->> 2
        LIMIT 1000
    )
) FROM spot WHERE found IS NOT NULL;

-- name: running_types
SELECT +queue, +type, count(*) FROM {prefix}jobs WHERE status = 'in_progress' GROUP BY queue, type;

-- name: dead_types
-- The newest :limit of them.
SELECT queue, type, count(*) FROM (
    SELECT queue, type FROM {prefix}jobs
    WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = 'dead_letter' ORDER BY finished_at DESC LIMIT :limit
) GROUP BY queue, type;

-- name: totals
-- What was counted, and the rollups that were not yet, in one look. The first column tells them apart.
SELECT 'total', +since, +queue, +type, +outcome, '', +count, +histogram FROM {prefix}totals WHERE queue <> ''
UNION ALL
SELECT 'rollup', +minute, +queue, +type, +outcome, +worker, +count, +histogram FROM {prefix}rollups
WHERE minute >= coalesce((SELECT since FROM {prefix}totals WHERE queue = '' AND type = '' AND outcome = ''), '');

-- name: begin_counting
INSERT INTO {prefix}totals (queue, type, outcome, since, count, histogram) VALUES ('', '', '', '', 0, '') ON CONFLICT DO NOTHING;

-- name: counted_until
-- From which minute on rollups are not counted yet, and the first such minute that there is. Nothing while another pruner counts.
SELECT since, (SELECT min(minute) FROM {prefix}rollups WHERE minute >= since)
FROM {prefix}totals WHERE queue = '' AND type = '' AND outcome = '';

-- name: rollups_between
SELECT +minute, +queue, +type, +outcome, +worker, +count, +histogram FROM {prefix}rollups WHERE minute >= :since AND minute < :before;

-- name: write_totals
-- Read by position.
INSERT INTO {prefix}totals (queue, type, outcome, since, count, histogram)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows) WHERE true
ON CONFLICT (queue, type, outcome) DO UPDATE SET since = excluded.since, count = excluded.count, histogram = excluded.histogram;
