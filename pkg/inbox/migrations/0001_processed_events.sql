-- +goose Up
-- Pruned by age, see Keep.
CREATE TABLE processed_events (
    event_key      text        NOT NULL,
    consumer_group text        NOT NULL,
    processed_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, event_key)
);

-- +goose Down
DROP TABLE processed_events;
