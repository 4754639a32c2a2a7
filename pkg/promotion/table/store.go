package table

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// Store reads and writes what ingest and worker have in common.
type Store struct {
	Client *dynamodb.Client
	// Table is the table's full name.
	Table string
	Now   func() time.Time
	// Log receives an error per item that cannot be decoded and is skipped; may be nil.
	Log *slog.Logger
}

func (s Store) Millis() int64 { return s.Now().UnixMilli() }
func (s Store) Begin() *Tx    { return NewTx(s.Client, s.Table, s.Millis()) }

// Read reads items consistently by their keys, which must be unique; absent items are left out.
func (s Store) Read(ctx context.Context, keys ...dynamo.Item) (Items, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return Read(ctx, s.Client, s.Table, keys...)
}

func (s Store) Query(ctx context.Context, p Partition) (items []dynamo.Item, more bool, err error) {
	return p.Query(ctx, s.Client, s.Table)
}

// Request reads a request; found is false when there is none, or it has expired.
func (s Store) Request(ctx context.Context, id string) (r promotion.Request, found bool, err error) {
	items, err := s.Read(ctx, RequestKey(id))
	if err != nil {
		return r, false, err
	}
	it := items.Get(RequestKey(id))
	if it == nil || Expired(it, s.Millis()) {
		return r, false, nil
	}
	r, err = DecodeRequest(it)
	return r, err == nil, err
}

// MarkQueued records that the queue has taken the messages of these requests, all in one
// transaction of at most 10. It returns the requests as they are then; those that somebody has
// changed meanwhile are left out of the transaction and returned as they were read.
func (s Store) MarkQueued(ctx context.Context, requests []promotion.Request) ([]promotion.Request, error) {
	out := append([]promotion.Request(nil), requests...)
	left := make([]int, len(requests))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		tx := s.Begin()
		for _, i := range left {
			r := requests[i]
			if r.Status == promotion.Received {
				c := r.Queued(s.Millis())
				tx.Change(i, c)
				out[i] = c.After
			} else { // redriven, or sent again: only the marker changes
				tx.Check(i, RequestKey(r.RequestID), RequestAsRead(&r))
			}
			m := promotion.MarkerOf(&r, s.Millis())
			m.QueuedAt = m.MarkedAt
			tx.Put(i, MarkerItem(&m), Present())
		}
		err := tx.Commit(ctx)
		if err == nil {
			break
		}
		moved := tx.Failed(err)
		if len(moved) == 0 {
			return requests, err
		}
		var rest []int
		for _, i := range left {
			if moved[i] {
				out[i] = requests[i]
			} else {
				rest = append(rest, i)
			}
		}
		left = rest
	}
	return out, nil
}

// Redrive begins a failed request anew: a new generation, a marker, and the lock, if it has
// expired. An application of the user that takes over the lock at the same time excludes it: each
// requires that the other has not happened.
func (s Store) Redrive(ctx context.Context, id string) (promotion.Request, error) {
	r, found, err := s.Request(ctx, id)
	if errors.Is(err, promotion.ErrUnreadable) {
		s.Skipped(ctx, RequestKey(id), err)
		return r, promotion.ErrNotRedrivable
	}
	if err != nil {
		return r, err
	}
	if !found || !r.Redrivable() {
		return r, promotion.ErrNotRedrivable
	}
	c := r.Redriven(s.Millis())
	tx := s.Begin()
	tx.Change(0, c)
	lock := promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: id, CreatedAt: s.Millis(), EndsAt: r.EndsAt}
	tx.Update(0, LockKey(r.EventID, r.UserID), renewal(&lock), absentOrNames(id))
	err = tx.Commit(ctx)
	if len(tx.Failed(err)) > 0 {
		return r, promotion.ErrNotRedrivable
	}
	return c.After, err
}
