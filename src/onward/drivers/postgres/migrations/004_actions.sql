-- Who did what to how many. Code of before does not write it, so its workers go on.
-- filter is JSON text. finished_at stays empty when whoever did it was killed; the counts are exact then, too.
CREATE TABLE {prefix}actions (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    actor text COLLATE "C" NOT NULL,
    verb text COLLATE "C" NOT NULL,
    filter text NOT NULL,
    matched bigint NOT NULL,
    began_at timestamptz NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    was_stopped boolean NOT NULL DEFAULT false,
    finished_at timestamptz,
    CONSTRAINT actions_instants CHECK (
        least(began_at, finished_at) >= '0001-01-01 00:00:00+00' AND greatest(began_at, finished_at) <= '9999-12-31 23:59:59.999999+00'
    )
) WITH (
    -- A row is rewritten for every hundred jobs, in place as long as there is room.
    fillfactor = 50
);
CREATE INDEX actions_old ON {prefix}actions (began_at);

INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (4, {now}, 1);
