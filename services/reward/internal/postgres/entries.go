package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

// Enter implements campaign.Store. The time is read after the member is locked: of two requests
// around midnight the one that waits belongs to the day in which it continues.
func (s Campaigns) Enter(
	ctx context.Context, eventID, memberID string, fn func(context.Context, campaign.Tx) (campaign.Earned, error),
) (earned campaign.Earned, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		if err := q.LockMember(ctx, db.LockMemberParams{EventID: eventID, MemberID: memberID}); err != nil {
			return fmt.Errorf("lock member: %w", err)
		}
		e := &entryTx{tx: tx, q: q, eventID: eventID, memberID: memberID}
		if e.campaign, e.now, err = s.read(ctx, q, eventID); err != nil {
			return err
		}
		earned, err = fn(ctx, e)
		return err
	})
	if err == nil && !earned.Repeated {
		entered(payout.Pending, len(earned.Rewards))
	}
	return earned, err
}

// entryTx implements campaign.Tx.
type entryTx struct {
	tx                pgx.Tx
	q                 *db.Queries
	eventID, memberID string
	campaign          campaign.Campaign
	now               time.Time
}

func (t *entryTx) Campaign() campaign.Campaign { return t.campaign }
func (t *entryTx) Now() time.Time              { return t.now }

// Existing implements campaign.Tx.
func (t *entryTx) Existing(ctx context.Context, period string, drawNo int) (campaign.Earned, bool, error) {
	row, err := t.q.GetEntry(ctx, db.GetEntryParams{
		EventID: t.eventID, MemberID: t.memberID, Period: period, DrawNo: int32(drawNo), //nolint:gosec // below the campaign's draws
	})
	return t.earned(ctx, row, err)
}

// Replay implements campaign.Tx.
func (t *entryTx) Replay(ctx context.Context, key *idempotency.Key) (campaign.Earned, bool, error) {
	kept, err := answers.Claim(ctx, t.tx, key)
	if err != nil || kept == "" {
		return campaign.Earned{}, false, err
	}
	id, err := strconv.ParseInt(kept, 10, 64)
	if err != nil {
		return campaign.Earned{}, false, fmt.Errorf("kept answer: %w", err)
	}
	row, err := t.q.GetEntryByID(ctx, id)
	return t.earned(ctx, row, err)
}

// earned loads what an entry has earned; no row is not found.
func (t *entryTx) earned(ctx context.Context, row db.EventEntry, err error) (campaign.Earned, bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return campaign.Earned{}, false, nil
	}
	if err != nil {
		return campaign.Earned{}, false, postgres.Err(err)
	}
	e := campaign.Earned{Repeated: true, Entry: campaign.Entry{
		ID: row.ID, EventID: row.EventID, MemberID: row.MemberID, Period: row.Period, DrawNo: int(row.DrawNo), Streak: int(row.Streak), At: row.CreatedAt,
	}}
	e.PrizeID = idOrZero(row.PrizeID)
	e.Prize = prizeOf(&t.campaign, e.PrizeID)
	rewards, err := t.q.AllocationsOfEntries(ctx, db.AllocationsOfEntriesParams{MemberID: row.MemberID, EntryIds: []int64{row.ID}})
	if err != nil {
		return campaign.Earned{}, false, postgres.Err(err)
	}
	for _, r := range rewards {
		e.Rewards = append(e.Rewards, toAllocation(r, nil))
	}
	return e, true, nil
}

// prizeOf returns a prize of the campaign; nil for 0.
func prizeOf(c *campaign.Campaign, id int64) *campaign.Prize {
	for i := range c.Prizes {
		if c.Prizes[i].ID == id {
			return &c.Prizes[i]
		}
	}
	return nil
}

func idOrZero(id *int64) int64 {
	if id == nil {
		return 0
	}
	return *id
}

// Entries implements campaign.Tx.
func (t *entryTx) Entries(ctx context.Context, period string) (int, error) {
	n, err := t.q.CountEntries(ctx, db.CountEntriesParams{EventID: t.eventID, MemberID: t.memberID, Period: period})
	return int(n), err
}

// PaidMilestones implements campaign.Tx.
func (t *entryTx) PaidMilestones(ctx context.Context) (map[int]bool, error) {
	days, err := t.q.ReachedMilestones(ctx, db.ReachedMilestonesParams{MemberID: t.memberID, EventID: t.eventID})
	reached := make(map[int]bool, len(days))
	for _, d := range days {
		reached[int(d)] = true
	}
	return reached, err
}

// Keep implements campaign.Tx.
func (t *entryTx) Keep(ctx context.Context, key *idempotency.Key, entryID int64) error {
	return answers.Keep(ctx, t.tx, key, strconv.FormatInt(entryID, 10))
}

// Insert implements campaign.Tx.
func (t *entryTx) Insert(ctx context.Context, e campaign.Entry) (int64, error) {
	return t.q.InsertEntry(ctx, db.InsertEntryParams{
		EventID: e.EventID, MemberID: e.MemberID, Period: e.Period, DrawNo: int32(e.DrawNo), Streak: int32(e.Streak), CreatedAt: e.At, //nolint:gosec // small counts
	})
}

// Take implements campaign.Tx. A prize without limit is not locked: its draws run in parallel.
func (t *entryTx) Take(ctx context.Context, entryID int64, p *campaign.Prize) (bool, error) {
	if p.Stock != nil {
		taken, err := t.q.TakePrize(ctx, p.ID)
		if err != nil || taken == 0 {
			return false, err
		}
	}
	return true, t.q.SetPrize(ctx, db.SetPrizeParams{ID: entryID, PrizeID: &p.ID})
}

// Allocate implements campaign.Tx. An idempotency key behind a new entry must be new too: a
// conflict is an error, not a repetition.
func (t *entryTx) Allocate(ctx context.Context, entryID int64, rewards []campaign.NewAllocation) ([]payout.Allocation, error) {
	var out []payout.Allocation
	for _, r := range rewards {
		params := db.InsertAllocationParams{
			EventID: t.eventID, MemberID: t.memberID, EntryID: entryID, RewardKind: string(r.Kind), RewardValue: r.Value,
			Reason: string(r.Reason), IdempotencyKey: r.Key, CreatedAt: t.now,
		}
		if r.Milestone != 0 {
			day := int32(r.Milestone) //nolint:gosec // validated
			params.Milestone = &day
		}
		row, err := t.q.InsertAllocation(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("allocate %s: %w", r.Key, err)
		}
		out = append(out, toAllocation(row, nil))
	}
	return out, nil
}

// Part implements campaign.Store.
func (s Campaigns) Part(ctx context.Context, eventID, memberID string) (campaign.Part, error) {
	c, now, err := s.read(ctx, s.q, eventID)
	if err != nil {
		return campaign.Part{}, err
	}
	rows, err := s.q.EntriesOf(ctx, db.EntriesOfParams{EventID: eventID, MemberID: memberID})
	if err != nil {
		return campaign.Part{}, postgres.Err(err)
	}
	reached, err := s.q.ReachedMilestones(ctx, db.ReachedMilestonesParams{MemberID: memberID, EventID: eventID})
	if err != nil {
		return campaign.Part{}, postgres.Err(err)
	}
	p := campaign.Part{Campaign: c, Now: now}
	for _, r := range rows {
		p.Entries = append(p.Entries, campaign.Entry{
			ID: r.ID, Period: r.Period, DrawNo: int(r.DrawNo), Streak: int(r.Streak), PrizeID: idOrZero(r.PrizeID),
		})
	}
	for _, day := range reached {
		p.Milestones = append(p.Milestones, int(day))
	}
	slices.Sort(p.Milestones)
	p.Earned, err = s.earned(ctx, memberID, &p)
	return p, err
}

// earned loads what the present entries of a part have earned.
func (s Campaigns) earned(ctx context.Context, member string, p *campaign.Part) ([]campaign.Earned, error) {
	var ids []int64
	var out []campaign.Earned
	for _, e := range p.Present() {
		ids = append(ids, e.ID)
		out = append(out, campaign.Earned{Entry: e, Prize: prizeOf(&p.Campaign, e.PrizeID), Repeated: true})
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := s.q.AllocationsOfEntries(ctx, db.AllocationsOfEntriesParams{MemberID: member, EntryIds: ids})
	if err != nil {
		return nil, postgres.Err(err)
	}
	for _, r := range rows {
		i := slices.Index(ids, r.EntryID)
		out[i].Rewards = append(out[i].Rewards, toAllocation(r, nil))
	}
	return out, nil
}
