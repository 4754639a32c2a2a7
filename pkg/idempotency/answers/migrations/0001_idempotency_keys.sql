-- +goose Up
CREATE TABLE idempotency_keys (
    user_id       text COLLATE "C" NOT NULL,
    route         text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    -- SHA-256 of what was asked.
    fingerprint   bytea       NOT NULL,
    -- What the service needs to answer again; NULL while a request runs that takes more than one transaction.
    answer        text,
    -- What such a request works on, and when it must have died.
    subject       uuid,
    running_until timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, route, key),
    CHECK (answer IS NOT NULL OR (subject IS NOT NULL AND running_until IS NOT NULL))
);
CREATE INDEX idempotency_keys_running ON idempotency_keys (subject) WHERE answer IS NULL;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- +goose Down
DROP TABLE idempotency_keys;
