// Package announce publishes the ends of requests to Kafka as they were committed, at least once.
package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

const (
	// passEvery is the interval of passes over all partitions. A pass finds what other processes have
	// written, and what could not be published. Nearly all partitions are empty.
	passEvery = 5 * time.Second
	// slices is how many slices the partitions form; the replica with a slice's lease publishes it.
	slices = 8
	// hintedTimeout is the time limit for publishing the hinted partitions.
	hintedTimeout = 10 * time.Second
)

// Store reads and deletes the announcements of the outbox in the table.
type Store interface {
	// AcquireLease takes or renews this replica's lease of a slice of the partitions, for some
	// seconds. It returns false while another replica has the lease.
	AcquireLease(ctx context.Context, slice string) (bool, error)
	// Announcements reads the first page of the unpublished announcements of a partition.
	Announcements(ctx context.Context, partition int) (page []promotion.Outbox, more bool, err error)
	// DeletePublished deletes published announcements of a partition.
	DeletePublished(ctx context.Context, partition int, done []promotion.Outbox) error
}

// Publisher sends announcements and waits until all are stored.
type Publisher interface {
	Publish(ctx context.Context, rows []promotion.Announcement) error
}

// Relay publishes the announcements of a table. Any number of relays may run: consumers deduplicate
// by the id. Events are published in no order, not even those of one request; consumers compare
// versions.
type Relay struct {
	store     Store
	publisher Publisher
	log       *slog.Logger

	mu     sync.Mutex
	hinted map[int]bool
	wake   chan struct{}
	oldest time.Time // the result of Oldest
}

// New returns a Relay; Run starts it.
func New(store Store, publisher Publisher, log *slog.Logger) *Relay {
	return &Relay{store: store, publisher: publisher, log: log, hinted: map[int]bool{}, wake: make(chan struct{}, 1)}
}

// Hint has Run publish a partition at once, without waiting for the next pass. It never blocks.
func (r *Relay) Hint(partition int) {
	r.mu.Lock()
	r.hinted[partition] = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Relay) takeHints() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	hints := r.hinted
	r.hinted = map[int]bool{}
	return hints
}

// Run publishes until ctx ends, and then the partitions that are still hinted.
func (r *Relay) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() {
		for loop.SleepOrWake(ctx, passEvery, r.wake) {
			r.publishHinted(ctx)
		}
		r.publishHinted(ctx)
	})
	work.Go(func() {
		_ = loop.Try(ctx, passEvery, r.log, "announcements not published, trying again", r.Pass) // returns nil
	})
	work.Wait()
	return nil
}

// publishHinted publishes the hinted partitions. It is not interrupted when ctx ends.
func (r *Relay) publishHinted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hintedTimeout)
	defer cancel()
	for partition := range r.takeHints() {
		if _, err := r.publishPartition(ctx, partition); err != nil { // left for the next pass
			r.log.WarnContext(ctx, "announcements not published, trying again", "error", err)
			return
		}
	}
}

// Pass publishes the partitions of which no other replica has the lease.
func (r *Relay) Pass(ctx context.Context) error {
	failures, oldest := make([]error, slices), make([]time.Time, slices)
	var work sync.WaitGroup
	for slice := range slices {
		work.Go(func() {
			ok, err := r.store.AcquireLease(ctx, fmt.Sprintf("announce-%d", slice))
			for p := slice; ok && err == nil && p < promotion.Partitions; p += slices {
				var first time.Time
				first, err = r.publishPartition(ctx, p)
				oldest[slice] = earlier(oldest[slice], first)
			}
			failures[slice] = err
		})
	}
	work.Wait()
	r.mu.Lock()
	r.oldest = time.Time{}
	for _, t := range oldest {
		r.oldest = earlier(r.oldest, t)
	}
	r.mu.Unlock()
	return errors.Join(failures...)
}

// publishPartition publishes a partition until it is empty. oldest is the time of the first
// announcement that it found, zero without any.
func (r *Relay) publishPartition(ctx context.Context, partition int) (oldest time.Time, err error) {
	for more := true; more; {
		var page []promotion.Outbox
		page, more, err = r.store.Announcements(ctx, partition)
		if err != nil || len(page) == 0 {
			return oldest, err
		}
		oldest = earlier(oldest, page[0].WrittenAt)
		var rows []promotion.Announcement
		for _, o := range page {
			rows = append(rows, o.Rows...)
		}
		if err := r.publisher.Publish(ctx, rows); err != nil {
			return oldest, err
		}
		failpoint.Hit("worker.published")
		if err := r.store.DeletePublished(ctx, partition, page); err != nil {
			return oldest, err
		}
	}
	return oldest, nil
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Oldest returns the time of the oldest announcement that the last pass of this replica found, in
// the partitions of which it has the lease; zero if it found none.
func (r *Relay) Oldest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.oldest
}
