-- +goose Up
-- No foreign key to events: its check share-locks the one row that every buyer of a sale has in common, and under load PostgreSQL then
-- spends its time on multixacts. Events are never deleted.
CREATE TABLE reservations (
    reservation_id uuid PRIMARY KEY,
    event_id       text COLLATE "C" NOT NULL,
    user_id        text COLLATE "C" NOT NULL,
    -- The tier-2 slot in which it was made.
    slot_id        text        NOT NULL,
    -- General admission only, else empty.
    section        text COLLATE "C" NOT NULL,
    quantity       integer     NOT NULL CHECK (quantity > 0),
    amount         bigint      NOT NULL CHECK (amount >= 0),
    currency       text        NOT NULL,
    status         text        NOT NULL CHECK (status IN
                       ('HELD', 'PAYING', 'CONFIRMED', 'CANCELLED', 'EXPIRED', 'REJECTED', 'REFUNDED')),
    -- Why it ended, as USER or HOLD_EXPIRED; empty while it lives.
    reason         text        NOT NULL DEFAULT '',
    -- End of the hold, or of the time to pay.
    expires_at     timestamptz NOT NULL,
    -- End of the hold as it was made: what AbortPayment goes back to.
    hold_ends_at   timestamptz NOT NULL,
    -- The payment under way, that paid, or that was rejected.
    payment_id     uuid,
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    CHECK (status NOT IN ('PAYING', 'CONFIRMED', 'REJECTED', 'REFUNDED') OR payment_id IS NOT NULL)
) WITH (fillfactor = 80);
-- Ids are UUIDv7, so their order is that of creation.
CREATE INDEX reservations_by_user ON reservations (user_id, reservation_id);
CREATE INDEX reservations_live_by_user ON reservations (event_id, user_id) WHERE status IN ('HELD', 'PAYING', 'CONFIRMED');
CREATE INDEX reservations_unpaid_by_end ON reservations (expires_at) WHERE status IN ('HELD', 'PAYING');

-- The seats of a reservation, for good, each at the price it was held at.
CREATE TABLE reservation_seats (
    reservation_id uuid   NOT NULL REFERENCES reservations,
    event_id       text COLLATE "C" NOT NULL,
    seat_id        text COLLATE "C" NOT NULL,
    price          bigint NOT NULL CHECK (price >= 0),
    -- The reservation is HELD, PAYING or CONFIRMED.
    live           boolean NOT NULL DEFAULT true,
    PRIMARY KEY (reservation_id, seat_id)
);
-- What makes it impossible to sell a seat twice, whatever the code does.
CREATE UNIQUE INDEX reservation_seats_one_live ON reservation_seats (event_id, seat_id) WHERE live;

CREATE TABLE tickets (
    ticket_id      uuid PRIMARY KEY,
    reservation_id uuid        NOT NULL REFERENCES reservations,
    event_id       text COLLATE "C" NOT NULL,
    user_id        text COLLATE "C" NOT NULL,
    section        text        NOT NULL,
    -- NULL: general admission.
    seat_id        text COLLATE "C",
    -- Face value.
    price          bigint      NOT NULL CHECK (price >= 0),
    currency       text        NOT NULL,
    status         text        NOT NULL CHECK (status IN ('VALID', 'USED', 'TRANSFERRED', 'REFUNDING', 'REFUNDED')),
    -- Part of the signed code, so that issuing a new code voids the one before.
    serial         integer     NOT NULL DEFAULT 1 CHECK (serial > 0),
    issued_at      timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tickets_by_user ON tickets (user_id, ticket_id);
CREATE INDEX tickets_by_reservation ON tickets (reservation_id);
CREATE UNIQUE INDEX tickets_one_valid ON tickets (event_id, seat_id) WHERE status IN ('VALID', 'REFUNDING');

-- +goose Down
DROP TABLE tickets, reservation_seats, reservations;
