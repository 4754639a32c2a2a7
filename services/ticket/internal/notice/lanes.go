package notice

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"urr.guru/pkg/loop"
)

// storeWithin is the time limit to store an outcome, even while the process ends.
const storeWithin = 5 * time.Second

// maxPass is how long drain claims the due deliveries of a receiver, before the receiver's settings
// are read again. Attempts that have begun may take longer.
const maxPass = 5 * time.Second

// LeaseBeyond is how much longer a delivery is leased than an attempt may last, so that time is
// left to store the outcome.
const LeaseBeyond = 15 * time.Second

// The lanes of e-mails. What is about one order is not delayed by what goes to everybody who has a
// ticket of an event, which may take long.
var (
	MailsOfOrders = uuid.Nil         //nolint:gochecknoglobals // constant
	MailsToAll    = uuid.UUID{15: 1} //nolint:gochecknoglobals // constant
)

// Lane sends the notices of one receiver. Lanes do not wait for each other.
type Lane struct {
	ID   uuid.UUID
	Name string
	// Send makes one attempt.
	Send func(ctx context.Context, d *Delivery) Outcome
}

// Lanes sends queued notices, by one lane for each receiver. Any number of replicas may run it.
type Lanes struct {
	Queue Queue
	// List returns the present lanes.
	List func(ctx context.Context) ([]Lane, error)
	// Concurrency is the most attempts of a lane at a time, Timeout the time limit of each. Lease is
	// how long nobody else sends the same delivery; it is LeaseBeyond longer than Timeout.
	Concurrency    int
	Timeout, Lease time.Duration
	Retry          RetryPolicy
	Every          time.Duration
	Log            *slog.Logger
	// Observe is called with the outcome of every attempt.
	Observe func(lane string, o Outcome)

	now     func() time.Time
	running sync.WaitGroup
	open    map[uuid.UUID]*openLane // used by Run's goroutine only
}

// openLane is the state of a lane that lasts from one pass to the next.
type openLane struct {
	slots   *semaphore.Weighted
	passing sync.Mutex // held during a pass
}

// Run sends until ctx ends.
func (l *Lanes) Run(ctx context.Context) error {
	l.open, l.now = make(map[uuid.UUID]*openLane), time.Now
	defer l.running.Wait()
	return loop.Try(ctx, l.Every, l.Log, "receivers of notices not read", l.pass)
}

// pass lets every lane send its due notices (drain), unless the lane is still doing so.
func (l *Lanes) pass(ctx context.Context) error {
	lanes, err := l.List(ctx)
	if err != nil {
		return err
	}
	for _, lane := range lanes {
		o := l.open[lane.ID]
		if o == nil {
			o = &openLane{slots: semaphore.NewWeighted(int64(l.Concurrency))}
			l.open[lane.ID] = o
		}
		if !o.passing.TryLock() {
			continue
		}
		l.running.Go(func() {
			defer o.passing.Unlock()
			if err := l.drain(ctx, lane, o.slots); err != nil && ctx.Err() == nil {
				l.Log.WarnContext(ctx, "notices not sent", "receiver", lane.Name, "error", err)
			}
		})
	}
	return nil
}

// drain sends due deliveries for up to maxPass; the next pass uses the receiver's latest settings.
// It does not wait for the last attempts.
func (l *Lanes) drain(ctx context.Context, lane Lane, slots *semaphore.Weighted) error {
	for end := l.now().Add(maxPass); ; {
		if err := slots.Acquire(ctx, 1); err != nil {
			return err
		}
		acquired := 1
		for acquired < l.Concurrency && slots.TryAcquire(1) {
			acquired++
		}
		list, more, err := l.Queue.Claim(ctx, lane.ID, acquired, l.Lease)
		slots.Release(int64(acquired - len(list)))
		for i := range list {
			l.running.Go(func() {
				defer slots.Release(1)
				l.attempt(ctx, lane, &list[i])
			})
		}
		if err != nil || !more || l.now().After(end) {
			return err
		}
	}
}

// attempt sends one notice. An attempt that is interrupted by the end of the process is not a
// failure: it is repeated after the lease.
func (l *Lanes) attempt(ctx context.Context, lane Lane, d *Delivery) {
	sending, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	o := lane.Send(sending, d)
	if o.Error != "" && ctx.Err() != nil {
		return
	}
	l.Observe(lane.Name, o)
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	if err := l.store(storing, d, o); err != nil {
		l.Log.WarnContext(ctx, "outcome of a notice not stored, it is sent again", "receiver", lane.Name, "notice_id", d.ID, "error", err)
	}
}

func (l *Lanes) store(ctx context.Context, d *Delivery, o Outcome) error {
	if o.Error == "" {
		return l.Queue.End(ctx, d, Delivered, o)
	}
	delay, ok := l.Retry.Next(d, l.now())
	if !ok || o.Final {
		return l.Queue.End(ctx, d, Failed, o)
	}
	return l.Queue.Retry(ctx, d, o, delay)
}
