package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/loop"
)

const (
	// maxPoll bounds the records of one poll, and with backlogLimit what a partition may hold in
	// memory.
	maxPoll      = 1000
	backlogLimit = 2000
	// fetchMaxWait is how long a broker keeps a fetch that finds nothing. A partition that is
	// assigned meanwhile has to wait for its end, 5 s by the library's default.
	fetchMaxWait = 500 * time.Millisecond
	// stopGrace is how long a record that is being processed may still take when its partition is
	// taken away or the process stops.
	stopGrace = 5 * time.Second
	// handlerTimeout bounds one call of a handler, so that a backend which takes requests and never
	// answers cannot hold a partition for ever.
	handlerTimeout = 30 * time.Second
	// commitTimeout bounds the last commit of a partition.
	commitTimeout = 5 * time.Second
)

// Handler processes records. A nil error means that they are done; Poison sends one to the
// dead-letter topic; what the errors mean otherwise stands at NewConsumer. Handlers run
// concurrently for different partitions.
type Handler struct {
	max int
	fn  func(context.Context, []Record) error
}

// Each makes a handler of single records.
func Each(fn func(ctx context.Context, rec Record) error) Handler {
	return Handler{max: 1, fn: func(ctx context.Context, recs []Record) error { return fn(ctx, recs[0]) }}
}

// Batch makes a handler of up to max consecutive records of one partition (as many as have
// arrived). When it fails in a way that retrying does not mend, it is called again with one record
// at a time, so that only the bad one is put aside.
func Batch(max int, fn func(ctx context.Context, recs []Record) error) Handler {
	return Handler{max: max, fn: fn}
}

// Consumer reads topics as a member of a group. Each partition has a goroutine of its own, so that
// a record that has to be retried holds up its partition only; within a partition the order is
// never left.
type Consumer struct {
	cfg     Config
	group   string
	handler Handler
	backoff time.Duration // before the second attempt
	longest time.Duration // pause between two attempts
	timeout time.Duration // of one call of the handler
	grace   time.Duration // for a record under way when its partition is given up
	every   time.Duration // between two looks at the lag
	log     *slog.Logger
	opts    []kgo.Opt

	mu      sync.Mutex
	workers map[partition]*worker
}

type partition struct {
	topic string
	id    int32
}

// NewConsumer makes a consumer; a new group starts at the oldest record. Records are marked after
// they are processed and the marks are committed every second, when a partition is taken away and
// at the end: after a crash some are delivered again, none is skipped.
//
// What a handler's error means:
//
//	Poison                          the record goes to the dead-letter topic
//	a fault of ours (see fault)     tried again in place, with back-off (0.1 to 10 s), for as long as it takes
//	any other error, or a panic     tried 20 times (some two minutes), then the record goes to the dead-letter topic
//
// Only attempts at a record alone count: a batch that fails for another reason than a fault of ours
// is taken apart at once, and so is one that takes too long. Each attempt has 30 s. While a dead
// letter cannot be written its partition waits.
func NewConsumer(cfg Config, group string, topics []string, h Handler, log *slog.Logger) (*Consumer, error) {
	c := &Consumer{
		cfg: cfg, group: group, handler: h, backoff: firstBackoff, longest: maxBackoff, timeout: handlerTimeout, grace: stopGrace,
		every: lagEvery, log: log.With("group", group), workers: make(map[partition]*worker),
	}
	opts, err := cfg.options(group)
	if err != nil {
		return nil, err
	}
	onBroker := make([]string, len(topics))
	for i, topic := range topics {
		onBroker[i] = cfg.topic(topic)
		deadLetters.WithLabelValues(group, topic) // from 0, or the first one would be no increase
	}
	c.opts = append(opts,
		kgo.ConsumerGroup(cfg.group(group)),
		kgo.ConsumeTopics(onBroker...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(time.Second),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(3*time.Second),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.RequiredAcks(kgo.AllISRAcks()), // dead letters, as in NewProducer
		kgo.AllowIdempotentProduceCancellation(),
		kgo.OnPartitionsAssigned(c.assigned),
		kgo.OnPartitionsRevoked(c.revoked),
		kgo.OnPartitionsLost(c.lost),
	)
	if err := kgo.ValidateOpts(c.opts...); err != nil {
		return nil, fmt.Errorf("kafka consumer %s: %w", group, err)
	}
	return c, nil
}

// Run joins the group and processes records until ctx ends; then it lets those under way finish (5
// s), commits and leaves. A consumer runs once. It returns an error only when it cannot start.
func (c *Consumer) Run(ctx context.Context) error {
	client, err := kgo.NewClient(c.opts...)
	if err != nil {
		return fmt.Errorf("kafka consumer %s: %w", c.group, err)
	}
	defer client.CloseAllowingRebalance()
	defer c.startLag(ctx, client)()

	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, maxPoll)
		failed := false
		fetches.EachError(func(topic string, p int32, err error) {
			if ctx.Err() == nil {
				failed = true
				c.log.WarnContext(ctx, "fetch failed", "topic", topic, "partition", p, "error", err)
			}
		})
		c.dispatch(fetches)
		client.AllowRebalance()
		if failed { // the client retries by itself; what it reports here would otherwise come again at once
			loop.Sleep(ctx, 500*time.Millisecond)
		}
	}
	c.finish(ctx, client)
	return nil
}

// dispatch hands the records to their partitions' goroutines. It runs between the poll and
// AllowRebalance, hence never beside the callbacks below.
func (c *Consumer) dispatch(fetches kgo.Fetches) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if w := c.workers[partition{c.cfg.bare(f.Topic), f.Partition}]; w != nil && len(f.Records) > 0 {
			w.push(f.Records)
		}
	})
}

func (c *Consumer) assigned(ctx context.Context, client *kgo.Client, parts map[string][]int32) {
	// A pause outlives the assignment: a partition that was taken away with a full backlog would
	// come back to be never read again.
	client.ResumeFetchPartitions(parts)
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, ids := range parts {
		for _, id := range ids {
			w := newWorker(ctx, c, client, partition{c.cfg.bare(topic), id})
			c.workers[w.part] = w
			go w.run() //nolint:contextcheck // has the context of its worker
		}
	}
}

func (c *Consumer) revoked(ctx context.Context, client *kgo.Client, parts map[string][]int32) {
	c.stop(c.take(parts))
	c.commit(ctx, client)
}

// lost is called when the group has already given the partitions to someone else: nothing may be
// committed any more.
func (c *Consumer) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	c.stop(c.take(parts))
}

// take removes the workers of the given partitions.
func (c *Consumer) take(parts map[string][]int32) []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	var taken []*worker
	for topic, ids := range parts {
		for _, id := range ids {
			key := partition{c.cfg.bare(topic), id}
			if w := c.workers[key]; w != nil {
				delete(c.workers, key)
				lagGauge.DeleteLabelValues(key.labels(c.group)...)
				taken = append(taken, w)
			}
		}
	}
	return taken
}

func (c *Consumer) finish(ctx context.Context, client *kgo.Client) {
	c.mu.Lock()
	workers := make([]*worker, 0, len(c.workers))
	for part, w := range c.workers {
		workers = append(workers, w)
		lagGauge.DeleteLabelValues(part.labels(c.group)...)
	}
	clear(c.workers)
	c.mu.Unlock()
	c.stop(workers)
	c.commit(context.WithoutCancel(ctx), client)
}

func (c *Consumer) commit(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		c.log.WarnContext(ctx, "commit failed; the records since the last one will come again", "error", err)
	}
}
