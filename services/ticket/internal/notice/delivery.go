package notice

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// State is the state of a delivery: PENDING, then DELIVERED, or FAILED when it was tried for too
// long. A replay makes it PENDING again.
type State string

// The states of a delivery.
const (
	Pending   State = "PENDING"
	Delivered State = "DELIVERED"
	Failed    State = "FAILED"
)

// Delivery is a notice that has to be sent to one receiver. Attempt numbers the attempts: the
// outcome of an attempt counts only if no later one has begun.
type Delivery struct {
	Notice

	// UserID is the user who gets an e-mail, at the address Email, in Language.
	UserID, Email, Language string

	Seq      int64
	Lane     uuid.UUID
	Attempt  int
	Failures int
	// TriedFrom is the time of the first attempt since it was queued.
	TriedFrom time.Time
}

// Outcome is the result of an attempt. Status is the status of HTTP or SMTP; 0: there was no
// answer. Error is empty if the notice has arrived. Final: another attempt would fail too.
type Outcome struct {
	Status int
	Error  string
	Final  bool
}

// maxDelay is the longest time between two attempts.
const maxDelay = time.Hour

// RetryPolicy says when a delivery is tried again.
type RetryPolicy struct {
	// After is the delay after the first failure. It doubles with each failure, up to an hour, and
	// half of it is random. For is how long a delivery is tried before it is FAILED.
	After, For time.Duration
}

// Next returns the delay after one more failure; ok is false if no further attempt is to be made.
func (p RetryPolicy) Next(d *Delivery, now time.Time) (delay time.Duration, ok bool) {
	delay = p.After << min(d.Failures, 20)
	if delay <= 0 || delay > maxDelay {
		delay = maxDelay
	}
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // jitter
	return delay, now.Add(delay).Before(d.TriedFrom.Add(p.For))
}

// Queue hands out deliveries, each to one sender at a time.
type Queue interface {
	// Claim leases up to max due deliveries of a lane: of each entity (order or event) only the oldest
	// that is pending. more reports whether further deliveries may be due.
	Claim(ctx context.Context, lane uuid.UUID, max int, lease time.Duration) (list []Delivery, more bool, err error)
	// End stores the outcome of the attempt d.Attempt, unless another attempt has begun since.
	End(ctx context.Context, d *Delivery, s State, o Outcome) error
	// Retry stores the outcome of an attempt, and when the next one may begin.
	Retry(ctx context.Context, d *Delivery, o Outcome, after time.Duration) error
}
