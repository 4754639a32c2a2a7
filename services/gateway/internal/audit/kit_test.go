package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/audit"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// broker stands in for Kafka. While it is down, every record fails.
type broker struct {
	mu   sync.Mutex
	down bool
	// refusedUser is the user whose records fail, "" for none.
	refusedUser string
	calls       int
	recs        []kafka.Record
}

// downBroker returns a broker that is down from the start.
func downBroker() *broker { return &broker{down: true} }

func (b *broker) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *broker) refuse(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusedUser = user
}

// callCount returns the number of calls so far.
func (b *broker) callCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func (*broker) Sign(r kafka.Record) kafka.Record { return kafkatest.Signer().Sign(r) }

func (*broker) Verify(r kafka.Record) error { return kafkatest.Signer().Verify(r) }

func (b *broker) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	results := make([]error, len(recs))
	_, bounded := ctx.Deadline()
	for i, r := range recs {
		switch {
		case !bounded:
			results[i] = errors.New("a call without a deadline")
		case b.down, b.refusedUser != "" && string(r.Key) == b.refusedUser:
			results[i] = errs.ErrUnavailable
		default:
			b.recs = append(b.recs, r)
		}
	}
	return results
}

// acts returns the ids of the acts whose Kafka events of a type have arrived, in order.
func (b *broker) acts(t *testing.T, kind string) (list []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.recs {
		if e := decoded(t, r); e.GetType() == kind {
			list = append(list, e.GetActId())
		}
	}
	return list
}

func decoded(t *testing.T, r kafka.Record) *eventsv1.AuditEvent {
	t.Helper()
	var e eventsv1.AuditEvent
	require.NoError(t, kafka.Decode(r, &e))
	return &e
}

// gateway is a Log that a test can run and stop.
type gateway struct {
	*audit.Log

	t    *testing.T
	stop func()
}

func newGateway(t *testing.T, b *broker, rdb redis.UniversalClient, key string) *gateway {
	t.Helper()
	return &gateway{Log: audit.New(b, rdb, key, slog.New(slog.DiscardHandler), testkit.NewClock(noon).Now).Unhurried(), t: t}
}

// run runs the Log until stop is called, or until the test ends.
func (g *gateway) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(g.t, <-done)
	})
	g.t.Cleanup(g.stop)
}

func act(servedWithoutKafka bool) *audit.Act {
	return &audit.Act{
		ID: ids.NewV7(), At: noon, UserID: "ann", Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e", EventID: "e",
		RequestID: ids.NewV7().String(), Body: []byte(`{"threshold":5}`), ServedWithoutKafka: servedWithoutKafka,
	}
}
