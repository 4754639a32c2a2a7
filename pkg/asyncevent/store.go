package asyncevent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/dynamo"
)

// Store reads and writes what ingest and worker have in common.
type Store struct {
	Client *dynamodb.Client
	// Table is the table's full name.
	Table string
	Now   func() time.Time
	// Log gets what is left out since it cannot be read; nil: nothing is logged.
	Log *slog.Logger
}

// Millis is the present time.
func (s Store) Millis() int64 { return s.Now().UnixMilli() }

// Begin begins a transaction.
func (s Store) Begin() *Tx { return NewTx(s.Client, s.Table, s.Millis()) }

// Read reads items consistently by their keys, which must be unique; absent items are left out.
func (s Store) Read(ctx context.Context, keys ...dynamo.Item) (Items, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return Read(ctx, s.Client, s.Table, keys...)
}

// Query reads one page of a partition.
func (s Store) Query(ctx context.Context, p Partition) (items []dynamo.Item, more bool, err error) {
	return p.Query(ctx, s.Client, s.Table)
}

// Request reads a request; found is false when there is none, or it has expired.
func (s Store) Request(ctx context.Context, id string) (r Request, found bool, err error) {
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
func (s Store) MarkQueued(ctx context.Context, requests []Request) ([]Request, error) {
	out := append([]Request(nil), requests...)
	left := make([]int, len(requests))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		tx := s.Begin()
		for _, i := range left {
			r := requests[i]
			if r.Status == Received {
				c := r.Queued(s.Millis())
				tx.Change(i, c)
				out[i] = c.After
			} else { // redriven, or sent again: only the marker changes
				tx.Check(i, RequestKey(r.RequestID), AsRead(&r))
			}
			m := MarkerOf(&r, s.Millis())
			m.QueuedAt = m.MarkedAt
			tx.Put(i, m.Item(), Present())
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

// Failed are the owners of items whose condition did not hold.
func (t *Tx) Failed(err error) map[int]bool {
	canceled, ok := dynamo.Canceled(err)
	if !ok {
		return nil
	}
	failed := map[int]bool{}
	for i := range canceled.Reasons {
		if canceled.Failed(i) {
			failed[t.Owner(i)] = true
		}
	}
	return failed
}

// ErrNotRedrivable means that a request has not failed, that its user has applied again, even if
// that application was withdrawn, or that its item cannot be read.
var ErrNotRedrivable = errors.New("the request cannot begin anew")

// Redrive begins a failed request anew: a new generation, a marker, and the lock, if it has
// expired. An application of the user that takes over the lock at the same time excludes it: each
// requires that the other has not happened.
func (s Store) Redrive(ctx context.Context, id string) (Request, error) {
	r, found, err := s.Request(ctx, id)
	if errors.Is(err, ErrUnreadable) {
		s.Skipped(ctx, RequestKey(id), err)
		return r, ErrNotRedrivable
	}
	if err != nil {
		return r, err
	}
	if !found || r.Status != FailedFinal || r.ResultCode == FailedIngestEnqueue {
		return r, ErrNotRedrivable
	}
	c := r.Redriven(s.Millis())
	tx := s.Begin()
	tx.Change(0, c)
	lock := Lock{EventID: r.EventID, UserID: r.UserID, RequestID: id, CreatedAt: s.Millis(), EndsAt: r.EndsAt}
	tx.Update(0, LockKey(r.EventID, r.UserID), lock.renewal(), absentOrNames(id))
	err = tx.Commit(ctx)
	if len(tx.Failed(err)) > 0 {
		return r, ErrNotRedrivable
	}
	return c.After, err
}
