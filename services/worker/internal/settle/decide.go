package settle

import (
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// look reads the state of the messages of a group, all of one event, and sorts them.
func (s *Settler) look(ctx context.Context, all []delivery) (triage, error) {
	var t triage
	messages := make([]promotion.Message, len(all))
	for i, d := range all {
		messages[i] = d.message
	}
	seen, err := s.store.Snapshot(ctx, messages)
	if err != nil {
		return t, err
	}
	t.seen = seen
	copies := map[string]bool{}
	for _, d := range all {
		request, found := seen.Requests[d.message.RequestID]
		switch {
		case seen.Unreadable[d.message.RequestID] != nil:
		case !found, request.EventID != d.message.EventID, request.Status.Final(), d.message.Gen < request.Gen, request.EnteredAt != 0:
			t.done = append(t.done, d.Delivery)
			continue
		}
		d.request = request
		t.rest = append(t.rest, d)
		if !copies[d.message.RequestID] { // a second copy is deleted once the first is settled
			copies[d.message.RequestID] = true
			t.live = append(t.live, d)
		}
	}
	t.unknown = len(t.live) > 0 && !known(t.live[0].request.EventType) && seen.Unreadable[t.live[0].message.RequestID] == nil
	return t, nil
}

// known reports whether this replica can settle requests of a type.
func known(t promotion.Type) bool { return t == promotion.FirstCome || t == promotion.Lottery }

// batchSize is the number of requests that the next transaction settles: up to the first that needs
// something else before, and a suspicious one alone.
func (s *Settler) batchSize(live []delivery, limit int) int {
	if limit == 0 || limit > len(live) {
		limit = len(live)
	}
	if live[0].Receives >= suspiciousReceives {
		return 1
	}
	for i := 1; i < limit; i++ {
		d := live[i]
		if d.request.Attempts >= s.opts.MaxAttempts || d.Receives >= suspiciousReceives || d.request.EventType != live[0].request.EventType || d.request.RequestID == "" {
			return i
		}
	}
	return limit
}

// try settles requests in one transaction. A panic becomes an error that names no request.
func (s *Settler) try(ctx context.Context, seen Snapshot, live []delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errs.FromPanic(p)
		}
	}()
	if live[0].request.EventType == promotion.Lottery {
		return s.store.Settle(ctx, enter(seen, live, s.millis()))
	}
	return s.store.Settle(ctx, decide(seen, live, s.millis()))
}

// decide gives the places that are left to the first requests and rejects the others. It names the
// number of places that it is based on, which never rises, so that of all concurrent decisions for a
// number only one is written.
func decide(seen Snapshot, live []delivery, now int64) Settlement {
	var out Settlement
	if seen.Capacity == nil {
		for _, d := range live {
			out.Changes = append(out.Changes, d.request.Failed(now, promotion.FailedValidation, promotion.Failure{
				Class: promotion.NonRetryable, Code: "PROMOTION_MISSING", Message: "the promotion has no capacity",
			}))
		}
		return out
	}
	left := seen.Capacity.Remaining
	out.Before = left
	sentAt := seen.Capacity.SentAt
	for _, d := range live {
		status, code := promotion.Rejected, promotion.RejectedCapacity
		switch counts, locked := seen.Locks[d.message.RequestID]; {
		case locked && counts != d.message.RequestID:
			code = promotion.RejectedDuplicate
		case left > 0:
			left--
			status, code = promotion.Succeeded, promotion.Success
		}
		out.Changes = append(out.Changes, d.request.Settled(now, status, code, d.SequenceNumber))
		sentAt = max(sentAt, d.SentAt)
	}
	if out.Before > 0 {
		after := *seen.Capacity
		after.Remaining, after.UpdatedAt, after.SentAt = left, now, sentAt
		out.Capacity = &after
	}
	return out
}

// enter makes requests of one group of a lottery entries, as long as the group takes some. The
// transaction requires that it still does.
func enter(seen Snapshot, live []delivery, now int64) Settlement {
	var out Settlement
	sentAt := seen.Group.SentAt
	for _, d := range live {
		sentAt = max(sentAt, d.SentAt)
		switch counts, locked := seen.Locks[d.message.RequestID]; {
		case locked && counts != d.message.RequestID:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedDuplicate, d.SequenceNumber))
		case seen.Voided:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedVoid, d.SequenceNumber))
		case seen.Group.ClosedAt != 0, d.request.RequestedAt >= d.request.LotteryCutoffAt:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedLate, d.SequenceNumber))
		default:
			out.Changes = append(out.Changes, d.request.Entered(now, d.SequenceNumber))
		}
	}
	out.SentAt = sentAt
	return out
}
