package notice

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// State is what became of a delivery. PENDING → DELIVERED, or FAILED when it was tried for too long; a
// replay makes both PENDING again.
type State string

// The states of a delivery.
const (
	Pending   State = "PENDING"
	Delivered State = "DELIVERED"
	Failed    State = "FAILED"
)

// Delivery is a notice that a lane has to send. Attempt is its number; the outcome of an attempt counts
// only while no other one has begun.
type Delivery struct {
	Notice

	// UserID is who gets an e-mail, at Email, in Language.
	UserID, Email, Language string

	Seq      int64
	Lane     uuid.UUID
	Attempt  int
	Failures int
	// TriedFrom is when it was tried first, since it was queued.
	TriedFrom time.Time
}

// Outcome is the result of an attempt. Status is that of HTTP, or of SMTP; 0: there was no answer. Error
// is empty when the notice has arrived. Final: there is no sense in another attempt.
type Outcome struct {
	Status int
	Error  string
	Final  bool
}

// maxDelay bounds the time between two attempts.
const maxDelay = time.Hour

// RetryPolicy says when a delivery is tried again.
type RetryPolicy struct {
	// After is the time after the first failure; it doubles with each one, up to an hour, and its second
	// half is random. For is how long a delivery is tried; then it is FAILED.
	After, For time.Duration
}

// Next returns the time until the next attempt after one more failure; ok is false when there is none.
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
	// Claim takes up to max due deliveries of a lane for the time of the lease: of each entity the first
	// that has not ended. more reports that there may be further ones.
	Claim(ctx context.Context, lane uuid.UUID, max int, lease time.Duration) (list []Delivery, more bool, err error)
	// End stores the outcome of an attempt that is the last one, unless another one has begun since.
	End(ctx context.Context, d *Delivery, s State, o Outcome) error
	// Retry stores the outcome of an attempt, and when the next one may begin.
	Retry(ctx context.Context, d *Delivery, o Outcome, after time.Duration) error
}
