-- +goose Up
CREATE TABLE campaigns (
    event_id         text        PRIMARY KEY,
    title            text        NOT NULL,
    kind             text        NOT NULL CHECK (kind IN ('ATTENDANCE', 'RANDOM', 'REQUEST_WINNERS')),
    opens_at         timestamptz NOT NULL,
    closes_at        timestamptz NOT NULL CHECK (closes_at > opens_at),
    -- REQUEST_WINNERS: the promotion whose winners are rewarded.
    promotion_id     text,
    -- ATTENDANCE: the reward of each day; REQUEST_WINNERS: that of each winner.
    daily_kind       text        CHECK (daily_kind IN ('POINT', 'COUPON')),
    daily_value      bigint      CHECK (daily_value > 0),
    draws_per_member integer     NOT NULL DEFAULT 1 CHECK (draws_per_member > 0),
    -- What draws_per_member counts: the whole campaign, or a day in Korea.
    period           text        NOT NULL DEFAULT 'CAMPAIGN' CHECK (period IN ('CAMPAIGN', 'DAY')),
    -- How many members come within how many seconds from the opening; 0: nothing is expected.
    expected_visitors bigint   NOT NULL DEFAULT 0 CHECK (expected_visitors >= 0),
    expected_within  integer   NOT NULL DEFAULT 0 CHECK (expected_within >= 0),
    -- Set first; the allocations follow in chunks, and then cancel_done_at.
    cancelled_at     timestamptz,
    cancel_restock   boolean     NOT NULL DEFAULT false,
    cancel_done_at   timestamptz,
    -- REQUEST_WINNERS: the last of the earlier winners that has been rewarded, and when all of them
    -- were.
    winners_after    text        NOT NULL DEFAULT '',
    winners_done_at  timestamptz,
    -- Set to retry what has failed for good, in chunks; NULL again at the end. retry_after is the last
    -- allocation that was looked at.
    retry_at         timestamptz,
    retry_after      bigint      NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((daily_kind IS NULL) = (daily_value IS NULL)),
    CHECK ((expected_visitors > 0) = (expected_within > 0)),
    CHECK ((kind = 'REQUEST_WINNERS') = (promotion_id IS NOT NULL))
);
CREATE INDEX campaigns_cancelling ON campaigns (event_id) WHERE cancelled_at IS NOT NULL AND cancel_done_at IS NULL;
CREATE INDEX campaigns_winners ON campaigns (event_id) WHERE kind = 'REQUEST_WINNERS' AND winners_done_at IS NULL AND cancelled_at IS NULL;
CREATE INDEX campaigns_expected ON campaigns (opens_at) WHERE expected_visitors > 0;
CREATE INDEX campaigns_retrying ON campaigns (event_id) WHERE retry_at IS NOT NULL;
CREATE INDEX campaigns_promotion ON campaigns (promotion_id) WHERE promotion_id IS NOT NULL;

CREATE TABLE milestones (
    event_id text    NOT NULL REFERENCES campaigns,
    -- Length of the streak, in days.
    day      integer NOT NULL CHECK (day > 0),
    kind     text    NOT NULL CHECK (kind IN ('POINT', 'COUPON')),
    value    bigint  NOT NULL CHECK (value > 0),
    -- Paid at each multiple of the day, not once per member.
    every    boolean NOT NULL,
    PRIMARY KEY (event_id, day)
);

CREATE TABLE prizes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id text   NOT NULL REFERENCES campaigns,
    name     text   NOT NULL,
    -- NONE is a blank.
    kind     text   NOT NULL CHECK (kind IN ('POINT', 'COUPON', 'NONE')),
    value    bigint NOT NULL CHECK (value >= 0),
    weight   bigint NOT NULL CHECK (weight > 0),
    -- NULL is without limit.
    stock    bigint CHECK (stock >= 0),
    initial  bigint,
    UNIQUE (event_id, name)
);

-- One row per attendance, draw or winner. Entries and allocations have no foreign key to the campaign
-- and the prize, which are never deleted: each check would lock the one row of a busy campaign.
CREATE TABLE event_entry (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   text        NOT NULL,
    member_id  text        NOT NULL,
    -- ATTENDANCE and draws per day: the day in Korea, as 2026-03-07; other draws: CAMPAIGN;
    -- winners: the request's id.
    period     text        NOT NULL,
    draw_no    integer     NOT NULL DEFAULT 1,
    -- ATTENDANCE: consecutive days, this one included.
    streak     integer     NOT NULL DEFAULT 0,
    prize_id   bigint,
    created_at timestamptz NOT NULL,
    UNIQUE (event_id, member_id, period, draw_no)
);

CREATE TABLE event_reward_allocation (
    id                      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id                text        NOT NULL,
    member_id               text        NOT NULL,
    entry_id                bigint      NOT NULL REFERENCES event_entry,
    -- Frozen at the entry: a later change of the campaign does not apply.
    reward_kind             text        NOT NULL CHECK (reward_kind IN ('POINT', 'COUPON')),
    reward_value            bigint      NOT NULL CHECK (reward_value > 0),
    reason                  text        NOT NULL CHECK (reason IN ('DAILY', 'MILESTONE', 'DRAW', 'WINNER')),
    -- MILESTONE: its length in days.
    milestone               integer,
    reward_status           text        NOT NULL DEFAULT 'PENDING'
        CHECK (reward_status IN ('PENDING', 'PROCESSING', 'SUCCESS', 'FAILED', 'CANCELLED')),
    idempotency_key         text        NOT NULL UNIQUE,
    -- A voided key is never paid: what is sent is the key with "-R" and this number, above 0.
    resends                 integer     NOT NULL DEFAULT 0,
    external_transaction_id text,
    processed_at            timestamptz,
    retry_count             integer     NOT NULL DEFAULT 0,
    -- NULL: nothing is due.
    next_retry_at           timestamptz DEFAULT now(),
    error_code              text,
    error_message           text,
    -- Fencing number of the worker that holds the row, and version of the entity in its events.
    version                 bigint      NOT NULL DEFAULT 1,
    -- In no index, so that heartbeats are HOT updates.
    lease_until             timestamptz,
    -- Time of the oldest call whose outcome is unknown.
    unknown_since           timestamptz,
    -- Time of the first failure, while the row is tried again.
    failing_since           timestamptz,
    -- Time of the newest call that may have paid.
    last_call_at            timestamptz,
    -- The provider is asked before anything is sent again.
    ask_first               boolean     NOT NULL DEFAULT false,
    cancel_requested_at     timestamptz,
    -- Cancelling gives the prize back to the stock.
    restock                 boolean     NOT NULL DEFAULT false,
    -- How often the row was taken over from a worker whose lease had ended, since its last outcome.
    recoveries              integer     NOT NULL DEFAULT 0,
    voided_at               timestamptz,
    -- An operator must decide.
    held_at                 timestamptz,
    created_at              timestamptz NOT NULL DEFAULT now(),
    CHECK ((reward_status = 'PROCESSING') = (lease_until IS NOT NULL)),
    CHECK (reward_status <> 'SUCCESS' OR external_transaction_id IS NOT NULL)
);
-- The kind comes first, since each kind has its provider: rows of a slow provider delay no other.
CREATE INDEX idx_reward_grant_retry_queue ON event_reward_allocation (reward_kind, reward_status, next_retry_at)
    WHERE reward_status IN ('PENDING', 'FAILED') AND next_retry_at IS NOT NULL;
CREATE INDEX reward_processing ON event_reward_allocation (reward_kind, id) WHERE reward_status = 'PROCESSING';
-- Given up, until somebody retries or cancels them.
CREATE INDEX reward_unpaid ON event_reward_allocation (reward_kind) WHERE reward_status = 'FAILED' AND next_retry_at IS NULL AND held_at IS NULL;
CREATE INDEX reward_held ON event_reward_allocation (reward_kind) WHERE held_at IS NOT NULL;
CREATE INDEX reward_unknown ON event_reward_allocation (reward_kind, unknown_since) WHERE unknown_since IS NOT NULL AND held_at IS NULL;
CREATE INDEX reward_failing ON event_reward_allocation (reward_kind, failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX reward_milestones ON event_reward_allocation (event_id, member_id, milestone) WHERE milestone IS NOT NULL;
CREATE INDEX reward_member ON event_reward_allocation (member_id, id);
CREATE INDEX reward_event ON event_reward_allocation (event_id, reward_status, id);
CREATE INDEX reward_status ON event_reward_allocation (reward_status, id);

-- How many allocations of a campaign are in a status, kept by the statements that change them. Each
-- session adds to one of 16 parts, so that payouts seldom wait for each other.
CREATE TABLE campaign_totals (
    event_id      text    NOT NULL,
    reward_status text    NOT NULL,
    part          integer NOT NULL,
    allocations   bigint  NOT NULL,
    points        bigint  NOT NULL,
    held          bigint  NOT NULL,
    unknown       bigint  NOT NULL,
    PRIMARY KEY (event_id, reward_status, part)
) WITH (fillfactor = 50);

-- +goose StatementBegin
CREATE FUNCTION count_inserted_allocations() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO campaign_totals AS t (event_id, reward_status, part, allocations, points, held, unknown)
    SELECT event_id, reward_status, pg_backend_pid() % 16, count(*), coalesce(sum(reward_value) FILTER (WHERE reward_kind = 'POINT'), 0),
           count(held_at), count(unknown_since)
    FROM added GROUP BY event_id, reward_status ORDER BY event_id, reward_status
    ON CONFLICT (event_id, reward_status, part) DO UPDATE
    SET allocations = t.allocations + excluded.allocations, points = t.points + excluded.points,
        held = t.held + excluded.held, unknown = t.unknown + excluded.unknown;
    RETURN NULL;
END $$;

CREATE FUNCTION count_updated_allocations() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO campaign_totals AS t (event_id, reward_status, part, allocations, points, held, unknown)
    SELECT event_id, reward_status, pg_backend_pid() % 16, sum(n), sum(points), sum(held), sum(unknown)
    FROM (
        SELECT event_id, reward_status, 1 AS n, CASE reward_kind WHEN 'POINT' THEN reward_value ELSE 0 END AS points,
               CASE WHEN held_at IS NULL THEN 0 ELSE 1 END AS held, CASE WHEN unknown_since IS NULL THEN 0 ELSE 1 END AS unknown
        FROM added
        UNION ALL
        SELECT event_id, reward_status, -1, CASE reward_kind WHEN 'POINT' THEN -reward_value ELSE 0 END,
               CASE WHEN held_at IS NULL THEN 0 ELSE -1 END, CASE WHEN unknown_since IS NULL THEN 0 ELSE -1 END
        FROM removed
    ) AS changes
    GROUP BY event_id, reward_status
    HAVING sum(n) <> 0 OR sum(points) <> 0 OR sum(held) <> 0 OR sum(unknown) <> 0
    ORDER BY event_id, reward_status
    ON CONFLICT (event_id, reward_status, part) DO UPDATE
    SET allocations = t.allocations + excluded.allocations, points = t.points + excluded.points,
        held = t.held + excluded.held, unknown = t.unknown + excluded.unknown;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER count_inserted AFTER INSERT ON event_reward_allocation
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_inserted_allocations();
CREATE TRIGGER count_updated AFTER UPDATE ON event_reward_allocation
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_updated_allocations();

-- Every call to a provider; inserted by the claim, before the call. allocation_id has no foreign
-- key: the claim reads it from the row that it has locked, rows are never deleted, and the check
-- takes a fifth of the claim's time.
CREATE TABLE reward_call (
    allocation_id bigint      NOT NULL,
    version       bigint      NOT NULL,
    action        text        NOT NULL CHECK (action IN ('PAY', 'ASK')),
    sent_at       timestamptz NOT NULL,
    ended_at      timestamptz,
    outcome       text,
    error         text,
    PRIMARY KEY (allocation_id, version)
);

-- Winners of promotions as they are announced; a campaign that is created later rewards them too.
CREATE TABLE winners (
    request_id   text        PRIMARY KEY,
    promotion_id text        NOT NULL,
    member_id    text        NOT NULL,
    announced_at timestamptz NOT NULL
);
CREATE INDEX winners_promotion ON winners (promotion_id, request_id);

-- Payouts that an operator has paused.
CREATE TABLE paused_providers (
    name      text        PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- PostgreSQL assumes at least ten pages for a table that was never vacuumed or analyzed, and
-- prefers an index. Once a small table has been vacuumed, reading all of it looks cheaper, and such
-- a plan stays cached while a campaign fills the table.
ALTER TABLE campaigns SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
ALTER TABLE prizes SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
ALTER TABLE event_entry SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
ALTER TABLE reward_call SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
ALTER TABLE winners SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
-- Each payout leaves two dead entries in the indexes of the queue, at their front, where every
-- claim reads. A share of all rows would let them grow with the number of finished rows.
ALTER TABLE event_reward_allocation SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = 10000, autovacuum_vacuum_scale_factor = 0.01);

-- +goose Down
DROP TABLE paused_providers;
DROP TABLE winners;
DROP TABLE reward_call;
DROP TABLE event_reward_allocation;
DROP FUNCTION count_inserted_allocations;
DROP FUNCTION count_updated_allocations;
DROP TABLE campaign_totals;
DROP TABLE event_entry;
DROP TABLE prizes;
DROP TABLE milestones;
DROP TABLE campaigns;
