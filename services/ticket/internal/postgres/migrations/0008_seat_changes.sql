-- What has changed of seats in the last minute or so, so that replicas keep their seat maps up to date without reading all seats.
--
-- Ids do not tell what is new, for a transaction may commit after one with higher ids. A reader keeps the pg_snapshot of its last read, and
-- reads the changes by transactions that this snapshot does not see. Changes of one seat have ids in the order of their commits, since its
-- row is locked until the commit.
--
-- A trigger writes them, so that the previous release and manual statements are seen too. Events whose seats are inserted or deleted get a
-- new version, and are read anew.
-- +goose Up
CREATE TABLE seat_changes (
    id       bigint GENERATED ALWAYS AS IDENTITY,
    xid      xid8      NOT NULL DEFAULT pg_current_xact_id(),
    event_id text COLLATE "C" NOT NULL,
    -- The seats' indexes, and their new states: 0 is free, -1 sold, else held until then, in µs since 1970.
    idx      integer[] NOT NULL,
    states   bigint[]  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX seat_changes_by_xid ON seat_changes (xid, event_id);

-- Changes by transactions below this one may be gone. Whoever read before it reads all seats again.
CREATE TABLE seat_changes_pruned (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    below    xid8        NOT NULL,
    -- The next bound, and when it was read.
    next     xid8        NOT NULL,
    read_at  timestamptz NOT NULL
);
INSERT INTO seat_changes_pruned (below, next, read_at)
SELECT pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmin(pg_current_snapshot()), now();

-- STABLE as extract() is: a function that is declared as more than its body is never inlined.
CREATE FUNCTION seat_state(status text, held_until timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE status WHEN 'FREE' THEN 0 WHEN 'SOLD' THEN -1 ELSE (extract(epoch FROM held_until) * 1000000)::bigint END;

-- +goose StatementBegin
CREATE FUNCTION seats_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seat_changes (event_id, idx, states)
    SELECT event_id, array_agg(idx), array_agg(seat_state(status, held_until)) FROM changed GROUP BY event_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER seats_changed AFTER UPDATE ON seats REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION seats_changed();

-- +goose Down
DROP TRIGGER seats_changed ON seats;
DROP FUNCTION seats_changed, seat_state;
DROP TABLE seat_changes, seat_changes_pruned;
