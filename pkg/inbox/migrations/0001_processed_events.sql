-- +goose Up
-- Never pruned: the topics keep everything, so that a group whose offsets are lost reads from the start and must know what it has done.
CREATE TABLE processed_events (
    event_key      text        NOT NULL,
    consumer_group text        NOT NULL,
    processed_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, event_key)
);

-- +goose Down
DROP TABLE processed_events;
