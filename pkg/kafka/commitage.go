package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/loop"
)

const (
	commitAgeEvery   = 5 * time.Second
	commitAgeTimeout = 5 * time.Second
)

// oldestGauge has the same value on every replica that reaches the brokers.
var oldestGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_consumer_oldest_seconds", Help: "Age of the oldest record that the group has not committed yet.",
}, []string{"group", "topic"})

// CommitAge measures the age of the oldest record of a topic that a consumer group has not
// committed. It asks the brokers, so it also shows a group without members, and endless retries.
type CommitAge struct {
	cfg          Config
	group, topic string
	now          func() time.Time

	mu sync.Mutex
	// At the latest measurement, at the time `measured`, all records older than appliedUntil were
	// committed. Both times are zero before the first measurement.
	appliedUntil, measured time.Time
}

// NewCommitAge makes a CommitAge for one consumer group and topic. Its method Run repeats the
// measurement. now is time.Now, except in tests.
func NewCommitAge(cfg Config, group, topic string, now func() time.Time) *CommitAge {
	return &CommitAge{cfg: cfg, group: group, topic: topic, now: now}
}

// Age returns the age of the oldest uncommitted record; about 0 when there is none. The
// measurement, and so the age, is up to 5 s old. While the brokers do not answer, the age grows
// with the time since the last measurement. known is false before the first measurement.
func (a *CommitAge) Age() (oldest, measuredAgo time.Duration, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.measured.IsZero() {
		return 0, 0, false
	}
	now := a.now()
	return max(0, now.Sub(a.appliedUntil)), now.Sub(a.measured), true
}

func (a *CommitAge) Run(ctx context.Context) error {
	client, err := a.cfg.newClient(a.group + "-unapplied")
	if err != nil {
		return err
	}
	defer client.Close()
	return loop.Every(ctx, commitAgeEvery, func(ctx context.Context) {
		_ = a.Measure(ctx, client) // while the brokers do not answer the age grows
		if oldest, _, known := a.Age(); known {
			oldestGauge.WithLabelValues(a.group, a.topic).Set(oldest.Seconds())
		}
	})
}

func (a *CommitAge) Measure(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, commitAgeTimeout)
	defer cancel()
	began := a.now()
	appliedUntil := began
	uncommitted, err := a.nextUncommitted(ctx, kadm.NewClient(client))
	if err != nil {
		return err
	}
	if len(uncommitted) > 0 {
		first, err := a.oldestTimestamp(ctx, uncommitted)
		if err != nil {
			return err
		}
		if first.Before(appliedUntil) {
			appliedUntil = first
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.appliedUntil, a.measured = appliedUntil, began
	return nil
}

// nextUncommitted returns the offset of the first uncommitted record of each partition with one.
func (a *CommitAge) nextUncommitted(ctx context.Context, admin *kadm.Client) (map[int32]kgo.Offset, error) {
	topic := a.cfg.prefixedTopic(a.topic)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", a.topic, err)
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("starts of %s: %w", a.topic, err)
	}
	committed, err := admin.FetchOffsets(ctx, a.cfg.prefixedGroup(a.group))
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", a.group, err)
	}
	uncommitted := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		at := start.Offset
		if c, ok := committed.Lookup(topic, end.Partition); ok && c.At > at {
			at = c.At
		}
		if at < end.Offset {
			uncommitted[end.Partition] = kgo.NewOffset().At(at)
		}
	})
	return uncommitted, nil
}

// oldestTimestamp returns the lowest timestamp of the records at these offsets, one per partition.
func (a *CommitAge) oldestTimestamp(ctx context.Context, offsets map[int32]kgo.Offset) (oldest time.Time, err error) {
	client, err := a.cfg.newClient(a.group+"-unapplied",
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{a.cfg.prefixedTopic(a.topic): offsets}), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return time.Time{}, err
	}
	defer client.Close()
	found := make(map[int32]bool, len(offsets))
	for len(found) < len(offsets) {
		fetches := client.PollRecords(ctx, len(offsets))
		if err := fetches.Err0(); err != nil {
			return time.Time{}, fmt.Errorf("read %s: %w", a.topic, err)
		}
		if ctx.Err() != nil {
			return time.Time{}, fmt.Errorf("read %s: %w", a.topic, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if found[r.Partition] {
				return
			}
			if oldest.IsZero() || r.Timestamp.Before(oldest) {
				oldest = r.Timestamp
			}
			found[r.Partition] = true
			client.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
		})
	}
	return oldest, nil
}
