package request

import (
	"context"

	"urr.guru/pkg/promotion"
)

// isDrawn reports whether a request has the result of a draw, which is secret until the announcement.
// Other results, such as that it came too late, are not.
func isDrawn(code promotion.ResultCode) bool {
	return code == promotion.Success || code == promotion.RejectedLotteryLose
}

// Show shows requests as users and operators may see them: results of draws from the announcement on,
// then also before worker has written them.
func (s *Draws) Show(ctx context.Context, requests ...promotion.Request) ([]promotion.Request, error) {
	out := make([]promotion.Request, len(requests))
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
func (s *Draws) View(ctx context.Context, p *promotion.Promotion) (func(promotion.Request) promotion.Request, error) {
	var result *Result
	if p.EventType == promotion.Lottery && s.now().UnixMilli() >= p.AnnouncedAt {
		var err error
		if result, err = s.Result(ctx, p.EventID); err != nil {
			return nil, err
		}
	}
	return func(r promotion.Request) promotion.Request { return s.shown(r, result) }, nil
}

// waits reports whether an entry has no result, although it may be announced.
func (s *Draws) waits(r *promotion.Request) bool {
	return r.EventType == promotion.Lottery && r.EnteredAt != 0 && !r.Status.Final() && s.now().UnixMilli() >= r.AnnouncedAt
}

func (s *Draws) shown(r promotion.Request, result *Result) promotion.Request {
	switch {
	case s.Secret(&r): // worker's clock is ahead
		r.Status, r.ResultCode, r.FinishedAt = promotion.Processing, "", 0
	case result != nil && s.waits(&r):
		r.Status, r.ResultCode, r.FinishedAt = promotion.Rejected, promotion.RejectedLotteryLose, r.AnnouncedAt
		if result.Won(r.RequestID) {
			r.Status, r.ResultCode = promotion.Succeeded, promotion.Success
		}
	}
	return r
}

// Secret reports whether a request has a result that is not announced yet.
func (s *Draws) Secret(r *promotion.Request) bool {
	return r.EventType == promotion.Lottery && isDrawn(r.ResultCode) && s.now().UnixMilli() < r.AnnouncedAt
}

// Timeline leaves out of a request's log what is not announced yet. The log may be newer than the
// request.
func (s *Draws) Timeline(r *promotion.Request, logs []promotion.LogEntry) []promotion.LogEntry {
	drawing := r.EventType == promotion.Lottery && !r.Status.Final() && s.now().UnixMilli() < r.AnnouncedAt
	if (drawing || s.Secret(r)) && len(logs) > 0 && logs[len(logs)-1].To.Final() {
		return logs[:len(logs)-1]
	}
	return logs
}

// Figures leaves out of a promotion's figures what is not announced yet.
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
