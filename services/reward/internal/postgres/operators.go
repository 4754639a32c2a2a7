package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

// Operators reads and changes allocations for operators.
type Operators struct {
	*Database

	// WakePayouts is called after allocations became due.
	WakePayouts func()
}

var (
	_ payout.AllocationReader = Operators{}
	_ payout.Operator         = Operators{}
	_ payout.Pauser           = Operators{}
)

func (s Operators) List(ctx context.Context, f payout.Filter) ([]payout.Allocation, error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	var rows []db.EventRewardAllocation
	var err error
	page := int32(f.Limit) //nolint:gosec // a page
	switch {
	case f.MemberID != "":
		rows, err = s.q.ByMember(ctx, db.ByMemberParams{
			MemberID: f.MemberID, EventID: f.EventID, RewardStatus: string(f.Status), Before: f.Before, Page: page,
		})
	case f.Status != "":
		rows, err = s.listInStatus(ctx, f)
	default:
		rows, err = s.listInAnyStatus(ctx, f)
	}
	if err != nil {
		return nil, postgres.Err(err)
	}
	out := make([]payout.Allocation, len(rows))
	for i, r := range rows {
		out[i] = toAllocation(r, nil)
	}
	return out, nil
}

// listInStatus lists the allocations in one status, of one campaign or of all. Each of the two
// queries has an index.
func (s Operators) listInStatus(ctx context.Context, f payout.Filter) ([]db.EventRewardAllocation, error) {
	page := int32(f.Limit) //nolint:gosec // a page
	if f.EventID != "" {
		return s.q.ByEvent(ctx, db.ByEventParams{EventID: f.EventID, RewardStatus: string(f.Status), Before: f.Before, Page: page})
	}
	return s.q.ByStatus(ctx, db.ByStatusParams{RewardStatus: string(f.Status), Before: f.Before, Page: page})
}

// listInAnyStatus lists allocations in any status: it merges a page of each status, since one more
// index, over all statuses, would cost each payout another write.
func (s Operators) listInAnyStatus(ctx context.Context, f payout.Filter) ([]db.EventRewardAllocation, error) {
	var all []db.EventRewardAllocation
	for _, f.Status = range payout.Statuses() {
		rows, err := s.listInStatus(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b db.EventRewardAllocation) int { return cmp.Compare(b.ID, a.ID) })
	return all[:min(len(all), f.Limit)], nil
}

func (s Operators) Get(ctx context.Context, id int64) (payout.Allocation, []payout.CallRecord, error) {
	row, err := s.q.GetAllocation(ctx, id)
	if err != nil {
		return payout.Allocation{}, nil, allocationNotFound(err)
	}
	rows, err := s.q.CallsOf(ctx, id)
	if err != nil {
		return payout.Allocation{}, nil, postgres.Err(err)
	}
	calls := make([]payout.CallRecord, len(rows))
	for i, r := range rows {
		calls[i] = payout.CallRecord{
			Version: r.Version, Action: payout.Action(r.Action), SentAt: r.SentAt, EndedAt: orZero(r.EndedAt),
			Outcome: payout.CallOutcome(orZero(r.Outcome)), Message: orZero(r.Error),
		}
	}
	return toAllocation(row.EventRewardAllocation, row.CancelledAt), calls, nil
}

func (s Operators) Summary(ctx context.Context, eventID string) ([]payout.Totals, error) {
	rows, err := s.q.Summary(ctx, eventID)
	if err != nil {
		return nil, postgres.Err(err)
	}
	out := make([]payout.Totals, len(rows))
	for i, r := range rows {
		out[i] = payout.Totals{Status: payout.Status(r.RewardStatus), Allocations: r.Allocations, Points: r.Points, Held: r.Held, Unknown: r.Unknown}
	}
	return out, nil
}

func (s Operators) Retry(ctx context.Context, ids []int64) (retried int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, _ pgx.Tx, q *db.Queries) error {
		done, err := q.Retry(ctx, db.RetryParams{Ids: ids, Now: s.now(), UnknownTooLong: payout.CodeUnknownTooLong})
		retried = len(done)
		return err
	})
	if err == nil && retried > 0 {
		s.WakePayouts()
	}
	return retried, err
}

func (s Operators) RetryCampaign(ctx context.Context, eventID string) error {
	n, err := s.q.MarkCampaignRetry(ctx, db.MarkCampaignRetryParams{EventID: eventID, Now: s.now()})
	if err == nil && n == 0 {
		return campaign.ErrNotFound
	}
	return postgres.Err(err)
}

func (s Operators) RetryMarked(ctx context.Context) error {
	for {
		retried, more, err := s.retryChunk(ctx)
		if retried > 0 {
			s.WakePayouts()
		}
		if err != nil || !more {
			return err
		}
	}
}

// retryChunk retries up to chunk failed allocations of one marked campaign. It locks the campaign,
// so that no other replica works on it and nobody marks it again meanwhile.
func (s Operators) retryChunk(ctx context.Context) (retried int, more bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, _ pgx.Tx, q *db.Queries) error {
		retried, more = 0, false
		c, err := q.LockRetrying(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		more = true
		ids, err := q.FailedIDs(ctx, db.FailedIDsParams{
			EventID: c.EventID, After: c.RetryAfter, FailingTooLong: payout.CodeFailingTooLong, Chunk: chunk,
		})
		if err != nil {
			return err
		}
		cursor := db.SetRetryCursorParams{EventID: c.EventID, RetryAfter: c.RetryAfter, Done: len(ids) < chunk}
		if len(ids) > 0 {
			cursor.RetryAfter = ids[len(ids)-1]
			done, err := q.Retry(ctx, db.RetryParams{Ids: ids, Now: s.now(), UnknownTooLong: payout.CodeUnknownTooLong})
			if err != nil {
				return err
			}
			retried = len(done)
		}
		return q.SetRetryCursor(ctx, cursor)
	})
	return retried, more, err
}

func (s Operators) Cancel(ctx context.Context, ids []int64, restock bool) error {
	cancelled := 0
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		rows, err := q.Cancel(ctx, db.CancelParams{Ids: ids, Restock: restock, Now: s.now()})
		if err != nil {
			return err
		}
		var entries []int64
		var changes []outbox.Event
		for _, r := range rows {
			a := toAllocation(r.EventRewardAllocation, nil)
			if a.Status != payout.Cancelled {
				continue
			}
			changes = append(changes, rewardEvent(a, eventType(a), r.Now))
			if restock {
				entries = append(entries, r.EventRewardAllocation.EntryID)
			}
		}
		cancelled = len(changes)
		if err := restockPrizes(ctx, q, entries); err != nil {
			return err
		}
		return outbox.Insert(ctx, tx, source, changes...)
	})
	if err == nil {
		countStatus(payout.Cancelled, cancelled)
		s.opts.Published()
		s.WakePayouts()
	}
	return err
}

func (s Operators) CancelCampaign(ctx context.Context, eventID string, restock bool) error {
	n, err := s.q.MarkCampaignCancelled(ctx, db.MarkCampaignCancelledParams{EventID: eventID, Restock: restock, Now: s.now()})
	if err == nil && n == 0 {
		return campaign.ErrNotFound
	}
	return postgres.Err(err)
}

func (s Operators) CancelMarked(ctx context.Context) error {
	marked, err := s.q.CancellingCampaigns(ctx)
	if err != nil {
		return postgres.Err(err)
	}
	for _, c := range marked {
		for _, status := range []payout.Status{payout.Pending, payout.Failed, payout.Processing} {
			if err := s.cancelAll(ctx, c.EventID, status, c.CancelRestock); err != nil {
				return err
			}
		}
		if err := s.q.CampaignCancelDone(ctx, db.CampaignCancelDoneParams{EventID: c.EventID, Now: s.now()}); err != nil {
			return postgres.Err(err)
		}
	}
	return nil
}

func (s Operators) cancelAll(ctx context.Context, eventID string, status payout.Status, restock bool) error {
	for after := int64(0); ; {
		ids, err := s.q.UncancelledIDs(ctx, db.UncancelledIDsParams{EventID: eventID, RewardStatus: string(status), After: after, Chunk: chunk})
		if err != nil || len(ids) == 0 {
			return postgres.Err(err)
		}
		if err := s.Cancel(ctx, ids, restock); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}

func (s Operators) Resolve(ctx context.Context, id int64, paid bool, transactionID string) error {
	var changes []changedAllocation
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		row, err := q.LockHeld(ctx, db.LockHeldParams{ID: id, Now: s.now()})
		if errors.Is(err, pgx.ErrNoRows) {
			if _, err := q.GetAllocation(ctx, id); err != nil {
				return allocationNotFound(err)
			}
			return payout.ErrNotHeld
		}
		if err != nil {
			return err
		}
		a := payout.Resolve(toAllocation(row.EventRewardAllocation, row.CancelledAt), paid, transactionID, row.Now)
		changes = []changedAllocation{{allocation: a, row: row.EventRewardAllocation, restock: row.CancelRestock, now: row.Now}}
		return writeChanges(ctx, tx, q, changes)
	})
	if err == nil {
		countChanges(changes)
		s.opts.Published()
	}
	return err
}

func (s Operators) Pause(ctx context.Context, k payout.Kind) error {
	return postgres.Err(s.q.PauseProvider(ctx, db.PauseProviderParams{Name: string(k), Now: s.now()}))
}

func (s Operators) Resume(ctx context.Context, k payout.Kind) error {
	err := postgres.Err(s.q.ResumeProvider(ctx, string(k)))
	if err == nil {
		s.WakePayouts()
	}
	return err
}

func allocationNotFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return payout.ErrNotFound
	}
	return postgres.Err(err)
}
