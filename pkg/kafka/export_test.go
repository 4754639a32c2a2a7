package kafka

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// NewProducerOver is NewProducer with another way to the broker.
func NewProducerOver(cfg Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Producer, error) {
	return newProducer(cfg, "test", kgo.Dialer(dial))
}

// Impatient lets a consumer try again without waiting, for tests that go through every attempt.
func (c *Consumer) Impatient() { c.backoff = time.Microsecond }

// HandlerTimeout replaces the 30 s of a handler's call.
func (c *Consumer) HandlerTimeout(d time.Duration) { c.timeout = d }

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
