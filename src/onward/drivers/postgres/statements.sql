-- Every statement of the Postgres store, by name; SQLite's file has the same names, but for the few that only one of them needs.
-- What doctor asks and the six questions have files of their own.
-- {prefix} is the quoted schema and a dot. {columns} are those of onward.jobs.Job in its order, of a table called `job`, as text, numbers
-- and booleans, {claimed_columns} those that a claim may leave filled, as they are; {attempt_columns} are those of Attempt, of `attempt`.
-- The other words in braces, and the schema before every function and type, are put in by `onward.drivers.postgres.statement_text`.
-- Instants come and go as ISO text. Lists and rows come as one JSON parameter. Every parameter is cast, so that no library has to guess.
-- A list is asked for as `= ANY (ARRAY(SELECT ...))`, which is read once whatever the planner believes: with the statistics of a small
-- table it took `IN (SELECT ...)` for a nested loop and read 1,000 ids anew for each of 1,000 rows, 0.3 s, and within another for each of
-- those again, minutes. Rows are locked in a MATERIALIZED part, for the same reason.
-- Who looks for certain rows that run writes `status = (SELECT 'in_progress')`: the planner, which believes that next to nothing runs,
-- else walks all that does by `jobs_running` and compares each row with each id. 500 completions beside 1,500 running jobs took 20 ms, now 8.
-- Several transactions write at once here. Whoever only wants what is free skips locked rows. Who has to change a certain row (settle,
-- complete, free_keys, confirm) waits for a caller's open transaction that holds it, and not for longer than its lock_timeout.


-- == own connections ==

-- name: begin
-- One round trip for all of it, which gives the time, and which transaction this is. The isolation level is said, since the role's own
-- may be another.
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_timeout};
SELECT {now_text}, concat(pg_backend_pid(), ' ', extract(epoch FROM transaction_timestamp()));

-- name: begin_own
-- The same where only our own statements follow: those are planned as `plan_to_seek` has it.
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_timeout};
SELECT {now_text}, NULL, {plan_to_seek};

-- name: plan_to_seek
-- For one that is sent together with it, and is a transaction without a BEGIN. Each is planned once, which for the claim takes 0.9 ms, and
-- to seek in indexes: a plan that is made while the table is small and walks it lasts until the next ANALYZE (with 100,000 new jobs a claim
-- took 0.7 s, now 1 ms).
-- It also does what `begin_claiming` does.
SELECT {plan_to_seek}, set_config('lock_timeout', :lock_timeout::text, true), pg_advisory_xact_lock_shared({claiming});

-- name: is_read_committed
-- What a transaction is that does not say how it wants to be isolated.
SELECT current_setting('default_transaction_isolation') = 'read committed';

-- name: is_same_transaction
-- Every other one began in another moment, or in another session.
SELECT concat(pg_backend_pid(), ' ', extract(epoch FROM transaction_timestamp())) = :begun::text;

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

-- name: place
-- The first look of an operation: the clock, and which tables the statements behind it will find, by what no alias or copy can feign.
-- `started` is null on a standby, of which a pooler may ask this; `transaction` differs for every transaction.
SELECT {now_text} AS now,
    (SELECT identity::text FROM {prefix}schema_version WHERE version = 1) AS store, current_database()::text AS database,
    CASE WHEN NOT pg_is_in_recovery() THEN to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') END AS started,
    concat_ws(' at ', current_database(), host(inet_server_addr()) || ':' || inet_server_port()::text) AS shown,
    concat(pg_backend_pid(), ' ', extract(epoch FROM transaction_timestamp())) AS transaction;

-- name: client_encoding
-- For this transaction.
SELECT set_config('client_encoding', :encoding::text, true);

-- name: savepoint
SAVEPOINT onward;

-- name: release_savepoint
RELEASE SAVEPOINT onward;

-- name: undo_savepoint
ROLLBACK TO SAVEPOINT onward;

-- name: inner_savepoint
-- Of another name than the one around it, which an error undoes as a whole, and with it this.
SAVEPOINT onward_inner;

-- name: release_inner_savepoint
RELEASE SAVEPOINT onward_inner;

-- name: undo_inner_savepoint
ROLLBACK TO SAVEPOINT onward_inner;


-- == enqueue ==

-- name: stored
-- Which of these ids exist already: the same request again counts as accepted.
SELECT id, type, payload_hash, owner FROM {prefix}jobs WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)));

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

-- name: held_keys
-- Which of these keys are held, and by whom.
SELECT (asked.value ->> 0)::bigint AS position, held.job_id, held.payload_hash
FROM json_array_elements(:rows::text::json) AS asked (value) JOIN {prefix}keys AS held
    ON held.owner = asked.value ->> 1 AND held.type = asked.value ->> 2 AND held.key = asked.value ->> 3
WHERE held.expires_at IS NULL OR held.expires_at > :now::text::timestamptz;

-- name: take_keys
-- As `take_key`, for many that nobody seems to hold, in the order given. An id that does not come back has not got its key: it is held
-- after all, or its window is over and it is taken over by itself, since a statement would lock such rows in an order of its own.
INSERT INTO {prefix}keys (owner, type, key, job_id, payload_hash, expires_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, (value ->> 5)::timestamptz
FROM json_array_elements(:rows::text::json) WITH ORDINALITY AS asked (value, place)
ORDER BY place
ON CONFLICT (owner, type, key) DO NOTHING
RETURNING job_id;

-- name: drop_key
-- A key that was taken for a job which another transaction had stored in the meantime, with another key or none.
DELETE FROM {prefix}keys WHERE owner = :owner::text AND type = :type::text AND key = :key::text AND job_id = :job_id::text;

-- name: key_holder
SELECT job_id, payload_hash FROM {prefix}keys WHERE owner = :owner::text AND type = :type::text AND key = :key::text;

-- name: enqueue
-- enqueue: → queued, for any number of rows. {tell} notifies the listeners where {is_soon}: an idle worker might not look again before the
-- job is due. Postgres folds equal notifications of one transaction.
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
    RETURNING job.id, CASE WHEN {is_soon} THEN {tell} END AS told
)
SELECT id FROM asked WHERE id NOT IN (SELECT id FROM added);

-- name: enqueue_alone
-- The same for one job without a key, in a transaction of its own: one round trip instead of four. No row back means that its id is stored.
-- Without `now` the database's clock decides. The lock_timeout is for another transaction that has stored the id and not ended.
INSERT INTO {prefix}jobs AS job (
    id, type, queue, priority, status, payload, payload_hash, scheduled_at, expires_at, max_attempts, isolated,
    concurrency_key, serial_key, breaker, owner, metadata, created_at, updated_at
)
SELECT
    :id::text, :type::text, :queue::text, :priority::integer, 'queued', :payload::text, :payload_hash::text,
    coalesce(:scheduled_at::text::timestamptz, clock.now), :expires_at::text::timestamptz, :max_attempts::bigint, :isolated::integer <> 0,
    :concurrency_key::text, :serial_key::text, :breaker::text, :owner::text, :metadata::text, clock.now, clock.now
FROM (
    SELECT coalesce(:now::text::timestamptz, statement_timestamp()) AS now, set_config('lock_timeout', :lock_timeout::text, true) AS waits
) AS clock
ON CONFLICT (id) DO NOTHING
RETURNING CASE WHEN {is_soon} THEN {tell} END AS told;

-- name: notify
SELECT pg_notify(:channel::text, :payload::text);


-- == turn ==

-- name: asked_to_cancel
-- Before `settle`, for endings that are none: a person may have asked since the claim. All are locked, those that nobody has asked to
-- cancel too, so that nobody asks in between.
WITH held AS MATERIALIZED (
    SELECT id, cancel_requested_at FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status = (SELECT 'in_progress')
    FOR NO KEY UPDATE
)
SELECT id FROM held WHERE cancel_requested_at IS NOT NULL;

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
    WHERE job.id = ended.id AND job.fence = ended.fence AND job.status = (SELECT 'in_progress')
    RETURNING job.id, job.fence, CASE WHEN job.finished_at IS NULL AND {is_soon} THEN {tell} END AS told
)
SELECT id, fence FROM settled;

-- name: complete_without_result
-- complete: in_progress → completed. The same as `complete` for claims that share a fence and have no result.
UPDATE {prefix}jobs AS job SET
    status = 'completed', finished_at = :now::text::timestamptz, error = NULL, result = NULL,
    lease_owner = NULL, lease_until = NULL, updated_at = :now::text::timestamptz
WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND job.fence = :fence::bigint AND job.status = (SELECT 'in_progress')
RETURNING job.id, job.fence;

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
WHERE job.id = ended.id AND job.fence = ended.fence AND job.status = (SELECT 'in_progress')
RETURNING job.id, job.fence;

-- name: shown
-- The rows whose settlement changed nothing: perhaps an earlier try of the same turn was stored before its answer was lost.
SELECT {columns} FROM {prefix}jobs AS job WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)));

-- name: free_keys
-- The end of a job frees its key of scope `active` (the only one without an end of its own).
WITH ended AS MATERIALIZED (SELECT json_array_elements_text(:ids::text::json) AS id)
DELETE FROM {prefix}keys AS held
USING ended JOIN {prefix}jobs AS job ON job.id = ended.id
WHERE held.owner = job.owner AND held.type = job.type AND held.key = job.idempotency_key
    AND held.expires_at IS NULL AND held.job_id = ANY (ARRAY(SELECT id FROM ended));

-- name: free_keys_of
-- The same for jobs whose rows are gone; each is [owner, type, key, job_id].
DELETE FROM {prefix}keys AS held
USING json_array_elements(:rows::text::json) AS row (value)
WHERE held.owner = value ->> 0 AND held.type = value ->> 1 AND held.key = value ->> 2 AND held.job_id = value ->> 3 AND held.expires_at IS NULL;

-- name: write_history
-- A repeated turn finds its rows there already.
INSERT INTO {prefix}history (job_id, fence, attempt, lease_owner, outcome, error, processed, failed, started_at, finished_at)
SELECT job_id, fence, attempt, lease_owner, outcome, error, processed, failed, started_at, finished_at
FROM json_to_recordset(:rows::text::json) AS ended (
    job_id text, fence bigint, attempt bigint, lease_owner text, outcome text, error text, processed bigint, failed bigint,
    started_at timestamptz, finished_at timestamptz
)
ON CONFLICT DO NOTHING;

-- name: write_rollups
-- A worker's own counts, as they are now. Read by position.
INSERT INTO {prefix}rollups AS rollup (minute, queue, type, outcome, worker, count, histogram)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, (value ->> 5)::bigint, value ->> 6
FROM json_array_elements(:rows::text::json) AS row (value)
ON CONFLICT (minute, queue, type, outcome, worker) DO UPDATE SET count = excluded.count, histogram = excluded.histogram;

-- name: correct_rollups
-- What an earlier try may have stored and that does not hold. A row that is not there needs no correction, and none is made.
UPDATE {prefix}rollups AS rollup SET count = (value ->> 5)::bigint, histogram = value ->> 6
FROM json_array_elements(:rows::text::json) AS row (value)
WHERE rollup.minute = value ->> 0 AND rollup.queue = value ->> 1 AND rollup.type = value ->> 2 AND rollup.outcome = value ->> 3
    AND rollup.worker = value ->> 4;

-- name: begin_claiming
-- Whoever pauses a queue waits, once that is stored, until every claim has ended that may have begun before and not seen it.
SELECT pg_advisory_xact_lock_shared({claiming});

-- name: outlast_claims
SELECT pg_advisory_xact_lock({claiming});

-- name: claim
-- claim: queued, retrying → in_progress, all of it in one statement, which saves round trips. Without `now` the database's clock decides.
--   lane, waiting: a skip scan, one seek for each (queue, priority) that has something waiting, and one behind the last of each queue, however
--     many rows. It brings along when the lane's first row is due; nobody looks again at a lane that has only later ones, or is paused.
--   candidate: the first rows that are due over all lanes, in the order to run them, not locked: they only say how many to take from each
--     lane. One ORDER BY over all lanes would walk every future row of a higher priority.
--   picked: that many of each lane, locked; rows that others hold are passed over, and the next ones taken. Locking all the candidates
--     instead would hide rows from other workers that nobody takes. MATERIALIZED: a subselect could be run again and lock more.
--     A locked row keeps its place (ctid), which saves a descent of the primary key for each; one that was changed in the moment
--     before has another place, and the next claim finds it.
--   first_at is where the lane's first row is, so later looks begin there: what is dead before it and cannot be cleaned away, while
--     somebody's transaction is open, is walked over once. Where that took long, the lanes are told, and given as `lanes` to the next claims,
--     which search for no others (onward.drivers.postgres.lanes).
--   wanted: those that get the slots. Rows that may have to wait for others keep their place among them and are told, not taken. Without
--     slots nothing is taken, and all of them are told, ``passed`` at most: to be asked about together, in their order.
--   No filter by type before the LIMIT: it would walk every unknown row at the head of the queue.
--   Each claimed row comes as one JSON object, which costs the reader 3 microseconds instead of 8. Its instants are in the session's zone,
--     so that is UTC until the end of the transaction: elsewhere the last moment of the year 9999 is in a year that no program can read.
--   {relaxed}: with durability=relaxed, the commit of this transaction does not wait for the disk (onward.drivers.durability).
--   LIMIT (SELECT 100000): a bound that the planner cannot see, for which it assumes a tenth of the rows. Without it, it takes the scan to be
--     so dear that it compiles the statement each time (JIT: 130 ms instead of 1).
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce(:now::text::timestamptz, statement_timestamp()) AS now, set_config('TimeZone', 'UTC', true) AS zone{relaxed}
), lane (queue, priority, first_at) AS (
    SELECT first.* FROM (
        SELECT asked.queue FROM json_array_elements_text(:queues::text::json) AS asked (queue)
        WHERE :lanes::text IS NULL LIMIT (SELECT 100000)
    ) AS asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.scheduled_at FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND job.queue = asked.queue
        ORDER BY job.queue, job.priority DESC, job.scheduled_at LIMIT 1
    ) AS first
    UNION ALL (
        SELECT job.queue, job.priority, job.scheduled_at FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND :queues::text IS NULL AND :lanes::text IS NULL
        ORDER BY job.queue, job.priority DESC, job.scheduled_at LIMIT 1
    )
    UNION ALL (
        SELECT first.* FROM (
            SELECT value ->> 0 AS queue, (value ->> 1)::integer AS priority, (value ->> 2)::timestamptz AS first_at
            FROM json_array_elements(:lanes::text::json) AS row (value) LIMIT (SELECT 100000)
        ) AS known CROSS JOIN LATERAL (
            SELECT job.queue, job.priority, job.scheduled_at FROM {prefix}jobs AS job
            WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
                AND job.queue = known.queue AND job.priority = known.priority AND job.scheduled_at >= known.first_at
            ORDER BY job.scheduled_at LIMIT 1
        ) AS first
    )
    UNION ALL
    SELECT next.* FROM lane CROSS JOIN LATERAL (
        (
            SELECT job.queue, job.priority, job.scheduled_at FROM {prefix}jobs AS job
            WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
                AND job.queue = lane.queue AND job.priority < lane.priority
            ORDER BY job.queue, job.priority DESC, job.scheduled_at LIMIT 1
        )
        UNION ALL
        (
            SELECT job.queue, job.priority, job.scheduled_at FROM {prefix}jobs AS job
            WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL AND :queues::text IS NULL AND job.queue > lane.queue
            ORDER BY job.queue, job.priority DESC, job.scheduled_at LIMIT 1
        )
        LIMIT 1
    ) AS next
    WHERE :lanes::text IS NULL
), waiting AS MATERIALIZED (
    SELECT queue, priority, first_at, clock_timestamp() - statement_timestamp() AS took FROM lane
    WHERE NOT EXISTS (SELECT FROM {prefix}queues AS paused WHERE paused.name = lane.queue)
        AND coalesce((:rooms::text::json ->> lane.queue)::bigint > 0, NOT EXISTS (
            SELECT FROM {prefix}limits AS one WHERE one.kind = 'queue' AND (:rooms::text IS NULL OR one.name = lane.queue)
        ))
    ORDER BY priority DESC LIMIT (SELECT 100000)
), candidate AS MATERIALIZED (
    SELECT lane.queue, lane.priority, lane.first_at, due.scheduled_at, due.id
    FROM waiting AS lane
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT job.scheduled_at, job.id FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = lane.queue AND job.priority = lane.priority
            AND job.scheduled_at >= lane.first_at AND job.scheduled_at <= clock.now
        ORDER BY job.scheduled_at, job.id LIMIT :limit::bigint + 1
    ) AS due
    WHERE lane.first_at <= clock.now
    ORDER BY lane.priority DESC, due.scheduled_at, due.id LIMIT :limit::bigint + 1
), share AS MATERIALIZED (
    SELECT queue, priority, first_at, count(*) AS wanted
    FROM (
        SELECT queue, priority, first_at, CASE WHEN :rooms::text IS NULL THEN 0 ELSE
            row_number() OVER (PARTITION BY queue ORDER BY priority DESC, scheduled_at, id)
        END AS place
        FROM candidate ORDER BY priority DESC, scheduled_at, id LIMIT :limit::bigint
    ) AS first
    WHERE place <= coalesce((:rooms::text::json ->> queue)::bigint, place)
    GROUP BY queue, priority, first_at LIMIT (SELECT 100000)
), picked AS MATERIALIZED (
    SELECT due.place, due.id, due.type, due.priority, due.scheduled_at, due.expires_at, due.shares
    FROM share
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT
            job.ctid AS place, job.id, job.type, job.priority, job.scheduled_at, job.expires_at,
            coalesce(job.breaker, job.serial_key, job.concurrency_key) IS NOT NULL AS shares
        FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = share.queue AND job.priority = share.priority
            AND job.scheduled_at >= share.first_at AND job.scheduled_at <= clock.now
        ORDER BY job.scheduled_at, job.id LIMIT share.wanted
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS due
    LIMIT :limit::bigint
), known AS MATERIALIZED (
    SELECT key AS type, value::double precision AS lease_seconds FROM json_each_text(:types::text::json)
), wanted AS MATERIALIZED (
    SELECT picked.place, picked.id, picked.type, picked.shares, known.lease_seconds
    FROM picked JOIN known ON known.type = picked.type CROSS JOIN clock
    WHERE picked.expires_at IS NULL OR picked.expires_at > clock.now
    ORDER BY picked.priority DESC, picked.scheduled_at, picked.id LIMIT :slots::bigint + :passed::bigint
), taken AS (
    UPDATE {prefix}jobs AS job SET
        status = 'in_progress', isolated = (job.isolated OR job.lost_leases > 0), ran_isolated = false,
        attempts = least(job.attempts, {highest}) + 1, fence = least(job.fence, {highest}) + 1,
        lease_owner = :lease_owner::text, lease_until = clock.now + wanted.lease_seconds * interval '1 second',
        started_at = clock.now, updated_at = clock.now
    FROM (SELECT * FROM wanted WHERE NOT shares LIMIT :slots::bigint) AS wanted CROSS JOIN clock
    WHERE job.ctid = wanted.place
    RETURNING {claimed_columns}
)
SELECT 'claimed' AS kind, row_to_json(taken)::text AS detail FROM taken
UNION ALL
SELECT CASE WHEN picked.expires_at <= clock.now THEN 'expired' WHEN known.type IS NULL THEN 'unknown' ELSE 'left' END, picked.id
FROM picked CROSS JOIN clock LEFT JOIN known ON known.type = picked.type WHERE picked.id NOT IN (SELECT id FROM wanted)
UNION ALL
SELECT 'left', NULL WHERE (SELECT count(*) FROM candidate) > :limit::bigint
UNION ALL
SELECT 'shares', json_build_array(id, type)::text FROM (
    SELECT wanted.id, wanted.type FROM wanted JOIN picked ON picked.id = wanted.id WHERE wanted.shares OR :slots::bigint = 0
    ORDER BY picked.priority DESC, picked.scheduled_at, picked.id
) AS asked
UNION ALL
SELECT 'limited', NULL WHERE :rooms::text IS NULL AND EXISTS (SELECT FROM {prefix}limits WHERE kind = 'queue')
UNION ALL
SELECT 'ripe', {ripe_text} FROM (
    SELECT min(retry_at) AS at FROM {prefix}breakers WHERE retry_at IS NOT NULL
    UNION ALL SELECT min(check_at) FROM {prefix}limits WHERE check_at IS NOT NULL
) AS ripe
UNION ALL
SELECT 'blocked', NULL WHERE EXISTS (
    SELECT FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT type FROM known)) AND :queues::text IS NULL
) OR EXISTS (
    SELECT FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT type FROM known))
        AND queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json)))
)
UNION ALL
SELECT 'lane', json_build_array(queue, priority, {first_text}, extract(epoch FROM took))::text FROM waiting
WHERE :lanes::text IS NOT NULL OR (SELECT max(took) FROM waiting) > interval '{slow_search}'
UNION ALL
SELECT 'now', {clock_text} FROM clock
UNION ALL
SELECT 'next', {next_text} FROM (
    SELECT min(CASE WHEN lane.first_at > clock.now THEN lane.first_at ELSE (
        SELECT job.scheduled_at FROM {prefix}jobs AS job
        WHERE job.status IN ('queued', 'retrying') AND job.blocked_by IS NULL
            AND job.queue = lane.queue AND job.priority = lane.priority AND job.scheduled_at > clock.now
        ORDER BY job.scheduled_at LIMIT 1
    ) END) AS at
    FROM waiting AS lane CROSS JOIN clock
    WHERE (SELECT count(*) FROM candidate) <= :limit::bigint
) AS next;

-- name: block
-- A due job of a type that this worker does not know is set aside; it spends no try, and no later claim walks over it.
WITH free AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status IN ('queued', 'retrying') AND blocked_by IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET blocked_by = 'type', updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM free))
RETURNING job.id, {tell} AS told;

-- name: unblock_first
-- Rows that this worker can run after all, to be claimed in the same transaction: else the worker that has set them aside does so again.
-- Two arms, since a queue that may be any is no place to seek. The limit counts rows that are free: those that others hold must not hide
-- them.
WITH found AS MATERIALIZED (
    (
        SELECT id FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json)))
            AND :queues::text IS NULL
        LIMIT :most::bigint
    )
    UNION ALL
    (
        SELECT id FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json)))
            AND queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json)))
        LIMIT :most::bigint
    )
), free AS MATERIALIZED (
    SELECT job.id FROM {prefix}jobs AS job JOIN found ON found.id = job.id
    WHERE job.blocked_by IS NOT NULL AND job.blocked_by = 'type'
    ORDER BY job.priority DESC, job.scheduled_at, job.id LIMIT :limit::bigint
    FOR NO KEY UPDATE OF job SKIP LOCKED
)
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE id = ANY (ARRAY(SELECT id FROM free));

-- name: expire
-- cancel: queued, retrying → cancelled, since it was not run before expires_at.
WITH late AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status IN ('queued', 'retrying')
        AND expires_at <= :now::text::timestamptz
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET
    status = 'cancelled', error = 'expired', blocked_by = NULL, finished_at = :now::text::timestamptz, updated_at = :now::text::timestamptz
WHERE job.id = ANY (ARRAY(SELECT id FROM late))
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
    WHERE job.status = (SELECT 'in_progress')
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
WHERE job.status = (SELECT 'in_progress') AND job.id NOT IN (SELECT id FROM free);

-- name: begin_isolated
-- The same for handlers that start now and have their process to themselves; they may start once this is stored, so it waits.
UPDATE {prefix}jobs AS job SET
    lease_until = asked.lease_until, progress = coalesce(asked.progress, job.progress), ran_isolated = true,
    updated_at = :now::text::timestamptz
FROM json_to_recordset(:rows::text::json) AS asked (id text, fence bigint, lease_until timestamptz, progress text)
WHERE job.id = asked.id AND job.fence = asked.fence AND job.status = (SELECT 'in_progress')
RETURNING job.id, job.fence, job.cancel_requested_at::text, false;

-- name: confirm
-- Proves that a claim is the newest. It is an UPDATE so that the transaction holds the row from here on.
UPDATE {prefix}jobs SET updated_at = :now::text::timestamptz
WHERE id = :id::text AND fence = :fence::bigint AND status = (SELECT 'in_progress') RETURNING id;


-- == sweep, recover ==

-- name: overdue
-- Whether a sweep has anything to do: claims that ran out, jobs past their expiry, blocked jobs of a type that is known, jobs that wait
-- for others. Some seeks,
-- and a walk over what runs: lease_until is in no index.
SELECT
    EXISTS (
        SELECT FROM {prefix}jobs CROSS JOIN (SELECT {moment} AS now) AS clock
        WHERE status = 'in_progress' AND (lease_until <= clock.now OR lease_until > clock.now + {longest_lease} OR lease_until IS NULL)
    ),
    EXISTS (
        SELECT FROM {prefix}jobs CROSS JOIN (SELECT {moment} AS now) AS clock
        WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying') AND expires_at <= clock.now
    ),
    EXISTS (
        SELECT FROM {prefix}jobs
        WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json)))
    ),
    EXISTS (SELECT FROM {prefix}jobs WHERE blocked_by IS NOT NULL AND blocked_by <> 'type');

-- name: run_out
-- Claims whose lease ran out. One further ahead than any lease may be counts too: the clock went back. A row that somebody holds is
-- settling, or inside its handler's transaction.
-- The last column: somebody has locked the row since it was written, or written it in a transaction that was rolled back. It is read
-- before this statement's own lock leaves the same trace. That of the claim, which locks before it writes, is the writer's own.
WITH seen AS MATERIALIZED (
    SELECT job.id, job.xmax::text NOT IN ('0', job.xmin::text) AS was_held FROM {prefix}jobs AS job
    WHERE job.status = 'in_progress'
        AND (job.lease_until <= :now::text::timestamptz OR job.lease_until > :too_far::text::timestamptz OR job.lease_until IS NULL)
)
SELECT {columns}, seen.was_held FROM seen JOIN {prefix}jobs AS job ON job.id = seen.id
WHERE job.status = 'in_progress'
    AND (job.lease_until <= :now::text::timestamptz OR job.lease_until > :too_far::text::timestamptz OR job.lease_until IS NULL)
FOR NO KEY UPDATE OF job SKIP LOCKED;

-- name: held
SELECT {columns} FROM {prefix}jobs AS job WHERE job.status = 'in_progress' AND job.lease_owner = :lease_owner::text ORDER BY job.id;

-- name: cancel_requested
-- Asked at every poll: only the ids, over the index of what runs.
SELECT id FROM {prefix}jobs WHERE status = 'in_progress' AND lease_owner = :lease_owner::text AND cancel_requested_at IS NOT NULL;

-- name: lose
-- lose: in_progress → what `onward.outcome.Ending` says. Fence and lease are checked again here: in between the claim may have
-- completed, been renewed, or been made anew. The lease is compared as it was read: written by hand, it may be no instant that a
-- program can read.
WITH lost AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:rows::text::json) AS lost (
        id text, fence bigint, lease_until text, status text, finished_at timestamptz, attempts bigint, lost_leases bigint,
        releases bigint, error text
    )
), back AS (
    UPDATE {prefix}jobs AS job SET
        status = lost.status, attempts = lost.attempts, lost_leases = lost.lost_leases, releases = lost.releases, error = lost.error,
        lease_owner = NULL, lease_until = NULL, finished_at = lost.finished_at, updated_at = :now::text::timestamptz
    FROM lost
    WHERE job.id = lost.id AND job.fence = lost.fence AND job.status = (SELECT 'in_progress') AND {lease_until} IS NOT DISTINCT FROM lost.lease_until
    RETURNING {columns}, CASE WHEN job.finished_at IS NULL THEN {tell} END AS told
)
SELECT {column_names} FROM back;

-- name: past_expiry
SELECT id FROM {prefix}jobs
WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying') AND expires_at <= :now::text::timestamptz LIMIT :limit::bigint;

-- name: unblock
-- Rows whose type is known now may be claimed again; in batches, so that no transaction is long.
WITH known AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json)))
    LIMIT :limit::bigint FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}jobs AS job SET blocked_by = NULL, updated_at = :now::text::timestamptz WHERE job.id = ANY (ARRAY(SELECT id FROM known))
RETURNING job.id, CASE WHEN {is_soon} THEN {tell} END AS told;


-- == read ==

-- name: get
SELECT {columns} FROM {prefix}jobs AS job WHERE job.id = :id::text AND (:owner::text IS NULL OR job.owner = :owner::text);

-- name: find
-- Newest first, by the id alone: a page costs the same wherever it begins.
SELECT {columns} FROM {prefix}jobs AS job
WHERE (:before::text IS NULL OR job.id < :before::text)
    AND (:ids::text IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))))
    AND (:statuses::text IS NULL OR job.status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
    AND (:types::text IS NULL OR job.type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json))))
    AND (:queues::text IS NULL OR job.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json))))
    AND (:key::text IS NULL OR job.idempotency_key = :key::text)
    AND (:owner::text IS NULL OR job.owner = :owner::text)
    AND (:finished_after::text IS NULL OR job.finished_at > :finished_after::text::timestamptz)
ORDER BY job.id DESC LIMIT :limit::bigint;

-- name: count
SELECT count(*) FROM {prefix}jobs
WHERE (:ids::text IS NULL OR id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))))
    AND (:statuses::text IS NULL OR status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
    AND (:types::text IS NULL OR type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json))))
    AND (:queues::text IS NULL OR queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::text::json))))
    AND (:key::text IS NULL OR idempotency_key = :key::text)
    AND (:owner::text IS NULL OR owner = :owner::text)
    AND (:finished_after::text IS NULL OR finished_at > :finished_after::text::timestamptz);

-- name: find_active
-- By the key, which is quick, and from there to the job: there is no index over the keys of all jobs that ever were.
SELECT {columns} FROM {prefix}jobs AS job
WHERE job.id IN (
    SELECT job_id FROM {prefix}keys
    WHERE owner = :owner::text AND key = :key::text AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::text::json)))
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
WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)))
    AND (:owner::text IS NULL OR job.owner = :owner::text) AND job.status IN ('queued', 'retrying', 'in_progress')
    AND (:statuses::text IS NULL OR job.status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
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
    WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND job.status IN ('dead_letter', 'cancelled')
        AND (:statuses::text IS NULL OR job.status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
    RETURNING {columns}, {tell} AS told
)
SELECT {column_names} FROM again;

-- name: run_now
-- run now: queued, retrying → queued
WITH now AS (
    UPDATE {prefix}jobs AS job
    SET status = 'queued', scheduled_at = :now::text::timestamptz, blocked_by = NULL, updated_at = :now::text::timestamptz
    WHERE job.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)))
        AND (:owner::text IS NULL OR job.owner = :owner::text) AND job.status IN ('queued', 'retrying')
        AND (:statuses::text IS NULL OR job.status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
    RETURNING {columns}, {tell} AS told
)
SELECT {column_names} FROM now;

-- name: delete
DELETE FROM {prefix}jobs
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)))
    AND (:owner::text IS NULL OR owner = :owner::text) AND status <> 'in_progress'
    AND (:statuses::text IS NULL OR status = ANY (ARRAY(SELECT json_array_elements_text(:statuses::text::json))))
RETURNING
    id, owner, type, idempotency_key, serial_key,
    CASE WHEN status IN ('queued', 'retrying') THEN concurrency_key END;

-- name: delete_history
DELETE FROM {prefix}history WHERE job_id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json)));


-- == prune ==

-- name: prunable
-- Whether there is anything to tidy up beside jobs: a seek for the keys, the rollups and the actions each, and a look at the breakers and
-- limits, which are few.
SELECT EXISTS (SELECT FROM {prefix}keys WHERE expires_at IS NOT NULL AND expires_at <= {moment})
OR EXISTS (
    SELECT FROM {prefix}rollups
    WHERE minute >= to_char(({moment} - :merged_within::double precision * interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')
        AND minute < to_char(({moment} - :merged_after::double precision * interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')
    GROUP BY minute, queue, type, outcome HAVING count(*) > 1
) OR EXISTS (
    SELECT FROM {prefix}rollups
    WHERE minute < to_char(({moment} - :rollups_age::double precision * interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')
) OR EXISTS (
    SELECT FROM {prefix}rollups
    WHERE minute >= coalesce((SELECT since FROM {prefix}totals WHERE queue = '' AND type = '' AND outcome = ''), '')
        AND minute < to_char(({moment} - :merged_after::double precision * interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')
) OR EXISTS (
    SELECT FROM {prefix}alerts WHERE resolved_at IS NOT NULL AND resolved_at <= {moment} - :alerts_age::double precision * interval '1 second'
) OR EXISTS (SELECT FROM {prefix}actions WHERE began_at <= {moment} - :actions_age::double precision * interval '1 second')
OR EXISTS (
    SELECT FROM {prefix}breakers
    WHERE status = 'closed' AND failures = 0 AND retry_at IS NULL
        AND updated_at <= {moment} - :idle_age::double precision * interval '1 second'
) OR EXISTS (
    SELECT FROM {prefix}limits
    WHERE kind = 'key' AND NOT is_by_hand AND check_at IS NULL
        AND greatest(updated_at, spent_until) <= {moment} - :idle_age::double precision * interval '1 second'
);

-- name: finished
-- The oldest first, by the index on what is final, with how long ago each finished, in microseconds by the database's clock.
SELECT job.id, job.type, job.queue, {finished_at}, (extract(epoch FROM {moment} - job.finished_at) * 1000000)::bigint
FROM {prefix}jobs AS job
WHERE job.status IN ('completed', 'dead_letter', 'cancelled') AND job.status = :status::text
    AND job.finished_at >= coalesce(:since::text::timestamptz, '-infinity')
    AND job.finished_at <= {moment} - :age::double precision * interval '1 second'
ORDER BY job.finished_at LIMIT :limit::bigint;

-- name: prune
-- They were read before, so that no transaction is long; one that was retried meanwhile is something else by now. Those that another
-- pruner deletes are left to it. What is deleted once more after a crash needs no wait for the disk.
WITH durability AS MATERIALIZED (
    SELECT set_config(
        'synchronous_commit', CASE WHEN :relaxed::boolean THEN 'off' ELSE current_setting('synchronous_commit') END, true
    ) AS level
), old AS MATERIALIZED (
    SELECT id FROM {prefix}jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::text::json))) AND status = :status::text
        AND finished_at <= :upto::text::timestamptz
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id, (SELECT level FROM durability);

-- name: prune_keys
-- Windows that are over. A key for ever ends in the year 9999.
WITH over AS MATERIALIZED (
    SELECT owner, type, key FROM {prefix}keys
    WHERE expires_at IS NOT NULL AND expires_at <= :now::text::timestamptz LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}keys WHERE (owner, type, key) IN (SELECT owner, type, key FROM over) RETURNING 1;

-- name: rollups
SELECT minute, queue, type, outcome, worker, count, histogram FROM {prefix}rollups WHERE minute >= :since::text;

-- name: crowded_rollups
-- Every row of the minutes that have rows of several workers, of the oldest such minutes. Rows that another pruner holds are left to it.
WITH crowded AS MATERIALIZED (
    SELECT minute, queue, type, outcome FROM {prefix}rollups WHERE minute >= :since::text AND minute < :before::text
    GROUP BY minute, queue, type, outcome HAVING count(*) > 1 ORDER BY minute LIMIT :limit::bigint
)
SELECT rollup.minute, rollup.queue, rollup.type, rollup.outcome, rollup.worker, rollup.count, rollup.histogram
FROM {prefix}rollups AS rollup JOIN crowded USING (minute, queue, type, outcome)
FOR UPDATE OF rollup SKIP LOCKED;

-- name: delete_rollups
DELETE FROM {prefix}rollups AS rollup USING json_array_elements(:rows::text::json) AS row (value)
WHERE rollup.minute = value ->> 0 AND rollup.queue = value ->> 1 AND rollup.type = value ->> 2 AND rollup.outcome = value ->> 3
    AND rollup.worker = value ->> 4;

-- name: prune_rollups
WITH old AS MATERIALIZED (
    SELECT minute, queue, type, outcome, worker FROM {prefix}rollups WHERE minute < :before::text
    ORDER BY minute LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}rollups WHERE (minute, queue, type, outcome, worker) IN (SELECT minute, queue, type, outcome, worker FROM old)
RETURNING minute;

-- name: prune_actions
WITH old AS MATERIALIZED (
    SELECT id FROM {prefix}actions WHERE began_at <= :before::text::timestamptz ORDER BY began_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}actions WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1;


-- == queues ==

-- name: pause
-- A second time changes nothing: since when it is paused stays true.
INSERT INTO {prefix}queues (name, paused_at) VALUES (:queue::text, :now::text::timestamptz) ON CONFLICT (name) DO NOTHING RETURNING name;

-- name: resume
-- Whoever sleeps until a job of it is enqueued is told.
WITH gone AS (DELETE FROM {prefix}queues WHERE name = :queue::text RETURNING name AS queue)
SELECT job.queue, {tell} AS told FROM gone AS job;

-- name: paused
SELECT name, {paused_at} FROM {prefix}queues AS paused;

-- name: queue_counts
-- How many of each queue wait or run.
SELECT queue, status, count(*) FROM {prefix}jobs WHERE status IN ('queued', 'retrying', 'in_progress') GROUP BY queue, status;


-- == actions ==

-- name: begin_action
INSERT INTO {prefix}actions (id, actor, verb, filter, matched, began_at)
VALUES (:id::text, :actor::text, :verb::text, :filter::text, :matched::bigint, :now::text::timestamptz);

-- name: count_acted
-- In the commit that does it to the jobs, so that the record is right whenever whoever does it is killed.
UPDATE {prefix}actions SET done = done + :done::bigint, refused = refused + :refused::bigint WHERE id = :id::text;

-- name: end_action
UPDATE {prefix}actions SET was_stopped = :was_stopped::bigint <> 0, finished_at = :now::text::timestamptz WHERE id = :id::text;

-- name: actions
SELECT {action_columns} FROM {prefix}actions AS action
WHERE :before::text IS NULL OR action.id < :before::text ORDER BY action.id DESC LIMIT :limit::bigint;
