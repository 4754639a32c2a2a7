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
    -- What is paid for, as providers' pages and receipts name it.
    description     text        NOT NULL DEFAULT '',
    -- What the payer's card statement names after the account's prefix, where the provider can; empty: nothing.
    statement_suffix text       NOT NULL DEFAULT '',
    -- The payer's verified address, for the provider's receipt. It is kept until the page is open, since it must be the same when the call
    -- that opens it is repeated.
    email           text        NOT NULL DEFAULT '',
    provider        text        NOT NULL,
    -- Whether it was opened with a test key or a live one: each knows only its own payments.
    mode            text        NOT NULL DEFAULT 'test' CHECK (mode IN ('test', 'live')),
    status          text        NOT NULL CHECK (status IN
        ('PREPARED', 'OPEN', 'CONFIRMING', 'CONFIRMED', 'DECLINED', 'UNKNOWN', 'EXPIRED', 'REFUNDED')),
    -- The provider's id of its page or authorisation, by which it can be asked about it and close it; empty: there is nothing to ask for
    -- before a charge.
    provider_ref    text        NOT NULL DEFAULT '',
    page_url        text        NOT NULL DEFAULT '',
    -- Whoever comes back with it from the page proves this payment. It is there while the page may still be opened; its digest stays, for
    -- buyers who come back late, and says that the provider has a page.
    page_token      text        NOT NULL DEFAULT '',
    page_token_sha256 text      NOT NULL DEFAULT '',
    -- The key with which the payment is charged, also when it is charged again.
    payment_key     text        NOT NULL DEFAULT '',
    charge_id       text        NOT NULL DEFAULT '',
    -- The provider's receipt, an https address of its own.
    receipt_url     text        NOT NULL DEFAULT '',
    decline_code    text        NOT NULL DEFAULT '',
    -- What the provider took, in minor units; another amount than was asked for only while the payment is DECLINED or EXPIRED.
    captured        bigint      NOT NULL DEFAULT 0 CHECK (captured >= 0),
    -- Since when that is known here.
    captured_at     timestamptz,
    -- What the provider gave back, or the bank took, as far as it is known here. It may exceed captured: a bank takes the whole charge after a
    -- part was refunded; or, for a moment, a refund fails, its money is refunded again, and the failure is heard last.
    refunded        bigint      NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    -- The part of it that a person gave back at the provider, and of that the part that counts for a refund of this service.
    hand            bigint      NOT NULL DEFAULT 0,
    hand_used       bigint      NOT NULL DEFAULT 0 CHECK (hand_used >= 0),
    -- The part of hand, besides hand_used, that an operator has called goodwill.
    goodwill        bigint      NOT NULL DEFAULT 0 CHECK (goodwill >= 0),
    -- Grows by one with every change; consumers order this payment's events by it.
    version         bigint      NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    -- Since when the outcome is open, and when the latest charge began.
    confirming_at   timestamptz,
    charged_at      timestamptz,
    -- How many charges have begun.
    attempt         integer     NOT NULL DEFAULT 0,
    -- The code of the latest error that the provider keeps under the charge's key; empty: none.
    kept_code       text        NOT NULL DEFAULT '',
    -- The hold is lost, or the provider only repeats kept_code: the payment is charged no more, only ended.
    no_charge       boolean     NOT NULL DEFAULT false,
    -- When ticket is asked next to keep the reference for it; NULL: never, or ticket has settled it.
    extend_at       timestamptz,
    -- The reference must still be told that nothing was paid.
    abort_due       boolean     NOT NULL DEFAULT false,
    -- The provider must still close its page or authorisation.
    cancel_due      boolean     NOT NULL DEFAULT false,
    -- How often the provider was asked after the end, since a charge may become known late.
    looks           integer     NOT NULL DEFAULT 0,
    -- When the sweeper looks at the payment next; NULL: never again.
    check_at        timestamptz,
    checks          integer     NOT NULL DEFAULT 0,
    -- A webhook said that the provider knows something new, and the provider has not been asked since.
    hinted          boolean     NOT NULL DEFAULT false,
    -- It was the buyer, who is back from the page.
    returned        boolean     NOT NULL DEFAULT false,
    -- When it is asked because of the latest one; the next one comes 5 s later at the earliest.
    hint_at         timestamptz,
    -- Since when the payer disputes the charge at the bank; NULL: not, or that is decided.
    disputed_at     timestamptz,
    -- Until when the provider takes evidence about the dispute; NULL: it waits for none.
    evidence_due_at timestamptz,
    -- Since when it is known here that the card's issuer takes the charge for fraud, and of which kind; NULL: it has not said so.
    warned_at       timestamptz,
    fraud_type      text        NOT NULL DEFAULT '',
    -- Fencing number: whoever acts on the payment outside a transaction took a number, and writes only while it is the last one.
    lease           bigint      NOT NULL DEFAULT 0,
    CHECK (hand_used + goodwill <= hand),
    CHECK (captured > 0 OR amount = 0 OR status NOT IN ('CONFIRMED', 'REFUNDED')),
    -- Nothing with a price can be had from the provider that charges nothing.
    CONSTRAINT payments_free CHECK (provider <> 'none' OR amount = 0)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- One open payment per reference.
CREATE UNIQUE INDEX payments_open ON payments (payment_type, reference_id) WHERE status IN ('PREPARED', 'OPEN', 'CONFIRMING', 'UNKNOWN');
CREATE INDEX payments_reference ON payments (payment_type, reference_id, id);
CREATE INDEX payments_user ON payments (user_id, id);
CREATE INDEX payments_event ON payments (event_id, id);
CREATE INDEX payments_due ON payments (check_at) WHERE check_at IS NOT NULL;
-- Buyers who are back from the page, or of whom a webhook came: how many are before one of them.
CREATE INDEX payments_back ON payments (provider, check_at) WHERE status = 'OPEN' AND hinted;
-- The backlog: payments_open also has every payment that nobody has confirmed yet.
CREATE INDEX payments_unsettled ON payments (confirming_at) WHERE status IN ('CONFIRMING', 'UNKNOWN');
CREATE INDEX payments_extended ON payments (extend_at) WHERE extend_at IS NOT NULL;
-- Money that a person gave back, and of which nobody has said yet what it was for.
CREATE INDEX payments_by_hand ON payments (id) WHERE hand > hand_used + goodwill;
-- Webhooks about a dispute name the charge only.
CREATE INDEX payments_charge ON payments (provider, charge_id) WHERE charge_id <> '';
CREATE INDEX payments_disputed ON payments (id) WHERE disputed_at IS NOT NULL;
CREATE INDEX payments_warned ON payments (id) WHERE warned_at IS NOT NULL;
-- A day's captures, which are compared with the provider's.
CREATE INDEX payments_captured ON payments (provider, captured_at, id) WHERE captured_at IS NOT NULL;

CREATE TABLE payment_timeline (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id uuid        NOT NULL REFERENCES payments (id),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    status     text        NOT NULL,
    note       text        NOT NULL
);
CREATE INDEX payment_timeline_payment ON payment_timeline (payment_id, id);

CREATE TABLE refunds (
    -- Also the id of its claim at ticket, and in the provider's metadata.
    id           uuid        PRIMARY KEY,
    payment_id   uuid        NOT NULL REFERENCES payments (id),
    cause        text        NOT NULL CHECK (cause IN
        ('COMPENSATION', 'USER', 'OPERATOR', 'EVENT_CANCELLED', 'TRANSFER', 'BY_HAND', 'BY_HAND_FAILED')),
    -- What makes it unique for the payment and cause: '' (COMPENSATION), the Idempotency-Key (USER, OPERATOR), the claim (EVENT_CANCELLED),
    -- the transfer (TRANSFER), the provider's id (BY_HAND, and BY_HAND_FAILED: that of the failed one), or an operator's Idempotency-Key after
    -- 'operator:' (BY_HAND, which moves no money).
    request      text        NOT NULL,
    -- Why, in the words of whoever asked for it.
    reason       text        NOT NULL,
    -- What is owed, in minor units, and the part of it that the provider gives back: less what was given by hand before.
    amount       bigint      NOT NULL CHECK (amount >= 0),
    send         bigint      NOT NULL,
    -- Who asked, and for what: tickets, fees, whether the whole payment is gone, goodwill; the buyer's payment of a transfer.
    scope        jsonb       NOT NULL DEFAULT '{}',
    -- The user who asked for it; empty for other causes than USER.
    asked_by     text        NOT NULL DEFAULT '',
    -- The tickets that ticket would not let go, and why.
    excluded     jsonb       NOT NULL DEFAULT '[]',
    status       text        NOT NULL CHECK (status IN
        ('REQUESTED', 'PENDING', 'ACCEPTED', 'DONE', 'REJECTED', 'REFUSED', 'HELD', 'RESOLVED', 'FAILED')),
    -- The provider's idempotency key is id#gen. A new generation begins only when no call with an older key can act any more.
    gen          integer     NOT NULL DEFAULT 0,
    -- Before the first and the latest call with the present key.
    first_sent   timestamptz,
    last_sent    timestamptz,
    -- Since when a call may have been sent whose outcome is unknown; NULL: there is none.
    doubt_at     timestamptz,
    -- How many keys the provider keeps a refusal under, since when it has kept one or an error, and its latest code; since the last progress.
    refused_keys integer     NOT NULL DEFAULT 0,
    refused_at   timestamptz,
    kept_code    text        NOT NULL DEFAULT '',
    provider     text        NOT NULL,
    provider_id  text,
    -- Why the provider has not made it yet, though it has accepted it.
    pending_reason text      NOT NULL DEFAULT '',
    -- Since when it is known here that the provider has accepted or made it; NULL: it has not, or it has failed.
    given_at     timestamptz,
    -- PAYMENT_REFUNDED was published: the refund cannot be taken back any more.
    published    boolean     NOT NULL DEFAULT false,
    -- Ticket must still be told that the claim is given up.
    abort_due    boolean     NOT NULL DEFAULT false,
    -- When the sweeper continues with it; also the end of the lease.
    due_at       timestamptz NOT NULL,
    -- When it was to be sent first; ages are counted from then.
    send_at      timestamptz NOT NULL DEFAULT now(),
    lease        bigint      NOT NULL DEFAULT 0,
    attempts     integer     NOT NULL DEFAULT 0,
    last_error   text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL,
    -- It has its tickets, or will ask ticket for them. Of the others anybody may ask for any number.
    holds        boolean     NOT NULL GENERATED ALWAYS AS (status NOT IN ('REJECTED', 'REFUSED') OR abort_due) STORED,
    UNIQUE (payment_id, cause, request),
    UNIQUE (provider, provider_id),
    CHECK (send BETWEEN 0 AND amount),
    CHECK (gen = 0 OR first_sent IS NOT NULL AND last_sent IS NOT NULL)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX refunds_due ON refunds (cause, due_at) WHERE status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR abort_due;
CREATE INDEX refunds_of_payment ON refunds (payment_id, holds, created_at);
CREATE INDEX refunds_by_status ON refunds (status, id);
-- Rejected ones are deleted after a while.
CREATE INDEX refunds_rejected ON refunds (created_at) WHERE status = 'REJECTED';
-- A user's requests of the last hour.
CREATE INDEX refunds_asked ON refunds (asked_by, created_at) WHERE asked_by <> '';
CREATE INDEX refunds_held ON refunds (cause, created_at) WHERE status = 'HELD';
-- A day's refunds, which are compared with the provider's.
CREATE INDEX refunds_given ON refunds (provider, given_at, id) WHERE given_at IS NOT NULL;

-- What a refund gives back on account of which ticket.
CREATE TABLE refund_items (
    refund_id uuid   NOT NULL REFERENCES refunds (id),
    ticket_id uuid   NOT NULL,
    amount    bigint NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (refund_id, ticket_id)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- What all replicas have taken of the calls that a provider allows.
CREATE TABLE provider_budgets (
    provider  text             NOT NULL,
    -- Method and path; empty: all calls of the account.
    endpoint  text             NOT NULL,
    -- When the next call is free.
    free_at   timestamptz      NOT NULL DEFAULT now(),
    -- After the provider has refused a call as one too many, the part of its limits that was used from then on. It grows back within a minute.
    part      double precision NOT NULL DEFAULT 1 CHECK (part > 0),
    slowed_at timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, endpoint)
);

-- What the account at a provider and the tables above do not agree in, as reconciliation finds it.
CREATE TABLE differences (
    id           uuid        PRIMARY KEY,
    provider     text        NOT NULL,
    kind         text        NOT NULL,
    order_id     text        NOT NULL,
    -- The provider's id of the charge or refund, else ours; empty: it is about the order.
    entry_id     text        NOT NULL,
    payment_id   uuid,
    ours         text        NOT NULL,
    theirs       text        NOT NULL,
    -- What the provider captured or refunded, in minor units; 0: nothing.
    amount       bigint      NOT NULL,
    currency     text        NOT NULL,
    status       text        NOT NULL CHECK (status IN ('WATCHED', 'OPEN', 'CLOSED')),
    -- The midnight (UTC) of the day that was compared when it was found.
    day          timestamptz NOT NULL,
    first_seen   timestamptz NOT NULL,
    last_seen    timestamptz NOT NULL,
    -- When the latest comparison of the order that is recorded here began; an earlier one changes nothing.
    compared_at  timestamptz NOT NULL,
    closed_at    timestamptz,
    -- The operator; empty: a run that no longer found it.
    closed_by    text        NOT NULL DEFAULT '',
    note         text        NOT NULL DEFAULT '',
    UNIQUE (provider, kind, order_id, entry_id)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX differences_unclosed ON differences (provider, order_id) WHERE status <> 'CLOSED';
CREATE INDEX differences_by_status ON differences (status, id);

-- +goose Down
DROP TABLE provider_budgets, differences, refund_items, refunds, payment_timeline, payments;
