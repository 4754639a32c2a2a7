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
	unappliedEvery   = 5 * time.Second
	unappliedTimeout = 5 * time.Second
)

// Every replica that reaches the brokers reports the same value.
var oldestGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_consumer_oldest_seconds", Help: "Age of the oldest record that the group has not committed yet.",
}, []string{"group", "topic"})

// Unapplied measures the age of the oldest record of a topic that a group has not committed,
// whichever member has its partition. It asks the brokers, so a group without members and a record
// that is retried forever are visible too.
type Unapplied struct {
	cfg          Config
	group, topic string
	now          func() time.Time

	mu sync.Mutex
	// appliedUntil: all records up to this time were applied at the last measurement. Both are zero
	// before the first one.
	appliedUntil, measured time.Time
}

// NewUnapplied makes the measurement of one topic and group; Run keeps it up to date. now is
// time.Now.
func NewUnapplied(cfg Config, group, topic string, now func() time.Time) *Unapplied {
	return &Unapplied{cfg: cfg, group: group, topic: topic, now: now}
}

// Age returns the age of the oldest record that is not applied; about 0 when there is none.
// Committed offsets, and so the age, lag up to 5 s behind. While the brokers do not answer, the age
// grows with the time since the last measurement; before the first one known is false.
func (u *Unapplied) Age() (oldest, measuredAgo time.Duration, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.measured.IsZero() {
		return 0, 0, false
	}
	now := u.now()
	return max(0, now.Sub(u.appliedUntil)), now.Sub(u.measured), true
}

// Run measures every 5 s until ctx ends.
func (u *Unapplied) Run(ctx context.Context) error {
	client, err := u.cfg.newClient(u.group + "-unapplied")
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		_ = u.Measure(ctx, client) // while the brokers do not answer the age grows
		if oldest, _, known := u.Age(); known {
			oldestGauge.WithLabelValues(u.group, u.topic).Set(oldest.Seconds())
		}
		loop.Sleep(ctx, unappliedEvery)
	}
	return nil
}

// Measure asks the brokers once.
func (u *Unapplied) Measure(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, unappliedTimeout)
	defer cancel()
	began := u.now()
	through := began
	waiting, err := u.uncommitted(ctx, kadm.NewClient(client))
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		first, err := u.oldest(ctx, waiting)
		if err != nil {
			return err
		}
		if first.Before(through) {
			through = first
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.appliedUntil, u.measured = through, began
	return nil
}

// uncommitted returns the next offset to commit of each partition that has uncommitted records.
func (u *Unapplied) uncommitted(ctx context.Context, admin *kadm.Client) (map[int32]kgo.Offset, error) {
	topic := u.cfg.topic(u.topic)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", u.topic, err)
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("starts of %s: %w", u.topic, err)
	}
	committed, err := admin.FetchOffsets(ctx, u.cfg.group(u.group))
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", u.group, err)
	}
	waiting := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		at := start.Offset
		if c, ok := committed.Lookup(topic, end.Partition); ok && c.At > at {
			at = c.At
		}
		if at < end.Offset {
			waiting[end.Partition] = kgo.NewOffset().At(at)
		}
	})
	return waiting, nil
}

// oldest returns the lowest timestamp of the records at the given offsets.
func (u *Unapplied) oldest(ctx context.Context, at map[int32]kgo.Offset) (first time.Time, err error) {
	client, err := u.cfg.newClient(u.group+"-unapplied",
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{u.cfg.topic(u.topic): at}), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return time.Time{}, err
	}
	defer client.Close()
	seen := make(map[int32]bool, len(at))
	for len(seen) < len(at) {
		fetches := client.PollRecords(ctx, len(at))
		if err := fetches.Err0(); err != nil {
			return time.Time{}, fmt.Errorf("read %s: %w", u.topic, err)
		}
		if ctx.Err() != nil {
			return time.Time{}, fmt.Errorf("read %s: %w", u.topic, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !seen[r.Partition] && (first.IsZero() || r.Timestamp.Before(first)) {
				first = r.Timestamp
			}
			if !seen[r.Partition] {
				seen[r.Partition] = true
				client.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
			}
		})
	}
	return first, nil
}
