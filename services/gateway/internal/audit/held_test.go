package audit_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/audit"
)

// stepper stands in for Kafka. It announces each call in begun, and then waits for the result in
// results.
type stepper struct {
	begun   chan int // the number of records of each call
	results chan error
}

func (*stepper) Sign(r kafka.Record) kafka.Record { return kafkatest.Signer().Sign(r) }

func (*stepper) Verify(r kafka.Record) error { return kafkatest.Signer().Verify(r) }

func (s *stepper) PublishEach(_ context.Context, recs []kafka.Record) []error {
	s.begun <- len(recs)
	failure := <-s.results
	list := make([]error, len(recs))
	for i := range list {
		list[i] = failure
	}
	return list
}

// The gauge counts a record in memory until Kafka has stored it, also during an attempt.
//
// All tests of the package share the gauge, so this test must not run in parallel with others.
//
//nolint:paralleltest // see above
func TestHeldRecordsAreCountedDuringAnAttempt(t *testing.T) {
	unreachable := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = unreachable.Close() })
	s := &stepper{begun: make(chan int), results: make(chan error)}
	log := audit.New(s, unreachable, "{x}", slog.New(slog.DiscardHandler), testkit.NewClock(noon).Now)
	require.True(t, log.HoldAct(act(true)))
	require.InDelta(t, 1, held(t), 0)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	require.Equal(t, 1, <-s.begun)
	require.InDelta(t, 1, held(t), 0, "during the first attempt")
	require.True(t, log.HoldAct(act(true)))
	require.InDelta(t, 2, held(t), 0, "with another record")
	s.results <- errs.ErrUnavailable
	require.Equal(t, 2, <-s.begun, "both again")
	require.InDelta(t, 2, held(t), 0, "during the second attempt")
	cancel()
	s.results <- nil
	require.NoError(t, <-done)
	require.Zero(t, held(t), "Kafka has them")
}

// held returns the value of urr_audit_held.
func held(t *testing.T) float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "urr_audit_held" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no gauge")
	return 0
}
