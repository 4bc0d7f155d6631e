-- What `onward doctor` asks, one look each. The words in braces are explained in statements.sql.

-- name: census
SELECT job.status, count(*) AS jobs, {newest} AS newest FROM {prefix}jobs AS job GROUP BY job.status;

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
-- As a connection of this role to this database begins with them.
SELECT name, reset_val AS setting FROM pg_catalog.pg_settings WHERE name IN (
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
-- row_bytes is what a row takes in its pages by the last ANALYZE, with its header and the room that is left for new versions.
SELECT class.relname::text AS name, class.relpersistence = 'u' AS is_unlogged, row_security_active(class.oid) AS hides_rows,
    ARRAY(
        SELECT needed
        FROM unnest(CASE WHEN class.relname = 'schema_version' THEN '{SELECT}' ELSE '{SELECT,INSERT,UPDATE,DELETE}' END::text[]) AS needed
        WHERE NOT has_table_privilege(class.oid, needed)
    ) AS lacking,
    EXISTS (
        SELECT FROM pg_options_to_table(class.reloptions) WHERE option_name = 'autovacuum_enabled' AND NOT option_value::boolean
    ) AS is_never_vacuumed,
    coalesce(stats.n_live_tup, 0) AS live, coalesce(stats.n_dead_tup, 0) AS dead,
    extract(epoch FROM statement_timestamp() - greatest(stats.last_autovacuum, stats.last_vacuum))::bigint AS vacuumed_seconds_ago,
    pg_table_size(class.oid) AS bytes, pg_indexes_size(class.oid) AS index_bytes, pg_relation_size(class.oid) AS page_bytes,
    (
        SELECT (sum(avg_width * (1 - null_frac)) + 32) * 100.0 / coalesce(
            (SELECT option_value::integer FROM pg_options_to_table(class.reloptions) WHERE option_name = 'fillfactor'), 100
        )
        FROM pg_catalog.pg_stats AS columns
        WHERE columns.schemaname = class.relnamespace::regnamespace::text AND columns.tablename = class.relname
    )::bigint AS row_bytes
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

-- name: examine_plainly
-- For the rest of the transaction: the catalogs are described by the session's settings, and the model is made by them.
SELECT set_config(name, value, true) FROM (VALUES
    ('search_path', 'pg_catalog'), ('quote_all_identifiers', 'off'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'), ('timezone', 'UTC')
) AS plain (name, value);

-- name: examine_path
SELECT current_schemas(true)::text[] AS path;

-- name: examine_operators
-- Operators that hide one of Postgres's own. Asked behind `examine_plainly`, so that it does not meet them itself.
SELECT space.nspname::text AS schema, count(*) AS operators
FROM pg_catalog.pg_operator AS theirs
JOIN pg_catalog.pg_namespace AS space ON space.oid = theirs.oprnamespace
JOIN pg_catalog.pg_operator AS own ON own.oprname = theirs.oprname AND own.oprleft = theirs.oprleft AND own.oprright = theirs.oprright
JOIN pg_catalog.pg_namespace AS home ON home.oid = own.oprnamespace AND home.nspname = 'pg_catalog'
WHERE space.nspname IN (SELECT json_array_elements_text(:schemas::text::json)) GROUP BY space.nspname ORDER BY space.nspname;

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
    extract(epoch FROM statement_timestamp() - xact_start)::bigint AS seconds, NULL::bigint AS transactions
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND backend_type <> 'autovacuum worker' AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_progress_vacuum)
UNION ALL
SELECT 'prepared', gid, owner::text, extract(epoch FROM statement_timestamp() - prepared)::bigint, NULL
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
