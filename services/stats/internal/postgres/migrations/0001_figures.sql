-- +goose Up
-- Figures per event and day (Asia/Seoul), so that totals and days are one truth. An event has as many rows as its sale has days.
CREATE TABLE event_days (
    event_id   text   NOT NULL,
    day        date   NOT NULL,
    created    bigint NOT NULL DEFAULT 0, -- reservations made
    confirmed  bigint NOT NULL DEFAULT 0, -- paid and ticketed
    cancelled  bigint NOT NULL DEFAULT 0, -- given back or refunded
    expired    bigint NOT NULL DEFAULT 0, -- holds that ran out
    rejected   bigint NOT NULL DEFAULT 0, -- paid too late, to be refunded
    seats_sold bigint NOT NULL DEFAULT 0, -- seats of confirmed reservations minus those refunded
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, day)
);

-- Money per event, day and currency, in minor units. Transfers are not the organiser's revenue and are not here.
CREATE TABLE revenue_days (
    event_id  text   NOT NULL,
    day       date   NOT NULL,
    currency  text   NOT NULL,
    confirmed bigint NOT NULL DEFAULT 0,
    refunded  bigint NOT NULL DEFAULT 0,
    payments  bigint NOT NULL DEFAULT 0,
    refunds   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, day, currency)
);

-- How far each partition has been counted, written with the figures.
CREATE TABLE consumer_offsets (
    topic       text   NOT NULL,
    partition   int    NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- +goose Down
DROP TABLE consumer_offsets;
DROP TABLE revenue_days;
DROP TABLE event_days;
