-- +goose Up
-- An event that cannot be published blocks its own partition only: the relay leaves out rows by
-- topic and key_hash mod the topic's number of partitions.
ALTER TABLE outbox ADD COLUMN key_hash integer;

-- Kafka's murmur2 of a key without its sign bit, for rows that the previous release inserts during
-- a rolling upgrade; this release computes it in Go. To be dropped, and key_hash made NOT NULL, in
-- the release after this one.
-- +goose StatementBegin
CREATE FUNCTION outbox_key_hash(key text) RETURNS integer LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    m    CONSTANT bigint := 1540483477;  -- 0x5bd1e995
    mask CONSTANT bigint := 4294967295;
    b    bytea  := convert_to(key, 'UTF8');
    n    int    := length(b);
    h    bigint := 2538058380 # n;       -- 0x9747b28c
    k    bigint;
    i    int    := 0;
BEGIN
    WHILE i + 4 <= n LOOP
        k := get_byte(b, i) + (get_byte(b, i + 1) << 8) + (get_byte(b, i + 2) << 16) + (get_byte(b, i + 3)::bigint << 24);
        k := (k * m) & mask;
        k := ((k # (k >> 24)) * m) & mask;
        h := ((h * m) & mask) # k;
        i := i + 4;
    END LOOP;
    IF i < n THEN
        IF n - i = 3 THEN h := h # (get_byte(b, i + 2) << 16); END IF;
        IF n - i >= 2 THEN h := h # (get_byte(b, i + 1) << 8); END IF;
        h := ((h # get_byte(b, i)) * m) & mask;
    END IF;
    h := h # (h >> 13);
    h := (h * m) & mask;
    h := h # (h >> 15);
    RETURN h & 2147483647;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_set_key_hash() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.key_hash := outbox_key_hash(NEW.key);
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER outbox_key_hash BEFORE INSERT ON outbox FOR EACH ROW WHEN (NEW.key_hash IS NULL) EXECUTE FUNCTION outbox_set_key_hash();

-- Keys with an event that the broker permanently refuses. Their rows stay in the outbox, in order,
-- until an operator redrives the key.
CREATE TABLE outbox_parked (
    topic     text        NOT NULL,
    key       text        NOT NULL,
    -- The event that was refused, and why.
    event_id  uuid        NOT NULL,
    error     text        NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, key)
);

-- +goose Down
DROP TABLE outbox_parked;
DROP TRIGGER outbox_key_hash ON outbox;
DROP FUNCTION outbox_set_key_hash();
DROP FUNCTION outbox_key_hash(text);
ALTER TABLE outbox DROP COLUMN key_hash;
