// Package settle decides about requests in the order of the queue, exactly as many of a first-come
// promotion as it has places, whatever process dies and however often a message is delivered. Requests
// to a lottery become entries, each once, until its draw ends that.
package settle

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

// The ways in which settling can go wrong.
var (
	// ErrChanged: what was read has changed meanwhile, so it must be read again. No attempt is counted.
	ErrChanged = errors.New("changed meanwhile")
	// ErrStoreAway: the store does not answer. No attempt is counted.
	ErrStoreAway = errors.New("the store does not answer")
)

// ItemError names the request on which a transaction failed, by its index.
type ItemError struct {
	Index int
	Err   error
}

func (e *ItemError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ItemError) Unwrap() error { return e.Err }

// Snapshot is what a decision is based on, read consistently.
type Snapshot struct {
	// Capacity of the promotion; nil when it has none.
	Capacity *promotion.Capacity
	// Group is the counter of the messages' group of a lottery.
	Group promotion.EntryCounter
	// Voided means that the lottery was cancelled.
	Voided   bool
	Requests map[string]promotion.Request
	// Unreadable are requests whose item cannot be read, with the reason.
	Unreadable map[string]error
	// Locks name the request that counts, by the request that was asked for; absent without a lock.
	Locks map[string]string
}

// Settlement is one transaction.
type Settlement struct {
	Changes []promotion.Change
	// Capacity is to be written if it is still as it was read; nil: it is not touched.
	Capacity *promotion.Capacity
	// Before is the number of places that was read.
	Before int64
	// SentAt, of a lottery, is when the queue got the latest of the group's messages that are settled.
	SentAt int64
}

// Store reads and writes requests. Its errors are ErrChanged, ErrStoreAway, an ItemError, or others
// that name no request. What is read and what is written are two calls, not one with a decision in
// between, since a Snapshot also says which messages need no settling, and which must be settled alone.
type Store interface {
	// Snapshot reads what messages of one event are about.
	Snapshot(ctx context.Context, messages []promotion.Message) (Snapshot, error)
	Settle(ctx context.Context, s Settlement) error
	// Change writes a step of one request.
	Change(ctx context.Context, c promotion.Change) error
	// Bury writes a dead letter, with the end of its request, if it has one.
	Bury(ctx context.Context, l promotion.DeadLetter, end *promotion.Change) error
	// BuryUnreadable writes a dead letter and ends its request, whose item cannot be read.
	BuryUnreadable(ctx context.Context, l promotion.DeadLetter, m promotion.Message) error
	MarkQueued(ctx context.Context, requests []promotion.Request) ([]promotion.Request, error)
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
}

// Queue is the queue of live requests, or of dead letters.
type Queue interface {
	Receive(ctx context.Context) ([]promotion.Delivery, error)
	Delete(ctx context.Context, messages []promotion.Delivery) error
	Release(ctx context.Context, messages []promotion.Delivery, after time.Duration) error
	Send(ctx context.Context, out []promotion.Outgoing) []error
	Forward(ctx context.Context, m promotion.Delivery, id string) error
}

// Options of a Settler.
type Options struct {
	// MaxAttempts is the number of failed attempts after which a request is a dead letter.
	MaxAttempts int64
	// RetryDelay is the pause after the first failed attempt; it grows with each.
	RetryDelay time.Duration
	Now        func() time.Time
}

const (
	// suspiciousReceives is the number of receipts from which a message is handled alone, and its
	// attempt is counted first: it may be what ends the process.
	suspiciousReceives = 10
	// maxLooks bounds how often the messages of one receipt are decided anew.
	maxLooks = 30
	// foreignDelay is for how long messages are released that this replica cannot settle.
	foreignDelay = 30 * time.Second
)

// Settler settles what was received.
type Settler struct {
	store Store
	queue Queue
	dead  Queue
	opts  Options
	log   *slog.Logger
}

// New makes a settler.
func New(store Store, queue, dead Queue, opts Options, log *slog.Logger) *Settler {
	return &Settler{store: store, queue: queue, dead: dead, opts: opts, log: log}
}

func (s *Settler) millis() int64 { return s.opts.Now().UnixMilli() }

// delivery is a message that can be read, with its request.
type delivery struct {
	promotion.Delivery

	message promotion.Message
	request promotion.Request
}

// Handle settles a batch, each group by itself. After an error what is not settled is released, so
// that it comes again; after ErrStoreAway only some seconds later.
func (s *Settler) Handle(ctx context.Context, batch []promotion.Delivery) error {
	var order []string
	groups := map[string][]delivery{}
	for _, m := range batch {
		message, err := promotion.DecodeMessage(m.Body)
		if err != nil {
			if err := s.moveAway(ctx, m, m.ID); err != nil {
				return errors.Join(err, s.queue.Release(ctx, batch, 0))
			}
			continue
		}
		if groups[m.Group] == nil {
			order = append(order, m.Group)
		}
		groups[m.Group] = append(groups[m.Group], delivery{Delivery: m, message: message})
	}
	var all []error
	for _, g := range order {
		all = append(all, s.group(ctx, groups[g]))
	}
	return errors.Join(all...)
}

// moveAway makes a message a dead letter. Dying in between makes two copies of one deduplication id.
func (s *Settler) moveAway(ctx context.Context, m promotion.Delivery, id string) error {
	if err := s.dead.Forward(ctx, m, id); err != nil {
		return err
	}
	return s.queue.Delete(ctx, []promotion.Delivery{m})
}

// triage is the messages of a group, sorted by what is stored of their requests.
type triage struct {
	done    []promotion.Delivery // settled already: to be deleted
	live    []delivery           // to be settled, in the order of the queue
	rest    []delivery           // everything that is not done
	seen    Snapshot
	unknown bool // the first one is of a kind that this replica cannot settle
}

// group settles the messages of one group in their order.
func (s *Settler) group(ctx context.Context, all []delivery) error {
	limit := 0                   // of the requests in the next transaction; 0: none
	counted := map[string]bool{} // attempts that were counted before they began
	for range maxLooks {
		t, err := s.look(ctx, all)
		if err != nil {
			return s.giveBack(ctx, all, 0, err)
		}
		s.deleteSettled(ctx, t.done)
		all = t.rest
		if len(t.live) == 0 {
			return nil
		}
		first := t.live[0]
		switch {
		case t.unknown:
			return s.giveBack(ctx, all, foreignDelay, nil)
		case first.request.Attempts >= s.opts.MaxAttempts, t.seen.Unreadable[first.message.RequestID] != nil:
			if err := s.moveAway(ctx, first.Delivery, first.message.DeduplicationID("")); err != nil {
				return s.giveBack(ctx, all, 0, err)
			}
			all = without(all, first.message.RequestID)
			if len(all) == 0 {
				return nil
			}
			continue
		case first.Receives >= suspiciousReceives && !counted[first.message.RequestID]:
			counted[first.message.RequestID] = true
			if err := s.count(ctx, first.request, "SUSPECTED", errors.New("it was received often and not settled")); err != nil && !errors.Is(err, ErrChanged) {
				return s.giveBack(ctx, all, 0, err)
			}
			continue
		}
		n := s.batchSize(t.live, limit)
		limit = 0
		err = s.try(ctx, t.seen, t.live[:n])
		var item *ItemError
		switch {
		case err == nil:
			if all = s.remove(ctx, all, t.live[:n]); len(all) == 0 {
				return nil
			}
		case errors.Is(err, ErrChanged):
			if !pause(ctx) {
				return s.giveBack(ctx, all, 0, ctx.Err())
			}
		case errors.Is(err, ErrStoreAway), ctx.Err() != nil:
			return s.giveBack(ctx, all, 0, err)
		case errors.As(err, &item) && item.Index > 0:
			limit = item.Index // those before it are settled by themselves
		case item == nil && n > 1:
			limit = 1 // any of them may be why: the first one is tried alone
		default:
			return s.failed(ctx, all, first, counted[first.message.RequestID], err)
		}
	}
	return s.giveBack(ctx, all, 0, nil)
}

// pause waits 20 to 50 ms, so that those who met at an item do not meet again; false: ctx has ended.
func pause(ctx context.Context) bool {
	return loop.Sleep(ctx, 20*time.Millisecond+rand.N(30*time.Millisecond)) //nolint:gosec // jitter
}

// failed counts the attempt of the first request and releases everything from it on together, so that
// the order of the group stays.
func (s *Settler) failed(ctx context.Context, all []delivery, first delivery, counted bool, cause error) error {
	s.log.WarnContext(ctx, "request not settled, trying again", "request_id", first.message.RequestID, "event_id", first.message.EventID,
		"attempts", first.request.Attempts+1, "error", cause)
	if !counted {
		if err := s.count(ctx, first.request, "SETTLE_FAILED", cause); err != nil && !errors.Is(err, ErrChanged) {
			return s.giveBack(ctx, all, 0, err)
		}
	}
	return s.giveBack(ctx, all, s.opts.RetryDelay*time.Duration(first.request.Attempts+1), nil)
}

func (s *Settler) count(ctx context.Context, r promotion.Request, code string, cause error) error {
	return s.store.Change(ctx, r.Attempted(s.millis(), promotion.Failure{Class: promotion.Retryable, Code: code, Message: cause.Error()}))
}

// giveBack releases messages together and returns the reason. While the store does not answer they
// stay hidden, for Run to try again.
func (s *Settler) giveBack(ctx context.Context, all []delivery, after time.Duration, reason error) error {
	received := make([]promotion.Delivery, len(all))
	for i, d := range all {
		received[i] = d.Delivery
	}
	if errors.Is(reason, ErrStoreAway) {
		after = holdFor
	}
	// The messages come again by themselves later.
	if err := s.queue.Release(context.WithoutCancel(ctx), received, after); err != nil {
		s.log.WarnContext(ctx, "messages not released", "error", err)
	}
	return reason
}

// remove deletes the messages of settled requests and returns the others.
func (s *Settler) remove(ctx context.Context, all, settled []delivery) []delivery {
	ended := map[string]bool{}
	for _, d := range settled {
		ended[d.message.RequestID] = true
	}
	var gone []promotion.Delivery
	var rest []delivery
	for _, d := range all {
		if ended[d.message.RequestID] {
			gone = append(gone, d.Delivery)
		} else {
			rest = append(rest, d)
		}
	}
	s.deleteSettled(ctx, gone)
	return rest
}

func (s *Settler) deleteSettled(ctx context.Context, gone []promotion.Delivery) {
	if err := s.queue.Delete(ctx, gone); err != nil {
		s.log.WarnContext(ctx, "settled messages not deleted: they come again", "error", err)
	}
}

func without(all []delivery, id string) []delivery {
	var rest []delivery
	for _, d := range all {
		if d.message.RequestID != id {
			rest = append(rest, d)
		}
	}
	return rest
}
