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

// fakePublisher keeps the records except those for which fail returns an error.
type fakePublisher struct {
	mu   sync.Mutex
	recs []kafka.Record
	fail func(kafka.Record) error
	// partitions is the number of partitions of each topic.
	partitions int
	failed     int
}

func (m *fakePublisher) PublishEach(_ context.Context, recs []kafka.Record) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]error, len(recs))
	broken := make(map[string]error) // a failure ends its partition; here each key has its own
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

func (m *fakePublisher) Partitions(string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions
}

func (m *fakePublisher) published() []kafka.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]kafka.Record(nil), m.recs...)
}

// versions returns the epochs published for a key, in order.
func (m *fakePublisher) versions(t *testing.T, key string) []int64 {
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

// recover makes all publishing succeed from now on.
func (m *fakePublisher) recover() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = nil
}

// set replaces the number of partitions and the failures.
func (m *fakePublisher) set(partitions int, fail func(kafka.Record) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions, m.fail = partitions, fail
}

func (m *fakePublisher) failures() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// batchRefuser refuses a whole call when one of its records is refused, as brokers do.
type batchRefuser struct {
	fakePublisher

	refuse string
}

func (b *batchRefuser) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	b.mu.Lock()
	refuse := b.refuse
	b.mu.Unlock()
	for _, r := range recs {
		if refuse != "" && strings.Contains(string(r.Value), refuse) {
			return slices.Repeat([]error{kerr.MessageTooLarge}, len(recs))
		}
	}
	return b.fakePublisher.PublishEach(ctx, recs)
}

func (b *batchRefuser) recover() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = ""
}

// blockingProber blocks every call until it is released.
type blockingProber struct {
	fakePublisher

	entered, release chan struct{}
}

func (h *blockingProber) PublishEach(_ context.Context, recs []kafka.Record) []error {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-h.release
	return slices.Repeat([]error{context.DeadlineExceeded}, len(recs))
}

// sizedPublisher also keeps the number and the bytes of the records of each call.
type sizedPublisher struct {
	fakePublisher

	sizes, bytes []int
}

func (p *sizedPublisher) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	bytes := 0
	for _, r := range recs {
		bytes += len(r.Value)
	}
	p.sizes, p.bytes = append(p.sizes, len(recs)), append(p.bytes, bytes)
	return p.fakePublisher.PublishEach(ctx, recs)
}
