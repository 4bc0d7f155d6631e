-- What is asked about the tables themselves, and how a migration begins. {schema} is the name of the schema, without quotes.


-- == schema ==

-- name: tables
SELECT class.relname
FROM pg_catalog.pg_class AS class JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = '{schema}' AND class.relkind IN ('r', 'p', 'v', 'm', 'f');

-- name: schema_version
SELECT max(version) FROM "{schema}".schema_version;

-- name: works_with
SELECT max(works_with) FROM "{schema}".schema_version;

-- name: begin_migration
-- A look that is older than the lock, as the role's own isolation level could make it, would not see what the lock's last holder did.
-- What the tables are made of (types, operators, a collation) comes from nowhere but Postgres itself.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '{lock_timeout}ms';
SET LOCAL search_path = pg_catalog;

-- name: lock_migrations
SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('onward migrate {schema}', 0));

-- name: begin_script
BEGIN;
SET LOCAL lock_timeout = '{lock_timeout}ms';
SET LOCAL search_path = pg_catalog;
