// Package dynamo reads and writes AsyncEventTable for the worker service.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/announce"
	"urr.guru/services/worker/internal/settle"
)

const leaseLife = 15 * time.Second

var (
	_ settle.Store   = (*Store)(nil)
	_ announce.Store = (*Store)(nil)
)

// Store reads and writes requests, draws and dead letters. It is safe for concurrent use.
type Store struct {
	table.Store

	leases   dynamo.Leases
	written  func(partition int)
	finishes *batch.Coalescer[promotion.Request, struct{}]
}

const (
	// Settled requests are finished in batches of up to finishedAtOnce, collected for finishDelay. At
	// most finishesInflight batches run at a time, each for at most finishTimeout.
	finishedAtOnce   = 100
	finishDelay      = 10 * time.Millisecond
	finishesInflight = 8
	finishTimeout    = 30 * time.Second
)

// New returns a store over the table with the prefix of cfg. written is called after each
// transaction with announcements, with their partition.
func New(db *dynamodb.Client, cfg dynamo.Config, now func() time.Time, written func(partition int)) *Store {
	name := cfg.Table(table.TableName)
	leases := dynamo.Leases{Client: db, Table: name, Owner: ids.NewV7().String(), Life: leaseLife, Now: now}
	s := &Store{
		Store:   table.NewStore(leases),
		leases:  leases,
		written: written,
	}
	s.finishes = batch.NewItems(batch.Config{
		Max: finishedAtOnce, Delay: finishDelay, Inflight: finishesInflight, Timeout: finishTimeout, Keep: true,
	}, s.finishSettled)
	return s
}

// Close waits until the logs of all processed requests are written.
func (s *Store) Close(ctx context.Context) error { return s.finishes.Close(ctx) }

// Finish has the log of a processed request written, and its marker deleted, in a batch. If too
// many requests wait, the sweeper of the ingest service does it.
func (s *Store) Finish(r promotion.Request) { _ = s.finishes.Put(r) }

// finishSettled writes the logs of processed requests. If it fails, or the process dies, the
// sweeper of the ingest service finds the requests by their markers.
func (s *Store) finishSettled(ctx context.Context, settled []promotion.Request) ([]batch.Result[struct{}], error) {
	err := s.FinishSettled(ctx, settled)
	if err != nil && s.Log != nil {
		s.Log.WarnContext(ctx, "logs of settled requests not written, ingest does it later", "requests", len(settled), "error", err)
	}
	return make([]batch.Result[struct{}], len(settled)), nil
}

// toSettleError converts an error of DynamoDB to an error of package settle.
func toSettleError(err error) error {
	switch {
	case err == nil:
		return nil
	case dynamo.Contended(err):
		return fmt.Errorf("%w: %w", settle.ErrChanged, err)
	case dynamo.Throttled(err):
		return fmt.Errorf("%w: %w", settle.ErrThrottled, err)
	case errors.Is(err, errs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), dynamo.Refused(err):
		return fmt.Errorf("%w: %w", settle.ErrStoreUnavailable, err)
	default:
		return err
	}
}

func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Read(ctx, table.Key("PING", "PING"))
	return err
}

// Snapshot reads the promotion's capacity, or the lottery's draw and entry counter, and the
// requests and locks of the messages, consistently.
func (s *Store) Snapshot(ctx context.Context, messages []promotion.Message) (settle.Snapshot, error) {
	out := settle.Snapshot{Requests: map[string]promotion.Request{}, Unreadable: map[string]error{}, Locks: map[string]string{}}
	if len(messages) == 0 {
		return out, nil
	}
	first := messages[0]
	keys := []dynamo.Item{table.CapacityKey(first.EventID)}
	if first.EventType == promotion.Lottery {
		keys = []dynamo.Item{entryCounterKey(first), table.DrawKey(first.EventID)}
	}
	for _, m := range messages {
		keys = append(keys, table.RequestKey(m.RequestID), table.LockKey(m.EventID, m.UserID))
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		if err = toSettleError(err); !errors.Is(err, settle.ErrStoreUnavailable) { // no read fails because of an item
			err = fmt.Errorf("%w: %w", settle.ErrStoreUnavailable, err)
		}
		return out, err
	}
	if err := readPromotion(&out, items, first); err != nil {
		s.ReportSkipped(ctx, keys[0], err)
		return out, fmt.Errorf("%w: %w", settle.ErrPromotionUnreadable, err)
	}
	for _, m := range messages {
		it := items.Get(table.RequestKey(m.RequestID))
		if it == nil {
			continue
		}
		r, err := table.DecodeRequest(it)
		if err != nil {
			out.Unreadable[m.RequestID] = err
			continue
		}
		out.Requests[m.RequestID] = r
		if it := items.Get(table.LockKey(m.EventID, m.UserID)); it != nil {
			l, err := table.DecodeLock(it)
			if err != nil { // it is not known whether the request counts
				out.Unreadable[m.RequestID] = err
			}
			out.Locks[m.RequestID] = l.RequestID
		}
	}
	return out, nil
}

func entryCounterKey(m promotion.Message) dynamo.Item {
	return table.EntryCounterKey(m.EventID, promotion.LotteryGroup(m.RequestID))
}

// readPromotion sets the state that the messages of a group share: capacity, or draw and counter.
func readPromotion(out *settle.Snapshot, items table.Items, m promotion.Message) error {
	if m.EventType == promotion.Lottery {
		draw, err := table.DecodeDraw(m.EventID, items.Get(table.DrawKey(m.EventID)))
		if err != nil {
			return err
		}
		out.Voided = draw.Phase == promotion.DrawVoid
		out.Group, err = table.DecodeEntryCounter(items.Get(entryCounterKey(m)))
		return err
	}
	it := items.Get(table.CapacityKey(m.EventID))
	if it == nil {
		return nil
	}
	c, err := table.DecodeCapacity(it)
	out.Capacity = &c
	return err
}

func (s *Store) Settle(ctx context.Context, st settle.Settlement) error {
	tx := s.Begin()
	var unfinished []promotion.Request
	for i, c := range st.Changes {
		if tx.Settle(i, c) {
			unfinished = append(unfinished, c.After)
		}
		if st.SentAt != 0 {
			tx.SetSentAt(&c.After, st.SentAt)
		}
	}
	if c := st.Capacity; c != nil {
		before := *c
		before.Remaining, before.UpdatedAt, before.SentAt = st.RemainingBefore, 0, 0
		tx.Update(table.Shared, table.CapacityKey(c.EventID), dynamo.Diff(table.CapacityItem(&before), table.CapacityItem(c)), table.Condition{
			Expression: "capacityRemaining = :before", Values: dynamo.Item{":before": dynamo.Number(st.RemainingBefore)},
		})
	}
	failpoint.Hit("worker.decided")
	err := s.commit(ctx, tx)
	if canceled, ok := dynamo.Canceled(err); ok {
		if i, invalid := canceled.FirstInvalid(); invalid && tx.Owner(i) != table.Shared {
			return &settle.ItemError{Index: tx.Owner(i), Err: err}
		}
	}
	if err == nil {
		failpoint.Hit("worker.settled")
		for _, r := range unfinished {
			s.Finish(r)
		}
	}
	return toSettleError(err)
}

func (s *Store) commit(ctx context.Context, tx *table.Tx) error {
	err := tx.Commit(ctx)
	if partition, ok := tx.Outbox(); ok && err == nil {
		s.written(partition)
	}
	return err
}

func (s *Store) Change(ctx context.Context, c promotion.Change) error {
	tx := s.Begin()
	tx.Change(0, c)
	err := toSettleError(s.commit(ctx, tx))
	failpoint.Hit("worker.changed")
	return err
}

func (s *Store) PutUnreadable(ctx context.Context, l promotion.DeadLetter, m promotion.Message) error {
	err := toSettleError(s.EndUnreadable(ctx, m, l))
	if err == nil {
		deadLetters.Inc()
	}
	failpoint.Hit("worker.buried")
	return err
}

func (s *Store) PutDeadLetter(ctx context.Context, l promotion.DeadLetter, end *promotion.Change) error {
	tx := s.Begin()
	if end != nil {
		tx.Change(0, *end)
	}
	tx.Put(table.Shared, table.DeadLetterItem(&l), table.Condition{})
	err := toSettleError(s.commit(ctx, tx))
	if err == nil {
		deadLetters.Inc()
	}
	failpoint.Hit("worker.buried")
	return err
}
