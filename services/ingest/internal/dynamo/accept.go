package dynamo

import (
	"context"
	"slices"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

// acceptTries is how often a group is decided at most. A changed lock makes it start again.
const acceptTries = 5

// Accept stores a user's request, or finds the earlier one. If ctx ends before the group of the
// call is written, Accept stores nothing. If ctx ends later, the request is stored all the same,
// and the user's next application finds it.
func (s *Store) Accept(ctx context.Context, a request.Application) (request.ApplyResult, error) {
	return s.accepts.Do(ctx, a.EventID, a)
}

// applicant is one user in a group of applications, with the decision about the user.
type applicant struct {
	app   request.Application
	calls []int  // the indexes in the group of all calls by this user
	id    string // the request's id, if a new request is stored

	earlier request.EarlierApplications // the user's earlier applications, as last read

	done    bool
	applied request.ApplyResult
	err     error
}

// acceptGroup handles the applications to one promotion that arrived together. It reads their
// locks, decides by request.Decide, and writes the new requests in one transaction. When a changed
// lock makes the transaction fail, it reads and decides again.
func (s *Store) acceptGroup(ctx context.Context, _ string, in []request.Application) ([]batch.Result[request.ApplyResult], error) {
	group := groupByUser(in)
	var failure error
	for try := 0; try < acceptTries && failure == nil; try++ {
		open := undecided(group)
		if len(open) == 0 {
			break
		}
		if failure = s.readLocks(ctx, open); failure != nil {
			break
		}
		if failure = s.decideAndStore(ctx, open); dynamo.Contended(failure) {
			failure = nil
		}
	}
	out := make([]batch.Result[request.ApplyResult], len(in))
	for _, a := range group {
		if !a.done {
			a.err = toUnavailable(failure)
			if failure == nil {
				a.err = errs.ErrOverloaded.WithRetry(retryAfter)
			}
		}
		for n, i := range a.calls {
			out[i] = batch.Result[request.ApplyResult]{Value: a.applied, Err: a.err}
			if n > 0 && (in[i].KeyHash == "" || in[i].KeyHash != a.app.KeyHash) {
				out[i].Value.Duplicate = true // the user has applied twice at once
			}
		}
	}
	return out, nil
}

// groupByUser makes one applicant per user, in the order in which the users first applied.
func groupByUser(in []request.Application) []*applicant {
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
	return slices.DeleteFunc(slices.Clone(group), func(a *applicant) bool { return a.done })
}

// readLocks reads the earlier applications of applicants. An applicant whose lock or request cannot
// be decoded is refused; the others are not affected.
func (s *Store) readLocks(ctx context.Context, group []*applicant) error {
	applicants := make([]request.Applicant, len(group))
	for i, a := range group {
		applicants[i] = request.Applicant{EventID: a.app.EventID, UserID: a.app.UserID}
	}
	read, err := s.readEarlier(ctx, applicants)
	if err != nil {
		return err
	}
	for i, a := range group {
		if a.earlier = read[i].Value; read[i].Err != nil {
			a.done, a.err = true, read[i].Err
		}
	}
	return nil
}

// readEarlier reads the locks of users, and then the request whose id is in each lock.
func (s *Store) readEarlier(ctx context.Context, applicants []request.Applicant) ([]batch.Result[request.EarlierApplications], error) {
	out := make([]batch.Result[request.EarlierApplications], len(applicants))
	locks, err := s.readLockItems(ctx, applicants)
	if err != nil {
		return nil, err
	}
	var requestKeys []dynamo.Item
	for i, l := range locks {
		if out[i].Value.Lock, out[i].Err = l.Value, l.Err; l.Value != nil {
			requestKeys = append(requestKeys, table.RequestKey(l.Value.RequestID))
		}
	}
	requests, err := s.Read(ctx, requestKeys...)
	if err != nil {
		return nil, toUnavailable(err)
	}
	for i := range out {
		lock := out[i].Value.Lock
		if lock == nil {
			continue
		}
		if it := requests.Get(table.RequestKey(lock.RequestID)); it != nil {
			r, err := table.DecodeRequest(it)
			if err != nil {
				out[i].Err = s.unreadable(ctx, it, err)
				continue
			}
			out[i].Value.Request = &r
		}
	}
	return out, nil
}

// readLockItems reads the locks of users. The result of a user without a lock is nil.
func (s *Store) readLockItems(ctx context.Context, applicants []request.Applicant) ([]batch.Result[*promotion.Lock], error) {
	keys := make([]dynamo.Item, len(applicants))
	for i, u := range applicants {
		keys[i] = table.LockKey(u.EventID, u.UserID)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, toUnavailable(err)
	}
	out := make([]batch.Result[*promotion.Lock], len(applicants))
	for i, key := range keys {
		it := items.Get(key)
		if it == nil {
			continue
		}
		l, err := table.DecodeLock(it)
		if err != nil {
			out[i].Err = s.unreadable(ctx, it, err)
			continue
		}
		out[i].Value = &l
	}
	return out, nil
}

func (s *Store) unreadable(ctx context.Context, it dynamo.Item, cause error) error {
	s.ReportSkipped(ctx, it, cause)
	return toUnavailable(cause)
}

// decideAndStore decides about the applicants and stores their new requests in one transaction,
// each with its lock, log entry and marker.
func (s *Store) decideAndStore(ctx context.Context, group []*applicant) error {
	now, skew := s.Millis(), s.Skew().Milliseconds() // now decides whether the promotion is open
	tx := s.BeginAt(now)
	created := make([]promotion.Request, len(group))
	for i, a := range group {
		if a.done {
			continue
		}
		d, err := request.Decide(a.app, a.id, a.earlier, now)
		if err == nil && d.Existing == nil && !a.app.Promotion.Accepts(now-skew) {
			err = request.ErrNotOpen // by the corrected time the promotion is not open
		}
		switch {
		case err != nil:
			a.done, a.err = true, err
		case d.Existing != nil:
			a.done, a.applied = true, *d.Existing
		default:
			created[i] = d.Created.After
			addRequest(tx, i, &d, &a.earlier)
		}
	}
	if tx.Len() == 0 {
		return nil
	}
	failpoint.Hit("ingest.stamped")
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	stored := s.Millis() // read after the commit, so not too early
	failpoint.Hit("ingest.accepted")
	for i, a := range group {
		if !a.done {
			a.done, a.applied = true, request.ApplyResult{Request: created[i], StoredBy: stored}
		}
	}
	return nil
}

// addRequest adds a new request and its lock to a transaction. An existing lock is replaced only if
// its failed request has not been redriven meanwhile.
func addRequest(tx *table.Tx, owner int, d *request.Decision, earlier *request.EarlierApplications) {
	lockCondition := table.Absent()
	if earlier.Lock != nil {
		lockCondition = table.LockUnchanged(earlier.Lock)
		requestCondition := table.Absent()
		if earlier.Request != nil {
			requestCondition = table.RequestUnchanged(earlier.Request)
		}
		tx.Check(owner, table.RequestKey(earlier.Lock.RequestID), requestCondition)
	}
	tx.Put(owner, table.LockItem(&d.Lock), lockCondition)
	tx.Create(owner, d.Created)
}
