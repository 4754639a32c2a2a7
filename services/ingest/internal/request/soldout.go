package request

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

// ErrSoldOut means that a first-come promotion has no place left, which never changes again.
var ErrSoldOut = errs.ErrSoldOut

const (
	// earlierFor is how long the earlier applications of a sold-out promotion's user are cached.
	earlierFor = time.Minute
	// maxEarlier bounds the cached users, which take up to a kilobyte each.
	maxEarlier = 20_000
)

// Refusals reads the earlier applications of a sold-out promotion's users, and records refusals.
type Refusals interface {
	// Earlier reads the earlier applications of users, in order. Concurrent calls share their reads.
	Earlier(ctx context.Context, applicants []Applicant) []Outcome[EarlierApplications]
	// RecordLater stores the rejected request of an application, after it has returned. What it cannot
	// store, it drops.
	RecordLater(a Application)
}

// Applicant is a user of a promotion.
type Applicant struct{ EventID, UserID string }

// Outcome is a value, or the error that took its place.
type Outcome[T any] struct {
	Value T
	Err   error
}

// soldOut answers applications to promotions without places, without a write before the answer.
type soldOut struct {
	store Refusals
	now   func() time.Time
	known *otter.Cache[Applicant, EarlierApplications]
}

func newSoldOut(store Refusals, now func() time.Time) *soldOut {
	return &soldOut{store: store, now: now, known: otter.Must(&otter.Options[Applicant, EarlierApplications]{
		MaximumSize: maxEarlier, Clock: clock(now), ExpiryCalculator: otter.ExpiryWriting[Applicant, EarlierApplications](earlierFor),
	})}
}

// apply returns the request that each applicant has, or fails with ErrSoldOut, or with ErrNotOpen.
// Unless the promotion drops them, the applications of users without a request are recorded.
func (s *soldOut) apply(ctx context.Context, all []Application) []Outcome[ApplyResult] {
	out := make([]Outcome[ApplyResult], len(all))
	unknown, indexes := []Applicant(nil), []int(nil)
	for i, a := range all {
		key := Applicant{a.EventID, a.UserID}
		if earlier, known := s.known.GetIfPresent(key); known {
			out[i] = s.answer(a, earlier)
			continue
		}
		unknown, indexes = append(unknown, key), append(indexes, i)
	}
	if len(unknown) == 0 {
		return out
	}
	for n, earlier := range s.store.Earlier(ctx, unknown) {
		i := indexes[n]
		if earlier.Err != nil {
			out[i].Err = earlier.Err
			continue
		}
		if !earlier.Value.pending() {
			s.known.Set(unknown[n], earlier.Value)
		}
		out[i] = s.answer(all[i], earlier.Value)
		if errors.Is(out[i].Err, ErrSoldOut) && !all[i].Promotion.DropRejected {
			all[i].Full = true
			s.store.RecordLater(all[i])
		}
	}
	return out
}

func (s *soldOut) answer(a Application, earlier EarlierApplications) (o Outcome[ApplyResult]) {
	now := s.now().UnixMilli()
	switch existing := earlier.answer(a, "", now); {
	case existing != nil:
		o.Value = *existing
	case !a.Promotion.Accepts(now):
		o.Err = ErrNotOpen
	default:
		o.Err = ErrSoldOut
	}
	return o
}

// pending reports whether the user has a request that is going to change.
func (s EarlierApplications) pending() bool { return s.Request != nil && !s.Request.Status.Final() }

// answer returns the answer to an application of a user who has a request; nil if the user has none
// that counts. ownID is the id that the application's own request would get.
func (s EarlierApplications) answer(a Application, ownID string, now int64) *ApplyResult {
	if s.Request == nil || s.Request.Replaceable() {
		return nil
	}
	own := s.Request.RequestID == ownID // an earlier transaction took effect although it failed
	repeated := a.KeyHash != "" && a.KeyHash == s.Lock.KeyHash
	return &ApplyResult{Request: *s.Request, Duplicate: !own && !repeated, StoredBy: now}
}
