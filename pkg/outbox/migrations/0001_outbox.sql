-- +goose Up
CREATE TABLE outbox (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid        NOT NULL UNIQUE,
    shard          smallint    NOT NULL CHECK (shard BETWEEN 0 AND 7),
    topic          text        NOT NULL,
    key            text        NOT NULL,
    type           text        NOT NULL,
    entity_version bigint      NOT NULL,
    -- The wire JSON, byte for byte as it is published: jsonb would rewrite it.
    payload        text        NOT NULL,
    headers        jsonb       NOT NULL,
    txid           xid8        NOT NULL DEFAULT pg_current_xact_id(),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Every row is inserted once and deleted soon after: dead rows must go long before they are a fifth of the table, which is the default.
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);

-- +goose Down
DROP TABLE outbox;
