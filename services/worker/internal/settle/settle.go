// Package settle decides about requests in the order of the queue. Exactly as many requests to a
// first-come promotion succeed as it has places, whichever process dies and however often a message
// is delivered. Each request to a lottery becomes an entry, once, until the draw closes its group.
package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

// Errors of a Store after which no attempt is counted against a request.
var (
	// ErrChanged means that what was read has changed meanwhile and must be read again.
	ErrChanged = errors.New("changed meanwhile")
	// ErrStoreUnavailable means that the store does not answer, or refuses a write for a reason that
	// no request has caused.
	ErrStoreUnavailable = errors.New("the store does not answer")
	// ErrThrottled is an ErrStoreUnavailable that may be over some milliseconds later.
	ErrThrottled = fmt.Errorf("%w: throttled", ErrStoreUnavailable)
	// ErrPromotionUnreadable means that an item of the promotion cannot be read. Its requests wait until
	// it is repaired.
	ErrPromotionUnreadable = errors.New("an item of the promotion cannot be read")
)

// ItemError is the failure of a transaction because of one request, which Index identifies.
type ItemError struct {
	Index int
	Err   error
}

func (e *ItemError) Error() string { return e.Err.Error() }

func (e *ItemError) Unwrap() error { return e.Err }

// Snapshot is the stored state on which the decision about requests is based, read consistently.
type Snapshot struct {
	// Capacity is the number of places of the promotion; nil when it has none.
	Capacity *promotion.Capacity
	// Group is the entry counter of the messages' group, in a lottery.
	Group promotion.EntryCounter
	// Voided means that the lottery was cancelled.
	Voided   bool
	Requests map[string]promotion.Request // by id
	// Unreadable has the reason why the item of a request cannot be read, by the request's id.
	Unreadable map[string]error
	// Locks has the request id in the user's lock, by the id of the message's request. The two differ
	// for a duplicate.
	Locks map[string]string
}

// Settlement is the content of one transaction: the changes of requests, and of the places left.
type Settlement struct {
	Changes []promotion.Change
	// Capacity is written if RemainingBefore, the number of places that was read, is still stored;
	// nil: it does not change.
	Capacity        *promotion.Capacity
	RemainingBefore int64
	// SentAt is when the latest message in this transaction, of a lottery's group, was sent to the
	// queue.
	SentAt int64
}

// Store reads and writes requests. It fails with ErrChanged, ErrStoreUnavailable, an ItemError, or
// an error of no particular request; Snapshot also with ErrPromotionUnreadable. Reading and writing
// are two calls, not one with a decision in between, since the Snapshot also shows which messages
// need no processing, and which must be processed alone.
type Store interface {
	// Snapshot reads the state of the requests in messages, all of one event.
	Snapshot(ctx context.Context, messages []promotion.Message) (Snapshot, error)
	Settle(ctx context.Context, s Settlement) error
	// Finish writes, some time later, the log of a request that Settle has ended without its log.
	Finish(r promotion.Request)
	// Change writes the change of one request.
	Change(ctx context.Context, c promotion.Change) error
	// PutDeadLetter writes a dead letter, and, unless end is nil, the end of its request.
	PutDeadLetter(ctx context.Context, l promotion.DeadLetter, end *promotion.Change) error
	// PutUnreadable writes a dead letter and ends its request, whose item cannot be read.
	PutUnreadable(ctx context.Context, l promotion.DeadLetter, m promotion.Message) error
	MarkQueued(ctx context.Context, requests []promotion.Request, takenAt int64) ([]promotion.Request, error)
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

// Options are the limits and the clock of a Settler.
type Options struct {
	// MaxAttempts is the number of failed attempts after which a request is a dead letter.
	MaxAttempts int64
	// RetryDelay is the pause after the first failed attempt; it grows with each.
	RetryDelay time.Duration
	Now        func() time.Time
}

const (
	// Each request of a message that was received suspiciousReceives times is handled alone, and its
	// attempt is counted first, since it may be what kills the process.
	suspiciousReceives = 10
	// maxPasses is how many times the state of a group's messages is read before they are released.
	maxPasses = 30
	// foreignDelay is how long messages of a type that this replica cannot process stay hidden.
	foreignDelay = 30 * time.Second
	// unreadableDelay is how long messages stay hidden if their promotion cannot be read. SQS makes a
	// dead letter of a message that was received 100 times: with this delay after 8 hours.
	unreadableDelay = 5 * time.Minute
	// throttleTries is how many times in a row a throttled store is tried for a group. The pauses grow
	// from about 10 ms to about 320 ms.
	throttleTries = 7
	throttlePause = 10 * time.Millisecond
)

// Settler decides about the requests in messages from the queue, and stores the results.
type Settler struct {
	store Store
	queue Queue
	dead  Queue
	opts  Options
	log   *slog.Logger
}

// New returns a Settler.
func New(store Store, queue, dead Queue, opts Options, log *slog.Logger) *Settler {
	return &Settler{store: store, queue: queue, dead: dead, opts: opts, log: log}
}

func (s *Settler) millis() int64 { return s.opts.Now().UnixMilli() }

// delivery is one of the requests in a received message, with its stored state.
type delivery struct {
	*promotion.Delivery

	index   int // of the request in the message
	message promotion.Message
	request promotion.Request
}

func (d *delivery) turn() promotion.Turn {
	return promotion.Turn{SequenceNumber: d.SequenceNumber, Member: d.index, SentAt: d.SentAt}
}

// Handle processes a batch, each group by itself. After an error it releases the messages that are
// left, so that they are delivered again, after ErrStoreUnavailable some seconds later.
func (s *Settler) Handle(ctx context.Context, batch []promotion.Delivery) error {
	var order []string
	groups := map[string][]delivery{}
	for _, m := range batch {
		requests, err := promotion.DecodeBody(m.Body)
		if err != nil {
			if err := s.moveToDeadLetters(ctx, m, m.ID); err != nil {
				return errors.Join(err, s.queue.Release(ctx, batch, 0))
			}
			continue
		}
		if groups[m.Group] == nil {
			order = append(order, m.Group)
		}
		for i, message := range requests {
			groups[m.Group] = append(groups[m.Group], delivery{Delivery: &m, index: i, message: message})
		}
	}
	var all []error
	for _, g := range order {
		all = append(all, s.settleGroup(ctx, groups[g]))
	}
	return errors.Join(all...)
}

// moveToDeadLetters moves a message to the queue of dead letters. If the process dies in between,
// the message is moved twice, under one deduplication id.
func (s *Settler) moveToDeadLetters(ctx context.Context, m promotion.Delivery, id string) error {
	if err := s.dead.Forward(ctx, m, id); err != nil {
		return err
	}
	return s.queue.Delete(ctx, []promotion.Delivery{m})
}

// sortedMessages are the requests in a group's messages, sorted by what is stored about them.
type sortedMessages struct {
	live        []delivery // the requests to decide about, each once, in the order of the queue
	unsettled   []delivery // all deliveries whose requests are not processed yet
	snapshot    Snapshot
	unsupported bool // live[0] is of a type that this replica cannot process
}

// messageGroup has the requests of one message group of the queue that are not handled yet. A
// message is deleted when none of its requests is left.
type messageGroup struct {
	all     []delivery
	limit   int             // the maximum number of requests in the next transaction; 0: no limit
	counted map[string]bool // requests whose attempt was counted before it began
}

// settleGroup processes the messages of one group in their order.
func (s *Settler) settleGroup(ctx context.Context, all []delivery) error {
	g := &messageGroup{all: all, counted: map[string]bool{}}
	throttled := 0
	for range maxPasses {
		again, after, err := s.settleFirst(ctx, g)
		if errors.Is(err, ErrThrottled) && throttled < throttleTries && loop.Sleep(ctx, jitter(throttlePause<<throttled)) {
			throttled++
			continue
		}
		if !again || err != nil {
			return s.release(ctx, g.all, after, err)
		}
	}
	return s.release(ctx, g.all, 0, nil)
}

// settleFirst processes the first messages of a group. again reports that it can be called again at
// once. If not, the caller must release the messages left, and hide them for the time `after`.
func (s *Settler) settleFirst(ctx context.Context, g *messageGroup) (again bool, after time.Duration, err error) {
	t, err := s.sortMessages(ctx, g.all)
	if errors.Is(err, ErrPromotionUnreadable) {
		return false, unreadableDelay, nil
	}
	if err != nil {
		return false, 0, err
	}
	if s.keep(ctx, g, t.unsettled); len(t.live) == 0 {
		return false, 0, nil
	}
	first := t.live[0]
	id := first.message.RequestID
	switch {
	case t.unsupported:
		return false, foreignDelay, nil
	case first.request.Attempts >= s.opts.MaxAttempts, t.snapshot.Unreadable[id] != nil:
		alone := *first.Delivery
		alone.Body = promotion.Body(first.message)
		if err := s.dead.Forward(ctx, alone, first.message.DeduplicationID("")); err != nil {
			return false, 0, err
		}
		s.drop(ctx, g, t.live[:1])
		return len(g.all) > 0, 0, nil
	case first.Receives >= suspiciousReceives && !g.counted[id]:
		if err := s.countAttempt(ctx, first.request, "SUSPECTED", errors.New("it was received often and not settled")); err != nil && !errors.Is(err, ErrChanged) {
			return false, 0, err
		}
		g.counted[id] = true
		return true, 0, nil
	}
	n := s.batchSize(&t, g.limit)
	g.limit = 0
	err = s.trySettle(ctx, t.snapshot, t.live[:n])
	var item *ItemError
	switch {
	case err == nil:
		s.drop(ctx, g, t.live[:n])
		return len(g.all) > 0, 0, nil
	case errors.Is(err, ErrChanged):
		if !pauseBriefly(ctx) {
			return false, 0, ctx.Err()
		}
	case errors.Is(err, ErrStoreUnavailable), ctx.Err() != nil:
		return false, 0, err
	case errors.As(err, &item) && item.Index > 0:
		g.limit = item.Index // the requests before it are processed without it
	case item == nil && n > 1:
		g.limit = 1 // any request may be the cause: the first one is tried alone
	default:
		after, err := s.retryLater(ctx, first, g.counted[id], err)
		return false, after, err
	}
	return true, 0, nil
}

// jitter returns a random time from d/2 to 3d/2: callers that collided do not collide again.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // jitter
}

// pauseBriefly waits about 35 ms; it returns false when ctx has ended.
func pauseBriefly(ctx context.Context) bool { return loop.Sleep(ctx, jitter(35*time.Millisecond)) }

// retryLater counts the attempt of the first request, and returns after which time it is released
// with all messages behind it, so that the order of the group is kept.
func (s *Settler) retryLater(ctx context.Context, first delivery, counted bool, cause error) (time.Duration, error) {
	s.log.WarnContext(ctx, "request not settled, trying again", "request_id", first.message.RequestID, "event_id", first.message.EventID,
		"attempts", first.request.Attempts+1, "error", cause)
	if !counted {
		if err := s.countAttempt(ctx, first.request, "SETTLE_FAILED", cause); err != nil && !errors.Is(err, ErrChanged) {
			return 0, err
		}
	}
	return s.opts.RetryDelay * time.Duration(first.request.Attempts+1), nil
}

func (s *Settler) countAttempt(ctx context.Context, r promotion.Request, code string, cause error) error {
	return s.store.Change(ctx, r.Attempted(s.millis(), promotion.Failure{Class: promotion.Retryable, Code: code, Message: cause.Error()}))
}

// release makes messages visible to receivers after a time, and returns reason. If the store does
// not answer, they stay hidden for outageHold, since Run then handles them again.
func (s *Settler) release(ctx context.Context, all []delivery, after time.Duration, reason error) error {
	if len(all) == 0 {
		return reason
	}
	received := messagesOf(all)
	if errors.Is(reason, ErrStoreUnavailable) {
		after = outageHold
	}
	// After an error the messages become visible at the end of their visibility timeout.
	if err := s.queue.Release(context.WithoutCancel(ctx), received, after); err != nil {
		s.log.WarnContext(ctx, "messages not released", "error", err)
	}
	return reason
}

// messagesOf returns the messages of deliveries. Those of one message must follow each other.
func messagesOf(all []delivery) (messages []promotion.Delivery) {
	var last *promotion.Delivery
	for _, d := range all {
		if d.Delivery != last {
			last = d.Delivery
			messages = append(messages, *last)
		}
	}
	return messages
}

// drop removes from the group all deliveries whose requests were processed.
func (s *Settler) drop(ctx context.Context, g *messageGroup, settled []delivery) {
	done := make(map[string]bool, len(settled))
	for _, d := range settled {
		done[d.message.RequestID] = true
	}
	s.keep(ctx, g, slices.DeleteFunc(slices.Clone(g.all), func(d delivery) bool { return done[d.message.RequestID] }))
}

// keep leaves only the unprocessed deliveries in the group, and deletes messages that have none.
func (s *Settler) keep(ctx context.Context, g *messageGroup, unsettled []delivery) {
	remaining := make(map[*promotion.Delivery]bool, len(unsettled))
	for _, d := range unsettled {
		remaining[d.Delivery] = true
	}
	removed := slices.DeleteFunc(g.all, func(d delivery) bool { return remaining[d.Delivery] })
	g.all = unsettled
	if err := s.queue.Delete(ctx, messagesOf(removed)); err != nil {
		s.log.WarnContext(ctx, "settled messages not deleted: they come again", "error", err)
	}
}
