package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/loop"
)

const (
	// maxPoll is the most records that one poll fetches. A partition with backlogLimit waiting
	// records is not fetched. Both limit how many records are in memory.
	maxPoll      = 1000
	backlogLimit = 2000
	// fetchMaxWait is how long a broker delays its answer to a fetch that finds nothing. A newly
	// assigned partition waits for the end of such a fetch; the library's default is 5 s.
	fetchMaxWait = 500 * time.Millisecond
	// stopGrace is how much longer a running handler call may take after its partition was revoked
	// or the consumer was stopped.
	stopGrace = 5 * time.Second
	// handlerTimeout is the time limit of one call of a handler, so that a backend that accepts
	// requests and never answers cannot block a partition forever.
	handlerTimeout = 30 * time.Second
	commitTimeout  = 5 * time.Second // time limit of the last commit when partitions are revoked
)

// Handler processes consumed records. If it returns nil the records are done. If it returns an
// error made by Poison the record goes to the dead-letter topic; NewConsumer describes other
// errors. It runs concurrently for different partitions.
type Handler struct {
	max int
	fn  func(context.Context, []Record) error
}

// Each makes a Handler that gets one record at a time.
func Each(fn func(ctx context.Context, rec Record) error) Handler {
	return Handler{max: 1, fn: func(ctx context.Context, recs []Record) error { return fn(ctx, recs[0]) }}
}

// Batch makes a Handler that gets up to max consecutive records of one partition, as many as have
// arrived. After an error that a retry does not solve, fn is called again with one record at a
// time, so that only the bad one goes to the dead-letter topic.
func Batch(max int, fn func(ctx context.Context, recs []Record) error) Handler {
	return Handler{max: max, fn: fn}
}

// Consumer reads topics as a member of a consumer group and passes the records to a Handler. Each
// partition has its own goroutine, so that retrying a record delays only its partition. Within a
// partition records are handled in order.
type Consumer struct {
	cfg        Config
	group      string
	handler    Handler
	backoff    time.Duration // pause before the second attempt
	maxBackoff time.Duration // longest pause between two attempts
	timeout    time.Duration // time limit of one handler call
	grace      time.Duration // time for the running handler call after a revocation
	lagEvery   time.Duration // interval of the lag metric
	log        *slog.Logger
	opts       []kgo.Opt
	positions  Positions // where to start; nil: at the offsets that the group has committed
	topics     []string
	verifier   *verifier

	mu      sync.Mutex
	workers map[partition]*worker
}

type partition struct {
	topic string
	id    int32
}

// NewConsumer makes a Consumer; a new group starts at the oldest record. Records are marked after
// they are processed. Marked records are committed every second, when a partition is revoked, and
// at the end: after a crash some records are delivered again, none is skipped.
//
// A record that is not signed by the service that writes its topic goes to the dead-letter topic, and
// no handler sees it. Besides the topics, the consumer reads the group's redriven letters.
//
// What a handler's error means:
//
//	Poison                          the record goes to the dead-letter topic
//	a transient error (isTransient) retried in place without a limit, 0.1 to 10 s apart
//	any other error, or a panic     tried 20 times (about a minute), then dead-lettered
//
// Only attempts at a single record count: a batch that fails with an error that is not transient,
// or takes too long, is processed record by record at once. Each attempt may take 30 s. While a
// dead letter cannot be written its partition waits.
func NewConsumer(cfg Config, group string, topics []string, h Handler, log *slog.Logger) (*Consumer, error) {
	c := &Consumer{
		cfg: cfg, group: group, topics: topics, handler: h, backoff: firstBackoff, maxBackoff: maxBackoff, timeout: handlerTimeout, grace: stopGrace,
		lagEvery: lagEvery, log: log.With("group", group), workers: make(map[partition]*worker),
	}
	opts, err := cfg.options(group)
	if err != nil {
		return nil, err
	}
	if c.verifier, err = newVerifier(cfg, topics...); err != nil {
		return nil, err
	}
	brokerTopics := []string{cfg.prefixedTopic(RedriveTopic(group))}
	for _, topic := range topics {
		brokerTopics = append(brokerTopics, cfg.prefixedTopic(topic))
		deadLetters.WithLabelValues(group, topic) // makes the counters start at 0, so that alerts see the first record
		refusedRecords.WithLabelValues(group, topic)
	}
	c.opts = append(opts,
		kgo.ConsumerGroup(cfg.prefixedGroup(group)),
		kgo.ConsumeTopics(brokerTopics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(time.Second),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(3*time.Second),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.RequiredAcks(kgo.AllISRAcks()), // for dead letters, as in NewProducer
		kgo.AllowIdempotentProduceCancellation(),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
	)
	if err := kgo.ValidateOpts(c.opts...); err != nil {
		return nil, fmt.Errorf("kafka consumer %s: %w", group, err)
	}
	return c, nil
}

// Run joins the group and processes records until ctx ends. Then it gives the current handler calls
// 5 s to finish, commits, and leaves the group. It runs only once, and fails only if it cannot
// start.
func (c *Consumer) Run(ctx context.Context) error {
	client, err := kgo.NewClient(c.opts...)
	if err != nil {
		return fmt.Errorf("kafka consumer %s: %w", c.group, err)
	}
	defer client.CloseAllowingRebalance()
	defer c.startLagMetrics(ctx, client)()

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
		if failed { // the client retries by itself and would report the same error again at once
			loop.Sleep(ctx, 500*time.Millisecond)
		}
	}
	c.shutDown(ctx, client)
	return nil
}

// dispatch passes fetched records to the workers of their partitions. It runs between the poll and
// AllowRebalance, so never at the same time as onAssigned, onRevoked and onLost.
func (c *Consumer) dispatch(fetches kgo.Fetches) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if w := c.workers[partition{c.cfg.withoutPrefix(f.Topic), f.Partition}]; w != nil && len(f.Records) > 0 {
			w.addRecords(f.Records)
		}
	})
}

func (c *Consumer) onAssigned(ctx context.Context, client *kgo.Client, parts map[string][]int32) {
	// The client remembers that a partition is paused. Without this call, one that was revoked with a
	// full backlog would not be fetched when it is assigned again.
	client.ResumeFetchPartitions(parts)
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, ids := range parts {
		for _, id := range ids {
			w := newWorker(ctx, c, client, partition{c.cfg.withoutPrefix(topic), id})
			c.workers[w.part] = w
			go w.run() //nolint:contextcheck // uses the context of its worker
		}
	}
}

func (c *Consumer) onRevoked(ctx context.Context, client *kgo.Client, parts map[string][]int32) {
	c.stopWorkers(c.removeWorkers(parts))
	c.commit(ctx, client)
}

// onLost is called when the group has already given the partitions to another member. It commits
// nothing.
func (c *Consumer) onLost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	c.stopWorkers(c.removeWorkers(parts))
}

func (c *Consumer) removeWorkers(parts map[string][]int32) []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	var removed []*worker
	for topic, ids := range parts {
		for _, id := range ids {
			key := partition{c.cfg.withoutPrefix(topic), id}
			if w := c.workers[key]; w != nil {
				delete(c.workers, key)
				lagGauge.DeleteLabelValues(key.labels(c.group)...)
				removed = append(removed, w)
			}
		}
	}
	return removed
}

func (c *Consumer) shutDown(ctx context.Context, client *kgo.Client) {
	c.mu.Lock()
	workers := slices.Collect(maps.Values(c.workers))
	for part := range c.workers {
		lagGauge.DeleteLabelValues(part.labels(c.group)...)
	}
	clear(c.workers)
	c.mu.Unlock()
	c.stopWorkers(workers)
	c.commit(context.WithoutCancel(ctx), client)
}

func (c *Consumer) commit(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		c.log.WarnContext(ctx, "commit failed; the records since the last one will come again", "error", err)
	}
}
