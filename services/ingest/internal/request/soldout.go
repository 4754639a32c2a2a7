package request

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

// ErrSoldOut means that a first-come promotion has no place left, which never changes again.
var ErrSoldOut = errs.ErrSoldOut

const (
	// earlierFor is how long it is remembered what a user of a sold-out promotion had applied for before.
	earlierFor = time.Minute
	// maxEarlier bounds these users, of up to a kilobyte each.
	maxEarlier = 20_000
)

// Refusals reads what a sold-out promotion's applicants have, and records those who come too late.
type Refusals interface {
	// Earlier reads a user's earlier applications. Concurrent calls share their reads.
	Earlier(ctx context.Context, eventID, userID string) (EarlierApplications, error)
	// RecordLater stores the rejected request of an application, after it has returned. What it cannot
	// store, it drops.
	RecordLater(a Application)
}

type applicantKey struct{ eventID, userID string }

// soldOut answers applications to promotions without places, without a write before the answer.
type soldOut struct {
	store Refusals
	now   func() time.Time
	known *otter.Cache[applicantKey, EarlierApplications]
}

func newSoldOut(store Refusals, now func() time.Time) *soldOut {
	return &soldOut{store: store, now: now, known: otter.Must(&otter.Options[applicantKey, EarlierApplications]{
		MaximumSize: maxEarlier, Clock: clock(now), ExpiryCalculator: otter.ExpiryWriting[applicantKey, EarlierApplications](earlierFor),
	})}
}

// apply returns the request that the user has, or fails with ErrSoldOut, or with ErrNotOpen. Unless the promotion drops
// them, the application of a user without a request is recorded.
func (s *soldOut) apply(ctx context.Context, a Application) (ApplyResult, error) {
	now := s.now().UnixMilli()
	key := applicantKey{a.EventID, a.UserID}
	earlier, known := s.known.GetIfPresent(key)
	if !known {
		var err error
		if earlier, err = s.store.Earlier(ctx, a.EventID, a.UserID); err != nil {
			return ApplyResult{}, err
		}
		if !earlier.pending() {
			s.known.Set(key, earlier)
		}
	}
	if existing := earlier.answer(a, "", now); existing != nil {
		return *existing, nil
	}
	if !a.Promotion.Accepts(now) {
		return ApplyResult{}, ErrNotOpen
	}
	if !known && !a.Promotion.DropRejected {
		a.Full = true
		s.store.RecordLater(a)
	}
	return ApplyResult{}, ErrSoldOut
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
