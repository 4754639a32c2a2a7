package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

const (
	maxSettled  = 100                  // the most outcomes in one transaction
	settleDelay = 2 * time.Millisecond // how long the first outcome waits for more
)

// Payouts claims allocations and writes the outcomes of calls. Outcomes that arrive while a
// transaction runs are written together by the next transaction.
type Payouts struct {
	*Database

	settles *batch.Coalescer[settlement, bool]
}

var _ payout.Store = (*Payouts)(nil)

// settlement is a call whose outcome is to be written, with the policy of its provider.
type settlement struct {
	call   payout.EndedCall
	policy payout.Policy
}

// NewPayouts makes the store that the payout engines use.
func NewPayouts(d *Database) *Payouts {
	p := &Payouts{Database: d}
	p.settles = batch.NewItems(batch.Config{Max: maxSettled, Delay: settleDelay, Inflight: 2}, p.settleAll)
	return p
}

// Close waits for the outcomes that are being written.
func (p *Payouts) Close(ctx context.Context) error { return p.settles.Close(ctx) }

func (p *Payouts) Claim(ctx context.Context, kind payout.Kind, n int, policy payout.Policy) ([]payout.ClaimedAllocation, error) {
	rows, err := p.q.Claim(ctx, db.ClaimParams{
		Kind: string(kind), Now: p.now(), Slots: int32(n), //nolint:gosec // a few hundred
		MaxRecoveries: int32(policy.MaxRecoveries), MaxAttempts: int32(policy.MaxAttempts), //nolint:gosec // small settings
		ResendSeconds: policy.ResendWithin().Seconds(), LeaseSeconds: policy.Lease.Seconds(),
	})
	if err != nil {
		return nil, postgres.Err(err)
	}
	countStatus(payout.Processing, len(rows))
	claims := make([]payout.ClaimedAllocation, len(rows))
	for i, r := range rows {
		claims[i] = payout.ClaimedAllocation{Action: payout.Action(r.Action), Allocation: payout.Allocation{
			ID: r.ID, Version: r.Version, EventID: r.EventID, MemberID: r.MemberID, Kind: payout.Kind(r.RewardKind), Value: r.RewardValue,
			Status: payout.Processing, IdempotencyKey: r.IdempotencyKey, Resends: int(r.Resends), LastCallAt: orZero(r.LastCallAt),
		}}
	}
	return claims, nil
}

func (p *Payouts) Renew(ctx context.Context, claims []payout.ClaimRef, policy payout.Policy) error {
	ids, versions := splitClaimRefs(claims)
	return postgres.Err(p.q.Renew(ctx, db.RenewParams{Ids: ids, Versions: versions, Now: p.now(), LeaseSeconds: policy.Lease.Seconds()}))
}

func (p *Payouts) Release(ctx context.Context, claims []payout.ClaimRef) error {
	ids, versions := splitClaimRefs(claims)
	released, err := p.q.Release(ctx, db.ReleaseParams{Ids: ids, Versions: versions, Now: p.now()})
	countStatus(payout.Failed, int(released))
	return postgres.Err(err)
}

func (p *Payouts) HoldAbandoned(ctx context.Context, kind payout.Kind, policy payout.Policy) (held int, err error) {
	err = p.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		rows, err := q.HoldAbandoned(ctx, db.HoldAbandonedParams{
			Kind: string(kind), MaxRecoveries: int32(policy.MaxRecoveries), Code: payout.CodeWorkersDied, Now: p.now(), //nolint:gosec // a small setting
		})
		if err != nil {
			return err
		}
		held = len(rows)
		out := make([]outbox.Event, len(rows))
		for i, r := range rows {
			a := toAllocation(r.EventRewardAllocation, nil)
			out[i] = rewardEvent(a, eventType(a), r.Now)
		}
		return outbox.Insert(ctx, tx, source, out...)
	})
	if err != nil {
		return 0, err
	}
	if held > 0 {
		countStatus(payout.Failed, held)
		p.opts.Published()
	}
	return held, nil
}

func (p *Payouts) Settle(ctx context.Context, c payout.EndedCall, policy payout.Policy) (applied bool, err error) {
	c.Result.TransactionID, c.Result.Message = toStorableText(c.Result.TransactionID), toStorableText(c.Result.Message)
	return p.settles.Do(ctx, settlement{call: c, policy: policy})
}

// maxText is the most bytes that are kept of a provider's text.
const maxText = 1000

// toStorableText converts a provider's text to one that PostgreSQL accepts: UTF-8 without U+0000.
func toStorableText(s string) string {
	s = s[:min(len(s), maxText)]
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// settleAll writes outcomes in one transaction. If that fails although the database is available,
// it writes each in its own, so that one that cannot be written delays no other.
func (p *Payouts) settleAll(ctx context.Context, items []settlement) ([]batch.Result[bool], error) {
	applied, err := p.settleInOneTx(ctx, items)
	out := make([]batch.Result[bool], len(items))
	switch {
	case err == nil:
		for i := range out {
			out[i].Value = applied[i]
		}
	case len(items) == 1 || errors.Is(err, errs.ErrUnavailable) || ctx.Err() != nil:
		return nil, err
	default:
		for i := range out {
			if applied, err = p.settleInOneTx(ctx, items[i:i+1]); err == nil {
				out[i].Value = applied[0]
			}
			out[i].Err = err
		}
	}
	return out, nil
}

// settleInOneTx locks allocations, decides about them and writes them in one transaction. It
// decides about two outcomes of one allocation one after the other.
func (p *Payouts) settleInOneTx(ctx context.Context, items []settlement) (applied []bool, err error) {
	var changes []changedAllocation
	err = p.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		applied = make([]bool, len(items))
		changes, err = p.decideAll(ctx, tx, q, items, applied)
		return err
	})
	if err != nil {
		return nil, err
	}
	countChanges(changes)
	if slices.Contains(applied, true) {
		p.opts.Published()
	}
	return applied, nil
}

func (p *Payouts) decideAll(ctx context.Context, tx pgx.Tx, q *db.Queries, items []settlement, applied []bool) ([]changedAllocation, error) {
	rows, err := q.LockForSettle(ctx, p.lockParams(items))
	if err != nil {
		return nil, err
	}
	locked := make(map[int64]*lockedAllocation, len(rows))
	for _, r := range rows {
		locked[r.EventRewardAllocation.ID] = &lockedAllocation{Allocation: toAllocation(r.EventRewardAllocation, r.CancelledAt), now: r.Now}
	}
	for i, item := range items {
		if a := locked[item.call.ID]; a != nil {
			applied[i] = a.decide(item)
		}
	}
	var changes []changedAllocation
	for _, r := range rows {
		if l := locked[r.EventRewardAllocation.ID]; l.changed {
			changes = append(changes, changedAllocation{allocation: l.Allocation, row: r.EventRewardAllocation, restock: r.CancelRestock, now: l.now})
		}
	}
	return changes, writeChanges(ctx, tx, q, changes)
}

// lockedAllocation is an allocation whose row is locked. changed: an outcome has changed it.
type lockedAllocation struct {
	payout.Allocation

	changed bool
	now     time.Time
}

func (l *lockedAllocation) decide(item settlement) bool {
	if asked := item.call.Result.Asked; !asked.IsZero() {
		item.call.Result.Age = time.Since(asked)
	}
	after, ok := payout.Decide(l.Allocation, item.call, l.now, item.policy)
	if ok {
		l.Allocation, l.changed = after, true
	}
	return ok
}

func (p *Payouts) lockParams(items []settlement) db.LockForSettleParams {
	params := db.LockForSettleParams{Now: p.now()}
	for _, item := range items {
		params.Ids, params.Versions = append(params.Ids, item.call.ID), append(params.Versions, item.call.Version)
		params.Outcomes, params.Errors = append(params.Outcomes, string(item.call.Result.Outcome)), append(params.Errors, item.call.Result.Message)
	}
	return params
}

func splitClaimRefs(claims []payout.ClaimRef) (ids, versions []int64) {
	for _, h := range claims {
		ids, versions = append(ids, h.ID), append(versions, h.Version)
	}
	return ids, versions
}
