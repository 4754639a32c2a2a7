-- +goose Up
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

-- +goose Down
DROP TABLE reward_days;
