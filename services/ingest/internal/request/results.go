package request

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// isDrawn reports whether a code is the result of a draw, which is secret until the announcement.
// Other results, such as that a request came too late, are not secret.
func isDrawn(code promotion.ResultCode) bool {
	return code == promotion.Success || code == promotion.RejectedLotteryLose
}

// Show converts requests to what users and operators may see. From the announcement on it shows the
// results of draws, even before the worker service has written them to the requests.
func (s *Draws) Show(ctx context.Context, requests ...promotion.Request) ([]promotion.Request, error) {
	out := make([]promotion.Request, len(requests))
	for i, r := range requests {
		var result *DrawResult
		if s.awaitsResult(&r) {
			var err error
			if result, err = s.Result(ctx, r.EventID); err != nil {
				return nil, err
			}
		}
		out[i] = s.shown(r, result)
	}
	return out, nil
}

// EntryOf returns the request whose id is in a user's lock, if it is an entry of an announced draw;
// otherwise ok is false. Fields that neither the lock nor the draw has, such as QueuedAt, are
// empty. The draw is cached, so that no requests are read at the announcement, when everybody asks.
func (s *Draws) EntryOf(ctx context.Context, eventID, userID string, lock *promotion.Lock) (r promotion.Request, ok bool, err error) {
	st, err := s.states.Get(ctx, eventID)
	id, invalid := uuid.Parse(lock.RequestID)
	if err != nil || invalid != nil || lock.Withdrawn || !s.announced(&st) {
		return r, false, err
	}
	entries, err := s.Entries(ctx, eventID)
	if err != nil {
		return r, false, err
	}
	if _, _, _, ok, err = entries.index.Find(id, func(n int) (fairdraw.Entries, error) { return entries.chunk(ctx, n) }); err != nil || !ok {
		return r, false, err
	}
	r = promotion.NewRequest(&st.promotion, lock.RequestID, userID, lock.CreatedAt)
	r.Status, r.EnteredAt = promotion.Processing, lock.CreatedAt
	return r, true, nil
}

// View returns a function that converts requests to one promotion as Show does.
func (s *Draws) View(ctx context.Context, p *promotion.Promotion) (func(promotion.Request) promotion.Request, error) {
	var result *DrawResult
	if p.EventType == promotion.Lottery && s.now().UnixMilli() >= p.AnnouncedAt {
		var err error
		if result, err = s.Result(ctx, p.EventID); err != nil {
			return nil, err
		}
	}
	return func(r promotion.Request) promotion.Request { return s.shown(r, result) }, nil
}

// awaitsResult reports whether an entry of a draw has no result yet although the time of the
// announcement has passed.
func (s *Draws) awaitsResult(r *promotion.Request) bool {
	return r.EventType == promotion.Lottery && r.EnteredAt != 0 && !r.Status.Final() && s.now().UnixMilli() >= r.AnnouncedAt
}

func (s *Draws) shown(r promotion.Request, result *DrawResult) promotion.Request {
	switch {
	case s.HasSecretResult(&r): // written early by a clock that is ahead
		r.Status, r.ResultCode, r.FinishedAt = promotion.Processing, "", 0
	case result != nil && s.awaitsResult(&r):
		r.Status, r.ResultCode, r.FinishedAt = promotion.Rejected, promotion.RejectedLotteryLose, r.AnnouncedAt
		if result.Won(r.RequestID) {
			r.Status, r.ResultCode = promotion.Succeeded, promotion.Success
		}
	}
	return r
}

// HasSecretResult reports whether a request has a result that is not announced yet.
func (s *Draws) HasSecretResult(r *promotion.Request) bool {
	return r.EventType == promotion.Lottery && isDrawn(r.ResultCode) && s.now().UnixMilli() < r.AnnouncedAt
}

// Timeline returns the log of a request without a result that is not announced yet; the log may
// have been read later than the request. It adds log entries that are still to be written.
func (s *Draws) Timeline(r *promotion.Request, logs []promotion.LogEntry) []promotion.LogEntry {
	if settled, ok := r.SettledLog(); ok && len(logs) > 0 {
		return append(logs[:1:1], settled...)
	}
	undecided := r.EventType == promotion.Lottery && !r.Status.Final() && s.now().UnixMilli() < r.AnnouncedAt
	if (undecided || s.HasSecretResult(r)) && len(logs) > 0 && logs[len(logs)-1].To.Final() {
		return logs[:len(logs)-1]
	}
	return logs
}

// Figures returns counts for operators. Until the announcement, entries count as without a result.
func (s *Draws) Figures(p *promotion.Promotion, counts promotion.Counts) promotion.Counts {
	if p.EventType != promotion.Lottery || s.now().UnixMilli() >= p.AnnouncedAt {
		return counts
	}
	out := promotion.Counts{Accepted: counts.Accepted, Entered: counts.Entered}
	for code, n := range counts.Results {
		if isDrawn(code) {
			out.Entered += n
		} else {
			out.Add(code, n)
		}
	}
	return out
}
