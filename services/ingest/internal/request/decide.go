package request

import "urr.guru/pkg/promotion"

// EarlierApplications is what the store has of a user's earlier applications to a promotion.
type EarlierApplications struct {
	// Lock is nil for a user who has never applied, and after the lock has expired.
	Lock *promotion.Lock
	// Request is the request whose id is in Lock; nil if the request has expired, and Lock has not.
	Request *promotion.Request
}

// Decision is the result of an application.
type Decision struct {
	// Existing is the answer if the user has a request already. If it is nil, Created and Lock are
	// stored, provided that the earlier applications have not changed since they were read.
	Existing *ApplyResult
	Created  promotion.Change
	Lock     promotion.Lock
}

// Decide decides about an application. A new request gets the id, and now as its time. Decide fails
// with ErrNotOpen, ErrWithdrawnTooOften or ErrTooMany. The store calls it for each application of a
// group. It has read the earlier applications of the group, and writes the new requests together.
func Decide(a Application, id string, s EarlierApplications, now int64) (Decision, error) {
	if existing := s.answer(a, id, now); existing != nil {
		return Decision{Existing: existing}, nil
	}
	switch {
	case !a.Promotion.Accepts(now):
		return Decision{}, ErrNotOpen
	case s.Lock != nil && s.Lock.Withdrawals >= MaxWithdrawals:
		return Decision{}, ErrWithdrawnTooOften
	case a.Busy:
		return Decision{}, ErrTooMany
	}
	r := promotion.NewRequest(&a.Promotion, id, a.UserID, now)
	c := r.Created()
	if a.Full && a.Promotion.EventType == promotion.FirstCome {
		end := r.Ended(now, promotion.Rejected, promotion.RejectedCapacity)
		c.After, c.Logs = end.After, append(c.Logs, end.Logs...)
	}
	lock := promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: id, KeyHash: a.KeyHash, CreatedAt: now, EndsAt: r.EndsAt}
	if s.Lock != nil {
		lock.Withdrawals = s.Lock.Withdrawals
	}
	return Decision{Created: c, Lock: lock}, nil
}
