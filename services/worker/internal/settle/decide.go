package settle

import (
	"cmp"
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// sortMessages reads the stored state of the requests of a group's messages, all of one event, and
// sorts the messages by what must be done with them.
func (s *Settler) sortMessages(ctx context.Context, all []delivery) (t sortedMessages, err error) {
	messages := make([]promotion.Message, len(all))
	for i, d := range all {
		messages[i] = d.message
	}
	snapshot, err := s.store.Snapshot(ctx, messages)
	if err != nil {
		return t, err
	}
	t.snapshot = snapshot
	included := map[string]bool{} // requests in t.live
	for _, d := range all {
		request, found := snapshot.Requests[d.message.RequestID]
		switch {
		case snapshot.Unreadable[d.message.RequestID] != nil:
		case !found, request.EventID != d.message.EventID, request.Status.Final(), d.message.Gen < request.Gen, request.EnteredAt != 0:
			if found && request.QueueSeq == d.turn().QueueSeq() { // the process that wrote it may have died right after
				s.store.Finish(request)
			}
			continue
		}
		d.request = request
		t.unsettled = append(t.unsettled, d)
		if !included[d.message.RequestID] { // a second message of a request is deleted with the first
			included[d.message.RequestID] = true
			t.live = append(t.live, d)
		}
	}
	t.unsupported = len(t.live) > 0 && !canSettle(t.live[0].request.EventType) && snapshot.Unreadable[t.live[0].message.RequestID] == nil
	return t, nil
}

// canSettle reports whether this replica can process requests of a type.
func canSettle(t promotion.Type) bool { return t == promotion.FirstCome || t == promotion.Lottery }

// A transaction has at most 100 writes. Its requests share 4 of them, or 6 in a lottery.
const (
	maxWrites = 94
	// manyWrites is the most writes of a request that Tx.Settle cannot settle with one write: its
	// change, three entries of its log, its marker, and an entry or exclusion.
	manyWrites = 6
)

// batchSize returns how many requests the next transaction processes: as many as fit, up to the
// first that must be handled in another way. A suspicious request is processed alone.
func (s *Settler) batchSize(t *sortedMessages, limit int) int {
	live := t.live
	limit = min(cmp.Or(limit, len(live)), len(live))
	if live[0].Receives >= suspiciousReceives {
		return 1
	}
	for i, writes := 0, 0; i < limit; i++ {
		d := live[i]
		if d.request.EventType == promotion.FirstCome && d.request.Gen == 0 && t.snapshot.Capacity != nil {
			writes++
		} else {
			writes += manyWrites
		}
		if i == 0 {
			continue
		}
		if writes > maxWrites || d.request.Attempts >= s.opts.MaxAttempts || d.Receives >= suspiciousReceives || d.request.EventType != live[0].request.EventType || d.request.RequestID == "" {
			return i
		}
	}
	return limit
}

// trySettle processes requests in one transaction. A panic becomes an error of no single request.
func (s *Settler) trySettle(ctx context.Context, snapshot Snapshot, live []delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errs.FromPanic(p)
		}
	}()
	if live[0].request.EventType == promotion.Lottery {
		return s.store.Settle(ctx, decideLottery(snapshot, live, s.millis()))
	}
	return s.store.Settle(ctx, decideFirstCome(snapshot, live, s.millis()))
}

// decideFirstCome gives the places that are left to the first requests and rejects all further
// ones. The Settlement has the number of places that was read. The number never rises, so of
// concurrent decisions based on the same number only one is written.
func decideFirstCome(snapshot Snapshot, live []delivery, now int64) Settlement {
	var out Settlement
	if snapshot.Capacity == nil {
		for _, d := range live {
			out.Changes = append(out.Changes, d.request.Failed(now, promotion.FailedValidation, promotion.Failure{
				Class: promotion.NonRetryable, Code: "PROMOTION_MISSING", Message: "the promotion has no capacity",
			}))
		}
		return out
	}
	remaining := snapshot.Capacity.Remaining
	out.RemainingBefore = remaining
	sentAt := snapshot.Capacity.SentAt
	for _, d := range live {
		var c promotion.Change
		switch owner, locked := snapshot.Locks[d.message.RequestID]; {
		case locked && owner != d.message.RequestID:
			c = d.request.Settled(now, promotion.Rejected, promotion.RejectedDuplicate, d.turn())
		case remaining > 0:
			remaining--
			c = d.request.Won(now, snapshot.Capacity.Total-remaining, d.turn())
		default:
			c = d.request.Settled(now, promotion.Rejected, promotion.RejectedCapacity, d.turn())
		}
		out.Changes = append(out.Changes, c)
		sentAt = max(sentAt, d.SentAt)
	}
	if out.RemainingBefore > 0 {
		after := *snapshot.Capacity
		after.Remaining, after.UpdatedAt, after.SentAt = remaining, now, sentAt
		out.Capacity = &after
	}
	return out
}

// decideLottery makes the requests of one group of a lottery entries of the draw, while the group
// is open. The transaction requires that the group is still open.
func decideLottery(snapshot Snapshot, live []delivery, now int64) Settlement {
	out := Settlement{SentAt: snapshot.Group.SentAt}
	for _, d := range live {
		out.SentAt = max(out.SentAt, d.SentAt)
		switch owner, locked := snapshot.Locks[d.message.RequestID]; {
		case locked && owner != d.message.RequestID:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedDuplicate, d.turn()))
		case snapshot.Voided:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedVoid, d.turn()))
		case snapshot.Group.ClosedAt != 0, d.request.RequestedAt >= d.request.LotteryCutoffAt:
			out.Changes = append(out.Changes, d.request.Settled(now, promotion.Rejected, promotion.RejectedLate, d.turn()))
		default:
			out.Changes = append(out.Changes, d.request.Entered(now, d.turn()))
		}
	}
	return out
}
