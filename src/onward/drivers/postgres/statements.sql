-- Every statement of the Postgres store, by name; SQLite's file has the same names, but for the few that only one of them needs.
-- {prefix} is the quoted schema and a dot. {columns} are those of onward.jobs.Job in its order, of a table called `job`, as text, numbers
-- and booleans; {columns_of_none} are as many nulls; {attempt_columns} are those of Attempt, of `attempt`.
-- Instants come and go as ISO text. Lists and rows come as one JSON parameter. Every parameter is cast, so that no library has to guess.
-- Several transactions write at once here. Whoever only wants what is free skips locked rows; nothing that a worker does waits for a
-- caller's open transaction, except where it says so, and then not for longer than its lock_timeout.


-- == own connections ==

-- name: begin
-- One round trip for three things. The isolation level is said, since the role's own may be another.
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_timeout}; SELECT {now_text};

-- name: commit
COMMIT;

-- name: forget_session
-- After a transaction of the application's own statements: a SET, a role, a lock or a LISTEN of theirs must not meet the next user.
-- Not DISCARD ALL: it takes the prepared statements along, and psycopg would go on naming them.
CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP;


-- == in a caller's transaction ==

-- name: clock
-- statement_timestamp(), never now(): the caller's transaction may have begun an hour ago.
SELECT {now_text};

-- name: savepoint
SAVEPOINT onward;

-- name: release_savepoint
RELEASE SAVEPOINT onward;

-- name: undo_savepoint
ROLLBACK TO SAVEPOINT onward;


-- == enqueue ==

-- name: stored
-- Which of these ids exist already: the same request again counts as accepted.
SELECT id, type, payload_hash, owner FROM {prefix}jobs WHERE id IN (SELECT json_array_elements_text(:ids::text::json));

-- name: take_key
-- No row back means that the key is held. A constraint error never arises, so a caller's transaction is never spoilt. It waits for a
-- transaction that has taken the key and not ended. ON CONFLICT DO UPDATE ... WHERE would lock the holder's row even where it changes
-- nothing, and the end of the holder's job would wait for the transaction of every duplicate.
WITH taken AS (
    INSERT INTO {prefix}keys (owner, type, key, job_id, payload_hash, expires_at)
    VALUES (:owner::text, :type::text, :key::text, :job_id::text, :payload_hash::text, :expires_at::text::timestamptz)
    ON CONFLICT (owner, type, key) DO NOTHING
    RETURNING job_id
), over AS (
    UPDATE {prefix}keys AS held
    SET job_id = :job_id::text, payload_hash = :payload_hash::text, expires_at = :expires_at::text::timestamptz
    WHERE held.owner = :owner::text AND held.type = :type::text AND held.key = :key::text
        AND held.expires_at <= :now::text::timestamptz AND NOT EXISTS (SELECT FROM taken)
    RETURNING job_id
)
SELECT job_id FROM taken UNION ALL SELECT job_id FROM over;

-- name: key_holder
SELECT job_id, payload_hash FROM {prefix}keys WHERE owner = :owner::text AND type = :type::text AND key = :key::text;

-- name: enqueue
-- enqueue: → queued, for any number of rows. {tell} notifies the listeners; Postgres folds equal notifications of one transaction.
WITH asked AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows::text::json) AS asked (
        id text, type text, queue text, priority integer, payload text, payload_hash text, scheduled_at timestamptz,
        expires_at timestamptz, max_attempts bigint, isolated integer, idempotency_key text, scope text, concurrency_key text,
        serial_key text, breaker text, owner text, metadata text, now timestamptz
    )
), added AS (
    INSERT INTO {prefix}jobs AS job (
        id, type, queue, priority, status, payload, payload_hash, scheduled_at, expires_at, max_attempts, isolated,
        idempotency_key, scope, concurrency_key, serial_key, breaker, owner, metadata, created_at, updated_at
    )
    SELECT
        id, type, queue, priority, 'queued', payload, payload_hash, scheduled_at, expires_at, max_attempts, isolated <> 0,
        idempotency_key, scope, concurrency_key, serial_key, breaker, owner, metadata, now, now
    FROM asked
    ON CONFLICT (id) DO NOTHING
    RETURNING job.id, CASE WHEN job.scheduled_at <= job.updated_at + interval '30 seconds' THEN {tell} END AS told
)
SELECT id FROM asked WHERE id NOT IN (SELECT id FROM added);

-- name: notify
SELECT pg_notify(:channel::text, :payload::text);


-- == turn ==

-- name: asked_to_cancel
-- Before `settle`, for endings that are none: a person may have asked since the claim. Locked, so that nobody asks in between.
SELECT id FROM {prefix}jobs
WHERE id IN (SELECT json_array_elements_text(:ids::text::json)) AND status = 'in_progress' AND cancel_requested_at IS NOT NULL
FOR NO KEY UPDATE;

-- name: settle
-- complete, retry, dead-letter, release, snooze, cancel: in_progress → what `onward.outcome.Ending` says, field by field.
-- The fence is the proof: a claim that is not the newest changes no row, and the ids that come back are those really settled.
WITH ended AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows::text::json) AS ended (
        id text, fence bigint, status text, attempts bigint, lost_leases bigint, releases bigint, snoozes bigint, isolated integer,
        error text, result text, progress text, scheduled_at timestamptz, finished_at timestamptz
    )
), settled AS (
    UPDATE {prefix}jobs AS job SET
        status = ended.status, attempts = ended.attempts, lost_leases = ended.lost_leases, releases = ended.releases,
        snoozes = ended.snoozes, isolated = ended.isolated <> 0, error = ended.error, result = ended.result,
        scheduled_at = coalesce(ended.scheduled_at, job.scheduled_at), progress = coalesce(ended.progress, job.progress),
        lease_owner = NULL, lease_until = NULL, finished_at = ended.finished_at, updated_at = :now::text::timestamptz
    FROM ended
    WHERE job.id = ended.id AND job.fence = ended.fence AND job.status = 'in_progress'
    RETURNING job.id, job.fence, CASE
        WHEN job.finished_at IS NULL AND job.scheduled_at <= job.updated_at + interval '30 seconds' THEN {tell}
    END AS told
)
SELECT id, fence FROM settled;

-- name: complete
-- complete: in_progress → completed. The same as `settle` for the ending that nearly every job has. Its rows are read by position.
WITH ended AS MATERIALIZED (
    SELECT value ->> 0 AS id, (value ->> 1)::bigint AS fence, value ->> 2 AS result
    FROM json_array_elements(:rows::text::json) AS row (value)
)
UPDATE {prefix}jobs AS job SET
    status = 'completed', finished_at = :now::text::timestamptz, error = NULL, result = ended.result,
    lease_owner = NULL, lease_until = NULL, updated_at = :now::text::timestamptz
FROM ended
WHERE job.id = ended.id AND job.fence = ended.fence AND job.status = 'in_progress'
RETURNING job.id, job.fence;

-- name: shown
-- The rows whose settlement changed nothing: perhaps an earlier try of the same turn was stored before its answer was lost.
SELECT {columns} FROM {prefix}jobs AS job WHERE job.id IN (SELECT json_array_elements_text(:ids::text::json));

-- name: free_keys
-- The end of a job frees its key of scope `active` (the only one without an end of its own).
WITH ended AS MATERIALIZED (SELECT json_array_elements_text(:ids::text::json) AS id)
DELETE FROM {prefix}keys AS held
USING ended JOIN {prefix}jobs AS job ON job.id = ended.id
WHERE held.owner = job.owner AND held.type = job.type AND held.key = job.idempotency_key
    AND held.expires_at IS NULL AND held.job_id IN (SELECT id FROM ended);

-- name: write_history
-- A repeated turn finds its rows there already.
INSERT INTO {prefix}history (job_id, fence, attempt, lease_owner, outcome, error, processed, failed, started_at, finished_at)
SELECT job_id, fence, attempt, lease_owner, outcome, error, processed, failed, started_at, finished_at
FROM json_to_recordset(:rows::text::json) AS ended (
    job_id text, fence bigint, attempt bigint, lease_owner text, outcome text, error text, processed bigint, failed bigint,
    started_at timestamptz, finished_at timestamptz
)
ON CONFLICT DO NOTHING;

-- name: claim
-- claim: queued, retrying → in_progress, all of it in one statement, so that an idle worker's look costs one round trip and no transaction.
--   waiting_queue, lane, waiting: a skip scan, one seek for each queue and each (queue, priority) that has something waiting, however many rows.
--   candidate: the first rows that are due over all lanes, in the order to run them, not locked: they only say how many to take from each
--     lane. One ORDER BY over all lanes would walk every future row of a higher priority.
--   picked: that many of each lane, locked; rows that others hold are passed over, and the next ones taken. Locking all the candidates
--     instead would hide rows from other workers that nobody takes. MATERIALIZED: a subselect could be run again and lock more.
--     A locked row keeps its place (ctid), which saves a descent of the primary key for each; one that was changed in the moment
--     before has another place, and the next claim finds it.
--   No filter by type before the LIMIT: it would walk every unknown row at the head of the queue.
--   LIMIT (SELECT 100000): a bound that the planner cannot see, for which it assumes a tenth of the rows. Without it, it takes the scan to be
--     so dear that it compiles the statement each time (JIT: 130 ms instead of 1).
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce(:now::text::timestamptz, statement_timestamp()) AS now
), waiting_queue (queue) AS (
    SELECT (
        SELECT min(first.queue) FROM {prefix}jobs AS first WHERE first.status IN ('queued', 'retrying') AND first.blocked_by IS NULL
    )
    WHERE :queues::text IS NULL
    UNION ALL
    SELECT (
        SELECT min(next.queue) FROM {prefix}jobs AS next
        WHERE next.status IN ('queued', 'retrying') AND next.blocked_by IS NULL AND next.queue > waiting_queue.queue
    )
    FROM waiting_queue WHERE waiting_queue.queue IS NOT NULL
), asked_queue (queue) AS (
    SELECT queue FROM (
        SELECT queue FROM (
            SELECT queue FROM waiting_queue WHERE queue IS NOT NULL
            UNION ALL
            SELECT json_array_elements_text(:queues::text::json)
        ) AS asked (queue) LIMIT (SELECT 100000)
    ) AS asked LIMIT (SELECT 100000)
), lane (queue, priority) AS (
    SELECT asked_queue.queue, (
        SELECT max(first.priority) FROM {prefix}jobs AS first
        WHERE first.status IN ('queued', 'retrying') AND first.blocked_by IS NULL AND first.queue = asked_queue.queue
    )
    FROM asked_queue
    UNION ALL
    SELECT lane.queue, (
        SELECT max(next.priority) FROM {prefix}jobs AS next
        WHERE next.status IN ('queued', 'retrying') AND next.blocked_by IS NULL AND next.queue = lane.queue AND next.priority < lane.priority
    )
    FROM lane WHERE lane.priority IS NOT NULL
), waiting AS MATERIALIZED (
    SELECT queue, priority FROM lane WHERE priority IS NOT NULL ORDER BY priority DESC LIMIT (SELECT 100000)
), candidate AS MATERIALIZED (
    SELECT lane.queue, lane.priority, due.scheduled_at, due.id
    FROM waiting AS lane
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT job.scheduled_at, job.id FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = lane.queue AND job.priority = lane.priority AND job.scheduled_at <= clock.now
        ORDER BY job.scheduled_at, job.id LIMIT :limit::bigint + 1
    ) AS due
    ORDER BY lane.priority DESC, due.scheduled_at, due.id LIMIT :limit::bigint + 1
), share AS MATERIALIZED (
    SELECT queue, priority, count(*) AS wanted
    FROM (SELECT queue, priority FROM candidate ORDER BY priority DESC, scheduled_at, id LIMIT :limit::bigint) AS first
    GROUP BY queue, priority LIMIT (SELECT 100000)
), picked AS MATERIALIZED (
    SELECT due.place, due.id, due.type, due.priority, due.scheduled_at, due.expires_at
    FROM share
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT job.ctid AS place, job.id, job.type, job.priority, job.scheduled_at, job.expires_at FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = share.queue AND job.priority = share.priority AND job.scheduled_at <= clock.now
        ORDER BY job.scheduled_at, job.id LIMIT share.wanted
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS due
    LIMIT :limit::bigint
), known AS MATERIALIZED (
    SELECT key AS type, value::double precision AS lease_seconds FROM json_each_text(:types::text::json)
), wanted AS MATERIALIZED (
    SELECT picked.place, picked.id, known.lease_seconds FROM picked JOIN known ON known.type = picked.type CROSS JOIN clock
    WHERE picked.expires_at IS NULL OR picked.expires_at > clock.now
    ORDER BY picked.priority DESC, picked.scheduled_at, picked.id LIMIT :slots::bigint
), taken AS (
    UPDATE {prefix}jobs AS job SET
        status = 'in_progress', isolated = (job.isolated OR job.lost_leases > 0), ran_isolated = false,
        attempts = least(job.attempts, {highest}) + 1, fence = least(job.fence, {highest}) + 1,
        lease_owner = :lease_owner::text, lease_until = clock.now + wanted.lease_seconds * interval '1 second',
        started_at = clock.now, updated_at = clock.now
    FROM wanted CROSS JOIN clock
    WHERE job.ctid = wanted.place
    RETURNING {columns}
)
SELECT 'claimed' AS kind, NULL::text AS detail, taken.* FROM taken
UNION ALL
SELECT CASE WHEN picked.expires_at <= clock.now THEN 'expired' WHEN known.type IS NULL THEN 'unknown' ELSE 'left' END, picked.id, {columns_of_none}
FROM picked CROSS JOIN clock LEFT JOIN known ON known.type = picked.type WHERE picked.id NOT IN (SELECT id FROM wanted)
UNION ALL
SELECT 'left', NULL, {columns_of_none} WHERE (SELECT count(*) FROM candidate) > :limit::bigint
UNION ALL
SELECT 'held', NULL, {columns_of_none} WHERE (SELECT sum(share.wanted) FROM share) > (SELECT count(*) FROM picked)
UNION ALL
SELECT 'now', {clock_text}, {columns_of_none} FROM clock
UNION ALL
SELECT 'next', {next_text}, {columns_of_none} FROM (
    SELECT min((
        SELECT min(job.scheduled_at) FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = lane.queue AND job.priority = lane.priority AND job.scheduled_at > clock.now
    )) AS at
    FROM waiting AS lane CROSS JOIN clock
) AS next;

-- name: block
-- A due job of a type that this worker does not know is set aside; it spends no try, and no later claim walks over it.
UPDATE {prefix}jobs SET blocked_by = 'type', updated_at = :now::text::timestamptz WHERE id IN (
    SELECT id FROM {prefix}jobs
    WHERE id IN (SELECT json_array_elements_text(:ids::text::json)) AND status IN ('queued', 'retrying') AND blocked_by IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: expire
-- cancel: queued, retrying → cancelled, since it was not run before expires_at.
WITH late AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id IN (SELECT json_array_elements_text(:ids::text::json)) AND status IN ('queued', 'retrying')
        AND expires_at <= :now::text::timestamptz
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET
    status = 'cancelled', error = 'expired', blocked_by = NULL, finished_at = :now::text::timestamptz, updated_at = :now::text::timestamptz
WHERE job.id IN (SELECT id FROM late)
RETURNING {columns};

-- name: set_aside
-- dead-letter: a row that cannot be read stops only itself.
UPDATE {prefix}jobs SET
    status = 'dead_letter', error = :error::text, lease_owner = NULL, lease_until = NULL, blocked_by = NULL,
    finished_at = :now::text::timestamptz, updated_at = :now::text::timestamptz
WHERE id = :id::text;

-- name: free_key
-- The key of scope `active` of a row that was set aside.
DELETE FROM {prefix}keys AS held USING {prefix}jobs AS job
WHERE job.id = :id::text AND held.owner = job.owner AND held.type = job.type AND held.key = job.idempotency_key
    AND held.expires_at IS NULL AND held.job_id = job.id;

-- name: renew
-- Renews leases, and stores how far each handler has come. An id that does not come back is not ours any more.
-- Rows that are locked, mostly by the handler's own ctx.transaction(), are not waited for: their lease stays as it is, and the claim ours.
-- No sweep can take it meanwhile, since the sweep does not wait for them either.
WITH asked AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows::text::json) AS asked (id text, fence bigint, lease_until timestamptz, progress text)
), free AS MATERIALIZED (
    SELECT job.id FROM {prefix}jobs AS job JOIN asked ON job.id = asked.id AND job.fence = asked.fence
    WHERE job.status = 'in_progress'
    FOR NO KEY UPDATE OF job SKIP LOCKED
), renewed AS (
    UPDATE {prefix}jobs AS job SET
        lease_until = asked.lease_until, progress = coalesce(asked.progress, job.progress), updated_at = :now::text::timestamptz
    FROM asked JOIN free ON free.id = asked.id
    WHERE job.id = asked.id
    RETURNING job.id, job.fence, job.cancel_requested_at::text
)
SELECT id, fence, cancel_requested_at, false FROM renewed
UNION ALL
SELECT job.id, job.fence, job.cancel_requested_at::text, true FROM {prefix}jobs AS job JOIN asked ON job.id = asked.id AND job.fence = asked.fence
WHERE job.status = 'in_progress' AND job.id NOT IN (SELECT id FROM free);

-- name: begin_isolated
-- The same for handlers that start now and have their process to themselves; they may start once this is stored, so it waits.
UPDATE {prefix}jobs AS job SET
    lease_until = asked.lease_until, progress = coalesce(asked.progress, job.progress), ran_isolated = true,
    updated_at = :now::text::timestamptz
FROM json_to_recordset(:rows::text::json) AS asked (id text, fence bigint, lease_until timestamptz, progress text)
WHERE job.id = asked.id AND job.fence = asked.fence AND job.status = 'in_progress'
RETURNING job.id, job.fence, job.cancel_requested_at::text, false;

-- name: confirm
-- Proves that a claim is the newest. It is an UPDATE so that the transaction holds the row from here on.
UPDATE {prefix}jobs SET updated_at = :now::text::timestamptz
WHERE id = :id::text AND fence = :fence::bigint AND status = 'in_progress' RETURNING id;


-- == sweep, recover ==

-- name: overdue
-- Whether a sweep has anything to do: claims that ran out, jobs past their expiry, blocked jobs of a type that is known. Two seeks,
-- and a walk over what runs: lease_until is in no index.
SELECT
    EXISTS (
        SELECT FROM {prefix}jobs CROSS JOIN (SELECT {moment} AS now) AS clock
        WHERE status = 'in_progress' AND (lease_until <= clock.now OR lease_until > clock.now + interval '1 day' OR lease_until IS NULL)
    ),
    EXISTS (
        SELECT FROM {prefix}jobs CROSS JOIN (SELECT {moment} AS now) AS clock
        WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying') AND expires_at <= clock.now
    ),
    EXISTS (
        SELECT FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT json_array_elements_text(:types::text::json))
    );

-- name: run_out
-- Claims whose lease ran out. One further ahead than any lease may be counts too: the clock went back. A row that somebody holds is
-- settling, or inside its handler's transaction.
SELECT {columns} FROM {prefix}jobs AS job
WHERE job.status = 'in_progress'
    AND (job.lease_until <= :now::text::timestamptz OR job.lease_until > :too_far::text::timestamptz OR job.lease_until IS NULL)
FOR NO KEY UPDATE SKIP LOCKED;

-- name: held
SELECT {columns} FROM {prefix}jobs AS job WHERE job.status = 'in_progress' AND job.lease_owner = :lease_owner::text ORDER BY job.id;

-- name: cancel_requested
-- Asked at every poll: only the ids, over the index of what runs.
SELECT id FROM {prefix}jobs WHERE status = 'in_progress' AND lease_owner = :lease_owner::text AND cancel_requested_at IS NOT NULL;

-- name: lose
-- lose: in_progress → what `onward.outcome.Ending` says. Fence and lease are checked again here: in between the claim may have
-- completed, been renewed, or been made anew.
WITH lost AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows::text::json) AS lost (
        id text, fence bigint, lease_until timestamptz, status text, finished_at timestamptz, attempts bigint, lost_leases bigint,
        releases bigint, error text
    )
), back AS (
    UPDATE {prefix}jobs AS job SET
        status = lost.status, attempts = lost.attempts, lost_leases = lost.lost_leases, releases = lost.releases, error = lost.error,
        lease_owner = NULL, lease_until = NULL, finished_at = lost.finished_at, updated_at = :now::text::timestamptz
    FROM lost
    WHERE job.id = lost.id AND job.fence = lost.fence AND job.status = 'in_progress' AND job.lease_until IS NOT DISTINCT FROM lost.lease_until
    RETURNING {columns}, CASE WHEN job.finished_at IS NULL THEN {tell} END AS told
)
SELECT {column_names} FROM back;

-- name: past_expiry
SELECT id FROM {prefix}jobs
WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying') AND expires_at <= :now::text::timestamptz LIMIT :limit::bigint;

-- name: unblock
-- Rows whose type is known now may be claimed again; in batches, so that no transaction is long.
UPDATE {prefix}jobs AS job SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE job.id IN (
    SELECT id FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT json_array_elements_text(:types::text::json))
    LIMIT :limit::bigint FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING job.id, CASE WHEN job.scheduled_at <= job.updated_at + interval '30 seconds' THEN {tell} END AS told;


-- == read ==

-- name: get
SELECT {columns} FROM {prefix}jobs AS job WHERE job.id = :id::text AND (:owner::text IS NULL OR job.owner = :owner::text);

-- name: find
-- Newest first, by the id alone: a page costs the same wherever it begins.
SELECT {columns} FROM {prefix}jobs AS job
WHERE (:before::text IS NULL OR job.id < :before::text)
    AND (:ids::text IS NULL OR job.id IN (SELECT json_array_elements_text(:ids::text::json)))
    AND (:statuses::text IS NULL OR job.status IN (SELECT json_array_elements_text(:statuses::text::json)))
    AND (:types::text IS NULL OR job.type IN (SELECT json_array_elements_text(:types::text::json)))
    AND (:queues::text IS NULL OR job.queue IN (SELECT json_array_elements_text(:queues::text::json)))
    AND (:key::text IS NULL OR job.idempotency_key = :key::text)
    AND (:owner::text IS NULL OR job.owner = :owner::text)
    AND (:finished_after::text IS NULL OR job.finished_at > :finished_after::text::timestamptz)
ORDER BY job.id DESC LIMIT :limit::bigint;

-- name: count
SELECT count(*) FROM {prefix}jobs
WHERE (:ids::text IS NULL OR id IN (SELECT json_array_elements_text(:ids::text::json)))
    AND (:statuses::text IS NULL OR status IN (SELECT json_array_elements_text(:statuses::text::json)))
    AND (:types::text IS NULL OR type IN (SELECT json_array_elements_text(:types::text::json)))
    AND (:queues::text IS NULL OR queue IN (SELECT json_array_elements_text(:queues::text::json)))
    AND (:key::text IS NULL OR idempotency_key = :key::text)
    AND (:owner::text IS NULL OR owner = :owner::text)
    AND (:finished_after::text IS NULL OR finished_at > :finished_after::text::timestamptz);

-- name: find_active
-- By the key, which is quick, and from there to the job: there is no index over the keys of all jobs that ever were.
SELECT {columns} FROM {prefix}jobs AS job
WHERE job.id IN (
    SELECT job_id FROM {prefix}keys
    WHERE owner = :owner::text AND key = :key::text AND type IN (SELECT json_array_elements_text(:types::text::json))
) AND job.status IN ('queued', 'retrying', 'in_progress')
ORDER BY job.id DESC LIMIT 1;

-- name: history
SELECT {attempt_columns} FROM {prefix}history AS attempt WHERE attempt.job_id = :id::text ORDER BY attempt.fence;


-- == what a person does ==

-- name: cancel
-- cancel: queued, retrying → cancelled; a running job is asked to stop.
UPDATE {prefix}jobs AS job SET
    status = CASE WHEN status = 'in_progress' THEN 'in_progress' ELSE 'cancelled' END,
    finished_at = CASE WHEN status = 'in_progress' THEN NULL ELSE :now::text::timestamptz END,
    cancel_requested_at = CASE WHEN status = 'in_progress' THEN coalesce(cancel_requested_at, :now::text::timestamptz) END,
    error = CASE WHEN status = 'in_progress' THEN error ELSE 'cancelled' END,
    blocked_by = NULL,
    updated_at = CASE WHEN status = 'in_progress' AND cancel_requested_at IS NOT NULL THEN updated_at ELSE :now::text::timestamptz END
WHERE job.id = :id::text AND (:owner::text IS NULL OR job.owner = :owner::text) AND job.status IN ('queued', 'retrying', 'in_progress')
RETURNING {columns};

-- name: scope
SELECT scope FROM {prefix}jobs WHERE id = :id::text;

-- name: retry
-- retry by a person: dead_letter, cancelled → queued. The fence stays, and so does the history. A job that had expired may run after all.
WITH again AS (
    UPDATE {prefix}jobs AS job SET
        status = 'queued', scheduled_at = :now::text::timestamptz, attempts = 0, lost_leases = 0, releases = 0, snoozes = 0, error = NULL,
        result = NULL, progress = NULL, cancel_requested_at = NULL, blocked_by = NULL, finished_at = NULL,
        updated_at = :now::text::timestamptz,
        expires_at = CASE WHEN expires_at <= :now::text::timestamptz THEN NULL ELSE expires_at END
    WHERE job.id = :id::text AND job.status IN ('dead_letter', 'cancelled')
    RETURNING {columns}, {tell} AS told
)
SELECT {column_names} FROM again;

-- name: run_now
-- run now: queued, retrying → queued
WITH now AS (
    UPDATE {prefix}jobs AS job
    SET status = 'queued', scheduled_at = :now::text::timestamptz, blocked_by = NULL, updated_at = :now::text::timestamptz
    WHERE job.id = :id::text AND (:owner::text IS NULL OR job.owner = :owner::text) AND job.status IN ('queued', 'retrying')
    RETURNING {columns}, {tell} AS told
)
SELECT {column_names} FROM now;

-- name: delete
DELETE FROM {prefix}jobs
WHERE id = :id::text AND (:owner::text IS NULL OR owner = :owner::text) AND status <> 'in_progress' RETURNING id;

-- name: delete_history
DELETE FROM {prefix}history WHERE job_id IN (SELECT json_array_elements_text(:ids::text::json));


-- == prune ==

-- name: prunable
-- Whether a prune has anything to do: a seek for each final status, and one for the keys.
SELECT EXISTS (
    SELECT FROM json_each_text(:ages::text::json) AS kept (status, seconds) CROSS JOIN LATERAL (
        SELECT FROM {prefix}jobs AS job
        WHERE job.status IN ('completed', 'dead_letter', 'cancelled') AND job.status = kept.status
            AND job.finished_at <= {moment} - kept.seconds::double precision * interval '1 second'
        LIMIT 1
    ) AS old
) OR EXISTS (SELECT FROM {prefix}keys WHERE expires_at IS NOT NULL AND expires_at <= {moment});

-- name: prune
-- The oldest first, by the index on what is final; small batches, so that no transaction is long.
WITH old AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = :status::text AND finished_at <= :before::text::timestamptz
    ORDER BY finished_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}jobs WHERE id IN (SELECT id FROM old) RETURNING id;

-- name: prune_keys
-- Windows that are over. A key for ever ends in the year 9999.
WITH over AS MATERIALIZED (
    SELECT owner, type, key FROM {prefix}keys
    WHERE expires_at IS NOT NULL AND expires_at <= :now::text::timestamptz LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}keys WHERE (owner, type, key) IN (SELECT owner, type, key FROM over);


-- == the six questions; these run as they stand in any shell, so they take no parameters but {now} and {stuck_seconds} ==

-- name: question_outstanding
SELECT type, status, count(*) AS jobs
FROM {prefix}jobs WHERE status IN ('queued', 'in_progress', 'retrying')
GROUP BY type, status ORDER BY type, status;

-- name: question_failed
SELECT job.id, job.type, job.attempts, {finished_at} AS finished_at, job.error
FROM {prefix}jobs AS job WHERE job.status IN ('completed', 'dead_letter', 'cancelled') AND job.status = 'dead_letter'
ORDER BY job.finished_at DESC, job.id DESC;

-- name: question_stuck
SELECT job.id, job.type, job.lease_owner, {lease_until} AS lease_until, {started_at} AS started_at,
    CASE WHEN job.lease_until <= {now} THEN 'lease expired' ELSE 'running long' END AS reason
FROM {prefix}jobs AS job
WHERE job.status = 'in_progress' AND (job.lease_until <= {now} OR job.started_at <= {now} - {stuck_seconds} * interval '1 second')
ORDER BY job.started_at, job.id;

-- name: question_durations
SELECT type, count(*) AS jobs,
    round(avg(extract(epoch FROM finished_at - started_at)), 3)::double precision AS average_seconds,
    round(max(extract(epoch FROM finished_at - started_at)), 3)::double precision AS longest_seconds
FROM {prefix}jobs WHERE status = 'completed' AND started_at IS NOT NULL
GROUP BY type ORDER BY type;

-- name: question_duplicates
SELECT owner, type, idempotency_key, count(*) AS jobs
FROM {prefix}jobs WHERE status IN ('queued', 'in_progress', 'retrying') AND idempotency_key IS NOT NULL
GROUP BY owner, type, idempotency_key HAVING count(*) > 1 ORDER BY owner, type, idempotency_key;

-- name: question_last_hour
SELECT job.id, job.type, job.status, {finished_at} AS finished_at
FROM {prefix}jobs AS job WHERE job.status IN ('completed', 'dead_letter', 'cancelled') AND job.finished_at >= {now} - interval '1 hour'
ORDER BY job.finished_at DESC, job.id DESC;


-- == examine; one look each, without parameters ==

-- name: census
SELECT status, count(*) AS jobs, to_char(max(created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS newest
FROM {prefix}jobs GROUP BY status;

-- name: examine_server
-- host is empty where the connection goes through a socket.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS number, current_user::text AS role,
    place.datname::text AS database, place.oid::bigint AS oid, pg_encoding_to_char(place.encoding)::text AS encoding,
    host(inet_server_addr()) AS host, inet_server_port() AS port, pg_is_in_recovery() AS is_standby,
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_everybody
FROM pg_catalog.pg_database AS place WHERE place.datname = current_database();

-- name: examine_place
SELECT concat_ws(' at ', current_database(), host(inet_server_addr()) || ':' || inet_server_port()::text) AS place;

-- name: examine_settings
-- As they are in a connection of this role to this database.
SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN (
    'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'autovacuum', 'track_counts',
    'default_transaction_isolation', 'default_transaction_read_only', 'statement_timeout', 'lock_timeout',
    'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout'
);

-- name: examine_connections
SELECT
    (SELECT sum(numbackends)::bigint FROM pg_catalog.pg_stat_database) AS used,
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS allowed;

-- name: examine_tables
SELECT class.relname::text AS name, class.relpersistence = 'u' AS is_unlogged, row_security_active(class.oid) AS hides_rows,
    ARRAY(
        SELECT needed FROM unnest(CASE WHEN class.relname = 'schema_version' THEN '{SELECT}' ELSE '{SELECT,INSERT,UPDATE,DELETE}' END::text[]) AS needed
        WHERE NOT has_table_privilege(class.oid, needed)
    ) AS lacking,
    EXISTS (
        SELECT FROM pg_options_to_table(class.reloptions) WHERE option_name = 'autovacuum_enabled' AND NOT option_value::boolean
    ) AS is_never_vacuumed,
    coalesce(stats.n_live_tup, 0) AS live, coalesce(stats.n_dead_tup, 0) AS dead,
    extract(epoch FROM statement_timestamp() - greatest(stats.last_autovacuum, stats.last_vacuum))::double precision AS vacuumed_seconds_ago,
    pg_table_size(class.oid) AS bytes, pg_indexes_size(class.oid) AS index_bytes
FROM pg_catalog.pg_class AS class LEFT JOIN pg_catalog.pg_stat_all_tables AS stats ON stats.relid = class.oid
WHERE class.relkind IN ('r', 'p')
    AND class.relnamespace = (SELECT jobs.relnamespace FROM pg_catalog.pg_class AS jobs WHERE jobs.oid = '{prefix}jobs'::regclass)
ORDER BY class.relname;

-- name: examine_indexes
-- entries is what the last cleaning counted, -1 before the first one.
SELECT class.relname::text AS name, pg_relation_size(class.oid) AS bytes, class.reltuples::bigint AS entries
FROM pg_catalog.pg_class AS class
WHERE class.relkind = 'i'
    AND class.relnamespace = (SELECT jobs.relnamespace FROM pg_catalog.pg_class AS jobs WHERE jobs.oid = '{prefix}jobs'::regclass)
ORDER BY class.relname;

-- name: examine_made
-- How the tables are made, part by part; is_model marks those that the migrations have just made in pg_temp, to compare with.
-- Constraints that say NOT NULL are left to the column, since only some releases list them. An index that serves a constraint is part of it.
WITH relation AS (
    SELECT class.oid, class.relname::text AS name, class.relnamespace = pg_my_temp_schema() AS is_model, quote_ident(space.nspname) || '.' AS prefix
    FROM pg_catalog.pg_class AS class JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p') AND class.relnamespace IN (
        (SELECT jobs.relnamespace FROM pg_catalog.pg_class AS jobs WHERE jobs.oid = '{prefix}jobs'::regclass), pg_my_temp_schema()
    )
), part AS (
    SELECT relation.oid, 'column' AS kind, attribute.attname::text AS name,
        concat_ws(
            ' ', format_type(attribute.atttypid, attribute.atttypmod),
            'COLLATE ' || quote_ident(nullif(rules.collname, 'default')), CASE WHEN attribute.attnotnull THEN 'NOT NULL' END,
            'DEFAULT ' || pg_get_expr(standard.adbin, standard.adrelid)
        ) AS made, true AS is_valid, attribute.attnotnull AND standard.adbin IS NULL AS is_demanding
    FROM relation JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = relation.oid
    LEFT JOIN pg_catalog.pg_attrdef AS standard ON standard.adrelid = relation.oid AND standard.adnum = attribute.attnum
    LEFT JOIN pg_catalog.pg_collation AS rules ON rules.oid = attribute.attcollation
    WHERE attribute.attnum > 0 AND NOT attribute.attisdropped
    UNION ALL
    SELECT relation.oid, 'constraint', found.conname::text, pg_get_constraintdef(found.oid), true, found.contype IN ('p', 'u')
    FROM relation JOIN pg_catalog.pg_constraint AS found ON found.conrelid = relation.oid WHERE found.contype IN ('c', 'p', 'u', 'x', 'f')
    UNION ALL
    SELECT relation.oid, 'index', class.relname::text, pg_get_indexdef(class.oid), found.indisvalid AND found.indisready, found.indisunique
    FROM relation
    JOIN pg_catalog.pg_index AS found ON found.indrelid = relation.oid
    JOIN pg_catalog.pg_class AS class ON class.oid = found.indexrelid
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS served WHERE served.conindid = class.oid AND served.contype IN ('p', 'u', 'x'))
    UNION ALL
    SELECT relation.oid, 'trigger', found.tgname::text, pg_get_triggerdef(found.oid), true, true
    FROM relation JOIN pg_catalog.pg_trigger AS found ON found.tgrelid = relation.oid WHERE NOT found.tgisinternal
)
SELECT relation.is_model, relation.name AS "table", part.kind, part.name,
    replace(replace(part.made, relation.prefix, ''), 'pg_temp.', '') AS made, part.is_valid, part.is_demanding
FROM relation JOIN part ON part.oid = relation.oid;

-- name: examine_transactions
-- Who keeps dead rows from being cleaned away. Of a standby and of a slot no age is known but that of the oldest transaction it still needs.
SELECT 'session' AS kind, pid::text AS name, concat_ws(', ', nullif(application_name, ''), usename, state) AS who,
    extract(epoch FROM statement_timestamp() - xact_start)::double precision AS seconds, NULL::bigint AS transactions
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND backend_type <> 'autovacuum worker' AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_progress_vacuum)
UNION ALL
SELECT 'prepared', gid, owner::text, extract(epoch FROM statement_timestamp() - prepared)::double precision, NULL
FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()
UNION ALL
SELECT 'slot', slot_name::text, CASE WHEN active THEN 'in use' ELSE 'not in use' END, NULL, age(xmin)
FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL
UNION ALL
SELECT 'standby', pid::text, application_name, NULL, age(backend_xmin)
FROM pg_catalog.pg_stat_replication WHERE backend_xmin IS NOT NULL;

-- name: examine_blocked
SELECT type, count(*) AS jobs FROM {prefix}jobs WHERE blocked_by IS NOT NULL AND blocked_by = 'type' GROUP BY type ORDER BY type;

-- name: examine_queue_of_notifications
SELECT pg_notification_queue_usage() AS used;

-- name: examine_backend
SELECT pg_backend_pid();

-- name: examine_listen
-- A channel that no worker listens to. A pooler may lend the session to others afterwards, so it is left as it was.
LISTEN onward_doctor;

-- name: examine_unlisten
UNLISTEN onward_doctor;
