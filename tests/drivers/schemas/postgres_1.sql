-- A store as the first tables were, with jobs in every status, keys of every scope and history. Never changes.

BEGIN;

CREATE SCHEMA "onward";

CREATE TABLE "onward".schema_version (
    version integer NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL,
    works_with integer NOT NULL DEFAULT 1,
    identity uuid NOT NULL DEFAULT gen_random_uuid()
);

CREATE TABLE "onward".jobs (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL CHECK (priority BETWEEN -100 AND 100),
    status text COLLATE "C" NOT NULL CHECK (status IN ('queued', 'in_progress', 'retrying', 'completed', 'dead_letter', 'cancelled')),
    payload text NOT NULL,
    payload_hash text NOT NULL,
    scheduled_at timestamptz NOT NULL,
    expires_at timestamptz,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    lost_leases bigint NOT NULL DEFAULT 0,
    releases bigint NOT NULL DEFAULT 0,
    snoozes bigint NOT NULL DEFAULT 0,
    isolated boolean NOT NULL DEFAULT false,
    ran_isolated boolean NOT NULL DEFAULT false,
    lease_owner text COLLATE "C",
    lease_until timestamptz,
    blocked_by text COLLATE "C" CHECK (blocked_by IN ('type', 'breaker', 'limit', 'serial')),
    idempotency_key text COLLATE "C",
    concurrency_key text COLLATE "C",
    serial_key text COLLATE "C",
    breaker text COLLATE "C",
    owner text COLLATE "C" NOT NULL DEFAULT '',
    cancel_requested_at timestamptz,
    error text,
    result text,
    progress text,
    metadata text NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    scope text COLLATE "C",
    CONSTRAINT jobs_instants CHECK (
        least(scheduled_at, expires_at, lease_until, cancel_requested_at, created_at, updated_at, started_at, finished_at)
            >= '0001-01-01 00:00:00+00'
        AND greatest(scheduled_at, expires_at, lease_until, cancel_requested_at, created_at, updated_at, started_at, finished_at)
            <= '9999-12-31 23:59:59.999999+00'
    )
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000,
    toast.autovacuum_vacuum_scale_factor = 0.02,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX jobs_claim ON "onward".jobs (queue, priority DESC, scheduled_at, id)
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL;
CREATE INDEX jobs_running ON "onward".jobs (lease_owner) WHERE status = 'in_progress';
CREATE INDEX jobs_blocked ON "onward".jobs (blocked_by, type, queue) WHERE blocked_by IS NOT NULL;
CREATE INDEX jobs_expiring ON "onward".jobs (expires_at) WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying');
CREATE INDEX jobs_final ON "onward".jobs (status, finished_at) WHERE status IN ('completed', 'dead_letter', 'cancelled');

CREATE TABLE "onward".keys (
    owner text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    payload_hash text NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (owner, type, key),
    CONSTRAINT keys_instants CHECK (expires_at >= '0001-01-01 00:00:00+00' AND expires_at <= '9999-12-31 23:59:59.999999+00')
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 1000
);
CREATE INDEX keys_expiring ON "onward".keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE "onward".history (
    job_id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    attempt bigint NOT NULL,
    lease_owner text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    error text,
    processed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, fence),
    CONSTRAINT history_instants CHECK (
        least(started_at, finished_at) >= '0001-01-01 00:00:00+00' AND greatest(started_at, finished_at) <= '9999-12-31 23:59:59.999999+00'
    )
);

CREATE TABLE "onward".rollups (
    minute text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    histogram text NOT NULL,
    PRIMARY KEY (minute, queue, type, outcome, worker)
) WITH (
    fillfactor = 70
);

CREATE TABLE "onward".limits (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    allowed integer NOT NULL,
    running integer NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

INSERT INTO "onward".schema_version VALUES (1, '2026-01-01T00:00:00.000000Z');
INSERT INTO "onward".jobs VALUES ('01M8GCER6NC0NG955QAS4TZWPF', 'work', 'default', 0, 'completed', '{"n":1}', '2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd', '2026-01-01T00:00:00.000000Z', NULL, 1, 3, 1, 0, 0, 0, false, false, NULL, NULL, NULL, 'done', NULL, NULL, NULL, '', NULL, NULL, '{"answer":42}', NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', 'forever');
INSERT INTO "onward".jobs VALUES ('01M8GCER6XKKYH1AX0RPNVFBZY', 'work', 'default', 0, 'dead_letter', '{"n":2}', '363379742f80b51bdb9206579af7754911543079b9399cb3fc315fb199f476e8', '2026-01-01T00:00:00.000000Z', NULL, 1, 3, 1, 0, 0, 0, false, false, NULL, NULL, NULL, 'dead', NULL, NULL, NULL, '', NULL, 'hopeless', NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', 'active');
INSERT INTO "onward".jobs VALUES ('01M8GCER72DNTE2BJ51EZ8QGRQ', 'work', 'default', 0, 'cancelled', '{"n":3}', '215ddd5567ca2590efd4ea109b4e56cbe591e2676fbf54a9262692c539166da6', '2026-01-01T00:00:00.000000Z', NULL, 1, 3, 1, 0, 0, 0, false, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, 'not needed', NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL);
INSERT INTO "onward".jobs VALUES ('01M8GCER7BP50S649RV41YGHSP', 'work', 'default', 0, 'retrying', '{"n":4}', 'f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032', '2026-01-01T00:05:00.000000Z', NULL, 1, 3, 1, 0, 0, 0, false, false, NULL, NULL, NULL, 'again', NULL, NULL, NULL, 'ada', NULL, 'boom', NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, 'active');
INSERT INTO "onward".jobs VALUES ('01M8GCER7GJX1M235CRF6D89DR', 'mail', 'mail', 0, 'in_progress', '{"n":5}', '11d0a8967009cbcdf468f09e5b09e73e7119b528c35a0e0b23f2ae052786b8fa', '2026-01-01T00:00:00.000000Z', NULL, 1, 3, 1, 0, 0, 0, false, false, 'host:1:one', '2026-01-01T00:01:00.000000Z', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, NULL);
INSERT INTO "onward".jobs VALUES ('01M8GCER7JZ4JMEQZWR0Q4721A', 'other', 'default', 0, 'queued', '{"n":6}', 'ade0bebbcdd770e830221a9ea5ea03aa975a54ba2b90f7077c3b5e0754faf3c8', '2026-01-01T00:00:00.000000Z', NULL, 0, 3, 0, 0, 0, 0, false, false, NULL, NULL, 'type', NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, NULL, NULL);
INSERT INTO "onward".jobs VALUES ('01M8GCER7MWCFFKZ3XVFJFV9QV', 'work', 'default', 5, 'queued', '{"n":7,"text":"für ''alle''"}', 'c1ab5bf5a605cdf99a4d40b573400685e1552fa7e870b6b706d153f844a09f62', '2026-01-01T00:00:00.000000Z', NULL, 0, 3, 0, 0, 0, 0, false, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, NULL, NULL);
INSERT INTO "onward".jobs VALUES ('01M8GCER7N6BT0X434MR0QMSGZ', 'work', 'default', 0, 'queued', '{"n":8}', 'b300633032f2001b3ee950efc80290f4ad20b887fadc76c19af57774ad110354', '2026-01-01T00:00:00.000000Z', '2026-01-03T00:00:00.000000Z', 0, 3, 0, 0, 0, 0, false, false, NULL, NULL, NULL, 'window', NULL, NULL, NULL, 'bob', NULL, NULL, NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, NULL, '3600.0');
INSERT INTO "onward".jobs VALUES ('01M8GCER7PB4GTZGK5K6S2NRNM', 'work', 'default', 0, 'queued', '{"n":9}', '6caf899d67cf6d60680d8645cc09837f8d48c4d85ba0f8a4f112428fd03c358d', '2026-01-01T01:00:00.000000Z', NULL, 0, 3, 0, 0, 0, 0, true, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, '{}', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', NULL, NULL, NULL);
INSERT INTO "onward".keys VALUES ('', 'work', 'done', '01M8GCER6NC0NG955QAS4TZWPF', '2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd', '9999-12-31T23:59:59.999999Z');
INSERT INTO "onward".keys VALUES ('ada', 'work', 'again', '01M8GCER7BP50S649RV41YGHSP', 'f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032', NULL);
INSERT INTO "onward".keys VALUES ('bob', 'work', 'window', '01M8GCER7N6BT0X434MR0QMSGZ', 'b300633032f2001b3ee950efc80290f4ad20b887fadc76c19af57774ad110354', '2026-01-01T01:00:00.000000Z');
INSERT INTO "onward".history VALUES ('01M8GCER6XKKYH1AX0RPNVFBZY', 1, 1, 'host:1:one', 'dead_lettered', 'hopeless', 0, 0, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z');
INSERT INTO "onward".history VALUES ('01M8GCER72DNTE2BJ51EZ8QGRQ', 1, 1, 'host:1:one', 'cancelled', 'not needed', 0, 0, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z');
INSERT INTO "onward".history VALUES ('01M8GCER7BP50S649RV41YGHSP', 1, 1, 'host:1:one', 'retried', 'boom', 0, 0, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z');
INSERT INTO "onward".rollups VALUES ('2026-01-01T00:00', 'default', 'work', 'completed', 'host:1:one', 1, '{}');
INSERT INTO "onward".limits VALUES ('provider', 2, 1, '2026-01-01T00:00:00.000000Z');
COMMIT;
