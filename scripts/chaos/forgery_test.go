package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/proto/events"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// forge starts to forge records in every topic: inventions about holds and payments of the sales, and
// copies of genuine records. requireRefused stops, and requires that all were refused.
func (r *run) forge() (requireRefused func()) {
	r.forger = r.Forger()
	r.stores.IgnoreForged(r.forger.Wrote)
	every := 500 * time.Millisecond
	if *full {
		every = 3 * time.Second
	}
	tickets := r.DB(platform.Ticket)
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			r.forgeOnce(ctx, tickets)
			pause(ctx, every)
		}
	})
	return func() {
		cancel()
		running.Wait()
		r.forgeOnce(r.t.Context(), tickets) // into topics that are read again
		r.requireForgeryRefused()
	}
}

// forgeOnce writes a record of each type. Errors are those of stores that are down.
func (r *run) forgeOnce(ctx context.Context, tickets *pgxpool.Pool) {
	payload := invent(ctx, tickets)
	for _, topic := range events.All() {
		for _, kind := range topic.Types {
			payload["type"] = kind
			_ = r.forger.Write(ctx, topic.Name, uuid.NewString(), payload)
		}
		genuine, err := r.Records(ctx, topic.Name)
		if err != nil {
			continue
		}
		for i := len(genuine) - 1; i >= 0; i-- {
			if !r.forger.Wrote(kafka.FromKgo(genuine[i]).EventID) {
				_ = r.forger.Copy(ctx, topic.Name, genuine[i])
				break
			}
		}
	}
}

// invent returns the members of records of all topics, about a hold or a payment that exists.
func invent(ctx context.Context, tickets *pgxpool.Pool) map[string]any {
	var event, user, reservation, payment, currency string
	var amount int64
	_ = tickets.QueryRow(ctx, `SELECT event_id, user_id, reservation_id::text, coalesce(payment_id, gen_random_uuid())::text, currency, amount
		FROM reservations ORDER BY random() LIMIT 1`).Scan(&event, &user, &reservation, &payment, &currency, &amount) // without a row it is about nothing
	return map[string]any{
		"eventId": event, "userId": user, "referenceId": reservation, "reservationId": reservation,
		"paymentId": payment, "sellerPaymentId": payment, "transferId": uuid.NewString(), "ticketId": uuid.NewString(), "refundId": uuid.NewString(),
		"cause": "BY_HAND", "reason": "HOLD_EXPIRED", "amount": amount, "price": amount, "currency": currency, "version": 99, "quantity": 1,
		"occurredAt": time.Now().UTC().Format(time.RFC3339Nano),
	}
}

// requireForgeryRefused waits until each consumer has refused records of each of its topics, and
// requires that no genuine record was put aside.
func (r *run) requireForgeryRefused() {
	r.t.Helper()
	forged := 0
	for _, topic := range events.All() {
		for _, service := range topic.Consumers {
			r.Eventually(func(ctx context.Context) error { return r.checkRefused(ctx, service, topic.Name) })
		}
		letters, err := r.Records(r.t.Context(), topic.Name+kafka.DLQSuffix)
		require.NoError(r.t, err)
		for _, letter := range letters {
			require.True(r.t, r.forger.Wrote(kafka.FromKgo(letter).EventID), "an outage is no reason to put an event aside: %s %s", topic.Name, letter.Value)
		}
		forged += len(letters)
	}
	r.t.Logf("%d forged records were refused", forged)
}

// checkRefused returns an error until a replica of the service has refused records of the topic.
func (r *run) checkRefused(ctx context.Context, service, topic string) error {
	for i := range r.Service(service).Replicas() {
		if refused, err := r.forger.Refused(ctx, service, i, topic); err != nil || refused > 0 {
			return err
		}
	}
	return fmt.Errorf("%s has refused no record of %s", service, topic)
}

// eventKeys are the files from which services read the keys of records.
type eventKeys struct {
	t      *testing.T
	dir    string
	public map[string]string // by service: the keys so far
}

// keysRead is more than the time within which services read a changed file.
const keysRead = 12 * time.Second

func newEventKeys(t *testing.T) *eventKeys {
	t.Helper()
	k := &eventKeys{t: t, dir: t.TempDir(), public: map[string]string{}}
	for _, dir := range []string{"public", "private"} {
		require.NoError(t, os.Mkdir(filepath.Join(k.dir, dir), 0o700))
	}
	k.replace(func() {})
	return k
}

// follow makes the services read their keys from the files.
func (k *eventKeys) follow(o *harness.Options) {
	env := maps.Clone(o.Env)
	for _, s := range platform.Services() {
		own := []string{"EVENT_PUBLIC_KEYS=", "EVENT_PUBLIC_KEYS_FILE=" + filepath.Join(k.dir, "public")}
		if k.public[s.Name] != "" {
			own = append(own, "EVENT_SIGNING_KEY=", "EVENT_SIGNING_KEY_FILE="+filepath.Join(k.dir, "private", s.Name))
		}
		env[s.Name] = append(own, env[s.Name]...)
	}
	o.Env = env
}

// rotate gives each service a new key, in the documented order.
func (k *eventKeys) rotate() { k.replace(func() { time.Sleep(keysRead) }) }

// replace adds new public keys, and after await the keys that belong to them.
func (k *eventKeys) replace(await func()) {
	private := map[string]string{}
	for _, topic := range events.All() {
		if _, done := private[topic.Producer]; done {
			continue
		}
		key, public := kafkatest.NewKeys()
		private[topic.Producer] = key
		k.public[topic.Producer] += public
		k.write("public", topic.Producer, k.public[topic.Producer])
	}
	await()
	for service, key := range private {
		k.write("private", service, key)
	}
	await()
}

// write replaces a file at once.
func (k *eventKeys) write(dir, name, content string) {
	next := filepath.Join(k.dir, "next")
	require.NoError(k.t, os.WriteFile(next, []byte(content), 0o600))
	require.NoError(k.t, os.Rename(next, filepath.Join(k.dir, dir, name)))
}
