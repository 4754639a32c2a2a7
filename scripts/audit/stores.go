// Package audit checks a platform without its services: it reads the stores directly, by SQL, Redis
// commands, Kafka topics and the payment provider's ledger.
package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

// Stores are connections to all stores that an audit reads.
type Stores struct {
	ticket, payment, stats *pgxpool.Pool
	redis                  redis.UniversalClient
	brokers                []string
	topicPrefix            string
	ledgerURL              string
	providers              map[string]string // by name: the addresses of the fakes of other providers
	// read returns all records of a topic. It is topics.Read, except in tests that cache topics.
	read func(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error)
	// forged reports whether a test has forged the record with this id, so that it counts for nothing.
	// nil: none is forged.
	forged func(id string) bool
}

// Open connects to the stores of a running platform.
func Open(ctx context.Context, w platform.Wiring) (*Stores, error) {
	s := connect(w)
	if err := s.open(ctx, w); err != nil {
		s.Close()
		return nil, fmt.Errorf("audit: the stores are not all up: %w", err)
	}
	return s, nil
}

// IgnoreForged leaves the records out of the comparison that a test has forged.
func (s *Stores) IgnoreForged(forged func(id string) bool) { s.forged = forged }

func connect(w platform.Wiring) *Stores {
	fakes := map[string]string{platform.Stripe: w.StripeURL, platform.Toss: w.TossURL}
	maps.DeleteFunc(fakes, func(name, _ string) bool { return !slices.Contains(w.Providers, name) })
	return &Stores{
		providers: fakes,
		redis:     redis.NewUniversalClient(&redis.UniversalOptions{Addrs: w.RedisAddrs, DB: w.RedisDB, PoolSize: 4}),
		brokers:   w.KafkaBrokers, topicPrefix: w.KafkaPrefix,
		ledgerURL: w.SandboxURL + "/v1/ledger",
		read:      topics.Read,
	}
}

func (s *Stores) open(ctx context.Context, w platform.Wiring) error {
	if err := s.openPools(ctx, w); err != nil {
		return err
	}
	for name, pool := range map[string]*pgxpool.Pool{platform.Ticket: s.ticket, platform.Payment: s.payment, platform.Stats: s.stats} {
		if err := pool.Ping(ctx); err != nil {
			return fmt.Errorf("%s's database: %w", name, err)
		}
	}
	_, letters := s.DeadLetters(ctx)
	_, ledger := s.Charges(ctx)
	return errors.Join(s.redis.Ping(ctx).Err(), letters, ledger)
}

// openPools creates the connection pools of the databases, which connect on first use.
func (s *Stores) openPools(ctx context.Context, w platform.Wiring) error {
	for name, pool := range map[string]**pgxpool.Pool{platform.Ticket: &s.ticket, platform.Payment: &s.payment, platform.Stats: &s.stats} {
		service, err := platform.Lookup(name)
		if err != nil {
			return err
		}
		if *pool, err = pgxpool.New(ctx, w.DatabaseURL(service)); err != nil {
			return fmt.Errorf("%s's database: %w", name, err)
		}
	}
	return nil
}

func (s *Stores) Close() {
	for _, pool := range []*pgxpool.Pool{s.ticket, s.payment, s.stats} {
		if pool != nil {
			pool.Close()
		}
	}
	_ = s.redis.Close() // nothing was written
}

// Sales has the numbers of an event's sold seats and of seats with wrong records.
type Sales struct {
	Capacity int
	// Sold counts tickets that admit somebody: valid ones, used ones, and those in a refund or
	// transfer.
	Sold int
	// Oversold counts seats with more than one valid ticket or active reservation, plus all tickets
	// beyond the capacity.
	Oversold int
	// Unbalanced counts seats whose state contradicts their reservation, seats of an active
	// reservation that have the id of another one, paid reservations with a wrong number of seats, and
	// sections with wrong counters.
	Unbalanced int
}

func (s *Stores) Sales(ctx context.Context, eventID string) (Sales, error) {
	var out Sales
	var double int
	err := s.ticket.QueryRow(ctx, `
		WITH valid AS (SELECT seat_id, count(*) AS n FROM tickets
		               WHERE event_id = $1 AND status IN ('VALID', 'USED', 'REFUNDING', 'TRANSFERRING') GROUP BY seat_id),
		     live AS (SELECT p.reservation_id, p.section, p.seat_id, r.status
		              FROM places p JOIN reservations r USING (reservation_id)
		              WHERE p.event_id = $1 AND p.live AND r.status IN ('HELD', 'PAYING', 'CONFIRMED')),
		     booked AS (SELECT section, coalesce(sum(quantity) FILTER (WHERE status IN ('HELD', 'PAYING')), 0) AS held,
		                       coalesce(sum(quantity - released) FILTER (WHERE status = 'CONFIRMED'), 0) AS sold
		                FROM reservations WHERE event_id = $1 GROUP BY section)
		SELECT coalesce((SELECT sum(capacity) FROM sections WHERE event_id = $1), 0)::int,
		       coalesce((SELECT sum(n) FROM valid), 0)::int,
		       (SELECT count(*) FROM (SELECT seat_id FROM valid WHERE n > 1 AND seat_id IS NOT NULL
		                              UNION SELECT seat_id FROM live WHERE seat_id IS NOT NULL GROUP BY seat_id HAVING count(*) > 1) AS twice)::int,
		       ((SELECT count(*) FROM seats s LEFT JOIN reservations r USING (reservation_id)
		         WHERE s.event_id = $1 AND ((s.status = 'SOLD') <> coalesce(r.status = 'CONFIRMED', false)
		                                 OR (s.status = 'HELD') <> coalesce(r.status IN ('HELD', 'PAYING'), false)))
		        + (SELECT count(*) FROM live p LEFT JOIN seats s ON s.event_id = $1 AND s.seat_id = p.seat_id
		           WHERE p.seat_id IS NOT NULL AND s.reservation_id IS DISTINCT FROM p.reservation_id)
		        + (SELECT count(*) FROM reservations r WHERE r.event_id = $1 AND r.status IN ('CONFIRMED', 'REFUNDED', 'VOIDED')
		             AND r.quantity - r.released <> (SELECT count(*) FROM live p WHERE p.reservation_id = r.reservation_id))
		        + (SELECT count(*) FROM sections x LEFT JOIN booked b USING (section)
		           WHERE x.event_id = $1 AND x.seat_rows IS NULL
		             AND (x.sold <> coalesce(b.sold, 0)
		               OR (x.held - coalesce(b.held, 0), x.returns) <> (SELECT count(*) FILTER (WHERE r.unpaid), count(*) FILTER (WHERE NOT r.unpaid)
		                                                                FROM returns r WHERE r.event_id = $1 AND r.section = x.section)))
		        + (SELECT count(*) FROM sections x
		           WHERE x.event_id = $1 AND x.seat_rows IS NOT NULL
		             AND (x.sold <> (SELECT count(*) FROM live p WHERE p.section = x.section AND p.status = 'CONFIRMED')
		               OR (x.house, x.returns) <> (SELECT count(*) FILTER (WHERE s.status = 'HOUSE'), count(*) FILTER (WHERE s.status = 'RETURNED')
		                                           FROM seats s WHERE s.event_id = $1 AND split_part(s.seat_id, '-', 1) = x.section))))::int`,
		eventID).Scan(&out.Capacity, &out.Sold, &double, &out.Unbalanced)
	if err != nil {
		return out, fmt.Errorf("sales of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	out.Oversold = double + max(0, out.Sold-out.Capacity)
	return out, nil
}

// Reservations returns the number of an event's reservations by users whose ids begin with prefix.
func (s *Stores) Reservations(ctx context.Context, eventID, prefix string) (int, error) {
	var n int
	err := s.ticket.QueryRow(ctx, `SELECT count(*) FROM reservations WHERE event_id = $1 AND starts_with(user_id, $2)`, eventID, prefix).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("reservations of %s…: %w", prefix, unavailable(postgresStore(platform.Ticket), err))
	}
	return n, nil
}
