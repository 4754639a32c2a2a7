-- The figures, the inbox and the offsets have a schema of their own: to count everything anew it is dropped, and the log of acts stays.

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

-- What happened to the rewards of a campaign, per day (Asia/Seoul). Events and campaigns share one
-- space of ids.
CREATE TABLE reward_days (
    event_id    text   NOT NULL,
    day         date   NOT NULL,
    paid        bigint NOT NULL DEFAULT 0,
    failed      bigint NOT NULL DEFAULT 0, -- given up, or left for an operator; may be paid later
    cancelled   bigint NOT NULL DEFAULT 0,
    points_paid bigint NOT NULL DEFAULT 0, -- the sum of the points
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, day)
);

-- How the requests to a promotion ended, per day (Asia/Seoul). Promotions have ids of the same space
-- as events and campaigns.
CREATE TABLE request_days (
    event_id   text   NOT NULL,
    day        date   NOT NULL,
    succeeded  bigint NOT NULL DEFAULT 0,
    rejected   bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0, -- an operator may begin it anew, and it counts again when it ends
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, day)
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
DROP TABLE consumer_offsets, redriven_events, request_days, reward_days, revenue_days, event_days;
