// This file converts rows to allocations, and writes changed allocations with their Kafka events.

package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

func toAllocation(r db.EventRewardAllocation, campaignCancelled *time.Time) payout.Allocation {
	return payout.Allocation{
		ID: r.ID, EventID: r.EventID, MemberID: r.MemberID, Kind: payout.Kind(r.RewardKind), Value: r.RewardValue,
		Status: payout.Status(r.RewardStatus), IdempotencyKey: r.IdempotencyKey, Resends: int(r.Resends), ProcessedAt: orZero(r.ProcessedAt),
		RetryCount: int(r.RetryCount), NextRetryAt: orZero(r.NextRetryAt), Version: r.Version, UnknownSince: orZero(r.UnknownSince),
		LastCallAt: orZero(r.LastCallAt), AskFirst: r.AskFirst, VoidedAt: orZero(r.VoidedAt), HeldAt: orZero(r.HeldAt), FailingSince: orZero(r.FailingSince),
		Reason: r.Reason, CreatedAt: r.CreatedAt, Cancelling: r.CancelRequestedAt != nil || campaignCancelled != nil,
		TransactionID: orZero(r.ExternalTransactionID), Code: orZero(r.ErrorCode), Message: orZero(r.ErrorMessage),
	}
}

// changedAllocation is an allocation after a change, with its row as it was before the change.
type changedAllocation struct {
	allocation payout.Allocation
	row        db.EventRewardAllocation
	restock    bool // cancelling the campaign restocks prizes; row.Restock: cancelling the allocation does
	now        time.Time
}

// writeChanges updates allocations, which are in the order of their ids, and publishes their
// events. It returns the prizes of cancelled allocations to the stock where that was requested.
func writeChanges(ctx context.Context, tx pgx.Tx, q *db.Queries, changes []changedAllocation) error {
	var params db.SettleParams
	var entries []int64
	var out []outbox.Event
	for _, c := range changes {
		a := c.allocation
		a.Version = c.row.Version + 1
		appendToSettleParams(&params, a)
		if typ := eventType(a); typ != "" {
			out = append(out, rewardEvent(a, typ, c.now))
		}
		if a.Status == payout.Cancelled && (c.row.Restock || c.restock) {
			entries = append(entries, c.row.EntryID)
		}
	}
	if len(params.Ids) == 0 {
		return nil
	}
	if err := restockPrizes(ctx, q, entries); err != nil {
		return err
	}
	if err := q.Settle(ctx, params); err != nil {
		return err
	}
	return outbox.Insert(ctx, tx, source, out...)
}

func appendToSettleParams(p *db.SettleParams, a payout.Allocation) {
	p.Ids, p.Statuses, p.TransactionIds = append(p.Ids, a.ID), append(p.Statuses, string(a.Status)), append(p.TransactionIds, a.TransactionID)
	p.ProcessedAts, p.NextRetryAts = append(p.ProcessedAts, a.ProcessedAt), append(p.NextRetryAts, a.NextRetryAt)
	p.RetryCounts, p.Resends = append(p.RetryCounts, int32(a.RetryCount)), append(p.Resends, int32(a.Resends)) //nolint:gosec // small counts
	p.AskFirsts, p.UnknownSinces = append(p.AskFirsts, a.AskFirst), append(p.UnknownSinces, a.UnknownSince)
	p.LastCallAts, p.FailingSinces = append(p.LastCallAts, a.LastCallAt), append(p.FailingSinces, a.FailingSince)
	p.VoidedAts, p.HeldAts = append(p.VoidedAts, a.VoidedAt), append(p.HeldAts, a.HeldAt)
	p.Codes, p.Messages = append(p.Codes, a.Code), append(p.Messages, a.Message)
}

// restockPrizes returns the prizes of entries to the stock.
func restockPrizes(ctx context.Context, q *db.Queries, entries []int64) error {
	if len(entries) == 0 {
		return nil
	}
	return q.Restock(ctx, entries)
}

// eventType returns the type of the Kafka event of a changed allocation; "" if it is to be retried.
func eventType(a payout.Allocation) string {
	switch {
	case a.Status == payout.Success:
		return events.RewardPaid
	case a.Status == payout.Cancelled:
		return events.RewardCancelled
	case a.Status == payout.Failed && a.NextRetryAt.IsZero():
		return events.RewardFailed
	default:
		return ""
	}
}

func rewardEvent(a payout.Allocation, typ string, now time.Time) outbox.Event {
	id := strconv.FormatInt(a.ID, 10)
	return outbox.Event{Topic: events.Rewards, Key: id, Type: typ, EntityVersion: a.Version, Payload: &eventsv1.RewardEvent{
		Type: typ, AllocationId: id, EventId: a.EventID, UserId: a.MemberID, RewardKind: string(a.Kind), Value: a.Value,
		Status: string(a.Status), TransactionId: a.TransactionID, Code: a.Code, Version: a.Version, OccurredAt: timestamppb.New(now),
	}}
}
