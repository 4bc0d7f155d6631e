-- Every statement of the SQLite store, by name. `onward.drivers.sql` yields the names; another SQL backend has a file with the same.
-- {prefix} begins each table's name, {columns} are those of onward.jobs.Job in its order, {attempt_columns} those of Attempt.
-- A + before a column makes an expression of it, which has no declared type: a caller's connection may convert columns by theirs.
-- SQLite has one writer at a time, so nothing here locks rows. Lists come as one JSON parameter: one statement for any number of rows.


-- == in a caller's transaction ==

-- name: synchronous
PRAGMA synchronous;

-- name: begin
BEGIN IMMEDIATE;

-- name: rollback
ROLLBACK;

-- name: files
PRAGMA database_list;

-- name: place
-- The file in which the statements behind this find the tables: SQLite looks among the temporary ones first, then in the main file,
-- then in those that were attached, one after the other. Empty for tables that are in no file.
SELECT list.file FROM pragma_database_list AS list
WHERE EXISTS (SELECT 1 FROM pragma_table_info('{prefix}jobs', list.name))
ORDER BY list.name <> 'temp', list.seq LIMIT 1;

-- name: savepoint
SAVEPOINT onward;

-- name: release_savepoint
RELEASE onward;

-- name: undo_savepoint
ROLLBACK TO onward;

-- name: inner_savepoint
-- Of another name than the one around it, which an error undoes as a whole, and with it this.
SAVEPOINT onward_inner;

-- name: release_inner_savepoint
RELEASE onward_inner;

-- name: undo_inner_savepoint
ROLLBACK TO onward_inner;

-- name: hold
-- Stays behind a proof until what it is for: with the transaction it is gone.
SAVEPOINT onward_held;

-- name: let_go
RELEASE onward_held;

-- name: lock
-- Takes the write lock before anything is read, so that what is read next stays true. Changes nothing.
UPDATE {prefix}jobs SET fence = fence WHERE 0;


-- == enqueue ==

-- name: stored
-- Which of these ids exist already: the same request again counts as accepted.
SELECT +id, +type, +payload_hash, +owner FROM {prefix}jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: take_key
-- No row back means that the key is held. A constraint error never arises, so a caller's transaction is never spoilt.
INSERT INTO {prefix}keys (owner, type, key, job_id, payload_hash, expires_at)
VALUES (:owner, :type, :key, :job_id, :payload_hash, :expires_at)
ON CONFLICT (owner, type, key) DO UPDATE
SET job_id = excluded.job_id, payload_hash = excluded.payload_hash, expires_at = excluded.expires_at
WHERE {prefix}keys.expires_at <= :now
RETURNING +job_id;

-- name: held_keys
-- Which of these keys are held, and by whom.
SELECT json_extract(asked.value, '$[0]'), +held.job_id, +held.payload_hash
FROM json_each(:rows) AS asked JOIN {prefix}keys AS held
    ON held.owner = json_extract(asked.value, '$[1]') AND held.type = json_extract(asked.value, '$[2]')
    AND held.key = json_extract(asked.value, '$[3]')
WHERE held.expires_at IS NULL OR held.expires_at > :now;

-- name: take_keys
-- As `take_key`, for many that nobody seems to hold. An id that does not come back has not got its key: its window is over, and it is taken
-- over by itself.
INSERT INTO {prefix}keys (owner, type, key, job_id, payload_hash, expires_at)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:rows) WHERE true
ON CONFLICT (owner, type, key) DO NOTHING
RETURNING +job_id;

-- name: drop_key
-- A key that was taken for a job which another transaction had stored in the meantime. With one writer at a time that is never so.
DELETE FROM {prefix}keys WHERE owner = :owner AND type = :type AND key = :key AND job_id = :job_id;

-- name: key_holder
SELECT +job_id, +payload_hash FROM {prefix}keys WHERE owner = :owner AND type = :type AND key = :key;

-- name: enqueue
-- enqueue: → queued
INSERT INTO {prefix}jobs (
    id, type, queue, priority, status, payload, payload_hash, scheduled_at, expires_at, max_attempts, isolated,
    idempotency_key, scope, concurrency_key, serial_key, breaker, owner, metadata, created_at, updated_at
) VALUES (
    :id, :type, :queue, :priority, 'queued', :payload, :payload_hash, :scheduled_at, :expires_at, :max_attempts, :isolated,
    :idempotency_key, :scope, :concurrency_key, :serial_key, :breaker, :owner, :metadata, :now, :now
);

-- name: enqueue_alone
-- The same for one job without a key, which needs no look before. No row back means that its id is stored.
INSERT INTO {prefix}jobs (
    id, type, queue, priority, status, payload, payload_hash, scheduled_at, expires_at, max_attempts, isolated,
    concurrency_key, serial_key, breaker, owner, metadata, created_at, updated_at
) VALUES (
    :id, :type, :queue, :priority, 'queued', :payload, :payload_hash, :scheduled_at, :expires_at, :max_attempts, :isolated,
    :concurrency_key, :serial_key, :breaker, :owner, :metadata, :now, :now
)
ON CONFLICT (id) DO NOTHING
RETURNING +id;


-- == turn ==

-- name: asked_to_cancel
-- Before `settle`, for endings that are none: a person may have asked since the claim. A backend with several writers locks these rows.
SELECT +id FROM {prefix}jobs WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'in_progress' AND cancel_requested_at IS NOT NULL;

-- name: settle
-- complete, retry, dead-letter, release, snooze, cancel: in_progress → what `onward.outcome.Ending` says, field by field.
-- The fence is the proof: a claim that is not the newest changes no row, and the ids that come back are those really settled.
UPDATE {prefix}jobs SET
    status = ended.status, attempts = ended.attempts, lost_leases = ended.lost_leases, releases = ended.releases,
    snoozes = ended.snoozes, isolated = ended.isolated, error = ended.error, result = ended.result,
    scheduled_at = coalesce(ended.scheduled_at, {prefix}jobs.scheduled_at), progress = coalesce(ended.progress, {prefix}jobs.progress),
    lease_owner = NULL, lease_until = NULL, finished_at = ended.finished_at, updated_at = :now
FROM (
    SELECT
        json_extract(value, '$.id') AS id, json_extract(value, '$.fence') AS fence, json_extract(value, '$.status') AS status, json_extract(value, '$.finished_at') AS finished_at,
        json_extract(value, '$.attempts') AS attempts, json_extract(value, '$.lost_leases') AS lost_leases, json_extract(value, '$.releases') AS releases,
        json_extract(value, '$.snoozes') AS snoozes, json_extract(value, '$.isolated') AS isolated, json_extract(value, '$.scheduled_at') AS scheduled_at,
        json_extract(value, '$.error') AS error, json_extract(value, '$.result') AS result, json_extract(value, '$.progress') AS progress
    FROM json_each(:rows)
) AS ended
WHERE {prefix}jobs.id = ended.id AND {prefix}jobs.fence = ended.fence AND {prefix}jobs.status = 'in_progress'
RETURNING +id, +fence;

-- name: complete_without_result
-- complete: in_progress → completed. The same as `complete` for claims that share a fence and have no result, in half the time.
UPDATE {prefix}jobs SET
    status = 'completed', finished_at = :now, error = NULL, result = NULL, lease_owner = NULL, lease_until = NULL, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND fence = :fence AND status = 'in_progress'
RETURNING +id, +fence;

-- name: complete
-- complete: in_progress → completed. The same as `settle` for the ending that nearly every job has, and twice as quick.
-- Its rows are read by position: by name, draining 20,000 jobs took about a tenth more processor time.
UPDATE {prefix}jobs SET
    status = 'completed', finished_at = :now, error = NULL, result = ended.result,
    lease_owner = NULL, lease_until = NULL, updated_at = :now
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS fence, json_extract(value, '$[2]') AS result
    FROM json_each(:rows)
) AS ended
WHERE {prefix}jobs.id = ended.id AND {prefix}jobs.fence = ended.fence AND {prefix}jobs.status = 'in_progress'
RETURNING +id, +fence;

-- name: shown
-- The rows whose settlement changed nothing: perhaps an earlier try of the same turn was stored before its answer was lost.
SELECT {columns} FROM {prefix}jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: free_keys
-- The end of a job frees its key of scope `active` (the only one without an end of its own).
DELETE FROM {prefix}keys
WHERE (owner, type, key) IN (
    SELECT jobs.owner, jobs.type, jobs.idempotency_key FROM json_each(:ids) AS ended JOIN {prefix}jobs AS jobs ON jobs.id = ended.value
    WHERE jobs.idempotency_key IS NOT NULL
) AND expires_at IS NULL AND job_id IN (SELECT value FROM json_each(:ids));

-- name: free_keys_of
-- The same for jobs whose rows are gone; each is [owner, type, key, job_id].
DELETE FROM {prefix}keys
WHERE (owner, type, key, job_id) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows)
) AND expires_at IS NULL;

-- name: write_history
-- A repeated turn finds its rows there already.
INSERT INTO {prefix}history (job_id, fence, attempt, lease_owner, outcome, error, processed, failed, started_at, finished_at)
SELECT
    json_extract(value, '$.job_id'), json_extract(value, '$.fence'), json_extract(value, '$.attempt'), json_extract(value, '$.lease_owner'),
    json_extract(value, '$.outcome'), json_extract(value, '$.error'), json_extract(value, '$.processed'),
    json_extract(value, '$.failed'), json_extract(value, '$.started_at'), json_extract(value, '$.finished_at')
FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING;

-- name: write_rollups
-- A worker's own counts, as they are now. Read by position.
INSERT INTO {prefix}rollups (minute, queue, type, outcome, worker, count, histogram)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]')
FROM json_each(:rows) WHERE true
ON CONFLICT (minute, queue, type, outcome, worker) DO UPDATE SET count = excluded.count, histogram = excluded.histogram;

-- name: correct_rollups
-- What an earlier try may have stored and that does not hold. A row that is not there needs no correction, and none is made.
UPDATE {prefix}rollups SET count = right.count, histogram = right.histogram
FROM (
    SELECT
        json_extract(value, '$[0]') AS minute, json_extract(value, '$[1]') AS queue, json_extract(value, '$[2]') AS type,
        json_extract(value, '$[3]') AS outcome, json_extract(value, '$[4]') AS worker, json_extract(value, '$[5]') AS count,
        json_extract(value, '$[6]') AS histogram
    FROM json_each(:rows)
) AS right
WHERE {prefix}rollups.minute = right.minute AND {prefix}rollups.queue = right.queue AND {prefix}rollups.type = right.type
    AND {prefix}rollups.outcome = right.outcome AND {prefix}rollups.worker = right.worker;

-- name: lanes
-- Each (queue, priority) of a queue that is not paused and has something waiting, and when its first row is due. `ORDER BY priority DESC, scheduled_at` in one go
-- would walk every future row of a higher priority (61 ms with a million of them); this takes two seeks a lane.
WITH RECURSIVE lane (queue, priority) AS (
    SELECT asked.value, (
        SELECT max(priority) FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = asked.value
    ) FROM json_each(:queues) AS asked WHERE asked.value NOT IN (SELECT name FROM {prefix}queues)
    UNION ALL
    SELECT lane.queue, (
        SELECT max(priority) FROM {prefix}jobs
        WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = lane.queue AND priority < lane.priority
    ) FROM lane WHERE lane.priority IS NOT NULL
)
SELECT queue, priority, (
    SELECT min(scheduled_at) FROM {prefix}jobs
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = lane.queue AND priority = lane.priority
) FROM lane WHERE priority IS NOT NULL ORDER BY priority DESC;

-- name: due
-- One lane's rows that are due, in the order to run them, and whether each may have to wait for others. No filter by type: it would walk
-- every unknown row at the head.
SELECT scheduled_at, id, type, expires_at, coalesce(breaker, serial_key, concurrency_key) IS NOT NULL FROM {prefix}jobs
WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority = :priority AND scheduled_at <= :now
ORDER BY scheduled_at, id LIMIT :limit;

-- name: claim
-- claim: queued, retrying → in_progress.
UPDATE {prefix}jobs SET
    status = 'in_progress', attempts = attempts + 1, fence = fence + 1, isolated = (isolated OR lost_leases > 0), ran_isolated = 0,
    lease_owner = :lease_owner, lease_until = :lease_until, started_at = :now, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'retrying');

-- name: claimed
-- What `claim` has just taken of these, as one JSON text and in no order: it is put together while Python's other threads run, where each
-- row of RETURNING would wait for them once, and it is read twice as quickly. Fails where a column holds bytes.
SELECT json_group_array({job_object}) FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_owner = :lease_owner AND started_at = :now;

-- name: claimed_rows
-- The same as rows, each of which may be unreadable by itself.
SELECT {columns} FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND lease_owner = :lease_owner AND started_at = :now;

-- name: block
-- A due job of a type that this worker does not know is set aside; it spends no try, and no later claim walks over it.
UPDATE {prefix}jobs SET blocked_by = 'type', updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'retrying') AND blocked_by IS NULL;

-- name: any_blocked
-- Whether rows of these types and queues are set aside. Two questions, since a queue that may be any is no place to seek.
SELECT EXISTS (
    SELECT 1 FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT value FROM json_each(:types)) AND :queues IS NULL
) OR EXISTS (
    SELECT 1 FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT value FROM json_each(:types))
        AND queue IN (SELECT value FROM json_each(:queues))
);

-- name: unblock_first
-- Rows that this worker can run after all, to be claimed in the same transaction: else the worker that has set them aside does so again.
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now WHERE id IN (
    SELECT id FROM (
        SELECT * FROM (
            SELECT id, priority, scheduled_at FROM {prefix}jobs
            WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT value FROM json_each(:types)) AND :queues IS NULL
            LIMIT :most
        )
        UNION ALL
        SELECT * FROM (
            SELECT id, priority, scheduled_at FROM {prefix}jobs
            WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT value FROM json_each(:types))
                AND queue IN (SELECT value FROM json_each(:queues))
            LIMIT :most
        )
    )
    ORDER BY priority DESC, scheduled_at, id LIMIT :limit
);

-- name: expire
-- cancel: queued, retrying → cancelled, since it was not run before expires_at.
UPDATE {prefix}jobs SET status = 'cancelled', error = 'expired', blocked_by = NULL, finished_at = :now, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'retrying') AND expires_at <= :now
RETURNING {columns};

-- name: set_aside
-- dead-letter: a row that cannot be read stops only itself.
UPDATE {prefix}jobs SET
    status = 'dead_letter', error = :error, lease_owner = NULL, lease_until = NULL, blocked_by = NULL, finished_at = :now, updated_at = :now
WHERE rowid IN (
    SELECT rowid FROM {prefix}jobs WHERE id = :id
    UNION ALL SELECT rowid FROM {prefix}jobs WHERE :bytes IS NOT NULL AND CAST(id AS BLOB) = :bytes
);

-- name: free_key
-- The key of scope `active` of a row that was set aside.
DELETE FROM {prefix}keys WHERE (owner, type, key) IN (
    SELECT owner, type, idempotency_key FROM {prefix}jobs WHERE id = :id AND idempotency_key IS NOT NULL
    UNION ALL
    SELECT owner, type, idempotency_key FROM {prefix}jobs
    WHERE :bytes IS NOT NULL AND CAST(id AS BLOB) = :bytes AND idempotency_key IS NOT NULL
) AND expires_at IS NULL AND (job_id = :id OR CAST(job_id AS BLOB) = :bytes);

-- name: misdated
-- Rows that would wait for ever: what is no instant sorts behind every instant, or among those of a far future if it begins with a
-- digit; what is no text sorts behind that. One seek, and a walk over what is due after the year 2999.
SELECT {columns} FROM {prefix}jobs
WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = :queue AND priority = :priority
    AND scheduled_at >= '3' AND (scheduled_at > '9999-12-31T23:59:59.999999Z' OR scheduled_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9]*')
ORDER BY scheduled_at, id LIMIT :limit;

-- name: misqueued
-- Waiting rows whose queue is these bytes, or the text of them if that is none: no worker could name it. Only asked where there are some.
SELECT +id FROM {prefix}jobs
WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND CAST(queue AS BLOB) = :queue AND (typeof(queue) = 'blob' OR :is_no_text)
LIMIT :limit;

-- name: renew
-- Renews leases, and stores how far each handler has come. An id that does not come back is not ours any more.
UPDATE {prefix}jobs SET
    lease_until = asked.lease_until, progress = coalesce(asked.progress, {prefix}jobs.progress), updated_at = :now
FROM (
    SELECT
        json_extract(value, '$.id') AS id, json_extract(value, '$.fence') AS fence, json_extract(value, '$.lease_until') AS lease_until,
        json_extract(value, '$.progress') AS progress
    FROM json_each(:rows)
) AS asked
WHERE {prefix}jobs.id = asked.id AND {prefix}jobs.fence = asked.fence AND {prefix}jobs.status = 'in_progress'
RETURNING id, fence, cancel_requested_at, 0;

-- name: begin_isolated
-- The same for handlers that start now and have their process to themselves; they may start once this is stored.
UPDATE {prefix}jobs SET
    lease_until = asked.lease_until, progress = coalesce(asked.progress, {prefix}jobs.progress), ran_isolated = 1, updated_at = :now
FROM (
    SELECT
        json_extract(value, '$.id') AS id, json_extract(value, '$.fence') AS fence, json_extract(value, '$.lease_until') AS lease_until,
        json_extract(value, '$.progress') AS progress
    FROM json_each(:rows)
) AS asked
WHERE {prefix}jobs.id = asked.id AND {prefix}jobs.fence = asked.fence AND {prefix}jobs.status = 'in_progress'
RETURNING id, fence, cancel_requested_at, 0;

-- name: confirm
-- Proves that a claim is the newest. It is an UPDATE so that the transaction holds the write lock from here on.
UPDATE {prefix}jobs SET updated_at = :now WHERE id = :id AND fence = :fence AND status = 'in_progress' RETURNING +id;


-- == sweep, recover ==

-- name: run_out
-- Claims whose lease ran out, in no order: asked for one by id, SQLite would walk the whole table by its key. One further ahead than any lease may be counts too: the clock went back.
SELECT {columns} FROM {prefix}jobs
WHERE status = 'in_progress' AND (lease_until <= :now OR lease_until > :too_far OR lease_until IS NULL);

-- name: held
SELECT {columns} FROM {prefix}jobs WHERE status = 'in_progress' AND lease_owner = :lease_owner ORDER BY id;

-- name: cancel_requested
-- Asked at every poll: only the ids, over the index of what runs.
SELECT id FROM {prefix}jobs WHERE status = 'in_progress' AND lease_owner = :lease_owner AND cancel_requested_at IS NOT NULL;

-- name: lose
-- lose: in_progress → what `onward.outcome.Ending` says. The lease is not checked again: nobody else writes since it was read, and one
-- written by hand need not read back as it stands.
UPDATE {prefix}jobs SET
    status = lost.status, attempts = lost.attempts, lost_leases = lost.lost_leases, releases = lost.releases, error = lost.error,
    lease_owner = NULL, lease_until = NULL, finished_at = lost.finished_at, updated_at = :now
FROM (
    SELECT
        json_extract(value, '$.id') AS id, json_extract(value, '$.fence') AS fence, json_extract(value, '$.status') AS status,
        json_extract(value, '$.finished_at') AS finished_at, json_extract(value, '$.attempts') AS attempts, json_extract(value, '$.lost_leases') AS lost_leases,
        json_extract(value, '$.releases') AS releases, json_extract(value, '$.error') AS error
    FROM json_each(:rows)
) AS lost
WHERE {prefix}jobs.id = lost.id AND {prefix}jobs.fence = lost.fence AND {prefix}jobs.status = 'in_progress'
RETURNING {columns};

-- name: past_expiry
SELECT id FROM {prefix}jobs WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying') AND expires_at <= :now LIMIT :limit;

-- name: unblock
-- Rows whose type is known now may be claimed again; in batches, so that the write lock is never held for long.
UPDATE {prefix}jobs SET blocked_by = NULL, updated_at = :now WHERE id IN (
    SELECT id FROM {prefix}jobs
    WHERE blocked_by IS NOT NULL AND blocked_by = 'type' AND type IN (SELECT value FROM json_each(:types)) LIMIT :limit
)
RETURNING id;


-- == read ==

-- name: get
SELECT {columns} FROM {prefix}jobs WHERE id = :id AND (:owner IS NULL OR owner = :owner);

-- name: find
-- Newest first, by the id alone: a page costs the same wherever it begins.
SELECT {columns} FROM {prefix}jobs
WHERE (:before IS NULL OR id < :before)
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:key IS NULL OR idempotency_key = :key)
    AND (:owner IS NULL OR owner = :owner)
    AND (:finished_after IS NULL OR finished_at > :finished_after)
ORDER BY id DESC LIMIT :limit;

-- name: count
SELECT count(*) FROM {prefix}jobs
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:key IS NULL OR idempotency_key = :key)
    AND (:owner IS NULL OR owner = :owner)
    AND (:finished_after IS NULL OR finished_at > :finished_after);

-- name: find_active
-- By the key, which is quick, and from there to the job: there is no index over the keys of all jobs that ever were.
SELECT {columns} FROM {prefix}jobs
WHERE id IN (SELECT job_id FROM {prefix}keys WHERE owner = :owner AND key = :key AND type IN (SELECT value FROM json_each(:types)))
    AND status IN ('queued', 'retrying', 'in_progress')
ORDER BY id DESC LIMIT 1;

-- name: history
SELECT {attempt_columns} FROM {prefix}history WHERE job_id = :id ORDER BY fence;


-- == what a person does ==

-- name: cancel
-- cancel: queued, retrying → cancelled; a running job is asked to stop.
UPDATE {prefix}jobs SET
    status = CASE WHEN status = 'in_progress' THEN 'in_progress' ELSE 'cancelled' END,
    finished_at = CASE WHEN status = 'in_progress' THEN NULL ELSE :now END,
    cancel_requested_at = CASE WHEN status = 'in_progress' THEN coalesce(cancel_requested_at, :now) END,
    error = CASE WHEN status = 'in_progress' THEN error ELSE 'cancelled' END,
    blocked_by = NULL, updated_at = CASE WHEN status = 'in_progress' AND cancel_requested_at IS NOT NULL THEN updated_at ELSE :now END
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND status IN ('queued', 'retrying', 'in_progress')
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
RETURNING {columns};

-- name: scope
SELECT +scope FROM {prefix}jobs WHERE id = :id;

-- name: retry
-- retry by a person: dead_letter, cancelled → queued. The fence stays, and so does the history. A job that had expired may run after all.
UPDATE {prefix}jobs SET
    status = 'queued', scheduled_at = :now, attempts = 0, lost_leases = 0, releases = 0, snoozes = 0, error = NULL, result = NULL,
    progress = NULL, cancel_requested_at = NULL, blocked_by = NULL, finished_at = NULL, updated_at = :now,
    expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('dead_letter', 'cancelled')
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
RETURNING {columns};

-- name: run_now
-- run now: queued, retrying → queued
UPDATE {prefix}jobs SET status = 'queued', scheduled_at = :now, blocked_by = NULL, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND status IN ('queued', 'retrying')
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
RETURNING {columns};

-- name: delete
DELETE FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND status <> 'in_progress'
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
RETURNING
    id, owner, type, idempotency_key, serial_key,
    CASE WHEN status IN ('queued', 'retrying') THEN concurrency_key END;

-- name: delete_history
DELETE FROM {prefix}history WHERE job_id IN (SELECT value FROM json_each(:ids));


-- == prune ==

-- name: finished
-- The oldest first, by the index on what is final. The last column is Postgres's own.
SELECT id, type, queue, finished_at, NULL FROM {prefix}jobs
WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = :status
    AND finished_at >= coalesce(:since, '') AND finished_at <= :before
ORDER BY finished_at LIMIT :limit;

-- name: prune
-- They were read before, so that a look at what stays keeps no writer waiting; one that was retried meanwhile is something else by now.
DELETE FROM {prefix}jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = :status AND finished_at <= :upto
RETURNING id;

-- name: prune_keys
-- Windows that are over. A key for ever ends in the year 9999.
DELETE FROM {prefix}keys WHERE (owner, type, key) IN (
    SELECT owner, type, key FROM {prefix}keys WHERE expires_at IS NOT NULL AND expires_at <= :now LIMIT :limit
) RETURNING 1;

-- name: rollups
SELECT +minute, +queue, +type, +outcome, +worker, +count, +histogram FROM {prefix}rollups WHERE minute >= :since;

-- name: crowded_rollups
-- Every row of the minutes that have rows of several workers, of the oldest such minutes.
SELECT +minute, +queue, +type, +outcome, +worker, +count, +histogram FROM {prefix}rollups
WHERE (minute, queue, type, outcome) IN (
    SELECT minute, queue, type, outcome FROM {prefix}rollups WHERE minute >= :since AND minute < :before
    GROUP BY minute, queue, type, outcome HAVING count(*) > 1 ORDER BY minute LIMIT :limit
);

-- name: delete_rollups
DELETE FROM {prefix}rollups WHERE (minute, queue, type, outcome, worker) IN (
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
        json_extract(value, '$[4]')
    FROM json_each(:rows)
);

-- name: prune_rollups
DELETE FROM {prefix}rollups WHERE (minute, queue, type, outcome, worker) IN (
    SELECT minute, queue, type, outcome, worker FROM {prefix}rollups WHERE minute < :before ORDER BY minute LIMIT :limit
)
RETURNING +minute;

-- name: prune_actions
DELETE FROM {prefix}actions WHERE id IN (SELECT id FROM {prefix}actions WHERE began_at <= :before ORDER BY began_at LIMIT :limit)
RETURNING 1;


-- == the six questions; these run as they stand in any shell, so they take no parameters but {stuck_seconds} ==

-- name: question_outstanding
SELECT type, status, count(*) AS jobs
FROM {prefix}jobs WHERE status IN ('queued', 'in_progress', 'retrying')
GROUP BY type, status ORDER BY type, status;

-- name: question_failed
SELECT id, type, attempts, finished_at, error
FROM {prefix}jobs WHERE status IN ('completed', 'dead_letter', 'cancelled') AND status = 'dead_letter'
ORDER BY finished_at DESC, id DESC;

-- name: question_stuck
SELECT id, type, lease_owner, lease_until, started_at,
    CASE WHEN lease_until <= strftime('%Y-%m-%dT%H:%M:%f', {now}) || '000Z' THEN 'lease expired' ELSE 'running long' END AS reason
FROM {prefix}jobs WHERE status = 'in_progress' AND (
    lease_until <= strftime('%Y-%m-%dT%H:%M:%f', {now}) || '000Z'
    OR started_at <= strftime('%Y-%m-%dT%H:%M:%f', {now}, '-{stuck_seconds} seconds') || '000Z'
)
ORDER BY started_at, id;

-- name: question_durations
SELECT type, count(*) AS jobs,
    round(avg(86400 * (julianday(finished_at) - julianday(started_at))), 3) AS average_seconds,
    round(max(86400 * (julianday(finished_at) - julianday(started_at))), 3) AS longest_seconds
FROM {prefix}jobs WHERE status = 'completed' AND started_at IS NOT NULL
GROUP BY type ORDER BY type;

-- name: question_duplicates
SELECT owner, type, idempotency_key, count(*) AS jobs
FROM {prefix}jobs WHERE status IN ('queued', 'in_progress', 'retrying') AND idempotency_key IS NOT NULL
GROUP BY owner, type, idempotency_key HAVING count(*) > 1 ORDER BY owner, type, idempotency_key;

-- name: question_last_hour
SELECT id, type, status, finished_at
FROM {prefix}jobs WHERE status IN ('completed', 'dead_letter', 'cancelled')
    AND finished_at >= strftime('%Y-%m-%dT%H:%M:%f', {now}, '-1 hour') || '000Z'
ORDER BY finished_at DESC, id DESC;


-- == examine ==

-- name: census
SELECT status, count(*), max(created_at) FROM {prefix}jobs GROUP BY status;


-- == schema ==

-- name: tables
SELECT name FROM sqlite_master WHERE type IN ('table', 'view');

-- name: schema_version
SELECT max(version) FROM {prefix}schema_version;

-- name: works_with
-- Only tables of version 2 and newer have it.
SELECT max(works_with) FROM {prefix}schema_version;


-- == queues ==

-- name: pause
-- A second time changes nothing: since when it is paused stays true.
INSERT INTO {prefix}queues (name, paused_at) VALUES (:queue, :now) ON CONFLICT (name) DO NOTHING RETURNING name;

-- name: resume
DELETE FROM {prefix}queues WHERE name = :queue RETURNING name;

-- name: paused
SELECT name, paused_at FROM {prefix}queues;

-- name: queue_counts
-- How many of each queue wait or run.
SELECT queue, status, count(*) FROM {prefix}jobs WHERE status IN ('queued', 'retrying', 'in_progress') GROUP BY queue, status;


-- == actions ==

-- name: begin_action
INSERT INTO {prefix}actions (id, actor, verb, filter, matched, began_at) VALUES (:id, :actor, :verb, :filter, :matched, :now);

-- name: count_acted
-- In the commit that does it to the jobs, so that the record is right whenever whoever does it is killed.
UPDATE {prefix}actions SET done = done + :done, refused = refused + :refused WHERE id = :id;

-- name: end_action
UPDATE {prefix}actions SET was_stopped = :was_stopped, finished_at = :now WHERE id = :id;

-- name: actions
SELECT {action_columns} FROM {prefix}actions WHERE :before IS NULL OR id < :before ORDER BY id DESC LIMIT :limit;
