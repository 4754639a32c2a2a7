package app_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

// fakeActs stands in for Kafka. It stores the records of operators' acts.
type fakeActs struct {
	down atomic.Bool
	// before, unless nil, is called before each batch is stored.
	before atomic.Pointer[func()]
	mu     sync.Mutex
	recs   []kafka.Record
}

func (*fakeActs) Sign(r kafka.Record) kafka.Record { return kafkatest.Signer().Sign(r) }

func (*fakeActs) Verify(r kafka.Record) error { return kafkatest.Signer().Verify(r) }

func (f *fakeActs) PublishEach(_ context.Context, recs []kafka.Record) []error {
	results := make([]error, len(recs))
	if f.down.Load() {
		for i := range results {
			results[i] = errs.ErrUnavailable
		}
		return results
	}
	if before := f.before.Load(); before != nil {
		(*before)()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recs = append(f.recs, recs...)
	return results
}

// of returns the events of one type so far.
func (f *fakeActs) of(t testing.TB, kind string) []*eventsv1.AuditEvent {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*eventsv1.AuditEvent
	for _, r := range f.recs {
		var e eventsv1.AuditEvent
		require.NoError(t, kafka.Decode(r, &e))
		require.Equal(t, "audit-events", r.Topic)
		require.Equal(t, e.GetUserId(), string(r.Key))
		if e.GetType() == kind {
			all = append(all, &e)
		}
	}
	return all
}
