-- +goose Up
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

-- +goose Down
DROP TABLE request_days;
