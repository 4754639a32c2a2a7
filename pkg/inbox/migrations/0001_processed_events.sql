-- +goose Up
-- Events that a consumer group has processed. Pruned by age, see Keep.
CREATE TABLE processed_events (
    event_key      text        NOT NULL,
    consumer_group text        NOT NULL,
    processed_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, event_key)
);
-- Prune finds old rows by it.
CREATE INDEX processed_events_by_age ON processed_events (processed_at);

-- +goose Down
DROP TABLE processed_events;
