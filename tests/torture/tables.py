"""The tables that a run adds to its store: the application's own, and an audit of each change of a job, which a trigger writes.

A breaker's changes stand in the same audit, under its key with ``breaker:`` before it, so that there is one order for all: the job that is
its probe is the owner.

A request for the end of a running job writes its row and changes nothing of what is judged, so it is left out. What makes a job final
once more is not, whatever it changes.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE effects (job_id TEXT, fence INTEGER);
CREATE TABLE orders (job_id TEXT PRIMARY KEY);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT, before TEXT, after TEXT, fence_before INTEGER, fence INTEGER,
    attempts_before INTEGER, attempts INTEGER, given_back INTEGER, ran_isolated INTEGER, owner TEXT, lease_until REAL, due REAL,
    began REAL, ran_out INTEGER, at REAL
);
CREATE TRIGGER audit_insert AFTER INSERT ON onward_jobs BEGIN
    INSERT INTO audit (job_id, before, after, fence_before, fence, attempts_before, attempts, given_back, ran_isolated, ran_out, at)
    VALUES (NEW.id, '', NEW.status, 0, NEW.fence, 0, NEW.attempts, 0, 0, 0, (julianday('now') - 2440587.5) * 86400.0);
END;
CREATE TRIGGER audit_update AFTER UPDATE OF status, fence, attempts ON onward_jobs
    WHEN NEW.status <> 'in_progress' OR (OLD.status, OLD.fence, OLD.attempts) IS NOT (NEW.status, NEW.fence, NEW.attempts) BEGIN
    INSERT INTO audit (job_id, before, after, fence_before, fence, attempts_before, attempts, given_back, ran_isolated, owner, lease_until,
        due, began, ran_out, at)
    VALUES (NEW.id, OLD.status, NEW.status, OLD.fence, NEW.fence, OLD.attempts, NEW.attempts,
        NEW.releases + NEW.snoozes + NEW.lost_leases - OLD.releases - OLD.snoozes - OLD.lost_leases, OLD.ran_isolated,
        coalesce(OLD.lease_owner, NEW.lease_owner), (julianday(OLD.lease_until) - 2440587.5) * 86400.0,
        (julianday(OLD.scheduled_at) - 2440587.5) * 86400.0, (julianday(NEW.started_at) - 2440587.5) * 86400.0,
        coalesce(NEW.error LIKE 'lease lost%' AND NEW.lost_leases > OLD.lost_leases, 0),
        (julianday('now') - 2440587.5) * 86400.0);
END;
CREATE TRIGGER audit_breaker_insert AFTER INSERT ON onward_breakers BEGIN
    INSERT INTO audit (job_id, before, after, fence, owner, at)
    VALUES ('breaker:' || NEW.key, '', NEW.status, NEW.probe_fence, NEW.probe_id, (julianday('now') - 2440587.5) * 86400.0);
END;
CREATE TRIGGER audit_breaker_update AFTER UPDATE ON onward_breakers
    WHEN (OLD.status, OLD.probe_id, OLD.probe_fence) IS NOT (NEW.status, NEW.probe_id, NEW.probe_fence) BEGIN
    INSERT INTO audit (job_id, before, after, fence, owner, at)
    VALUES ('breaker:' || NEW.key, OLD.status, NEW.status, NEW.probe_fence, NEW.probe_id, (julianday('now') - 2440587.5) * 86400.0);
END;
"""
POSTGRES = """
CREATE TABLE public.effects (job_id text, fence bigint);
CREATE TABLE public.orders (job_id text PRIMARY KEY);
CREATE TABLE public.audit (
    number bigserial PRIMARY KEY, job_id text, before text, after text, fence_before bigint, fence bigint,
    attempts_before bigint, attempts bigint, given_back bigint, ran_isolated int, owner text, lease_until float8, due float8,
    began float8, ran_out int, at float8
);
CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO public.audit (job_id, before, after, fence_before, fence, attempts_before, attempts, given_back, ran_isolated,
            ran_out, at)
        VALUES (NEW.id, '', NEW.status, 0, NEW.fence, 0, NEW.attempts, 0, 0, 0, extract(epoch FROM clock_timestamp()));
    ELSE
        INSERT INTO public.audit (job_id, before, after, fence_before, fence, attempts_before, attempts, given_back, ran_isolated, owner,
            lease_until, due, began, ran_out, at)
        VALUES (NEW.id, OLD.status, NEW.status, OLD.fence, NEW.fence, OLD.attempts, NEW.attempts,
            NEW.releases + NEW.snoozes + NEW.lost_leases - OLD.releases - OLD.snoozes - OLD.lost_leases, OLD.ran_isolated::int,
            coalesce(OLD.lease_owner, NEW.lease_owner), extract(epoch FROM OLD.lease_until), extract(epoch FROM OLD.scheduled_at),
            extract(epoch FROM NEW.started_at),
            coalesce(NEW.error LIKE 'lease lost%' AND NEW.lost_leases > OLD.lost_leases, false)::int,
            extract(epoch FROM clock_timestamp()));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_insert AFTER INSERT ON onward.jobs FOR EACH ROW EXECUTE FUNCTION public.audit();
CREATE TRIGGER audit_update AFTER UPDATE OF status, fence, attempts ON onward.jobs FOR EACH ROW
    WHEN (NEW.status <> 'in_progress' OR (OLD.status, OLD.fence, OLD.attempts) IS DISTINCT FROM (NEW.status, NEW.fence, NEW.attempts))
    EXECUTE FUNCTION public.audit();
CREATE FUNCTION public.audit_breaker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.audit (job_id, before, after, fence, owner, at)
    VALUES ('breaker:' || NEW.key, CASE TG_OP WHEN 'UPDATE' THEN OLD.status ELSE '' END, NEW.status, NEW.probe_fence, NEW.probe_id,
        extract(epoch FROM clock_timestamp()));
    RETURN NULL;
END $$;
CREATE TRIGGER audit_breaker_insert AFTER INSERT ON onward.breakers FOR EACH ROW EXECUTE FUNCTION public.audit_breaker();
CREATE TRIGGER audit_breaker_update AFTER UPDATE ON onward.breakers FOR EACH ROW
    WHEN ((OLD.status, OLD.probe_id, OLD.probe_fence) IS DISTINCT FROM (NEW.status, NEW.probe_id, NEW.probe_fence))
    EXECUTE FUNCTION public.audit_breaker();
"""
