-- +goose Up
-- Events to be published, see Relay. Every row is inserted once and deleted soon after: dead rows
-- must go long before they are a fifth of the table, which is the default.
CREATE TABLE outbox (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid        NOT NULL UNIQUE,
    topic          text        NOT NULL,
    key            text        NOT NULL,
    -- Kafka's murmur2 of the key without its sign bit. An event that cannot be published blocks its
    -- own partition only: the relay leaves out rows by topic and key_hash mod the topic's number of
    -- partitions.
    key_hash       integer     NOT NULL,
    type           text        NOT NULL,
    entity_version bigint      NOT NULL,
    -- The wire JSON, byte for byte as it is published: jsonb would rewrite it.
    payload        text        NOT NULL,
    headers        jsonb       NOT NULL,
    txid           xid8        NOT NULL DEFAULT pg_current_xact_id(),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);

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
DROP TABLE outbox_parked, outbox;
