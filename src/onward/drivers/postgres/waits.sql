-- == why a due job waits for others: breakers, limits, serial order ==
-- {behind} is the key that a blocked row waits for.

-- name: hold_keys
-- Locks those of these names over which nobody else judges in this moment, until the transaction ends. Nothing is waited for.
-- {lock} is one of a thousand for names of each kind: a server has room for a few thousand locks in all, and a claim may ask about as many
-- keys. Two keys that share a lock by chance are now and then passed over, or waited for, for each other.
SELECT name FROM (
    SELECT name, pg_try_advisory_xact_lock({lock}) AS is_ours
    FROM json_array_elements_text(:names::text::json) AS asked (name)
) AS tried WHERE is_ours;

-- name: await_keys
-- The same, waiting for whoever does: in the order of the locks, which is the same for everybody.
SELECT pg_advisory_xact_lock(lock)::text FROM (
    SELECT DISTINCT {lock} AS lock FROM json_array_elements_text(:names::text::json) AS asked (name) ORDER BY lock OFFSET 0
) AS asked;

-- name: breaker_states
-- With whether the claim of the probe is held still.
SELECT
    key, status, failures, {opened_text}, {retry_text}, probe_id, probe_fence, pause, pace,
    EXISTS (
        SELECT FROM {prefix}jobs AS job
        WHERE job.id = breaker.probe_id AND job.fence = breaker.probe_fence AND job.status = 'in_progress'
    )
FROM {prefix}breakers AS breaker WHERE key = ANY (ARRAY(SELECT json_array_elements_text(:keys::text::json)));

-- name: breakers
-- The same of all of them.
SELECT
    key, status, failures, {opened_text}, {retry_text}, probe_id, probe_fence, pause, pace,
    EXISTS (
        SELECT FROM {prefix}jobs AS job
        WHERE job.id = breaker.probe_id AND job.fence = breaker.probe_fence AND job.status = 'in_progress'
    )
FROM {prefix}breakers AS breaker ORDER BY key;

-- name: write_breakers
-- Read by position.
INSERT INTO {prefix}breakers (key, status, failures, opened_at, retry_at, probe_id, probe_fence, pause, pace, updated_at)
SELECT
    value ->> 0, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::timestamptz, (value ->> 4)::timestamptz, value ->> 5,
    (value ->> 6)::bigint, value ->> 7, value ->> 8, :now::text::timestamptz
FROM json_array_elements(:rows::text::json) AS row (value)
ON CONFLICT (key) DO UPDATE SET
    status = excluded.status, failures = excluded.failures, opened_at = excluded.opened_at, retry_at = excluded.retry_at,
    probe_id = excluded.probe_id, probe_fence = excluded.probe_fence, pause = excluded.pause, pace = excluded.pace,
    updated_at = excluded.updated_at;

-- name: limit_states
SELECT kind, name, concurrency, rate, burst, is_by_hand, {spent_text}, {check_text}
FROM {prefix}limits AS one WHERE kind = :kind::text AND name = ANY (ARRAY(SELECT json_array_elements_text(:names::text::json)));

-- name: limits
-- All of a kind.
SELECT kind, name, concurrency, rate, burst, is_by_hand, {spent_text}, {check_text}
FROM {prefix}limits AS one WHERE kind = :kind::text ORDER BY name;

-- name: write_limits
-- Read by position.
INSERT INTO {prefix}limits (kind, name, concurrency, rate, burst, is_by_hand, spent_until, check_at, updated_at)
SELECT
    value ->> 0, value ->> 1, (value ->> 2)::bigint, value ->> 3, (value ->> 4)::bigint, (value ->> 5)::bigint <> 0,
    (value ->> 6)::timestamptz, (value ->> 7)::timestamptz, :now::text::timestamptz
FROM json_array_elements(:rows::text::json) AS row (value)
ON CONFLICT (kind, name) DO UPDATE SET
    concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst, is_by_hand = excluded.is_by_hand,
    spent_until = excluded.spent_until, check_at = excluded.check_at, updated_at = excluded.updated_at;

-- name: delete_limit
DELETE FROM {prefix}limits WHERE kind = :kind::text AND name = :name::text RETURNING name;

-- name: running_of_keys
SELECT concurrency_key, count(*) FROM {prefix}jobs
WHERE concurrency_key IS NOT NULL AND status = 'in_progress' AND concurrency_key = ANY (ARRAY(SELECT json_array_elements_text(:keys::text::json)))
GROUP BY concurrency_key;

-- name: running_of_queues
SELECT queue, count(*) FROM {prefix}jobs WHERE status = 'in_progress' AND queue = ANY (ARRAY(SELECT json_array_elements_text(:names::text::json))) GROUP BY queue;

-- name: lines
-- Whether each of these stands behind another of its serial key: one that runs; one that was begun and has not ended; else one that is due
-- and comes before. And whether another job of the key is dead-lettered. What was not begun is queued.
SELECT
    job.id,
    EXISTS (
        SELECT FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = false AND other.status IN ('queued', 'retrying', 'in_progress')
            AND other.id <> job.id AND (
                job.fence = 0 OR other.status = 'in_progress' OR other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
    ) OR (
        job.fence = 0 AND (
            EXISTS (
                SELECT FROM {prefix}jobs AS other
                WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
                    AND other.serial_key = job.serial_key AND (other.fence = 0) = true AND other.status = 'queued'
                    AND other.priority > job.priority AND other.scheduled_at <= :now::text::timestamptz
            ) OR EXISTS (
                SELECT FROM {prefix}jobs AS other
                WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
                    AND other.serial_key = job.serial_key AND (other.fence = 0) = true AND other.status = 'queued'
                    AND other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id)
            )
        )
    ),
    EXISTS (
        SELECT FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = false AND other.status = 'dead_letter' AND other.id <> job.id
    )
FROM {prefix}jobs AS job WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)));

-- name: ahead
-- Whom this one waits for, as `lines` has it; where nobody stands before it, a dead letter of the key. Each part is a seek.
SELECT coalesce(
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = false AND other.status = 'in_progress' AND other.id <> job.id
        LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = false AND other.status IN ('queued', 'retrying')
            AND other.id <> job.id AND (
                job.fence = 0 OR other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = true AND other.status = 'queued'
            AND other.id <> job.id AND job.fence = 0 AND other.scheduled_at <= :now::text::timestamptz AND (
                other.priority > job.priority
                OR (other.priority = job.priority AND (other.scheduled_at, other.id) < (job.scheduled_at, job.id))
            )
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    ),
    (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = job.serial_key AND (other.fence = 0) = false AND other.status = 'dead_letter' AND other.id <> job.id
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    )
) FROM {prefix}jobs AS job WHERE job.id = :id::text;

-- name: refuse
-- A due job that has to wait for others is set aside: it spends no try, and no later claim walks over it.
WITH free AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status IN ('queued', 'retrying') AND blocked_by IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET blocked_by = :reason::text, updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM free));

-- name: let_first
-- Of those that wait for each of these keys, for one reason, the first may ask again. One that somebody else holds is passed over. One of a
-- paused queue could not begin, and would stand for the others.
WITH first AS MATERIALIZED (
    SELECT next.id FROM json_array_elements_text(:keys::text::json) AS asked (key) CROSS JOIN LATERAL (
        SELECT id FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} = asked.key
            AND queue NOT IN (SELECT name FROM {prefix}queues)
        ORDER BY priority DESC, scheduled_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
)
UPDATE {prefix}jobs AS job SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM first))
RETURNING job.id, {tell} AS told;

-- name: let_next
-- Of those that wait in each of these lines the next may ask again: one that was begun before, as by a person who retried it, comes before
-- all that were not. One that somebody else holds is passed over.
WITH first AS MATERIALIZED (
    SELECT coalesce(begun.id, next.id) AS id FROM json_array_elements_text(:keys::text::json) AS asked (key) LEFT JOIN LATERAL (
        SELECT other.id FROM {prefix}jobs AS other
        WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
            AND other.serial_key = asked.key AND (other.fence = 0) = false AND other.status IN ('queued', 'retrying')
            AND other.blocked_by = 'serial'
        ORDER BY other.priority DESC, other.scheduled_at, other.id LIMIT 1
    ) AS begun ON true LEFT JOIN LATERAL (
        SELECT job.id FROM {prefix}jobs AS job
        WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = 'serial' AND {behind} = asked.key
        ORDER BY priority DESC, scheduled_at, id LIMIT 1
    ) AS next ON true
), free AS MATERIALIZED (
    SELECT id FROM {prefix}jobs WHERE id = ANY (ARRAY(SELECT id FROM first)) AND blocked_by = 'serial' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM free))
RETURNING job.id, {tell} AS told;

-- name: let
-- The same of the first so many of one key.
WITH first AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} = :key::text
        AND queue NOT IN (SELECT name FROM {prefix}queues)
    ORDER BY priority DESC, scheduled_at, id LIMIT :limit::bigint FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM first))
RETURNING job.id, {tell} AS told;

-- name: first_types
-- The type of the first that waits for each of these keys.
SELECT asked.key, (
    SELECT type FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} = asked.key
    ORDER BY priority DESC, scheduled_at, id LIMIT 1
) FROM json_array_elements_text(:keys::text::json) AS asked (key);

-- name: ripe
-- The breakers and the keys with a limit whose waiting jobs may go on by now, those that may so for longest first.
SELECT kind, name, {at_text} FROM (
    SELECT 'breaker' AS kind, key AS name, retry_at AS at FROM {prefix}breakers
    WHERE retry_at IS NOT NULL AND retry_at <= :now::text::timestamptz
    UNION ALL SELECT kind, name, check_at FROM {prefix}limits WHERE check_at IS NOT NULL AND check_at <= :now::text::timestamptz
) AS moment ORDER BY at LIMIT :limit::bigint;

-- name: next_ripe
-- The first of those moments after this one.
SELECT {least_at} FROM (
    SELECT min(retry_at) AS at FROM {prefix}breakers WHERE retry_at IS NOT NULL AND retry_at > :after::text::timestamptz
    UNION ALL SELECT min(check_at) FROM {prefix}limits WHERE check_at IS NOT NULL AND check_at > :after::text::timestamptz
) AS moment;

-- name: forget_moments
-- Of rows that somebody wrote by hand and that make no sense: nobody would ever write them anew, and they would stand in front for ever.
UPDATE {prefix}breakers SET retry_at = NULL WHERE key = ANY (ARRAY(SELECT json_array_elements_text(:keys::text::json)));

-- name: keys_behind
-- The next keys after this one that jobs wait for, for one reason: a skip scan, one seek a key.
WITH RECURSIVE next (key) AS (
    SELECT min({behind}) FROM {prefix}jobs WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} > :after::text
    UNION ALL
    SELECT (
        SELECT min({behind}) FROM {prefix}jobs WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} > next.key
    ) FROM next WHERE next.key IS NOT NULL
)
SELECT key FROM next WHERE key IS NOT NULL LIMIT :limit::bigint;

-- name: idle_lines
-- Which of these serial keys have nobody that runs, or was begun and has not ended; but for those that wait in the line themselves.
SELECT asked.key FROM json_array_elements_text(:keys::text::json) AS asked (key) WHERE NOT EXISTS (
    SELECT FROM {prefix}jobs AS other
    WHERE other.serial_key IS NOT NULL AND other.status IN ('queued', 'retrying', 'in_progress', 'dead_letter')
        AND other.serial_key = asked.key AND (other.fence = 0) = false AND other.status IN ('queued', 'retrying', 'in_progress')
        AND (other.blocked_by IS NULL OR other.blocked_by <> 'serial')
);

-- name: count_behind
SELECT asked.key, (
    SELECT count(*) FROM (
        SELECT FROM {prefix}jobs WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = :reason::text AND {behind} = asked.key LIMIT :most::bigint
    ) AS counted
) FROM json_array_elements_text(:keys::text::json) AS asked (key);

-- name: due_of_queues
SELECT asked.name, (
    SELECT count(*) FROM (
        SELECT FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = asked.name AND scheduled_at <= :now::text::timestamptz
        LIMIT :most::bigint
    ) AS counted
) FROM json_array_elements_text(:names::text::json) AS asked (name);

-- name: prune_breakers
-- Closed ones that count nothing are as good as none.
WITH old AS MATERIALIZED (
    SELECT key FROM {prefix}breakers
    WHERE status = 'closed' AND failures = 0 AND retry_at IS NULL AND updated_at <= :before::text::timestamptz
    LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}breakers WHERE key = ANY (ARRAY(SELECT key FROM old)) RETURNING 1;

-- name: prune_limits
-- Those of keys that nobody waits for and nobody runs under: the next job of the key brings what code says.
WITH old AS MATERIALIZED (
    SELECT kind, name FROM {prefix}limits AS limits
    WHERE kind = 'key' AND NOT is_by_hand AND check_at IS NULL AND updated_at <= :before::text::timestamptz
        AND (spent_until IS NULL OR spent_until <= :before::text::timestamptz)
        AND NOT EXISTS (
            SELECT FROM {prefix}jobs
            WHERE blocked_by IS NOT NULL AND blocked_by <> 'type' AND blocked_by = 'limit' AND {behind} = limits.name
        )
        AND NOT EXISTS (
            SELECT FROM {prefix}jobs WHERE concurrency_key IS NOT NULL AND status = 'in_progress' AND concurrency_key = limits.name
        )
    LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}limits WHERE (kind, name) IN (SELECT kind, name FROM old) RETURNING 1;

-- name: shared_keys
-- What these jobs share with others, for those that share anything.
SELECT id, fence, breaker, serial_key, concurrency_key FROM {prefix}jobs
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND (breaker IS NOT NULL OR serial_key IS NOT NULL OR concurrency_key IS NOT NULL);

-- name: claim_let
-- claim: queued, retrying → in_progress, of rows that were asked about. Those that somebody else has taken meanwhile, or has made due later,
-- do not come back.
WITH known AS MATERIALIZED (
    SELECT key AS type, value::double precision AS lease_seconds FROM json_each_text(:types::text::json)
), mine AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status IN ('queued', 'retrying') AND blocked_by IS NULL
        AND scheduled_at <= :now::text::timestamptz AND queue NOT IN (SELECT name FROM {prefix}queues)
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE {prefix}jobs AS job SET
        status = 'in_progress', isolated = (job.isolated OR job.lost_leases > 0), ran_isolated = false,
        attempts = least(job.attempts, {highest}) + 1, fence = least(job.fence, {highest}) + 1,
        lease_owner = :lease_owner::text, lease_until = :now::text::timestamptz + known.lease_seconds * interval '1 second',
        started_at = :now::text::timestamptz, updated_at = :now::text::timestamptz
    FROM mine, known WHERE job.id = mine.id AND known.type = job.type
    RETURNING {claimed_columns}
)
SELECT row_to_json(taken)::text FROM taken;

-- name: open_alert
-- No row back means that one of this cause is open.
INSERT INTO {prefix}alerts (id, category, severity, cause, message, context, opened_at)
VALUES (:id::text, :category::text, :severity::text, :cause::text, :message::text, :context::text, :now::text::timestamptz)
ON CONFLICT (cause) WHERE resolved_at IS NULL DO NOTHING RETURNING id;

-- name: resolve_alerts
UPDATE {prefix}alerts SET resolved_at = :now::text::timestamptz WHERE resolved_at IS NULL AND cause = ANY (ARRAY(SELECT json_array_elements_text(:causes::text::json))) RETURNING id;

-- name: open_alerts
SELECT {alert_columns} FROM {prefix}alerts AS alert WHERE resolved_at IS NULL AND cause = ANY (ARRAY(SELECT json_array_elements_text(:causes::text::json)));
