-- +goose Up
-- The acts of operators. The id makes a repeated event harmless; the outcome comes with a second event, perhaps before the act: user_id
-- is '' until the act has come.
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
    ended_at    timestamptz,
    entries_total   bigint,           -- of an uploaded list; null for all other acts
    entries_added   bigint,
    entries_removed bigint
);
CREATE INDEX audit_acts_by_time ON audit_acts (occurred_at DESC, act_id DESC);
CREATE INDEX audit_acts_by_event ON audit_acts (event_id, occurred_at DESC, act_id DESC) WHERE event_id <> '';
CREATE INDEX audit_acts_by_user ON audit_acts (user_id, occurred_at DESC, act_id DESC);

-- How far each partition of audit-events has been kept.
CREATE TABLE audit_offsets (
    partition   int    PRIMARY KEY,
    next_offset bigint NOT NULL
);

-- +goose Down
DROP TABLE audit_offsets, audit_acts;
