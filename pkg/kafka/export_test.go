package kafka

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/config"
)

// NewProducerWith is NewProducer with more options of the client.
func NewProducerWith(cfg Config, opts ...kgo.Opt) (*Producer, error) {
	return newSigningProducer(cfg, "test", opts...)
}

// SignIn returns the credentials of a new connection.
func (c Config) SignIn(ctx context.Context) (user, password string, err error) {
	auth, err := c.passwordCredentials()(ctx)
	return auth.User, auth.Pass, err
}

// ShortenIntervals shortens the client's intervals: heartbeats (by which members learn of a
// rebalance), metadata (by which a missing topic is found) and fetches (whose end a newly assigned
// partition waits for).
func (c *Consumer) ShortenIntervals() {
	c.opts = append(c.opts, kgo.HeartbeatInterval(50*time.Millisecond), kgo.MetadataMinAge(MinMetadataAge),
		kgo.FetchMaxWait(50*time.Millisecond))
}

// MinMetadataAge is the shortest metadata interval that the client accepts.
const MinMetadataAge = 10 * time.Millisecond

// NoBackoff removes the pauses between attempts, for tests that go through every attempt.
func (c *Consumer) NoBackoff() { c.backoff, c.maxBackoff = time.Microsecond, time.Microsecond }

// HandlerTimeout replaces the 30 s of a handler call.
func (c *Consumer) HandlerTimeout(d time.Duration) { c.timeout = d }

// StopGrace replaces the 5 s that the current call has when its partition is revoked.
func (c *Consumer) StopGrace(d time.Duration) { c.grace = d }

// LagEvery replaces the 10 s interval of the lag metric.
func (c *Consumer) LagEvery(d time.Duration) { c.lagEvery = d }

// DialBy replaces the client's dialer.
func (c *Consumer) DialBy(dial func(ctx context.Context, network, host string) (net.Conn, error)) {
	c.opts = append(c.opts, kgo.Dialer(dial))
}

// Paused returns the number of partitions that are not fetched because their backlog is full.
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

// RetryUntilAgreed repeats an attempt until the brokers agree.
func RetryUntilAgreed(ctx context.Context, attempt func() error) error {
	return retryUntilAgreed(ctx, attempt)
}

// AgreeWithin is how long RetryUntilAgreed repeats.
const AgreeWithin = agreeWithin

// RereadKeys makes the producer read its key's file at every call.
func (p *Producer) RereadKeys() {
	p.key.every, p.key.until = 0, time.Time{}
	p.verifier.keys.every, p.verifier.keys.until = 0, time.Time{}
}

// RereadKeys makes the consumer read the files of public keys for every record.
func (c *Consumer) RereadKeys() { c.verifier.keys.every, c.verifier.keys.until = 0, time.Time{} }

// SignRecords signs records of these topics.
func SignRecords(key config.Secret, topics []string, recs []*kgo.Record) error {
	private, err := parseSigningKey(key)
	if err != nil {
		return err
	}
	signRecords(private, topics, recs)
	return nil
}

// Verifier returns the function that checks the signature of a record of a topic.
func Verifier(cfg Config, topics ...string) (func(topic string, r *kgo.Record) error, error) {
	v, err := newVerifier(cfg, topics...)
	if err != nil {
		return nil, err
	}
	return v.verify, nil
}
