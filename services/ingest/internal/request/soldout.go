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
	// Earlier reads the earlier applications of users, in their order. Concurrent calls share their reads.
	Earlier(ctx context.Context, of ...Applicant) []EarlierResult
	// RecordLater stores the rejected request of an application, after it has returned. What it cannot
	// store, it drops.
	RecordLater(a Application)
}

// Applicant is a user of a promotion.
type Applicant struct{ EventID, UserID string }

// EarlierResult is what was read of an applicant, or why nothing was.
type EarlierResult struct {
	EarlierApplications

	Err error
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

// apply returns the request that the user has, or fails with ErrSoldOut, or with ErrNotOpen. Unless the promotion drops
// them, the application of a user without a request is recorded.
func (s *soldOut) apply(ctx context.Context, a Application) (ApplyResult, error) {
	now := s.now().UnixMilli()
	key := Applicant{a.EventID, a.UserID}
	earlier, known := s.known.GetIfPresent(key)
	if !known {
		read := s.read(ctx, key)[0]
		if read.Err != nil {
			return ApplyResult{}, read.Err
		}
		earlier = read.EarlierApplications
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

// read reads what users had applied for before, and remembers it unless it is going to change.
func (s *soldOut) read(ctx context.Context, of ...Applicant) []EarlierResult {
	all := s.store.Earlier(ctx, of...)
	for i, read := range all {
		if read.Err == nil && !read.pending() {
			s.known.Set(of[i], read.EarlierApplications)
		}
	}
	return all
}

// KnowsAll reports whether all these users apply to promotions that have no place left and record no
// refusals. It reads together what they had applied for before, so that Apply need not wait for it.
func (s *Service) KnowsAll(ctx context.Context, of []Applicant) bool {
	var event string
	var unknown []Applicant
	for _, a := range of {
		if a.EventID != event {
			p, err := s.promotions.Get(ctx, a.EventID)
			if err != nil || !p.DropRejected {
				return false
			}
			if left, limited, err := s.places.Left(ctx, &p); err != nil || !limited || left > 0 {
				return false
			}
			event = a.EventID
		}
		if _, known := s.soldOut.known.GetIfPresent(a); !known {
			unknown = append(unknown, a)
		}
	}
	if len(unknown) > 0 {
		s.soldOut.read(ctx, unknown...)
	}
	return true
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
