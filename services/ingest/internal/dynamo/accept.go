package dynamo

import (
	"context"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

// acceptTries bounds how often a group is decided anew after a lock has changed.
const acceptTries = 5

// Accept implements request.Acceptor. A call that is cancelled before its group begins stores
// nothing. After a time-out the request may be stored all the same; the user's next application finds
// it.
func (s *Store) Accept(ctx context.Context, a request.Application) (request.Applied, error) {
	return s.accepts.Do(ctx, a.EventID, a)
}

// applicant is one user of a group, with all the calls of the user in it.
type applicant struct {
	app   request.Application
	calls []int
	id    string // of the request, if it becomes one

	// What the last read has found.
	lock    *promotion.Lock
	current *promotion.Request // that the lock names

	done    bool
	applied request.Applied
	err     error
}

// acceptGroup handles the applications to one promotion that arrived together: reads their locks,
// answers those who have a request, and writes the others in one transaction. When it is cancelled
// because a lock has changed, that one is read and decided again, and the others are sent once more.
func (s *Store) acceptGroup(ctx context.Context, _ string, in []request.Application) ([]batch.Result[request.Applied], error) {
	group := byUser(in)
	var failure error
	for try := 0; try < acceptTries && failure == nil; try++ {
		open := undecided(group)
		if len(open) == 0 {
			break
		}
		if failure = s.readLocks(ctx, open); failure != nil {
			break
		}
		now := s.Millis()
		for _, a := range open {
			a.answerExisting(now)
		}
		failure = s.write(ctx, undecided(group))
		if dynamo.Contended(failure) {
			failure = nil
		}
	}
	out := make([]batch.Result[request.Applied], len(in))
	for _, a := range group {
		if !a.done {
			a.err = unavailable(failure)
			if failure == nil {
				a.err = errs.ErrOverloaded.WithRetry(retryAfter)
			}
		}
		for n, i := range a.calls {
			out[i] = batch.Result[request.Applied]{Value: a.applied, Err: a.err}
			if n > 0 && in[i].KeyHash != in[a.calls[0]].KeyHash || n > 0 && in[i].KeyHash == "" {
				out[i].Value.Duplicate = true // two applications at once
			}
		}
	}
	return out, nil
}

// byUser puts the applications of one user together, in the order of arrival.
func byUser(in []request.Application) []*applicant {
	var group []*applicant
	known := make(map[string]*applicant, len(in))
	for i, app := range in {
		a := known[app.UserID]
		if a == nil {
			a = &applicant{app: app, id: ids.NewV7().String()}
			known[app.UserID] = a
			group = append(group, a)
		}
		a.calls = append(a.calls, i)
	}
	return group
}

func undecided(group []*applicant) []*applicant {
	var open []*applicant
	for _, a := range group {
		if !a.done {
			open = append(open, a)
		}
	}
	return open
}

// readLocks reads the locks of applicants, and then the requests that they name.
func (s *Store) readLocks(ctx context.Context, group []*applicant) error {
	keys := make([]dynamo.Item, len(group))
	for i, a := range group {
		keys[i] = table.LockKey(a.app.EventID, a.app.UserID)
	}
	locks, err := s.Read(ctx, keys...)
	if err != nil {
		return err
	}
	var named []dynamo.Item
	for i, a := range group {
		a.lock, a.current = nil, nil
		it := locks.Get(keys[i])
		if it == nil {
			continue
		}
		l, err := table.DecodeLock(it)
		if err != nil {
			return err
		}
		a.lock = &l
		named = append(named, table.RequestKey(l.RequestID))
	}
	requests, err := s.Read(ctx, named...)
	if err != nil {
		return err
	}
	for _, a := range group {
		if a.lock == nil {
			continue
		}
		if it := requests.Get(table.RequestKey(a.lock.RequestID)); it != nil {
			r, err := table.DecodeRequest(it)
			if err != nil {
				return err
			}
			a.current = &r
		}
	}
	return nil
}

// answerExisting answers an applicant who has a request. A request that failed or was withdrawn does
// not count, nor one that has expired before its lock.
func (a *applicant) answerExisting(now int64) {
	if a.current == nil || a.current.Status == promotion.FailedFinal || a.current.ResultCode == promotion.RejectedWithdrawn {
		return
	}
	own := a.current.RequestID == a.id // an earlier try took effect, although its answer was lost
	repeated := a.app.KeyHash != "" && a.app.KeyHash == a.lock.KeyHash
	a.done, a.applied = true, request.Applied{Request: *a.current, Duplicate: !own && !repeated, StoredBy: now}
}

// write stores the requests of the applicants in one transaction, each with its lock, log and marker.
func (s *Store) write(ctx context.Context, group []*applicant) error {
	now := s.Millis() // the stamp by which the promotion is open or not
	tx := table.NewTx(s.Client, s.Table, now)
	created := make([]promotion.Request, len(group))
	for i, a := range group {
		if a.err = a.refusal(now); a.err != nil {
			a.done = true
			continue
		}
		created[i] = s.create(tx, i, a, now)
	}
	if tx.Len() == 0 {
		return nil
	}
	failpoint.Hit("ingest.stamped")
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	stored := s.Millis() // after the answer: not earlier than the requests were stored
	failpoint.Hit("ingest.accepted")
	for i, a := range group {
		if !a.done {
			a.done, a.applied = true, request.Applied{Request: created[i], StoredBy: stored}
		}
	}
	return nil
}

// refusal is why an applicant without a request may not make one at a time; nil: it may.
func (a *applicant) refusal(now int64) error {
	switch {
	case !a.app.Promotion.Accepts(now):
		return request.ErrNotOpen
	case a.lock != nil && a.lock.Withdrawals >= request.MaxWithdrawals:
		return request.ErrWithdrawnTooOften
	case a.app.Busy:
		return request.ErrTooMany
	default:
		return nil
	}
}

func (s *Store) create(tx *table.Tx, owner int, a *applicant, now int64) promotion.Request {
	p := a.app.Promotion
	r := promotion.NewRequest(&p, a.id, a.app.UserID, now)
	c := r.Created()
	if a.app.Full && p.EventType == promotion.FirstCome {
		end := r.Ended(now, promotion.Rejected, promotion.RejectedCapacity)
		c.After, c.Logs = end.After, append(c.Logs, end.Logs...)
	}
	lock := promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: r.RequestID, KeyHash: a.app.KeyHash, CreatedAt: now, EndsAt: r.EndsAt}
	free := table.Absent()
	if a.lock != nil { // taken over: a redrive of the failed request at the same time excludes it
		lock.Withdrawals, free = a.lock.Withdrawals, table.LockAsRead(a.lock)
		failed := table.Absent()
		if a.current != nil {
			failed = table.RequestAsRead(a.current)
		}
		tx.Check(owner, table.RequestKey(a.lock.RequestID), failed)
	}
	tx.Put(owner, table.LockItem(&lock), free)
	tx.Create(owner, c)
	return c.After
}
