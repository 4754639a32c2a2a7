package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/scripts/internal/topics"
	"urr.guru/services/payment/sandbox"
)

// A consistent sale: one reservation is paid and has a ticket; one was paid late and refunded.
const (
	honestTicket = `
		INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, payment_id,
		                          expires_at, hold_ends_at)
		SELECT lpad(n::text, 32, '0')::uuid, 'e', 'u' || n, '', '', 1, 70, 'KRW', status, lpad('a' || n, 32, '0')::uuid, now(), now()
		FROM (VALUES (1, 'CONFIRMED'), (2, 'REJECTED')) AS v (n, status);
		INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, payment_id, status)
		VALUES (gen_random_uuid(), lpad('1', 32, '0')::uuid, 1, 'e', 'u1', 'A', 'A-1-1', 70, 70, 0, 'KRW', lpad('a1', 32, '0')::uuid, 'VALID');`
	honestPayment = `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, currency, provider, status, expires_at)
		SELECT lpad('a' || n, 32, '0')::uuid, 'o' || n, 'reservation', lpad(n::text, 32, '0')::uuid, 'u' || n, 'e', 70, 70, 'KRW', 'sandbox', status, now()
		FROM (VALUES (1, 'CONFIRMED'), (2, 'REFUNDED')) AS v (n, status);
		INSERT INTO refunds (id, payment_id, amount, send, cause, request, reason, status, published, provider, due_at, created_at)
		VALUES (gen_random_uuid(), lpad('a2', 32, '0')::uuid, 70, 70, 'COMPENSATION', '', '', 'DONE', true, 'sandbox', now(), now());`
	honestStats = `
		INSERT INTO figures.totals (event_id, figure, currency, amount, times, first_at, last_at)
		SELECT 'e', figure, currency, amount, times, now(), now()
		FROM (VALUES ('requests_succeeded', '', 2, 2), ('requests_rejected', '', 1, 1), ('requests_failed', '', 1, 1),
		             ('rewards_paid', '', 2, 2), ('rewards_failed', '', 1, 1), ('rewards_cancelled', '', 1, 1), ('points_paid', '', 500, 1),
		             ('created', '', 2, 2), ('confirmed', '', 1, 1), ('expired', '', 1, 1), ('rejected', '', 1, 1), ('seats_sold', '', 1, 1),
		             ('sale', 'KRW', 140, 2), ('sale_refund', 'KRW', 70, 1)) AS v (figure, currency, amount, times);` + minutesFromTotals
	minutesFromTotals = `
		INSERT INTO figures.minutes (event_id, minute, figure, currency, amount, times)
		SELECT event_id, first_at, figure, currency, amount, times FROM figures.totals ON CONFLICT DO NOTHING;`
)

// miscount returns SQL that adds amount and n to a figure of the stats service.
func miscount(figure string, amount, n int) (statements string) {
	for _, table := range []string{"totals", "minutes"} {
		statements += fmt.Sprintf(`UPDATE figures.%s SET amount = amount + %d, times = times + %d WHERE figure = '%s';`, table, amount, n, figure)
	}
	return statements
}

func honestLedger() map[string]*sandbox.Charge {
	return map[string]*sandbox.Charge{
		"o1": {OrderID: "o1", Amount: 70, Status: sandbox.Captured},
		"o2": {OrderID: "o2", Amount: 70, Status: sandbox.Captured, RefundedAmount: 70},
		"o3": {OrderID: "o3", Amount: 70, Status: sandbox.Declined},
	}
}

// honestEvents publishes the Kafka events of the sale to new topics, whose names begin with prefix.
// It publishes some twice, as a relay does after a crash.
func honestEvents(t *testing.T) (prefix string) {
	t.Helper()
	prefix = "test-audit-" + strings.ToLower(rand.Text()) + "."
	client := kafkaClient(t)
	admin := kadm.NewClient(client)
	reservations, payments, rewards := prefix+"reservation-events", prefix+"payment-events", prefix+"reward-events"
	requests := prefix + "request-events"
	names := []string{reservations, payments, rewards, requests, reservations + ".dlq", payments + ".dlq"}
	created, err := admin.CreateTopics(t.Context(), 3, 1, nil, names...)
	require.NoError(t, errors.Join(err, created.Error()))
	t.Cleanup(func() {
		_, err := admin.DeleteTopics(context.Background(), names...)
		require.NoError(t, err)
	})
	twice := event(t, reservations, map[string]any{"type": "RESERVATION_CONFIRMED", "quantity": 1})
	won := event(t, requests, map[string]any{"type": "REQUEST_SUCCEEDED", "resultCode": "SUCCESS"})
	paid := event(t, rewards, map[string]any{"type": "REWARD_PAID", "rewardKind": "POINT", "value": 500})
	records := []*kgo.Record{
		twice, twice, paid, paid, won, won,
		event(t, requests, map[string]any{"type": "REQUEST_SUCCEEDED"}),
		event(t, requests, map[string]any{"type": "REQUEST_REJECTED"}),
		event(t, requests, map[string]any{"type": "REQUEST_FAILED"}),
		event(t, requests, map[string]any{"type": "REQUEST_FAILED", "eventId": "another"}),
		event(t, rewards, map[string]any{"type": "REWARD_PAID", "rewardKind": "COUPON", "value": 77}),
		event(t, rewards, map[string]any{"type": "REWARD_FAILED"}),
		event(t, rewards, map[string]any{"type": "REWARD_CANCELLED"}),
		event(t, rewards, map[string]any{"type": "REWARD_PAID", "eventId": "another"}),
		event(t, reservations, map[string]any{"type": "RESERVATION_CREATED", "quantity": 1}),
		event(t, reservations, map[string]any{"type": "RESERVATION_CREATED", "quantity": 1}),
		event(t, reservations, map[string]any{"type": "RESERVATION_EXPIRED", "quantity": 1}),
		event(t, reservations, map[string]any{"type": "RESERVATION_REJECTED", "quantity": 1}),
		event(t, reservations, map[string]any{"type": "RESERVATION_CREATED", "eventId": "another"}),
		event(t, payments, map[string]any{"type": "PAYMENT_CONFIRMED", "amount": 70}),
		event(t, payments, map[string]any{"type": "PAYMENT_CONFIRMED", "amount": 70}),
		event(t, payments, map[string]any{"type": "PAYMENT_REFUNDED", "amount": 70, "cause": "COMPENSATION"}),
	}
	records = append(records, partlyRefundedEvents(t, reservations, payments)...)
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
	return prefix
}

func kafkaClient(t *testing.T) *kgo.Client {
	t.Helper()
	retryForever := kgo.UnknownTopicRetries(-1) // a broker may not know a new topic yet
	client, err := kgo.NewClient(kgo.SeedBrokers(backendtest.Kafka(t)...), retryForever)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func event(t *testing.T, topic string, body map[string]any) *kgo.Record {
	t.Helper()
	if body["eventId"] == nil {
		body["eventId"] = "e"
	}
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	return &kgo.Record{Topic: topic, Value: raw, Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte(rand.Text())}}}
}

// newStores creates empty stores. It drops the constraints that would prevent the tests' damage:
// the audit must not rely on them.
func newStores(t *testing.T) *Stores {
	t.Helper()
	s := &Stores{
		ticket: newDatabase(t, "ticket"), payment: newDatabase(t, "payment"), stats: newDatabase(t, "stats"),
		brokers: backendtest.Kafka(t), topicPrefix: honestEvents(t), read: cached(topics.Read),
	}
	_, err := s.ticket.Exec(t.Context(), "ALTER TABLE tickets DROP CONSTRAINT tickets_reservation_id_n_fkey; DROP INDEX tickets_one_live, tickets_one_per_seat")
	require.NoError(t, err)
	return s
}

// cached returns a read that keeps each topic after its first read, since no test changes a topic.
func cached(read func(context.Context, []string, string) ([]*kgo.Record, error)) func(context.Context, []string, string) ([]*kgo.Record, error) {
	cache := map[string][]*kgo.Record{}
	return func(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error) {
		if records, ok := cache[topic]; ok {
			return records, nil
		}
		records, err := read(ctx, brokers, topic)
		if err == nil {
			cache[topic] = records
		}
		return records, err
	}
}

// fill replaces the content of the stores by the consistent sales, and serves the given ledger.
func (s *Stores) fill(t *testing.T, ledger map[string]*sandbox.Charge) {
	t.Helper()
	for db, sql := range map[*pgxpool.Pool]string{
		s.ticket:  deleteFrom("scans", "refund_claims", "transfers", "memberships", "tickets", "places", "reservations", "events", "outbox") + honestTicket + partlyRefundedTicket,
		s.payment: deleteFrom("refund_items", "refunds", "payment_timeline", "payments", "outbox") + honestPayment + partlyRefundedPayment,
		s.stats: deleteFrom("figures.totals", "figures.minutes") +
			honestStats + partlyRefundedStats,
	} {
		_, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	charges := slices.Collect(maps.Values(ledger))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"charges": charges})
	}))
	t.Cleanup(provider.Close)
	s.ledgerURL = provider.URL
}

// deleteFrom returns SQL with DELETE: for a few rows it is faster than TRUNCATE.
func deleteFrom(tables ...string) string {
	return "DELETE FROM " + strings.Join(tables, "; DELETE FROM ") + ";"
}

// newDatabase makes a database with the tables of a service.
func newDatabase(t *testing.T, service string) *pgxpool.Pool {
	t.Helper()
	sets := []postgres.MigrationSet{
		{Name: service, FS: os.DirFS("../../services/" + service + "/internal/postgres")}, {Name: "outbox", FS: os.DirFS("../../pkg/outbox")},
	}
	if service == "stats" {
		sets = append(sets, postgres.MigrationSet{Name: "figures", Schema: "figures", FS: os.DirFS("../../services/stats/internal/postgres/schema")})
	}
	return postgrestest.New(t, sets...)
}

const unpublishedEvent = `INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
	VALUES (gen_random_uuid(), 'x', 'k', 0, 'X', 1, '{}', '{}')`

// How the sentences about each kind of fault begin.
const (
	unticketed, stray, unpaid = "paid without a ticket", "charged, and unknown", "a ticket without a payment"
	unbalanced, opened        = "unbalanced", "opened after its refund"
	unpublished, wrongFigures = "not published", "miscounted"
	leftOpen                  = "left open"
)

// inconsistency is SQL and a change of the ledger; the audit must then find the kinds in want.
type inconsistency struct {
	ticket, payment, stats string
	ledger                 func(map[string]*sandbox.Charge)
	want                   []string
}

// inconsistencies are different damages to the consistent sale "e", by description.
var inconsistencies = map[string]inconsistency{
	"nothing":     {},
	"lost ticket": {ticket: `DELETE FROM tickets`, want: []string{unticketed, unbalanced}},
	"confirmed payment of an expired reservation": {
		ticket: `DELETE FROM tickets; UPDATE reservations SET status = 'EXPIRED' WHERE user_id = 'u1'`,
		want:   []string{unticketed, unbalanced, wrongFigures},
	},
	"confirmed payment, unknown reservation": {
		ticket: `DELETE FROM tickets; DELETE FROM reservations WHERE user_id = 'u1'`,
		want:   []string{unticketed, unbalanced, wrongFigures},
	},
	"refund promised and not made": {
		ledger: func(l map[string]*sandbox.Charge) { l["o2"].RefundedAmount = 0 }, want: []string{unticketed, unbalanced},
	},
	"refund that waits for a person": {
		payment: `UPDATE refunds SET status = 'HELD', published = false; UPDATE payments SET status = 'CONFIRMED' WHERE order_id = 'o2'`,
		ledger:  func(l map[string]*sandbox.Charge) { l["o2"].RefundedAmount = 0 }, want: []string{unticketed, wrongFigures},
	},
	"given back in part": {
		ticket: `UPDATE tickets SET given = 30`,
		ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 30 },
	},
	"given back in part, and not said so": {
		ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 30 }, want: []string{unbalanced},
	},
	"given back in part, and promised": {
		ticket: `UPDATE tickets SET given = 70`,
		payment: `INSERT INTO refunds (id, payment_id, amount, send, cause, request, reason, status, provider, due_at, created_at)
			VALUES (gen_random_uuid(), lpad('a1', 32, '0')::uuid, 70, 40, 'USER', 'k', '', 'PENDING', 'sandbox', now(), now());
			UPDATE payments SET hand = 30, hand_used = 30 WHERE order_id = 'o1'`,
		ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 30 },
	},
	"given back by hand, for nothing": {
		payment: `UPDATE payments SET hand = 30 WHERE order_id = 'o1'`,
		ledger:  func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 30 },
	},
	"paid twice": {
		payment: `UPDATE payments SET status = 'CONFIRMED', reference_id = lpad('1', 32, '0')::uuid WHERE order_id = 'o2'`,
		ledger:  func(l map[string]*sandbox.Charge) { l["o2"].RefundedAmount = 0 }, want: []string{unticketed, unbalanced},
	},
	"ticket of a refunded payment": {
		payment: `UPDATE payments SET status = 'REFUNDED' WHERE order_id = 'o1'`,
		ledger:  func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 70 }, want: []string{unpaid, unbalanced},
	},
	"given back by the provider alone": {
		ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 70 }, want: []string{unbalanced},
	},
	"charged less than the price": {
		ledger: func(l map[string]*sandbox.Charge) { l["o1"].Amount = 7 }, want: []string{unbalanced},
	},
	"payment that is left on its page": {
		payment: `INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, currency, provider, status, expires_at)
			VALUES (gen_random_uuid(), 'o9', 'reservation', lpad('9', 32, '0')::uuid, 'u', 'e', 70, 0, 'KRW', 'sandbox', 'OPEN', now())`,
		want: []string{leftOpen},
	},
	"ticket that was never paid": {
		payment: `DELETE FROM payments WHERE order_id = 'o1'`,
		ledger:  func(l map[string]*sandbox.Charge) { delete(l, "o1") }, want: []string{unpaid, wrongFigures},
	},
	"ticket of a rejected reservation": {
		ticket: `UPDATE tickets SET reservation_id = lpad('2', 32, '0')::uuid`, want: []string{unticketed, unpaid},
	},
	"charge that payment does not know": {
		ledger: func(l map[string]*sandbox.Charge) {
			l["x"] = &sandbox.Charge{OrderID: "x", Amount: 1, Status: sandbox.Captured}
		}, want: []string{stray},
	},
	"event of ticket left behind":  {ticket: unpublishedEvent, want: []string{unpublished}},
	"event of payment left behind": {payment: unpublishedEvent, want: []string{unpublished}},
	"confirmed twice in the figures": {
		stats: miscount("confirmed", 1, 1) + miscount("seats_sold", 1, 1), want: []string{wrongFigures, wrongFigures},
	},
	"expired twice in the figures":  {stats: miscount("expired", 1, 1), want: []string{wrongFigures}},
	"refunded twice in the figures": {stats: miscount("sale_refund", 70, 1), want: []string{wrongFigures, wrongFigures}},
	"rewarded twice in the figures": {stats: miscount("rewards_paid", 1, 1) + miscount("points_paid", 500, 1), want: []string{wrongFigures}},
	"no rewards in the figures":     {stats: deleteFrom("figures.totals WHERE figure LIKE 'reward%'", "figures.minutes WHERE figure LIKE 'reward%'"), want: []string{wrongFigures}},
	"won twice in the figures":      {stats: miscount("requests_succeeded", 1, 1), want: []string{wrongFigures}},
	"rejected as failed":            {stats: miscount("requests_rejected", -1, -1) + miscount("requests_failed", 1, 1), want: []string{wrongFigures}},
	"no requests in the figures":    {stats: deleteFrom("figures.totals WHERE figure LIKE 'request%'", "figures.minutes WHERE figure LIKE 'request%'"), want: []string{wrongFigures}},
	"a minute lost":                 {stats: `DELETE FROM figures.minutes WHERE figure = 'expired'`, want: []string{wrongFigures}},
	"nothing in the figures":        {stats: deleteFrom("figures.totals WHERE figure ~ '^(created|confirmed)'", "figures.minutes WHERE figure ~ '^(created|confirmed)'"), want: []string{wrongFigures, wrongFigures}},
	"sale of which no event tells":  {ticket: strings.ReplaceAll(honestTicket, "lpad(", "lpad('f' || "), want: []string{unpaid, wrongFigures}},
}

func TestFaultsDetectsInconsistencies(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	for name, c := range inconsistencies {
		t.Run(name, func(t *testing.T) { requireKinds(t, c.want, s.faultsOf(t, "e", honestLedger(), c)) })
	}
}

// faultsOf fills the stores, damages them, and returns the faults of a sale.
func (s *Stores) faultsOf(t *testing.T, eventID string, ledger map[string]*sandbox.Charge, c inconsistency) []string {
	t.Helper()
	if c.ledger != nil {
		c.ledger(ledger)
	}
	s.fill(t, ledger)
	for db, sql := range map[*pgxpool.Pool]string{s.ticket: c.ticket, s.payment: c.payment, s.stats: c.stats} {
		_, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	faults, err := s.Faults(t.Context(), eventID)
	require.NoError(t, err)
	return faults.All()
}

// requireKinds requires exactly one fault of each of these kinds, in this order.
func requireKinds(t *testing.T, kinds, found []string) {
	t.Helper()
	require.Len(t, found, len(kinds), "%v", found)
	for i, kind := range kinds {
		require.True(t, strings.HasPrefix(found[i], kind), "%q is not of the kind %q", found[i], kind)
	}
}

func TestDeadLettersAreCountedByTopic(t *testing.T) {
	t.Parallel()
	s := &Stores{brokers: backendtest.Kafka(t), topicPrefix: honestEvents(t)}
	letters, err := s.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Empty(t, letters)
	topic := s.topicPrefix + "payment-events.dlq"
	poison := &kgo.Record{Topic: topic, Value: []byte("poison")}
	require.NoError(t, kafkaClient(t).ProduceSync(t.Context(), poison).FirstErr())
	letters, err = s.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{topic: 1}, letters)
}

// The audit accepts missing topics, as on a platform without the reward and worker services.
func TestWithoutTopics(t *testing.T) {
	t.Parallel()
	s := &Stores{stats: newDatabase(t, "stats"), brokers: backendtest.Kafka(t), topicPrefix: "test-audit-none.", read: topics.Read}
	for _, d := range allCountedFigures() {
		found, err := d.differences(t.Context(), s, "e")
		require.NoError(t, err)
		require.Empty(t, found)
	}
}
