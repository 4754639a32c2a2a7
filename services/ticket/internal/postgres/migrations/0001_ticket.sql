-- Autovacuum looks at events' seats and reservations only when the tables are large. Until its first VACUUM or ANALYZE a table is taken for
-- one of ten pages at least, and every statement goes by an index. Of a small table that has been looked at PostgreSQL knows that reading
-- all of it costs less, and such a plan stays cached while the first minute of a sale fills it.

-- +goose Up
CREATE TABLE events (
    event_id       text COLLATE "C" PRIMARY KEY CHECK (event_id ~ '^[A-Za-z0-9_-]{1,64}$'),
    title          text        NOT NULL,
    artist         text        NOT NULL,
    venue          text        NOT NULL,
    starts_at      timestamptz NOT NULL,
    -- IANA time zone of the venue, in which the pages show the event's times.
    time_zone      text        NOT NULL CHECK (time_zone <> ''),
    sales_open_at  timestamptz NOT NULL,
    sales_close_at timestamptz NOT NULL CHECK (sales_close_at > sales_open_at),
    -- What its sections are: seated, not seated, or both.
    seating        text        NOT NULL CHECK (seating IN ('ASSIGNED', 'GENERAL', 'MIXED')),
    currency       text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    max_per_user   integer     NOT NULL CHECK (max_per_user > 0),
    -- How many places a user may give back and buy others; NULL: three times max_per_user.
    max_returns_per_user integer CHECK (max_returns_per_user > 0),
    -- Seconds; NULL: the service's default.
    hold_seconds   integer     CHECK (hold_seconds > 0),
    -- What operators did to the sale; whether it is on sale follows from this, the clock and the free seats. CANCELLED can be undone, until
    -- refunds begin (ENDED).
    state          text        NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'PAUSED', 'CANCELLED', 'ENDED')),
    -- The state before CANCELLED, to which an undo returns.
    undo_to        text CHECK (undo_to IN ('OPEN', 'PAUSED')),
    -- When the refunds of a cancelled event begin by themselves, or have begun.
    refund_after   timestamptz CHECK (refund_after IS NULL OR state IN ('CANCELLED', 'ENDED')),
    -- When a cancelled event is looked at next: for its end, or for what is left of it. Whoever looks at it moves this on, as a lease.
    walk_at        timestamptz,
    -- The last user whose orders the walk of an ended event has reached; empty: it begins anew.
    walk_after     text COLLATE "C" NOT NULL DEFAULT '',
    -- The start before the latest postponement, when that was, and until when users get their fees back too for what was sold before it.
    postponed_from timestamptz,
    postponed_at   timestamptz,
    fees_until     timestamptz,
    doors_at       timestamptz,
    -- The end of refunds and transfers, from which on doors have their lists; NULL: doors_at, else an hour before the start.
    closes_at      timestamptz,
    -- The end of refunds by users; NULL: as closes_at.
    refund_until   timestamptz,
    user_refunds   boolean     NOT NULL DEFAULT true,
    -- What is kept of the price when a user gives a ticket back: before each of these times, this share of it, in percent.
    cancellation_until    timestamptz[] NOT NULL DEFAULT '{}',
    cancellation_percents integer[]     NOT NULL DEFAULT '{}',
    -- Places that are given back are sold again at a random moment, after a tenth of this many seconds and within all of them; 0: at once.
    return_within  integer     NOT NULL DEFAULT 0 CHECK (return_within >= 0),
    -- HOUSE: the organiser keeps them instead.
    returns_to     text        NOT NULL DEFAULT 'SALE' CHECK (returns_to IN ('SALE', 'HOUSE')),
    transferable   text        NOT NULL DEFAULT 'NONE' CHECK (transferable IN ('NONE', 'FREE', 'PRICED')),
    -- Before the general sale only users may buy who have an entitlement in one of these ways (JSON); NULL: there is no presale.
    presale_opens_at timestamptz CHECK (presale_opens_at < sales_open_at),
    presale_max_per_user integer CHECK (presale_max_per_user > 0),
    presale_ways   jsonb       NOT NULL DEFAULT '[]',
    -- E-mails have the codes of tickets that cannot be passed on from so many hours before doors on; 0: never. The epoch for which all
    -- were sent.
    codes_from     integer     NOT NULL DEFAULT 0 CHECK (codes_from >= 0),
    codes_sent     integer     NOT NULL DEFAULT 0,
    -- What cards' statements name after the account's prefix at Stripe; empty: nothing.
    statement_suffix text      NOT NULL DEFAULT '',
    -- How many visitors come within how many seconds from the opening; 0: nothing is expected.
    expected_visitors bigint   NOT NULL DEFAULT 0 CHECK (expected_visitors >= 0),
    expected_within integer    NOT NULL DEFAULT 0 CHECK (expected_within >= 0),
    -- The events of one show on several dates. Whoever counts or changes the places of a user locks the user in the whole series.
    series_id      text COLLATE "C",
    max_per_user_in_series integer CHECK (max_per_user_in_series > 0),
    -- Grows when the event is postponed, which voids the lists of its doors.
    epoch          integer     NOT NULL DEFAULT 1 CHECK (epoch > 0),
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    CHECK (refund_until <= closes_at),
    CHECK ((expected_visitors > 0) = (expected_within > 0)),
    CHECK (cardinality(cancellation_until) = cardinality(cancellation_percents)),
    CHECK (0 <= ALL (cancellation_percents) AND 100 >= ALL (cancellation_percents)),
    CHECK (max_per_user_in_series IS NULL OR series_id IS NOT NULL),
    CHECK (presale_opens_at IS NOT NULL OR (presale_max_per_user IS NULL AND presale_ways = '[]'))
);
CREATE INDEX events_by_series ON events (series_id) WHERE series_id IS NOT NULL;
CREATE INDEX events_by_start ON events (starts_at, event_id);
CREATE INDEX events_expected ON events (sales_open_at) WHERE expected_visitors > 0;
CREATE INDEX events_codes_to_send ON events (event_id) WHERE codes_from > 0 AND codes_sent < epoch;
CREATE INDEX events_to_walk ON events (state, walk_at) WHERE state IN ('CANCELLED', 'ENDED');

-- Terms of refunds by users that an event had until a time: whoever has asked before keeps them, if they are better. Those from before
-- every request that may still be decided on are deleted.
CREATE TABLE former_terms (
    event_id      text COLLATE "C" NOT NULL REFERENCES events,
    until         timestamptz NOT NULL,
    refund_until  timestamptz NOT NULL,
    user_refunds  boolean     NOT NULL,
    fees_until    timestamptz NOT NULL,
    postponed_at  timestamptz,
    cancellation_until    timestamptz[] NOT NULL,
    cancellation_percents integer[]     NOT NULL
);
CREATE INDEX former_terms_until ON former_terms (event_id, until);

-- Prices, and counters. For general admission sold + held + house + returns + free = capacity. With assigned seating the held seats
-- themselves are counted, since a counter that every hold writes would make one queue of all of them; only payments and refunds write the
-- other numbers.
CREATE TABLE sections (
    event_id      text COLLATE "C" NOT NULL REFERENCES events,
    section       text COLLATE "C" NOT NULL,
    ordinal       integer NOT NULL,
    price         bigint  NOT NULL CHECK (price >= 0),
    -- Paid on top of the price of each place.
    fee           bigint  NOT NULL DEFAULT 0 CHECK (fee >= 0),
    capacity      bigint  NOT NULL CHECK (capacity > 0),
    -- Sold seat by seat, else by the number of admissions.
    seated        boolean NOT NULL GENERATED ALWAYS AS (seat_rows IS NOT NULL) STORED,
    -- Assigned seating only; the index of the section's first seat counts the sections before it.
    seat_rows     integer,
    seats_per_row integer,
    first_idx     integer NOT NULL DEFAULT 0,
    -- General admission only; includes holds whose time is over until someone frees them.
    held          bigint  NOT NULL DEFAULT 0,
    sold          bigint  NOT NULL DEFAULT 0,
    -- Kept by the organiser, and not for sale.
    house         bigint  NOT NULL DEFAULT 0,
    -- Given back, and for sale again after a while (events.return_within).
    returns       bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, section),
    CONSTRAINT sections_never_oversold CHECK (held >= 0 AND sold >= 0 AND house >= 0 AND returns >= 0
                                              AND held + sold + house + returns <= capacity),
    CHECK (num_nulls(seat_rows, seats_per_row) IN (0, 2)),
    CHECK (seat_rows IS NULL OR (capacity = seat_rows * seats_per_row AND held = 0))
) WITH (fillfactor = 50, -- room for the counters' next versions on the same page
        autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- What the payment providers take, as the payment service said last, whichever of its replicas; no row: it has not said so yet.
CREATE TABLE payment_limits (
    only_one  boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    providers jsonb   NOT NULL
);

-- Types of price beside the section's own, as for students; nothing writes them yet. The quota is part of the capacity.
CREATE TABLE price_types (
    event_id   text COLLATE "C" NOT NULL,
    section    text COLLATE "C" NOT NULL,
    price_type text COLLATE "C" NOT NULL CHECK (price_type <> ''),
    ordinal    integer NOT NULL,
    price      bigint  NOT NULL CHECK (price >= 0),
    -- NULL: as many as the section has places.
    quota      bigint CHECK (quota > 0),
    PRIMARY KEY (event_id, section, price_type),
    FOREIGN KEY (event_id, section) REFERENCES sections ON DELETE CASCADE
);

-- One row per seat, as it is now. No index names status, reservation_id or held_until: a hold then rewrites the row on its page and no
-- index at all (HOT).
CREATE TABLE seats (
    event_id       text COLLATE "C" NOT NULL,
    seat_id        text COLLATE "C" NOT NULL,
    -- Position in the availability bitmap; also the order in which seats are locked.
    idx            integer NOT NULL,
    -- HOUSE: kept by the organiser, and not for sale. RETURNED, DELAYED: in returns; DELAYED is of a hold that has ended.
    status         text    NOT NULL DEFAULT 'FREE' CHECK (status IN ('FREE', 'HELD', 'SOLD', 'HOUSE', 'RETURNED', 'DELAYED')),
    reservation_id uuid,
    -- The reservation's expires_at: whoever wants the seat sees without a join that it may be taken.
    held_until     timestamptz,
    PRIMARY KEY (event_id, seat_id),
    UNIQUE (event_id, idx),
    CHECK ((status IN ('HELD', 'SOLD')) = (reservation_id IS NOT NULL)),
    CHECK ((status = 'HELD') = (held_until IS NOT NULL))
) WITH (fillfactor = 70,
        autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- Places that were given back, or of holds that have ended, each until it is for sale again: buyers cannot know when.
CREATE TABLE returns (
    return_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   text COLLATE "C" NOT NULL,
    section    text COLLATE "C" NOT NULL,
    -- NULL: general admission.
    seat_id    text COLLATE "C",
    release_at timestamptz NOT NULL,
    -- Of a hold that has ended unpaid: the place was never sold, and counts as held until then.
    unpaid     boolean     NOT NULL DEFAULT false,
    -- The user who gave it back, for whose limit it counts until it is for sale again; NULL: it counts for nobody's.
    giver      text COLLATE "C"
);
CREATE INDEX returns_by_release ON returns (release_at);
CREATE INDEX returns_by_giver ON returns (event_id, giver) WHERE giver IS NOT NULL;

-- What has changed of seats in the last minute or so, so that replicas keep their seat maps up to date without reading all seats.
--
-- Ids do not tell what is new, for a transaction may commit after one with higher ids. A reader keeps the pg_snapshot of its last read, and
-- reads the changes by transactions that this snapshot does not see. Changes of one seat have ids in the order of their commits, since its
-- row is locked until the commit.
--
-- A trigger writes them, so that manual statements are seen too. Events whose seats are inserted or deleted get a new version, and are read
-- anew.
CREATE TABLE seat_changes (
    id       bigint GENERATED ALWAYS AS IDENTITY,
    xid      xid8      NOT NULL DEFAULT pg_current_xact_id(),
    event_id text COLLATE "C" NOT NULL,
    -- The seats' indexes, and their new states: 0 is free, -1 neither free nor held, else held until then, in µs since 1970.
    idx      integer[] NOT NULL,
    states   bigint[]  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX seat_changes_by_xid ON seat_changes (xid, event_id);

-- Changes by transactions below this one may be gone. Whoever read before it reads all seats again.
CREATE TABLE seat_changes_pruned (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    below    xid8        NOT NULL,
    -- The next bound, and when it was read.
    next     xid8        NOT NULL,
    read_at  timestamptz NOT NULL
);
INSERT INTO seat_changes_pruned (below, next, read_at)
SELECT pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmin(pg_current_snapshot()), now();

-- STABLE as extract() is: a function that is declared as more than its body is never inlined.
CREATE FUNCTION seat_state(status text, held_until timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE status WHEN 'FREE' THEN 0 WHEN 'HELD' THEN (extract(epoch FROM held_until) * 1000000)::bigint ELSE -1 END;

-- +goose StatementBegin
CREATE FUNCTION seats_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seat_changes (event_id, idx, states)
    SELECT event_id, array_agg(idx), array_agg(seat_state(status, held_until)) FROM changed GROUP BY event_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER seats_changed AFTER UPDATE ON seats REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION seats_changed();

-- Settings of a waiting line; promotions and campaigns have lines too, so event_id need not be in events.
CREATE TABLE line_settings (
    event_id      text COLLATE "C" PRIMARY KEY,
    threshold     bigint,
    slot_seconds  bigint,
    paused        boolean     NOT NULL DEFAULT false,
    blocked_users text[]      NOT NULL DEFAULT '{}',
    -- When queue opened the line for the first time; NULL: never. Only a line that was never opened begins without a recovery.
    opened_at     timestamptz,
    updated_at    timestamptz NOT NULL DEFAULT now()
);

-- The latest act of an operator on each setting of a line ('threshold', 'paused', 'user:<id>'), by the order that queue gave it. Queue may
-- repeat an act, or bring one when a later one is stored already. Rows are deleted 30 days after the act was stored.
CREATE TABLE line_acts (
    event_id  text COLLATE "C",
    setting   text COLLATE "C",
    act       bigint      NOT NULL,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (event_id, setting)
);
CREATE INDEX line_acts_by_time ON line_acts (stored_at);

-- No foreign key to events: its check share-locks the one row that every buyer of a sale has in common, and under load PostgreSQL then
-- spends its time on multixacts. Events are never deleted.
CREATE TABLE reservations (
    reservation_id uuid PRIMARY KEY,
    -- COMP: given away by the organiser, without a payment and outside everybody's limit.
    origin         text        NOT NULL DEFAULT 'SALE' CHECK (origin IN ('SALE', 'COMP')),
    event_id       text COLLATE "C" NOT NULL,
    user_id        text COLLATE "C" NOT NULL,
    -- The tier-2 slot in which it was made.
    slot_id        text        NOT NULL,
    -- Where, and in which language, the user is written to; empty: nowhere.
    email          text        NOT NULL DEFAULT '',
    language       text        NOT NULL DEFAULT '',
    -- General admission only, else empty.
    section        text COLLATE "C" NOT NULL,
    quantity       integer     NOT NULL CHECK (quantity > 0),
    -- The places that were given back or voided.
    released       integer     NOT NULL DEFAULT 0 CHECK (released BETWEEN 0 AND quantity),
    amount         bigint      NOT NULL CHECK (amount >= 0),
    -- The part of the amount that is fees.
    fee            bigint      NOT NULL DEFAULT 0 CHECK (fee BETWEEN 0 AND amount),
    currency       text        NOT NULL,
    status         text        NOT NULL CHECK (status IN
                       ('HELD', 'PAYING', 'CONFIRMED', 'CANCELLED', 'EXPIRED', 'REJECTED', 'REFUNDED', 'VOIDED')),
    -- Why it ended, as USER or HOLD_EXPIRED; empty while it lives.
    reason         text        NOT NULL DEFAULT '',
    -- End of the hold, or of the time to pay; of one that its user cancelled, when that was.
    expires_at     timestamptz NOT NULL,
    -- End of the hold as it was made: what AbortPayment goes back to.
    hold_ends_at   timestamptz NOT NULL,
    -- The payment under way, that paid, or that was rejected. A reservation that ends unpaid names none: a payment that is named has been
    -- answered.
    payment_id     uuid,
    -- Every payment that was begun for it. No other one settles it.
    begun          uuid[]      NOT NULL DEFAULT '{}',
    -- How often a provider's page was opened for it, and how many of its payments were declined.
    opens          integer     NOT NULL DEFAULT 0,
    declines       integer     NOT NULL DEFAULT 0,
    -- Whether the payment under way may have been charged: from the claim before its first charge until it is aborted.
    charging       boolean     NOT NULL DEFAULT false,
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    CHECK (origin = 'COMP' OR status NOT IN ('PAYING', 'CONFIRMED', 'REJECTED', 'REFUNDED', 'VOIDED') OR payment_id IS NOT NULL),
    CHECK (status <> 'CONFIRMED' OR released < quantity),
    CHECK (status NOT IN ('REFUNDED', 'VOIDED') OR released = quantity)
) WITH (fillfactor = 80,
        autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
-- Ids are UUIDv7, so their order is that of creation.
CREATE INDEX reservations_by_user ON reservations (user_id, reservation_id);
CREATE INDEX reservations_live_by_user ON reservations (event_id, user_id) WHERE status IN ('HELD', 'PAYING', 'CONFIRMED');
-- A user's holds that ended unpaid.
CREATE INDEX reservations_given_up ON reservations (event_id, user_id, expires_at) WHERE status IN ('CANCELLED', 'EXPIRED');
-- Operators' list of an event's orders. A hold is not in it, so that it costs holds nothing.
CREATE INDEX reservations_paid_by_event ON reservations (event_id, reservation_id)
    WHERE status IN ('CONFIRMED', 'REJECTED', 'REFUNDED', 'VOIDED');
CREATE INDEX reservations_unpaid_by_end ON reservations (expires_at) WHERE status IN ('HELD', 'PAYING');
-- Due holds of one section: those of other sales, of which an outage may leave many, are not read.
CREATE INDEX reservations_unpaid_by_section ON reservations (event_id, section, expires_at) WHERE status IN ('HELD', 'PAYING') AND section <> '';

-- The places of a reservation, for good, each at the price and fee at which it was held. Those of general admission are written when they
-- are paid, with their tickets.
CREATE TABLE places (
    reservation_id uuid    NOT NULL REFERENCES reservations,
    -- From 1.
    n              integer NOT NULL CHECK (n > 0),
    event_id       text COLLATE "C" NOT NULL,
    section        text COLLATE "C" NOT NULL,
    -- NULL: general admission.
    seat_id        text COLLATE "C",
    -- Whose price it is; empty: the section's own.
    price_type     text COLLATE "C" NOT NULL DEFAULT '',
    price          bigint NOT NULL CHECK (price >= 0),
    fee            bigint NOT NULL DEFAULT 0 CHECK (fee >= 0),
    -- The reservation is HELD, PAYING or CONFIRMED, and the place was neither given back nor voided.
    live           boolean NOT NULL DEFAULT true,
    PRIMARY KEY (reservation_id, n)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
-- What makes it impossible to sell a seat twice, whatever the code does.
CREATE UNIQUE INDEX places_one_live ON places (event_id, seat_id) WHERE live AND seat_id IS NOT NULL;

-- Orders without a payment, from the house, by name.
CREATE TABLE comps (
    reservation_id uuid PRIMARY KEY REFERENCES reservations,
    event_id       text COLLATE "C" NOT NULL,
    name           text        NOT NULL CHECK (name <> ''),
    -- SHA-256 of what its link carries; NULL: it was made for a user. Until somebody claims it, its user_id is empty.
    claim_hash     bytea UNIQUE
);
CREATE INDEX comps_by_event ON comps (event_id, reservation_id);

-- A place that is passed on gets a new ticket; the one before stays, as TRANSFERRED.
CREATE TABLE tickets (
    ticket_id      uuid PRIMARY KEY,
    reservation_id uuid        NOT NULL,
    n              integer     NOT NULL,
    -- The ticket that was passed on for this one.
    prev           uuid REFERENCES tickets,
    event_id       text COLLATE "C" NOT NULL,
    user_id        text COLLATE "C" NOT NULL,
    section        text        NOT NULL,
    -- NULL: general admission.
    seat_id        text COLLATE "C",
    -- Face value.
    price          bigint      NOT NULL CHECK (price >= 0),
    -- What its holder has paid for it: price and fee, or the price of the transfer; 0: a gift.
    paid           bigint      NOT NULL,
    -- The part of paid that is the fee.
    fee            bigint      NOT NULL,
    -- What was given back on its account, or has been promised to be.
    given          bigint      NOT NULL DEFAULT 0,
    currency       text        NOT NULL,
    -- By which it was paid. Tickets of a sale name one, also if they cost nothing.
    payment_id     uuid,
    -- The amount of that payment, if the provider can give it back as a whole only; 0: also in parts.
    only_whole     bigint      NOT NULL DEFAULT 0 CHECK (only_whole >= 0),
    status         text        NOT NULL CHECK (status IN
                       ('VALID', 'USED', 'TRANSFERRING', 'TRANSFERRED', 'REFUNDING', 'REFUNDED', 'VOIDED')),
    -- The event's epoch in which it was used last (valid_now).
    used_epoch     integer     NOT NULL DEFAULT 1,
    -- The claim that ends it.
    refund_id      uuid,
    -- Its payer disputes the charge at the bank.
    disputed       boolean     NOT NULL DEFAULT false,
    -- The version of the payment that says so; an older one changes nothing.
    disputed_as_of bigint      NOT NULL DEFAULT 0,
    -- Part of the signed code, so that issuing a new code voids the one before.
    serial         integer     NOT NULL DEFAULT 1 CHECK (serial > 0),
    issued_at      timestamptz NOT NULL DEFAULT now(),
    -- When its holder held the place, or accepted the ticket: the terms of that time were shown.
    chosen_at      timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (reservation_id, n) REFERENCES places,
    CHECK (fee BETWEEN 0 AND paid),
    CHECK (given BETWEEN 0 AND paid),
    CHECK (payment_id IS NOT NULL OR paid = 0),
    CHECK (status <> 'REFUNDING' OR refund_id IS NOT NULL)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX tickets_by_user ON tickets (user_id, ticket_id);
-- The id is for the lists of doors, which go along it.
CREATE INDEX tickets_by_event ON tickets (event_id, user_id, ticket_id);
-- A door's list counts them.
CREATE INDEX tickets_transferring ON tickets (event_id) WHERE status = 'TRANSFERRING';
CREATE UNIQUE INDEX tickets_passed_on_once ON tickets (prev) WHERE prev IS NOT NULL;
-- Tickets that were passed on to a user count for the limit.
CREATE INDEX tickets_passed_on ON tickets (event_id, user_id) WHERE prev IS NOT NULL;
CREATE INDEX tickets_by_payment ON tickets (payment_id) WHERE payment_id IS NOT NULL;
-- A place admits one person, seated or not.
CREATE UNIQUE INDEX tickets_one_live ON tickets (reservation_id, n) WHERE status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED');
CREATE UNIQUE INDEX tickets_one_per_seat ON tickets (event_id, seat_id) WHERE status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED');
-- What is not in the two before, for operators who search.
CREATE INDEX tickets_ended_by_order ON tickets (reservation_id) WHERE status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED');
CREATE INDEX tickets_ended_by_seat ON tickets (event_id, seat_id) WHERE status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED');

-- Who has voided which tickets, and why.
CREATE TABLE voids (
    ticket_id uuid PRIMARY KEY REFERENCES tickets,
    operator  text        NOT NULL CHECK (operator <> ''),
    reason    text        NOT NULL CHECK (reason <> ''),
    voided_at timestamptz NOT NULL
);

-- Whether a ticket is valid now. One that was used before its event was postponed, in an earlier epoch, counts as VALID: a postponement does
-- not write all tickets.
CREATE FUNCTION valid_now(status text, used_epoch integer, epoch integer) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status = 'VALID' OR (status = 'USED' AND used_epoch < epoch);

-- Offers of tickets to other users.
CREATE TABLE transfers (
    transfer_id uuid PRIMARY KEY,
    ticket_id   uuid        NOT NULL REFERENCES tickets,
    event_id    text COLLATE "C" NOT NULL,
    seller      text COLLATE "C" NOT NULL,
    -- SHA-256 of what its link carries; the link before is void.
    claim_hash  bytea       NOT NULL UNIQUE,
    -- Only this user may accept it; NULL: whoever has the link.
    to_user     text COLLATE "C",
    price       bigint      NOT NULL CHECK (price >= 0),
    currency    text        NOT NULL,
    status      text        NOT NULL CHECK (status IN ('OPEN', 'AWAITING_PAYMENT', 'COMPLETED', 'CANCELLED', 'EXPIRED')),
    -- Why it is CANCELLED or EXPIRED.
    reason      text        NOT NULL DEFAULT '',
    -- Until when it can be accepted.
    deadline    timestamptz NOT NULL,
    buyer       text COLLATE "C",
    -- End of the buyer's time to pay, and what it was before payments extended it.
    pay_until   timestamptz,
    pay_ends_at timestamptz,
    -- How many buyers have not paid.
    unpaid      integer     NOT NULL DEFAULT 0,
    -- The payment that is under way, or has paid; charging: it may have been charged. Until then the offer may be given up.
    payment_id  uuid,
    charging    boolean     NOT NULL DEFAULT false,
    -- As in reservations, by any buyer.
    begun       uuid[]      NOT NULL DEFAULT '{}',
    -- How many payment pages this buyer has opened.
    opens       integer     NOT NULL DEFAULT 0,
    new_ticket  uuid REFERENCES tickets,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    CHECK ((status = 'AWAITING_PAYMENT') = (pay_until IS NOT NULL)),
    CHECK (status <> 'AWAITING_PAYMENT' OR num_nulls(buyer, pay_ends_at) = 0),
    CHECK (NOT charging OR (status = 'AWAITING_PAYMENT' AND payment_id IS NOT NULL)),
    CHECK ((status = 'COMPLETED') = (new_ticket IS NOT NULL)),
    CHECK ((status IN ('CANCELLED', 'EXPIRED')) = (reason <> ''))
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE UNIQUE INDEX transfers_one_open ON transfers (ticket_id) WHERE status IN ('OPEN', 'AWAITING_PAYMENT');
-- Places that a user is about to get count for the limit.
CREATE INDEX transfers_awaited ON transfers (event_id, buyer) WHERE status = 'AWAITING_PAYMENT';
CREATE INDEX transfers_due ON transfers ((coalesce(pay_until, deadline))) WHERE status IN ('OPEN', 'AWAITING_PAYMENT');
CREATE INDEX transfers_open_of_event ON transfers (event_id) WHERE status IN ('OPEN', 'AWAITING_PAYMENT');
CREATE INDEX transfers_by_seller ON transfers (seller, transfer_id);
CREATE INDEX transfers_by_buyer ON transfers (buyer, transfer_id) WHERE buyer IS NOT NULL;
CREATE INDEX transfers_to_user ON transfers (to_user, transfer_id) WHERE to_user IS NOT NULL;

-- Where, and in which language, the users who have accepted an offer are written to, also those who have not paid in time.
CREATE TABLE transfer_contacts (
    transfer_id uuid REFERENCES transfers,
    user_id     text COLLATE "C",
    email       text NOT NULL,
    language    text NOT NULL,
    -- The user has given the offer up, and cannot accept it again.
    gave_up     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (transfer_id, user_id)
);

-- What memberships are sold. Nothing of a plan changes but whether it is on sale.
CREATE TABLE membership_plans (
    plan_id    text COLLATE "C" PRIMARY KEY,
    name       text        NOT NULL CHECK (name <> ''),
    price      bigint      NOT NULL CHECK (price >= 0),
    currency   text        NOT NULL,
    months     integer     NOT NULL CHECK (months > 0),
    on_sale    boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL
);
CREATE INDEX membership_plans_on_sale ON membership_plans (plan_id) WHERE on_sale;

CREATE TABLE memberships (
    membership_id uuid PRIMARY KEY,
    user_id       text COLLATE "C" NOT NULL,
    plan_id       text COLLATE "C" NOT NULL REFERENCES membership_plans,
    -- As in reservations.
    email         text        NOT NULL DEFAULT '',
    language      text        NOT NULL DEFAULT '',
    -- As they were when it was bought.
    price         bigint      NOT NULL CHECK (price >= 0),
    currency      text        NOT NULL,
    months        integer     NOT NULL CHECK (months > 0),
    status        text        NOT NULL CHECK (status IN ('PENDING', 'ACTIVE', 'REFUNDING', 'ENDED', 'CANCELLED')),
    -- End of the time to pay, and what it was before payments extended it.
    pay_until     timestamptz NOT NULL,
    pay_ends_at   timestamptz NOT NULL,
    -- The payment that is under way, or has paid.
    payment_id    uuid,
    -- As in reservations.
    begun         uuid[]      NOT NULL DEFAULT '{}',
    -- How many payment pages were opened.
    opens         integer     NOT NULL DEFAULT 0,
    -- When it was paid, and its time, which begins later if it extends another one.
    activated_at  timestamptz,
    starts_at     timestamptz,
    ends_at       timestamptz,
    given         bigint      NOT NULL DEFAULT 0 CHECK (given BETWEEN 0 AND price),
    refund_id     uuid,
    version       bigint      NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL,
    CHECK (status IN ('PENDING', 'CANCELLED') OR num_nulls(payment_id, activated_at, starts_at, ends_at) = 0),
    CHECK (status NOT IN ('PENDING', 'CANCELLED') OR num_nonnulls(activated_at, starts_at, ends_at, refund_id) + given = 0),
    -- Else a late confirmation would be taken for one that was answered.
    CHECK (status <> 'CANCELLED' OR payment_id IS NULL),
    CHECK (status NOT IN ('REFUNDING', 'ENDED') OR (refund_id IS NOT NULL AND given = price)),
    CHECK (status <> 'ACTIVE' OR (refund_id IS NULL AND given = 0)),
    CHECK (starts_at < ends_at)
) WITH (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE UNIQUE INDEX memberships_one_pending ON memberships (user_id, plan_id) WHERE status = 'PENDING';
-- Without the second condition PostgreSQL would also read it for a user's purchase, while it is small.
CREATE INDEX memberships_due ON memberships (pay_until) WHERE status = 'PENDING' AND pay_until IS NOT NULL;
CREATE INDEX memberships_by_user ON memberships (user_id, membership_id);
CREATE UNIQUE INDEX memberships_by_payment ON memberships (payment_id) WHERE payment_id IS NOT NULL;
-- Who is or was a member, and what a new membership extends.
CREATE INDEX memberships_held ON memberships (plan_id, user_id, ends_at) WHERE status IN ('ACTIVE', 'REFUNDING', 'ENDED');

-- Lists of users who may buy in a presale. An upload makes a list of its own, which becomes the CURRENT one when it is complete. One that was
-- replaced stays readable as long as the record of the act: an hour later its entries move to entitlement_packs (PACKED), of a tenth of the
-- size. The entries of uploads that were not finished are deleted.
CREATE TABLE entitlement_lists (
    upload_id  uuid PRIMARY KEY,
    event_id   text COLLATE "C" NOT NULL REFERENCES events,
    list       text COLLATE "C" NOT NULL,
    status     text        NOT NULL CHECK (status IN ('UPLOADING', 'CURRENT', 'OLD', 'PACKED')),
    user_ids   bigint      NOT NULL DEFAULT 0,
    emails     bigint      NOT NULL DEFAULT 0,
    -- How many of its entries the list before it lacked, and how many of that one's it lacks.
    added      bigint      NOT NULL DEFAULT 0,
    removed    bigint      NOT NULL DEFAULT 0,
    -- The digest of the uploaded file, and who uploaded it.
    sha256     text        NOT NULL DEFAULT '',
    uploaded_by text COLLATE "C" NOT NULL,
    -- When it became CURRENT.
    finished_at timestamptz,
    -- The beginning of the upload, later its end, at last the end of the list.
    updated_at timestamptz NOT NULL,
    CHECK (status = 'UPLOADING' OR finished_at IS NOT NULL)
);
CREATE UNIQUE INDEX entitlement_lists_current ON entitlement_lists (event_id, list) WHERE status = 'CURRENT';
CREATE INDEX entitlement_lists_versions ON entitlement_lists (event_id, list, upload_id);
CREATE INDEX entitlement_lists_to_drop ON entitlement_lists (updated_at) WHERE status <> 'CURRENT';
CREATE TABLE entitlement_entries (
    upload_id uuid    NOT NULL REFERENCES entitlement_lists,
    -- The value is a verified e-mail address, else a user id.
    is_email  boolean NOT NULL,
    value     text COLLATE "C" NOT NULL,
    PRIMARY KEY (upload_id, is_email, value)
);
-- The first entries of a list that was replaced, many in a row, sorted.
CREATE TABLE entitlement_packs (
    upload_id uuid    NOT NULL REFERENCES entitlement_lists,
    is_email  boolean NOT NULL,
    last      text COLLATE "C" NOT NULL,
    entries   text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (upload_id, is_email, last)
);

-- Codes for a presale. Only their hashes are stored.
CREATE TABLE code_batches (
    batch_id     uuid PRIMARY KEY,
    event_id     text COLLATE "C" NOT NULL REFERENCES events,
    code_list    text COLLATE "C" NOT NULL,
    count        integer     NOT NULL CHECK (count > 0),
    -- How many accounts may use each code.
    uses         integer     NOT NULL CHECK (uses > 0),
    created_at   timestamptz NOT NULL,
    withdrawn_at timestamptz
);
CREATE INDEX code_batches_by_event ON code_batches (event_id, batch_id);
CREATE TABLE codes (
    code_hash bytea PRIMARY KEY,
    batch_id  uuid    NOT NULL REFERENCES code_batches,
    uses      integer NOT NULL,
    used      integer NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses)
);
CREATE INDEX codes_by_batch ON codes (batch_id);
CREATE TABLE used_codes (
    event_id  text COLLATE "C" NOT NULL,
    user_id   text COLLATE "C" NOT NULL,
    code_hash bytea       NOT NULL REFERENCES codes,
    batch_id  uuid        NOT NULL REFERENCES code_batches,
    used_at   timestamptz NOT NULL,
    PRIMARY KEY (event_id, user_id, code_hash)
);
-- Wrong codes by user and hour. The row is the lock under which a user's codes are tried, one after the other.
CREATE TABLE wrong_codes (
    user_id text COLLATE "C" NOT NULL,
    hour    timestamptz NOT NULL,
    wrong   integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, hour)
);
CREATE INDEX wrong_codes_by_hour ON wrong_codes (hour);

-- The tickets, or the membership, that refunds end. Every answer to a refund is kept, also a refusal, and also the end of a refund that has claimed nothing yet:
-- a call that was delayed on its way must claim nothing.
CREATE TABLE refund_claims (
    refund_id       uuid PRIMARY KEY,
    -- NULL: aborted before it began.
    payment_id      uuid,
    cause           text        NOT NULL DEFAULT '' CHECK (cause IN ('', 'USER', 'OPERATOR', 'EVENT_CANCELLED', 'BY_HAND')),
    status          text        NOT NULL CHECK (status IN ('BEGUN', 'DONE', 'ABORTED', 'REFUSED')),
    -- Why it was refused.
    reason          text        NOT NULL DEFAULT '',
    -- When its tickets left VALID; places of claims that began after the event's closes_at are not sold again.
    begun_at        timestamptz NOT NULL,
    -- The tickets, and what each gives back.
    ticket_ids      uuid[]      NOT NULL DEFAULT '{}',
    amounts         bigint[]    NOT NULL DEFAULT '{}',
    -- The membership, and what it gives back.
    membership_id   uuid,
    membership_amount bigint    NOT NULL DEFAULT 0,
    -- What it would have given back, if it was refused since that is less than was shown.
    present_amount  bigint      NOT NULL DEFAULT 0,
    -- Tickets that were not claimed, and why.
    problem_ids     uuid[]      NOT NULL DEFAULT '{}',
    problem_reasons text[]      NOT NULL DEFAULT '{}',
    CHECK (status = 'ABORTED' OR (payment_id IS NOT NULL AND cause <> '')),
    CHECK ((status = 'REFUSED') = (reason <> '')),
    CHECK (cardinality(ticket_ids) = cardinality(amounts)),
    CHECK (membership_id IS NULL OR cardinality(ticket_ids) = 0),
    CHECK (cardinality(problem_ids) = cardinality(problem_reasons))
);
-- They are deleted when no call about them can claim anything any more.
CREATE INDEX refund_claims_refused ON refund_claims (begun_at) WHERE status IN ('ABORTED', 'REFUSED');

-- Payments that pay for nothing, for good: rejected for this reason, or REFUNDED before their confirmation was heard.
CREATE TABLE ended_payments (
    payment_id uuid PRIMARY KEY,
    why        text NOT NULL CHECK (why <> '')
);

-- What doors have scanned: whom they admitted, and the scans without a network that should not have admitted anybody.
CREATE TABLE scans (
    event_id    text COLLATE "C" NOT NULL,
    -- Made by the device, or for a check-in by ticket.
    scan_id     uuid        NOT NULL,
    -- The order in which they were recorded, but for those of concurrent transactions.
    n           bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- NULL: the code was not genuine.
    ticket_id   uuid,
    -- The event's epoch at the door.
    epoch       integer     NOT NULL,
    device      text        NOT NULL,
    -- Who checked in, or uploaded.
    user_id     text        NOT NULL,
    -- ADMITTED, UNDONE, or why it is a conflict.
    result      text        NOT NULL CHECK (result <> ''),
    -- By the clock of a door without a network.
    scanned_at  timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- Whether the published counts of check-ins include it.
    counted     boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, scan_id),
    CHECK (result NOT IN ('ADMITTED', 'UNDONE') OR ticket_id IS NOT NULL)
);
-- A ticket admits one person, on each date to which the event is postponed.
CREATE UNIQUE INDEX scans_admitted_once ON scans (event_id, epoch, ticket_id) WHERE result = 'ADMITTED';
CREATE INDEX scans_by_ticket ON scans (ticket_id) WHERE ticket_id IS NOT NULL;
CREATE INDEX scans_to_count ON scans (recorded_at) WHERE counted <> (result = 'ADMITTED');
CREATE INDEX scans_conflicts ON scans (event_id, n) WHERE result NOT IN ('ADMITTED', 'UNDONE');

-- Receivers of notices. The secrets are stored as they are, since they sign.
CREATE TABLE webhooks (
    webhook_id    uuid PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9-]{1,40}$'),
    url           text        NOT NULL,
    types         text[]      NOT NULL,
    secret        text        NOT NULL CHECK (secret <> ''),
    -- Signs as well until then.
    former_secret text,
    former_until  timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    CHECK ((former_secret IS NULL) = (former_until IS NULL))
);

-- What happened to tickets and events, for webhooks and e-mails. Kept for 30 days.
CREATE TABLE notices (
    notice_id  uuid PRIMARY KEY,
    -- The order of the notices about one entity, whose row their transactions have locked.
    n          bigint GENERATED ALWAYS AS IDENTITY,
    type       text        NOT NULL,
    -- The order, the event, or what a rejected payment was for: its notices are sent in order.
    entity     text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    -- json keeps the text as it is: a notice that is sent again has the same bytes.
    data       json        NOT NULL,
    created_at timestamptz NOT NULL,
    -- Its deliveries are written; of an event's notice walked_to is the last order that has its e-mails.
    walked     boolean     NOT NULL DEFAULT false,
    walked_to  uuid
) WITH (fillfactor = 80,
        autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX notices_to_walk ON notices (n) WHERE NOT walked;
CREATE INDEX notices_by_time ON notices (created_at);

-- What is sent to webhooks, and as e-mails.
CREATE TABLE deliveries (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The webhook; 0: e-mails about one order; 1: e-mails to everybody with a ticket of an event.
    lane         uuid        NOT NULL,
    notice_id    uuid        NOT NULL REFERENCES notices ON DELETE CASCADE,
    -- The deliveries of a lane about one entity go one after the other, by seq.
    entity       text COLLATE "C" NOT NULL,
    -- Of e-mails only: to whom.
    user_id      text COLLATE "C" NOT NULL DEFAULT '',
    email        text        NOT NULL DEFAULT '',
    language     text        NOT NULL DEFAULT '',
    state        text        NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'DELIVERED', 'FAILED')),
    -- Counts all tries; who sends one writes its outcome only while the number is its own.
    attempts     integer     NOT NULL DEFAULT 0,
    -- Failures since tried_from, when it was first tried, or first tried again after a replay.
    failures     integer     NOT NULL DEFAULT 0,
    tried_from   timestamptz,
    -- When it is tried next; of one that is being sent, when others may try.
    next_at      timestamptz NOT NULL,
    last_status  integer     NOT NULL DEFAULT 0,
    last_error   text        NOT NULL DEFAULT '',
    delivered_at timestamptz,
    CHECK ((state = 'DELIVERED') = (delivered_at IS NOT NULL))
) WITH (fillfactor = 70,
        autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
CREATE UNIQUE INDEX deliveries_once ON deliveries (lane, notice_id, user_id);
CREATE INDEX deliveries_of_notice ON deliveries (notice_id);
CREATE INDEX deliveries_due ON deliveries (lane, next_at) WHERE state = 'PENDING';
CREATE INDEX deliveries_in_order ON deliveries (lane, entity, seq) WHERE state = 'PENDING';
CREATE INDEX deliveries_failed ON deliveries (lane) WHERE state = 'FAILED';

-- +goose Down
DROP TABLE deliveries, notices, webhooks, wrong_codes, used_codes, codes, code_batches, entitlement_packs, entitlement_entries, entitlement_lists, scans,
    ended_payments, refund_claims, memberships, membership_plans, transfer_contacts, transfers, voids, tickets, comps, places, reservations,
    line_acts, line_settings, seat_changes_pruned, seat_changes, returns, seats, price_types, payment_limits, sections, former_terms, events;
DROP FUNCTION seats_changed, seat_state, valid_now;
