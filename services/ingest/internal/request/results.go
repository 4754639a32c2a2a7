package request

import (
	"context"

	"urr.guru/pkg/asyncevent"
)

// isDrawn reports whether a request has the result of a draw, which is secret until the announcement.
// Other results, such as that it came too late, are not.
func isDrawn(code asyncevent.ResultCode) bool {
	return code == asyncevent.Success || code == asyncevent.RejectedLotteryLose
}

// Show shows requests as users and operators may see them: results of draws from the announcement on,
// then also before worker has written them.
func (s *Draws) Show(ctx context.Context, requests ...asyncevent.Request) ([]asyncevent.Request, error) {
	out := make([]asyncevent.Request, len(requests))
	for i, r := range requests {
		var result *Result
		if s.waits(&r) {
			var err error
			if result, err = s.Result(ctx, r.EventID); err != nil {
				return nil, err
			}
		}
		out[i] = s.shown(r, result)
	}
	return out, nil
}

// View is Show for the requests of one promotion.
func (s *Draws) View(ctx context.Context, p *asyncevent.Promotion) (func(asyncevent.Request) asyncevent.Request, error) {
	var result *Result
	if p.EventType == asyncevent.Lottery && s.now().UnixMilli() >= p.AnnouncedAt {
		var err error
		if result, err = s.Result(ctx, p.EventID); err != nil {
			return nil, err
		}
	}
	return func(r asyncevent.Request) asyncevent.Request { return s.shown(r, result) }, nil
}

// waits reports whether an entry has no result, although it may be announced.
func (s *Draws) waits(r *asyncevent.Request) bool {
	return r.EventType == asyncevent.Lottery && r.EnteredAt != 0 && !r.Status.Final() && s.now().UnixMilli() >= r.AnnouncedAt
}

func (s *Draws) shown(r asyncevent.Request, result *Result) asyncevent.Request {
	switch {
	case s.Secret(&r): // worker's clock is ahead
		r.Status, r.ResultCode, r.FinishedAt = asyncevent.Processing, "", 0
	case result != nil && s.waits(&r):
		r.Status, r.ResultCode, r.FinishedAt = asyncevent.Rejected, asyncevent.RejectedLotteryLose, r.AnnouncedAt
		if result.Won(r.RequestID) {
			r.Status, r.ResultCode = asyncevent.Succeeded, asyncevent.Success
		}
	}
	return r
}

// Secret reports whether a request has a result that is not announced yet.
func (s *Draws) Secret(r *asyncevent.Request) bool {
	return r.EventType == asyncevent.Lottery && isDrawn(r.ResultCode) && s.now().UnixMilli() < r.AnnouncedAt
}

// Timeline leaves out of a request's log what is not announced yet. The log may be newer than the
// request.
func (s *Draws) Timeline(r *asyncevent.Request, logs []asyncevent.Log) []asyncevent.Log {
	drawing := r.EventType == asyncevent.Lottery && !r.Status.Final() && s.now().UnixMilli() < r.AnnouncedAt
	if (drawing || s.Secret(r)) && len(logs) > 0 && logs[len(logs)-1].To.Final() {
		return logs[:len(logs)-1]
	}
	return logs
}

// Figures leaves out of a promotion's figures what is not announced yet.
func (s *Draws) Figures(p *asyncevent.Promotion, counts asyncevent.Counts) asyncevent.Counts {
	if p.EventType != asyncevent.Lottery || s.now().UnixMilli() >= p.AnnouncedAt {
		return counts
	}
	out := asyncevent.Counts{Accepted: counts.Accepted, Entered: counts.Entered}
	for code, n := range counts.Results {
		if isDrawn(code) {
			out.Entered += n
		} else {
			out.Add(code, n)
		}
	}
	return out
}
