package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// NewProducerWith is NewProducer with more options of the client.
func NewProducerWith(cfg Config, opts ...kgo.Opt) (*Producer, error) {
	return newProducer(cfg, "test", opts...)
}

// SignIn is what a new connection signs in with.
func (c Config) SignIn(ctx context.Context) (user, password string, err error) {
	auth, err := c.signIn(ctx)
	return auth.User, auth.Pass, err
}

// DeliveryTimeout replaces the 8 s of a call.
func (p *Producer) DeliveryTimeout(d time.Duration) { p.timeout = d }

// Quick shortens the pauses of the client: members hear of a rebalance by their next heartbeat,
// what a broker does not know (a topic that is missing) is asked for again after metadata's least
// age, and partitions are first read when the fetch of others has ended.
func (c *Consumer) Quick() {
	c.opts = append(c.opts, kgo.HeartbeatInterval(50*time.Millisecond), kgo.MetadataMinAge(QuickMetadata),
		kgo.FetchMaxWait(50*time.Millisecond))
}

// QuickMetadata is the shortest pause between two questions for metadata that the client accepts.
const QuickMetadata = 10 * time.Millisecond

// Impatient lets a consumer try again without waiting, for tests that go through every attempt.
func (c *Consumer) Impatient() { c.backoff, c.longest = time.Microsecond, time.Microsecond }

// HandlerTimeout replaces the 30 s of a handler's call.
func (c *Consumer) HandlerTimeout(d time.Duration) { c.timeout = d }

// StopGrace replaces the 5 s that a record under way has when its partition is given up.
func (c *Consumer) StopGrace(d time.Duration) { c.grace = d }

// LagEvery replaces the 10 s between two looks at the lag.
func (c *Consumer) LagEvery(d time.Duration) { c.every = d }

// Paused is the number of partitions that are not fetched because too many of their records wait.
func (c *Consumer) Paused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, w := range c.workers {
		w.mu.Lock()
		if w.paused {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// Settled repeats an attempt until the brokers agree.
func Settled(ctx context.Context, attempt func() error) error { return settled(ctx, attempt) }

// SettleWithin is how long it does.
const SettleWithin = settleWithin
