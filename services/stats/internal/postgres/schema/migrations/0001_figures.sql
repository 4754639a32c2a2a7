-- The figures, the inbox and the offsets have a schema of their own, which is filled anew beside the one in use: `stats rebuild`.

-- +goose Up
-- What was counted of an event (a performance, campaign or promotion; '' for what belongs to none), whenever that was. The same
-- transactions write it into minutes and quarters; an event has a dozen rows here and thousands there.
CREATE TABLE totals (
    event_id text   NOT NULL,
    figure   text   NOT NULL,
    currency text   NOT NULL, -- '' for what is no money
    amount    bigint NOT NULL, -- money in minor units
    times    bigint NOT NULL, -- Kafka events that were added up
    -- The minutes in which something was first and last counted.
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, figure, currency)
);

-- The same by minute (UTC), for the last 90 days.
CREATE TABLE minutes (
    event_id text        NOT NULL,
    minute   timestamptz NOT NULL,
    figure   text        NOT NULL,
    currency text        NOT NULL,
    amount    bigint      NOT NULL,
    times    bigint      NOT NULL,
    PRIMARY KEY (event_id, minute, figure, currency)
);
CREATE INDEX minutes_by_time ON minutes (minute);

-- The same by quarter of an hour, for ever. The day of every time zone is a whole number of them, so that days are exact.
CREATE TABLE quarters (
    event_id text        NOT NULL,
    quarter  timestamptz NOT NULL, -- its beginning
    figure   text        NOT NULL,
    currency text        NOT NULL,
    amount    bigint      NOT NULL,
    times    bigint      NOT NULL,
    PRIMARY KEY (event_id, quarter, figure, currency)
);

-- Dead letters that were published again and counted. A copy may come at any time, also when the inbox has forgotten the id.
CREATE TABLE redriven_events (
    event_key text PRIMARY KEY
);

-- How far each partition has been counted, written with the figures.
CREATE TABLE consumer_offsets (
    topic       text   NOT NULL,
    partition   int    NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- +goose Down
DROP TABLE consumer_offsets, redriven_events, quarters, minutes, totals;
