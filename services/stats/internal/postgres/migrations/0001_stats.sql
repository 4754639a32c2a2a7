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

-- How far each partition has been counted, written with the figures.
CREATE TABLE consumer_offsets (
    topic       text   NOT NULL,
    partition   int    NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- The acts of operators. The id makes a repeated event harmless; the outcome comes with a second event.
CREATE TABLE audit_acts (
    act_id      uuid        PRIMARY KEY,
    occurred_at timestamptz NOT NULL,
    user_id     text        NOT NULL,
    address     text        NOT NULL,
    method      text        NOT NULL,
    route       text        NOT NULL,
    path        text        NOT NULL,
    event_id    text        NOT NULL, -- '' for none
    request_id  text        NOT NULL,
    body        text        NOT NULL, -- '' for none
    body_sha256 text        NOT NULL,
    status      int,                  -- HTTP; null while the outcome is not known
    code        text,                 -- of the error; '' after success
    ended_at    timestamptz
);
CREATE INDEX audit_acts_by_time ON audit_acts (occurred_at DESC, act_id DESC);
CREATE INDEX audit_acts_by_event ON audit_acts (event_id, occurred_at DESC, act_id DESC) WHERE event_id <> '';
CREATE INDEX audit_acts_by_user ON audit_acts (user_id, occurred_at DESC, act_id DESC);

-- +goose Down
DROP TABLE audit_acts, consumer_offsets, request_days, reward_days, revenue_days, event_days;
