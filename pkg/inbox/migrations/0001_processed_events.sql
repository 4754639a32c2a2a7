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

-- Dead letters that were redriven. Never pruned, since dead letters stay for good.
CREATE TABLE redriven_letters (
    topic       text        NOT NULL,
    letter      text        NOT NULL,
    redriven_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, letter)
);

-- +goose Down
DROP TABLE redriven_letters;
DROP TABLE processed_events;
