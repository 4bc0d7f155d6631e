-- A store as the first tables were, with jobs in every status, keys of every scope and history. Never changes.
BEGIN TRANSACTION;
CREATE TABLE onward_history (
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lease_owner TEXT,
    outcome TEXT NOT NULL,
    error TEXT,
    processed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    started_at TEXT,
    finished_at TEXT NOT NULL,
    PRIMARY KEY (job_id, fence)
) WITHOUT ROWID;
INSERT INTO "onward_history" VALUES('01M8GCER6XKKYH1AX0RPNVFBZY',1,1,'host:1:one','dead_lettered','hopeless',0,0,'2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z');
INSERT INTO "onward_history" VALUES('01M8GCER72DNTE2BJ51EZ8QGRQ',1,1,'host:1:one','cancelled','not needed',0,0,'2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z');
INSERT INTO "onward_history" VALUES('01M8GCER7BP50S649RV41YGHSP',1,1,'host:1:one','retried','boom',0,0,'2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z');
CREATE TABLE onward_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    status TEXT NOT NULL CHECK (
        status = 'queued' OR status = 'in_progress' OR status = 'completed'
        OR status = 'retrying' OR status = 'dead_letter' OR status = 'cancelled'
    ),
    payload TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    scheduled_at TEXT NOT NULL,
    expires_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    lost_leases INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    isolated INTEGER NOT NULL DEFAULT 0,
    ran_isolated INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,
    lease_until TEXT,
    blocked_by TEXT CHECK (blocked_by IS NULL OR blocked_by = 'type' OR blocked_by = 'breaker' OR blocked_by = 'limit' OR blocked_by = 'serial'),
    idempotency_key TEXT,
    concurrency_key TEXT,
    serial_key TEXT,
    breaker TEXT,
    owner TEXT NOT NULL DEFAULT '',
    cancel_requested_at TEXT,
    error TEXT,
    result TEXT,
    progress TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    scope TEXT
);
INSERT INTO "onward_jobs" VALUES('01M8GCER6NC0NG955QAS4TZWPF','work','default',0,'completed','{"n":1}','2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd','2026-01-01T00:00:00.000000Z',NULL,1,3,1,0,0,0,0,0,NULL,NULL,NULL,'done',NULL,NULL,NULL,'',NULL,NULL,'{"answer":42}',NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','forever');
INSERT INTO "onward_jobs" VALUES('01M8GCER6XKKYH1AX0RPNVFBZY','work','default',0,'dead_letter','{"n":2}','363379742f80b51bdb9206579af7754911543079b9399cb3fc315fb199f476e8','2026-01-01T00:00:00.000000Z',NULL,1,3,1,0,0,0,0,0,NULL,NULL,NULL,'dead',NULL,NULL,NULL,'',NULL,'hopeless',NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','active');
INSERT INTO "onward_jobs" VALUES('01M8GCER72DNTE2BJ51EZ8QGRQ','work','default',0,'cancelled','{"n":3}','215ddd5567ca2590efd4ea109b4e56cbe591e2676fbf54a9262692c539166da6','2026-01-01T00:00:00.000000Z',NULL,1,3,1,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',NULL,'not needed',NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL);
INSERT INTO "onward_jobs" VALUES('01M8GCER7BP50S649RV41YGHSP','work','default',0,'retrying','{"n":4}','f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032','2026-01-01T00:05:00.000000Z',NULL,1,3,1,0,0,0,0,0,NULL,NULL,NULL,'again',NULL,NULL,NULL,'ada',NULL,'boom',NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,'active');
INSERT INTO "onward_jobs" VALUES('01M8GCER7GJX1M235CRF6D89DR','mail','mail',0,'in_progress','{"n":5}','11d0a8967009cbcdf468f09e5b09e73e7119b528c35a0e0b23f2ae052786b8fa','2026-01-01T00:00:00.000000Z',NULL,1,3,1,0,0,0,0,0,'host:1:one','2026-01-01T00:01:00.000000Z',NULL,NULL,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,NULL);
INSERT INTO "onward_jobs" VALUES('01M8GCER7JZ4JMEQZWR0Q4721A','other','default',0,'queued','{"n":6}','ade0bebbcdd770e830221a9ea5ea03aa975a54ba2b90f7077c3b5e0754faf3c8','2026-01-01T00:00:00.000000Z',NULL,0,3,0,0,0,0,0,0,NULL,NULL,'type',NULL,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,NULL,NULL);
INSERT INTO "onward_jobs" VALUES('01M8GCER7MWCFFKZ3XVFJFV9QV','work','default',5,'queued','{"n":7,"text":"für ''alle''"}','c1ab5bf5a605cdf99a4d40b573400685e1552fa7e870b6b706d153f844a09f62','2026-01-01T00:00:00.000000Z',NULL,0,3,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,NULL,NULL);
INSERT INTO "onward_jobs" VALUES('01M8GCER7N6BT0X434MR0QMSGZ','work','default',0,'queued','{"n":8}','b300633032f2001b3ee950efc80290f4ad20b887fadc76c19af57774ad110354','2026-01-01T00:00:00.000000Z','2026-01-03T00:00:00.000000Z',0,3,0,0,0,0,0,0,NULL,NULL,NULL,'window',NULL,NULL,NULL,'bob',NULL,NULL,NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,NULL,'3600.0');
INSERT INTO "onward_jobs" VALUES('01M8GCER7PB4GTZGK5K6S2NRNM','work','default',0,'queued','{"n":9}','6caf899d67cf6d60680d8645cc09837f8d48c4d85ba0f8a4f112428fd03c358d','2026-01-01T01:00:00.000000Z',NULL,0,3,0,0,0,0,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,'{}','2026-01-01T00:00:00.000000Z','2026-01-01T00:00:00.000000Z',NULL,NULL,NULL);
CREATE TABLE onward_keys (
    owner TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    expires_at TEXT,
    PRIMARY KEY (owner, type, key)
) WITHOUT ROWID;
INSERT INTO "onward_keys" VALUES('','work','done','01M8GCER6NC0NG955QAS4TZWPF','2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd','9999-12-31T23:59:59.999999Z');
INSERT INTO "onward_keys" VALUES('ada','work','again','01M8GCER7BP50S649RV41YGHSP','f3e0792e105e2bfe88e7b3bab5097b93a59a8c5b239fe3c6f87a8d0f72ab9032',NULL);
INSERT INTO "onward_keys" VALUES('bob','work','window','01M8GCER7N6BT0X434MR0QMSGZ','b300633032f2001b3ee950efc80290f4ad20b887fadc76c19af57774ad110354','2026-01-01T01:00:00.000000Z');
CREATE TABLE onward_limits (
    key TEXT NOT NULL PRIMARY KEY,
    allowed INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    updated_at TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "onward_limits" VALUES('provider',2,1,'2026-01-01T00:00:00.000000Z');
CREATE TABLE onward_rollups (
    minute TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    count INTEGER NOT NULL,
    histogram TEXT NOT NULL,
    PRIMARY KEY (minute, queue, type, outcome, worker)
) WITHOUT ROWID;
INSERT INTO "onward_rollups" VALUES('2026-01-01T00:00','default','work','completed','host:1:one',1,'{}');
CREATE TABLE onward_schema_version (version INTEGER NOT NULL PRIMARY KEY, applied_at TEXT NOT NULL);
INSERT INTO "onward_schema_version" VALUES(1,'2026-01-01T00:00:00.000000Z');
CREATE INDEX onward_jobs_claim ON onward_jobs (queue, priority DESC, scheduled_at, id)
    WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL;
CREATE INDEX onward_jobs_running ON onward_jobs (lease_owner) WHERE status = 'in_progress';
CREATE INDEX onward_jobs_blocked ON onward_jobs (blocked_by, type, queue) WHERE blocked_by IS NOT NULL;
CREATE INDEX onward_jobs_expiring ON onward_jobs (expires_at) WHERE expires_at IS NOT NULL AND status IN ('queued', 'retrying');
CREATE INDEX onward_jobs_final ON onward_jobs (status, finished_at) WHERE status IN ('completed', 'dead_letter', 'cancelled');
CREATE INDEX onward_keys_expiring ON onward_keys (expires_at) WHERE expires_at IS NOT NULL;
COMMIT;
