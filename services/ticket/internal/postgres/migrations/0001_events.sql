-- +goose Up
CREATE TABLE events (
    event_id       text COLLATE "C" PRIMARY KEY CHECK (event_id ~ '^[A-Za-z0-9_-]{1,64}$'),
    title          text        NOT NULL,
    artist         text        NOT NULL,
    venue          text        NOT NULL,
    starts_at      timestamptz NOT NULL,
    sales_open_at  timestamptz NOT NULL,
    sales_close_at timestamptz NOT NULL CHECK (sales_close_at > sales_open_at),
    seating        text        NOT NULL CHECK (seating IN ('ASSIGNED', 'GENERAL')),
    currency       text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    max_per_user   integer     NOT NULL CHECK (max_per_user > 0),
    -- Seconds; NULL: the service's default.
    hold_seconds   integer     CHECK (hold_seconds > 0),
    -- What the operator last put for the line. The line's own settings may have been changed since (line_settings).
    slot_seconds   bigint,
    threshold      bigint,
    -- What operators did to the sale; whether it is on sale follows from this, the clock and the free seats.
    state          text        NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'PAUSED', 'CANCELLED')),
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX events_by_start ON events (starts_at, event_id);

-- Prices, and for general admission the counters: sold + held + free = capacity. With assigned seating the seats themselves are
-- counted, since a counter that every hold writes would make one queue of all of them.
CREATE TABLE sections (
    event_id      text COLLATE "C" NOT NULL REFERENCES events,
    section       text COLLATE "C" NOT NULL,
    ordinal       integer NOT NULL,
    price         bigint  NOT NULL CHECK (price >= 0),
    capacity      bigint  NOT NULL CHECK (capacity > 0),
    -- Assigned seating only; the index of the section's first seat counts the sections before it.
    seat_rows     integer,
    seats_per_row integer,
    first_idx     integer NOT NULL DEFAULT 0,
    -- General admission only; held includes holds whose time is over until someone frees them.
    held          bigint  NOT NULL DEFAULT 0,
    sold          bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, section),
    CONSTRAINT sections_never_oversold CHECK (held >= 0 AND sold >= 0 AND held + sold <= capacity),
    CHECK (num_nulls(seat_rows, seats_per_row) IN (0, 2)),
    CHECK (seat_rows IS NULL OR (capacity = seat_rows * seats_per_row AND held = 0 AND sold = 0))
) WITH (fillfactor = 50); -- room for the counters' next versions on the same page

-- One row per seat, as it is now. No index names status, reservation_id or held_until: a hold then rewrites the row on its page and no
-- index at all (HOT).
CREATE TABLE seats (
    event_id       text COLLATE "C" NOT NULL,
    seat_id        text COLLATE "C" NOT NULL,
    -- Position in the availability bitmap; also the order in which seats are locked.
    idx            integer NOT NULL,
    status         text    NOT NULL DEFAULT 'FREE' CHECK (status IN ('FREE', 'HELD', 'SOLD')),
    reservation_id uuid,
    -- The reservation's expires_at: whoever wants the seat sees without a join that it may be taken.
    held_until     timestamptz,
    PRIMARY KEY (event_id, seat_id),
    UNIQUE (event_id, idx),
    CHECK ((status = 'FREE') = (reservation_id IS NULL)),
    CHECK ((status = 'HELD') = (held_until IS NOT NULL))
) WITH (fillfactor = 70);

-- Settings of a waiting line; promotions and campaigns have lines too, so event_id need not be in events.
CREATE TABLE line_settings (
    event_id      text COLLATE "C" PRIMARY KEY,
    threshold     bigint,
    slot_seconds  bigint,
    paused        boolean     NOT NULL DEFAULT false,
    blocked_users text[]      NOT NULL DEFAULT '{}',
    updated_at    timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE line_settings, seats, sections, events;
