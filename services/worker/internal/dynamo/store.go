// Package dynamo reads and writes AsyncEventTable for worker.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/ids"
	"urr.guru/services/worker/internal/announce"
	"urr.guru/services/worker/internal/settle"
)

const leaseLife = 15 * time.Second

var (
	_ settle.Store   = (*Store)(nil)
	_ announce.Store = (*Store)(nil)
)

// Store is safe for concurrent use.
type Store struct {
	asyncevent.Store

	leases  dynamo.Leases
	written func(partition int)
}

// New returns a store over the table that cfg names. written is called with the partition of the
// announcements of each transaction.
func New(db *dynamodb.Client, cfg dynamo.Config, now func() time.Time, written func(partition int)) *Store {
	table := cfg.Table(asyncevent.TableName)
	return &Store{
		Store:   asyncevent.Store{Client: db, Table: table, Now: now},
		leases:  dynamo.Leases{Client: db, Table: table, Owner: ids.NewV7().String(), Life: leaseLife, Now: now},
		written: written,
	}
}

// fault converts an error of the store to those that settling distinguishes.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case dynamo.Contended(err):
		return fmt.Errorf("%w: %w", settle.ErrChanged, err)
	case errors.Is(err, errs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", settle.ErrStoreAway, err)
	default:
		return err
	}
}

// Ping implements settle.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Read(ctx, asyncevent.Key("PING", "PING"))
	return err
}

// Snapshot implements settle.Store: one consistent read of the capacity, the requests and the locks.
func (s *Store) Snapshot(ctx context.Context, messages []asyncevent.Message) (settle.Snapshot, error) {
	out := settle.Snapshot{Requests: map[string]asyncevent.Request{}, Unreadable: map[string]error{}, Locks: map[string]string{}}
	if len(messages) == 0 {
		return out, nil
	}
	first := messages[0]
	keys := []dynamo.Item{asyncevent.CapacityKey(first.EventID)}
	if first.EventType == asyncevent.Lottery {
		keys = []dynamo.Item{groupOf(first), asyncevent.DrawKey(first.EventID)}
	}
	asked := map[string]bool{}
	for _, m := range messages {
		for name, key := range map[string]dynamo.Item{
			"request " + m.RequestID: asyncevent.RequestKey(m.RequestID),
			"lock " + m.UserID:       asyncevent.LockKey(m.EventID, m.UserID),
		} {
			if !asked[name] {
				asked[name] = true
				keys = append(keys, key)
			}
		}
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return out, fault(err)
	}
	if err := readPromotion(&out, items, first); err != nil {
		return out, err
	}
	for _, m := range messages {
		it := items.Get(asyncevent.RequestKey(m.RequestID))
		if it == nil {
			continue
		}
		r, err := asyncevent.DecodeRequest(it)
		if err != nil {
			out.Unreadable[m.RequestID] = err
			continue
		}
		out.Requests[m.RequestID] = r
		if it := items.Get(asyncevent.LockKey(m.EventID, m.UserID)); it != nil {
			l, err := asyncevent.DecodeLock(it)
			if err != nil {
				return out, err
			}
			out.Locks[m.RequestID] = l.RequestID
		}
	}
	return out, nil
}

func groupOf(m asyncevent.Message) dynamo.Item {
	return asyncevent.EntryCounterKey(m.EventID, asyncevent.LotteryGroup(m.RequestID))
}

// readPromotion reads what the messages of a group have in common.
func readPromotion(out *settle.Snapshot, items asyncevent.Items, m asyncevent.Message) error {
	if m.EventType == asyncevent.Lottery {
		draw, err := asyncevent.DecodeDraw(m.EventID, items.Get(asyncevent.DrawKey(m.EventID)))
		if err != nil {
			return err
		}
		out.Voided = draw.Phase == asyncevent.DrawVoid
		out.Group, err = asyncevent.DecodeEntryCounter(items.Get(groupOf(m)))
		return err
	}
	it := items.Get(asyncevent.CapacityKey(m.EventID))
	if it == nil {
		return nil
	}
	c, err := asyncevent.DecodeCapacity(it)
	out.Capacity = &c
	return err
}

// Settle implements settle.Store.
func (s *Store) Settle(ctx context.Context, st settle.Settlement) error {
	tx := s.Begin()
	for i, c := range st.Changes {
		tx.Change(i, c)
		if st.SentAt != 0 {
			tx.Sent(&c.After, st.SentAt)
		}
	}
	if c := st.Capacity; c != nil {
		before := *c
		before.Remaining, before.UpdatedAt, before.SentAt = st.Before, 0, 0
		tx.Update(asyncevent.Shared, asyncevent.CapacityKey(c.EventID), dynamo.Diff(before.Item(), c.Item()), asyncevent.Condition{
			Expression: "capacityRemaining = :before", Values: dynamo.Item{":before": dynamo.Number(st.Before)},
		})
	}
	failpoint.Hit("worker.decided")
	err := s.commit(ctx, tx)
	if canceled, ok := dynamo.Canceled(err); ok {
		if i, invalid := canceled.Invalid(); invalid && tx.Owner(i) != asyncevent.Shared {
			return &settle.ItemError{Index: tx.Owner(i), Err: err}
		}
	}
	if err == nil {
		failpoint.Hit("worker.settled")
	}
	return fault(err)
}

func (s *Store) commit(ctx context.Context, tx *asyncevent.Tx) error {
	err := tx.Commit(ctx)
	if partition, ok := tx.Outbox(); ok && err == nil {
		s.written(partition)
	}
	return err
}

// Change implements settle.Store.
func (s *Store) Change(ctx context.Context, c asyncevent.Change) error {
	tx := s.Begin()
	tx.Change(0, c)
	err := fault(s.commit(ctx, tx))
	failpoint.Hit("worker.changed")
	return err
}

// Requeue implements settle.Store.
func (s *Store) Requeue(ctx context.Context, c asyncevent.Change) error { return s.Change(ctx, c) }

// BuryUnreadable implements settle.Store.
func (s *Store) BuryUnreadable(ctx context.Context, l asyncevent.DeadLetter, m asyncevent.Message) error {
	err := fault(s.EndUnreadable(ctx, m, l))
	if err == nil {
		deadLetters.Inc()
	}
	failpoint.Hit("worker.buried")
	return err
}

// Bury implements settle.Store.
func (s *Store) Bury(ctx context.Context, l asyncevent.DeadLetter, end *asyncevent.Change) error {
	tx := s.Begin()
	if end != nil {
		tx.Change(0, *end)
	}
	tx.Put(asyncevent.Shared, l.Item(), asyncevent.Condition{})
	err := fault(s.commit(ctx, tx))
	if err == nil {
		deadLetters.Inc()
	}
	failpoint.Hit("worker.buried")
	return err
}
