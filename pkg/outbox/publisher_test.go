package outbox_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/pkg/kafka"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// memory is a publisher that keeps what it is given and fails as told.
type memory struct {
	mu   sync.Mutex
	recs []kafka.Record
	fail func(kafka.Record) error
	// partitions that are known of each topic.
	partitions int
	failed     int
}

func (m *memory) PublishEach(_ context.Context, recs []kafka.Record) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]error, len(recs))
	broken := make(map[string]error) // nothing follows a failure in its partition; here each key has one to itself
	for i, r := range recs {
		if results[i] = broken[r.Topic+"/"+string(r.Key)]; results[i] == nil && m.fail != nil {
			results[i] = m.fail(r)
			broken[r.Topic+"/"+string(r.Key)] = results[i]
		}
		if results[i] != nil {
			m.failed++
		} else {
			m.recs = append(m.recs, r)
		}
	}
	return results
}

func (m *memory) Partitions(string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions
}

func (m *memory) published() []kafka.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]kafka.Record(nil), m.recs...)
}

// versions are the epochs published for a key, in order.
func (m *memory) versions(t *testing.T, key string) []int64 {
	t.Helper()
	var vs []int64
	for _, r := range m.published() {
		var c commonv1.Caller
		require.NoError(t, kafka.Decode(r, &c))
		if string(r.Key) == key {
			vs = append(vs, c.GetEpoch())
		}
	}
	return vs
}

// recover lets everything be published from now on.
func (m *memory) recover() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = nil
}

// set replaces what is known and what fails.
func (m *memory) set(partitions int, fail func(kafka.Record) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions, m.fail = partitions, fail
}

func (m *memory) failures() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// batches is a publisher that refuses all of a call when one record is refused, as brokers do.
type batches struct {
	memory

	refuse string
}

func (b *batches) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	b.mu.Lock()
	refuse := b.refuse
	b.mu.Unlock()
	for _, r := range recs {
		if refuse != "" && strings.Contains(string(r.Value), refuse) {
			return slices.Repeat([]error{kerr.MessageTooLarge}, len(recs))
		}
	}
	return b.memory.PublishEach(ctx, recs)
}

func (b *batches) recover() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = ""
}

// hanging is a publisher that answers nothing before it is let go.
type hanging struct {
	memory

	entered, release chan struct{}
}

func (h *hanging) PublishEach(_ context.Context, recs []kafka.Record) []error {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-h.release
	return slices.Repeat([]error{context.DeadlineExceeded}, len(recs))
}
