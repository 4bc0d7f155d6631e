-- The six standing questions. They run as they stand in any shell, so they take no parameters but {now} and {stuck_seconds}.

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
