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

// Enter reads the time after it has locked the member: of two requests around midnight the one that
// waits for the lock counts for the day on which it continues.
func (s Campaigns) Enter(ctx context.Context, eventID, memberID string, how campaign.EntryMethod) (earned campaign.Earned, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		if err := q.LockMember(ctx, db.LockMemberParams{EventID: eventID, MemberID: memberID}); err != nil {
			return fmt.Errorf("lock member: %w", err)
		}
		t := &entryTx{tx: tx, q: q, eventID: eventID, memberID: memberID}
		if t.campaign, t.now, err = s.readCampaign(ctx, q, eventID); err != nil {
			return err
		}
		earned, err = t.enter(ctx, how)
		return err
	})
	if err == nil && !earned.Repeated {
		countStatus(payout.Pending, len(earned.Rewards))
	}
	return earned, err
}

// entryTx is the transaction of an entry.
type entryTx struct {
	tx                pgx.Tx
	q                 *db.Queries
	eventID, memberID string
	campaign          campaign.Campaign
	now               time.Time
}

func (t *entryTx) enter(ctx context.Context, how campaign.EntryMethod) (campaign.Earned, error) {
	query, err := how.Query(&t.campaign, t.now)
	if err != nil {
		return campaign.Earned{}, err
	}
	earlier, found, err := t.earlierEntry(ctx, query)
	if found || err != nil {
		return earlier, err
	}
	if query.Closed != nil {
		return campaign.Earned{}, query.Closed
	}
	standing, err := t.standing(ctx, query)
	if err != nil {
		return campaign.Earned{}, err
	}
	change, err := how.Decide(standing)
	if err != nil {
		return campaign.Earned{}, err
	}
	return t.writeEntry(ctx, change, query.Key)
}

// earlierEntry returns the entry that an earlier request made, if there is one.
func (t *entryTx) earlierEntry(ctx context.Context, query campaign.Query) (campaign.Earned, bool, error) {
	if query.Key == nil {
		row, err := t.entry(ctx, query.Period)
		return t.loadEarned(ctx, row, err)
	}
	kept, err := answers.Claim(ctx, t.tx, query.Key)
	if err != nil || kept == "" {
		return campaign.Earned{}, false, err
	}
	id, err := strconv.ParseInt(kept, 10, 64)
	if err != nil {
		return campaign.Earned{}, false, fmt.Errorf("kept answer: %w", err)
	}
	row, err := t.q.GetEntryByID(ctx, id)
	return t.loadEarned(ctx, row, err)
}

// entry reads the first entry of a period.
func (t *entryTx) entry(ctx context.Context, period string) (db.EventEntry, error) {
	return t.q.GetEntry(ctx, db.GetEntryParams{EventID: t.eventID, MemberID: t.memberID, Period: period, DrawNo: 1})
}

// standing reads what the entry method needs to know of the member.
func (t *entryTx) standing(ctx context.Context, query campaign.Query) (campaign.Standing, error) {
	s := campaign.Standing{Campaign: t.campaign, Now: t.now}
	if query.Key != nil { // else there is no entry in the period
		n, err := t.q.CountEntries(ctx, db.CountEntriesParams{EventID: t.eventID, MemberID: t.memberID, Period: query.Period})
		if err != nil {
			return s, err
		}
		s.Made = int(n)
	}
	if query.Before == "" {
		return s, nil
	}
	before, err := t.entry(ctx, query.Before)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s, err
	}
	s.Streak = int(before.Streak)
	days, err := t.q.ReachedMilestones(ctx, db.ReachedMilestonesParams{MemberID: t.memberID, EventID: t.eventID})
	s.Reached = make(map[int]bool, len(days))
	for _, d := range days {
		s.Reached[int(d)] = true
	}
	return s, err
}

// writeEntry inserts the entry with its prize and rewards, and keeps the entry's id under the key.
func (t *entryTx) writeEntry(ctx context.Context, c *campaign.Change, key *idempotency.Key) (earned campaign.Earned, err error) {
	e := c.Entry
	if e.ID, err = t.q.InsertEntry(ctx, db.InsertEntryParams{
		EventID: e.EventID, MemberID: e.MemberID, Period: e.Period, DrawNo: int32(e.DrawNo), Streak: int32(e.Streak), CreatedAt: e.At, //nolint:gosec // small counts
	}); err != nil {
		return campaign.Earned{}, err
	}
	if err := answers.Keep(ctx, t.tx, key, strconv.FormatInt(e.ID, 10)); err != nil {
		return campaign.Earned{}, err
	}
	earned, rewards := campaign.Earned{Entry: e}, c.Rewards
	if c.Draw != nil {
		earned.Prize, err = c.Draw(func(p *campaign.Prize) (bool, error) { return t.takePrize(ctx, e.ID, p) })
		if err != nil {
			return campaign.Earned{}, err
		}
		if earned.Prize != nil {
			earned.PrizeID = earned.Prize.ID
		}
		rewards = campaign.PrizeRewards(e, earned.Prize)
	}
	earned.Rewards, err = t.insertRewards(ctx, e.ID, rewards)
	return earned, err
}

// loadEarned loads what an entry has earned. row and err are the result of the query of the entry.
func (t *entryTx) loadEarned(ctx context.Context, row db.EventEntry, err error) (campaign.Earned, bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return campaign.Earned{}, false, nil
	}
	if err != nil {
		return campaign.Earned{}, false, postgres.Err(err)
	}
	e := campaign.Earned{Repeated: true, Entry: campaign.Entry{
		ID: row.ID, EventID: row.EventID, MemberID: row.MemberID, Period: row.Period, DrawNo: int(row.DrawNo), Streak: int(row.Streak), At: row.CreatedAt,
	}}
	e.PrizeID = orZero(row.PrizeID)
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

// takePrize gives the entry a prize and takes it from the stock; it returns false when none is
// left. A prize without limit is not locked, so that its draws run in parallel.
func (t *entryTx) takePrize(ctx context.Context, entryID int64, p *campaign.Prize) (bool, error) {
	if p.Stock != nil {
		taken, err := t.q.TakePrize(ctx, p.ID)
		if err != nil || taken == 0 {
			return false, err
		}
	}
	return true, t.q.SetPrize(ctx, db.SetPrizeParams{ID: entryID, PrizeID: &p.ID})
}

// insertRewards inserts the rewards of a new entry. An idempotency key that exists is an error.
func (t *entryTx) insertRewards(ctx context.Context, entryID int64, rewards []campaign.NewAllocation) ([]payout.Allocation, error) {
	var out []payout.Allocation
	for _, r := range rewards {
		params := db.InsertAllocationParams{
			EventID: t.eventID, MemberID: t.memberID, EntryID: entryID, RewardKind: string(r.Kind), RewardValue: r.Value,
			Reason: string(r.Reason), IdempotencyKey: r.Key, CreatedAt: t.now,
		}
		if r.Milestone != 0 {
			params.Milestone = new(int32(r.Milestone)) //nolint:gosec // validated
		}
		row, err := t.q.InsertAllocation(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("allocate %s: %w", r.Key, err)
		}
		out = append(out, toAllocation(row, nil))
	}
	return out, nil
}

func (s Campaigns) Part(ctx context.Context, eventID, memberID string) (campaign.Part, error) {
	c, now, err := s.readCampaign(ctx, s.q, eventID)
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
			ID: r.ID, Period: r.Period, DrawNo: int(r.DrawNo), Streak: int(r.Streak), PrizeID: orZero(r.PrizeID),
		})
	}
	for _, day := range reached {
		p.Milestones = append(p.Milestones, int(day))
	}
	slices.Sort(p.Milestones)
	p.Earned, err = s.loadPresentEntries(ctx, memberID, &p)
	return p, err
}

// loadPresentEntries loads what the present entries of a part have earned.
func (s Campaigns) loadPresentEntries(ctx context.Context, member string, p *campaign.Part) ([]campaign.Earned, error) {
	var ids []int64
	var out []campaign.Earned
	for _, e := range p.PresentEntries() {
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
