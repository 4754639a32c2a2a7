package request

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/readcache"
)

// ErrSoldOut means that a first-come promotion has no place left, which never changes again.
var ErrSoldOut = errs.ErrSoldOut

const (
	// earlierFor is how long the earlier applications of a sold-out promotion's user are cached.
	earlierFor = time.Minute
	// maxEarlier is the most users whose applications are cached; each needs up to a kilobyte.
	maxEarlier = 20_000
)

// Refusals reads earlier applications to sold-out promotions, and records refusals.
type Refusals interface {
	// Earlier returns the earlier applications of each user, in order. Concurrent calls share reads.
	Earlier(ctx context.Context, applicants []Applicant) []Outcome[EarlierApplications]
	// RecordLater returns at once, and then stores the rejected request of an application. If it
	// cannot store the request, it drops it.
	RecordLater(a Application)
}

// Applicant is a user of a promotion.
type Applicant struct{ EventID, UserID string }

// Outcome is the result of one item of many: a value or an error.
type Outcome[T any] struct {
	Value T
	Err   error
}

// soldOut answers applications to sold-out promotions. It writes nothing before the answer.
type soldOut struct {
	store Refusals
	now   func() time.Time
	known *otter.Cache[Applicant, EarlierApplications]
}

func newSoldOut(store Refusals, now func() time.Time) *soldOut {
	return &soldOut{store: store, now: now, known: otter.Must(&otter.Options[Applicant, EarlierApplications]{
		MaximumSize: maxEarlier, Clock: readcache.Clock(now), ExpiryCalculator: otter.ExpiryWriting[Applicant, EarlierApplications](earlierFor),
	})}
}

// apply returns each applicant's existing request, or fails with ErrSoldOut or ErrNotOpen. An
// application refused with ErrSoldOut is recorded, except with DropRejected.
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

// pending reports whether the user has a request without a final result.
func (s EarlierApplications) pending() bool { return s.Request != nil && !s.Request.Status.Final() }

// answer returns the answer to a user who has a request; nil if the user has none, or only one that
// a new request may replace. ownID is the id that the application's own request would get.
func (s EarlierApplications) answer(a Application, ownID string, now int64) *ApplyResult {
	if s.Request == nil || s.Request.Replaceable() {
		return nil
	}
	own := s.Request.RequestID == ownID // an earlier try has stored it and yet failed
	repeated := a.KeyHash != "" && a.KeyHash == s.Lock.KeyHash
	return &ApplyResult{Request: *s.Request, Duplicate: !own && !repeated, StoredBy: now}
}
