-- Autovacuum looks at payments and refunds only when the tables are large. Until its first VACUUM or ANALYZE a table is taken for one of
-- ten pages at least, and every statement goes by an index. Of a small table that has been looked at PostgreSQL knows that reading all of it
-- costs less, and such a plan stays cached while the first minute of a sale fills it.

-- +goose Up
CREATE TABLE payments (
    id              uuid        PRIMARY KEY,
    -- What the provider knows the payment by; one charge per order at most.
    order_id        text        NOT NULL UNIQUE,
    payment_type    text        NOT NULL CHECK (payment_type IN ('reservation', 'transfer', 'membership')),
    reference_id    uuid        NOT NULL,
    user_id         text        NOT NULL,
    event_id        text        NOT NULL,
    -- Minor units.
    amount          bigint      NOT NULL CHECK (amount >= 0),
    currency        text        NOT NULL,
    provider        text        NOT NULL,
    status          text        NOT NULL CHECK (status IN
        ('PREPARED', 'CONFIRMING', 'CONFIRMED', 'DECLINED', 'UNKNOWN', 'EXPIRED', 'REFUNDING', 'REFUNDED')),
    payment_key     text        NOT NULL DEFAULT '',
    charge_id       text        NOT NULL DEFAULT '',
    decline_code    text        NOT NULL DEFAULT '',
    refunded_amount bigint      NOT NULL DEFAULT 0 CHECK (refunded_amount BETWEEN 0 AND amount),
    -- Grows by one with every change; consumers order this payment's events by it.
    version         bigint      NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    confirming_at   timestamptz,
    -- The reference must still be told that nothing was paid.
    abort_due       boolean     NOT NULL DEFAULT false,
    -- When the sweeper looks at the payment next; NULL: never again.
    check_at        timestamptz,
    checks          integer     NOT NULL DEFAULT 0,
    -- A webhook said that the provider knows something new, and the provider has not been asked since.
    hinted          boolean     NOT NULL DEFAULT false,
    -- Fencing number: whoever acts on the payment outside a transaction took a number, and writes only while it is the last one.
    lease           bigint      NOT NULL DEFAULT 0
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- One open payment per reference.
CREATE UNIQUE INDEX payments_open ON payments (payment_type, reference_id) WHERE status IN ('PREPARED', 'CONFIRMING', 'UNKNOWN');
CREATE INDEX payments_paid ON payments (payment_type, reference_id) WHERE status IN ('CONFIRMED', 'REFUNDING');
CREATE INDEX payments_due ON payments (check_at) WHERE check_at IS NOT NULL;
-- The backlog: payments_open also has every payment that nobody has confirmed yet.
CREATE INDEX payments_unsettled ON payments (confirming_at) WHERE status IN ('CONFIRMING', 'UNKNOWN');

CREATE TABLE payment_timeline (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id uuid        NOT NULL REFERENCES payments (id),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    status     text        NOT NULL,
    note       text        NOT NULL
);
CREATE INDEX payment_timeline_payment ON payment_timeline (payment_id, id);

CREATE TABLE refunds (
    -- Also the idempotency key that the provider knows the refund by.
    id                 uuid        PRIMARY KEY,
    payment_id         uuid        NOT NULL REFERENCES payments (id),
    amount             bigint      NOT NULL CHECK (amount >= 0),
    cause              text        NOT NULL CHECK (cause IN ('COMPENSATION', 'USER', 'OPERATOR', 'EVENT_CANCELLED', 'TRANSFER')),
    -- Why, in the words of whoever asked for it.
    reason             text        NOT NULL,
    status             text        NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DONE')),
    provider_refund_id text        NOT NULL DEFAULT '',
    attempts           integer     NOT NULL DEFAULT 0,
    last_error         text        NOT NULL DEFAULT '',
    attempt_at         timestamptz NOT NULL DEFAULT now(),
    lease              bigint      NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL DEFAULT now(),
    done_at            timestamptz
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX refunds_due ON refunds (attempt_at) WHERE status = 'PENDING';
CREATE INDEX refunds_payment ON refunds (payment_id);
-- A payment that cannot be honoured is given back once, however often that is said.
CREATE UNIQUE INDEX refunds_compensation ON refunds (payment_id) WHERE cause = 'COMPENSATION';

-- +goose Down
DROP TABLE refunds, payment_timeline, payments;
