-- == alerts: listed, acknowledged, told once ==

-- name: alerts
-- A page, newest first; :is_open chooses those that are open, or are not.
SELECT {alert_columns} FROM {prefix}alerts AS alert
WHERE (:is_open::bigint IS NULL OR (alert.resolved_at IS NULL) = (:is_open::bigint = 1))
    AND (:before::text IS NULL OR alert.id < :before::text)
ORDER BY alert.id DESC LIMIT :limit::bigint;

-- name: alert
SELECT {alert_columns} FROM {prefix}alerts AS alert WHERE alert.id = :id::text;

-- name: acknowledge_alert
-- Once: who was first stays.
UPDATE {prefix}alerts SET acknowledged_at = :now::text::timestamptz, acknowledged_by = :actor::text
WHERE id = :id::text AND acknowledged_at IS NULL;

-- name: tell_opened
WITH untold AS MATERIALIZED (
    SELECT id FROM {prefix}alerts
    WHERE (opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL)) AND opening_told_at IS NULL
    ORDER BY id LIMIT :limit::bigint FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}alerts AS alert SET opening_told_at = :now::text::timestamptz
WHERE alert.id = ANY (ARRAY(SELECT id FROM untold)) RETURNING {alert_columns};

-- name: tell_resolved
WITH untold AS MATERIALIZED (
    SELECT id FROM {prefix}alerts
    WHERE (opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL))
        AND opening_told_at IS NOT NULL AND resolved_at IS NOT NULL AND end_told_at IS NULL
    ORDER BY id LIMIT :limit::bigint FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {prefix}alerts AS alert SET end_told_at = :now::text::timestamptz
WHERE alert.id = ANY (ARRAY(SELECT id FROM untold)) RETURNING {alert_columns};

-- name: prune_alerts
-- Those that are over.
WITH old AS MATERIALIZED (
    SELECT id FROM {prefix}alerts WHERE resolved_at IS NOT NULL AND resolved_at <= :before::text::timestamptz
    ORDER BY resolved_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM {prefix}alerts WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1;
