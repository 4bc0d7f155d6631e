-- == alerts: listed, acknowledged, told once ==

-- name: alerts
-- A page, newest first; :is_open chooses those that are open, or are not.
SELECT {alert_columns} FROM {prefix}alerts
WHERE (:is_open IS NULL OR (resolved_at IS NULL) = :is_open) AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit;

-- name: alert
SELECT {alert_columns} FROM {prefix}alerts WHERE id = :id;

-- name: acknowledge_alert
-- Once: who was first stays.
UPDATE {prefix}alerts SET acknowledged_at = :now, acknowledged_by = :actor WHERE id = :id AND acknowledged_at IS NULL;

-- name: tell_opened
UPDATE {prefix}alerts SET opening_told_at = :now
WHERE id IN (
    SELECT id FROM {prefix}alerts
    WHERE (opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL)) AND opening_told_at IS NULL
    ORDER BY id LIMIT :limit
) RETURNING {alert_columns};

-- name: tell_resolved
UPDATE {prefix}alerts SET end_told_at = :now
WHERE id IN (
    SELECT id FROM {prefix}alerts
    WHERE (opening_told_at IS NULL OR (resolved_at IS NOT NULL AND end_told_at IS NULL))
        AND opening_told_at IS NOT NULL AND resolved_at IS NOT NULL AND end_told_at IS NULL
    ORDER BY id LIMIT :limit
) RETURNING {alert_columns};

-- name: prune_alerts
-- Those that are over.
DELETE FROM {prefix}alerts WHERE id IN (
    SELECT id FROM {prefix}alerts WHERE resolved_at IS NOT NULL AND resolved_at <= :before ORDER BY resolved_at LIMIT :limit
) RETURNING 1;
