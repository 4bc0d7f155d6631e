-- == why a due job waits for others: breakers, limits, serial order ==

-- name: hold_keys
-- Which of these names nobody else judges over in this moment; a backend with several writers locks them. Here the whole file is ours.
SELECT value FROM json_each(:names);

-- name: await_keys
-- The same, waiting for whoever does.
SELECT 1 WHERE :names IS NULL;

-- name: breaker_states
-- With whether the claim of the probe is held still.
SELECT
    +key, +status, +failures, +opened_at, +retry_at, +probe_id, +probe_fence, +pause, +pace,
    EXISTS (SELECT 1 FROM {prefix}jobs AS job WHERE job.id = probe_id AND job.fence = probe_fence AND job.status = 'in_progress')
FROM {prefix}breakers WHERE key IN (SELECT value FROM json_each(:keys));

-- name: breakers
-- The same of all of them.
SELECT
    +key, +status, +failures, +opened_at, +retry_at, +probe_id, +probe_fence, +pause, +pace,
    EXISTS (SELECT 1 FROM {prefix}jobs AS job WHERE job.id = probe_id AND job.fence = probe_fence AND job.status = 'in_progress')
FROM {prefix}breakers ORDER BY key;

-- name: write_breakers
-- Read by position.
INSERT INTO {prefix}breakers (key, status, failures, opened_at, retry_at, probe_id, probe_fence, pause, pace, updated_at)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, :now
FROM json_each(:rows) WHERE true
ON CONFLICT (key) DO UPDATE SET
    status = excluded.status, failures = excluded.failures, opened_at = excluded.opened_at, retry_at = excluded.retry_at,
    probe_id = excluded.probe_id, probe_fence = excluded.probe_fence, pause = excluded.pause, pace = excluded.pace,
    updated_at = excluded.updated_at;

-- name: limit_states
SELECT +kind, +name, +concurrency, +rate, +burst, +is_by_hand, +spent_until, +check_at
FROM {prefix}limits WHERE kind = :kind AND name IN (SELECT value FROM json_each(:names));

-- name: limits
-- All of a kind.
SELECT +kind, +name, +concurrency, +rate, +burst, +is_by_hand, +spent_until, +check_at
FROM {prefix}limits WHERE kind = :kind ORDER BY name;

-- name: write_limits
-- Read by position.
INSERT INTO {prefix}limits (kind, name, concurrency, rate, burst, is_by_hand, spent_until, check_at, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, :now
FROM json_each(:rows) WHERE true
ON CONFLICT (kind, name) DO UPDATE SET
    concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst, is_by_hand = excluded.is_by_hand,
    spent_until = excluded.spent_until, check_at = excluded.check_at, updated_at = excluded.updated_at;

-- name: delete_limit
DELETE FROM {prefix}limits WHERE kind = :kind AND name = :name RETURNING name;

-- name: running_of_keys
SELECT +concurrency_key, count(*) FROM {prefix}jobs
WHERE concurrency_key IS NOT NULL AND status = 'in_progress' AND concurrency_key IN (SELECT value FROM json_each(:keys))
GROUP BY concurrency_key;

-- name: running_of_queues
SELECT +queue, count(*) FROM {prefix}jobs
WHERE status = 'in_progress' AND queue IN (SELECT value FROM json_each(:names)) GROUP BY +queue;

-- name: lines
-- Whether each of these stands behind another of its serial key: one that runs; one that was begun and has not ended; else one that is due
-- and comes before. And whether another job of the key is dead-lettered. What was not begun is queued.
SELECT
    +job.id,
    EXISTS (
        SELECT 1 FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 0 AND other.status IN ('queued', 'retrying', 'in_progress')
            AND other.id <> job.id AND (
                job.fence = 0 OR other.status = 'in_progress' OR other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
    ) OR (
        job.fence = 0 AND (
            EXISTS (
                SELECT 1 FROM {prefix}jobs AS other
                WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
                    AND other.serial_key = job.serial_key AND (other.fence = 0) = 1 AND other.status = 'queued'
                    AND other.priority > job.priority AND other.scheduled_at <= :now
            ) OR EXISTS (
                SELECT 1 FROM {prefix}jobs AS other
                WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
                    AND other.serial_key = job.serial_key AND (other.fence = 0) = 1 AND other.status = 'queued'
                    AND other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id)
            )
        )
    ),
    EXISTS (
        SELECT 1 FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 0 AND other.status = 'dead_letter' AND other.id <> job.id
    )
FROM {prefix}jobs AS job WHERE job.id IN (SELECT value FROM json_each(:ids));

-- name: ahead
-- Whom this one waits for, as `lines` has it; where nobody stands before it, a dead letter of the key. Each part is a seek.
SELECT coalesce(
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 0 AND other.status = 'in_progress' AND other.id <> job.id
        LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 0 AND other.status IN ('queued', 'retrying')
            AND other.id <> job.id AND (
                job.fence = 0 OR other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 1 AND other.status = 'queued'
            AND other.id <> job.id AND job.fence = 0 AND other.scheduled_at <= :now AND (
                other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = 0 AND other.status = 'dead_letter' AND other.id <> job.id
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    )
) FROM {prefix}jobs AS job WHERE job.id = :id;

-- name: refuse
-- A due job that has to wait for others is set aside: it spends no try, and no later claim walks over it.
UPDATE {prefix}jobs SET blocked_by = :reason, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'retrying') AND blocked_by IS NULL;

-- name: let_first
-- Of those that wait for each of these keys, for one reason, the first may ask again. One of a paused queue could not begin, and would
-- stand for the others.
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now WHERE id IN (
    SELECT (
        SELECT id FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} = asked.value
            AND queue NOT IN (SELECT name FROM {prefix}queues)
        ORDER BY priority DESC, scheduled_at, id LIMIT 1
    ) FROM json_each(:keys) AS asked
) RETURNING +id;

-- name: let_next
-- Of those that wait in each of these lines the next may ask again: one that was begun before, as by a person who retried it, comes before
-- all that were not.
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now WHERE id IN (
    SELECT coalesce(
        (
            SELECT other.id FROM {prefix}jobs AS other
            WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
                AND other.serial_key = asked.value AND (other.fence = 0) = 0 AND other.status IN ('queued', 'retrying')
                AND other.blocked_by = 'serial'
            ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
        ),
        (
            SELECT id FROM {prefix}jobs
            WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = 'serial' AND {behind} = asked.value
            ORDER BY priority DESC, scheduled_at, id LIMIT 1
        )
    ) FROM json_each(:keys) AS asked
) RETURNING +id;

-- name: let
-- The same of the first so many of one key.
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now WHERE id IN (
    SELECT id FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} = :key
        AND queue NOT IN (SELECT name FROM {prefix}queues)
    ORDER BY priority DESC, scheduled_at, id LIMIT :limit
) RETURNING +id;

-- name: first_types
-- The type of the first that waits for each of these keys.
SELECT asked.value, (
    SELECT type FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} = asked.value
    ORDER BY priority DESC, scheduled_at, id LIMIT 1
) FROM json_each(:keys) AS asked;

-- name: ripe
-- The breakers and the keys with a limit whose waiting jobs may go on by now, those that may so for longest first.
SELECT 'breaker', +key, retry_at FROM {prefix}breakers WHERE retry_at IS NOT NULL AND retry_at <= :now
UNION ALL SELECT kind, +name, check_at FROM {prefix}limits WHERE check_at IS NOT NULL AND check_at <= :now
ORDER BY 3 LIMIT :limit;

-- name: next_ripe
-- The first of those moments after this one. Bytes, which come after all text, were written by hand.
SELECT min(at) FROM (
    SELECT min(retry_at) AS at FROM {prefix}breakers WHERE retry_at IS NOT NULL AND retry_at > :after AND retry_at < x''
    UNION ALL SELECT min(check_at) FROM {prefix}limits WHERE check_at IS NOT NULL AND check_at > :after AND check_at < x''
);

-- name: forget_moments
-- Of rows that somebody wrote by hand and that make no sense: nobody would ever write them anew, and they would stand in front for ever.
UPDATE {prefix}breakers SET retry_at = NULL WHERE key IN (SELECT value FROM json_each(:keys));

-- name: keys_behind
-- The next keys after this one that jobs wait for, for one reason: a skip scan, one seek a key. The index is named, since the other one
-- that holds the blocked rows looks as good to the planner.
WITH RECURSIVE next (key) AS (
    SELECT min({behind}) FROM {prefix}jobs INDEXED BY {prefix}jobs_behind
    WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} > :after
    UNION ALL
    SELECT (
        SELECT min({behind}) FROM {prefix}jobs INDEXED BY {prefix}jobs_behind
        WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} > next.key
    ) FROM next WHERE next.key IS NOT NULL
)
SELECT key FROM next WHERE key IS NOT NULL LIMIT :limit;

-- name: idle_lines
-- Which of these serial keys have nobody that runs, or was begun and has not ended; but for those that wait in the line themselves.
SELECT value FROM json_each(:keys) AS asked WHERE NOT EXISTS (
    SELECT 1 FROM {prefix}jobs AS other
    WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
        AND other.serial_key = asked.value AND (other.fence = 0) = 0 AND other.status IN ('queued', 'retrying', 'in_progress')
        AND (other.blocked_by IS NULL OR other.blocked_by <> 'serial')
);

-- name: count_behind
SELECT value, (
    SELECT count(*) FROM (
        SELECT 1 FROM {prefix}jobs INDEXED BY {prefix}jobs_behind
        WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason AND {behind} = asked.value LIMIT :most
    )
) FROM json_each(:keys) AS asked;

-- name: due_of_queues
SELECT value, (
    SELECT count(*) FROM (
        SELECT 1 FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = asked.value AND scheduled_at <= :now LIMIT :most
    )
) FROM json_each(:names) AS asked;

-- name: prune_breakers
-- Closed ones that count nothing are as good as none.
DELETE FROM {prefix}breakers WHERE key IN (
    SELECT key FROM {prefix}breakers
    WHERE status = 'closed' AND failures = 0 AND retry_at IS NULL AND updated_at <= :before LIMIT :limit
) RETURNING 1;

-- name: prune_limits
-- Those of keys that nobody waits for and nobody runs under: the next job of the key brings what code says.
DELETE FROM {prefix}limits WHERE (kind, name) IN (
    SELECT kind, name FROM {prefix}limits AS limits
    WHERE kind = 'key' AND is_by_hand = 0 AND check_at IS NULL AND updated_at <= :before AND (spent_until IS NULL OR spent_until <= :before)
        AND NOT EXISTS (
            SELECT 1 FROM {prefix}jobs INDEXED BY {prefix}jobs_behind
            WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = 'limit' AND {behind} = limits.name
        )
        AND NOT EXISTS (
            SELECT 1 FROM {prefix}jobs WHERE concurrency_key IS NOT NULL AND status = 'in_progress' AND concurrency_key = limits.name
        )
    LIMIT :limit
) RETURNING 1;

-- name: shared_keys
-- What these jobs share with others, for those that share anything.
SELECT +id, +fence, +breaker, +serial_key, +concurrency_key FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND (breaker IS NOT NULL OR serial_key IS NOT NULL OR concurrency_key IS NOT NULL);

-- name: open_alert
-- No row back means that one of this cause is open.
INSERT INTO {prefix}alerts (id, category, severity, cause, message, context, opened_at)
VALUES (:id, :category, :severity, :cause, :message, :context, :now)
ON CONFLICT (cause) WHERE resolved_at IS NULL DO NOTHING RETURNING id;

-- name: resolve_alerts
UPDATE {prefix}alerts SET resolved_at = :now WHERE resolved_at IS NULL AND cause IN (SELECT value FROM json_each(:causes)) RETURNING id;

-- name: open_alerts
SELECT {alert_columns}
FROM {prefix}alerts WHERE resolved_at IS NULL AND cause IN (SELECT value FROM json_each(:causes));
