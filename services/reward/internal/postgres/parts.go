package postgres

import (
	"context"
	"slices"

	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/postgres/db"
)

// prizeOf returns the prize with this id; nil if the campaign has no such prize, as for id 0.
func prizeOf(c *campaign.Campaign, prizeID int64) *campaign.Prize {
	for i := range c.Prizes {
		if c.Prizes[i].ID == prizeID {
			return &c.Prizes[i]
		}
	}
	return nil
}

// loadRewards reads the rewards of entries and adds them to earned.
func loadRewards(ctx context.Context, q *db.Queries, c *campaign.Campaign, earned []*campaign.RewardedEntry) error {
	byEntry, keys := make(map[int64]*campaign.RewardedEntry, len(earned)), []string(nil)
	for _, e := range earned {
		byEntry[e.ID] = e
		keys = append(keys, campaign.RewardKeys(c, e.Entry)...)
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := q.AllocationsByKeys(ctx, keys)
	if err != nil {
		return postgres.Err(err)
	}
	for _, r := range rows {
		if e := byEntry[r.EntryID]; e != nil {
			e.Rewards = append(e.Rewards, toAllocation(r, nil))
		}
	}
	return nil
}

func (s *Campaigns) Part(ctx context.Context, p campaign.Participation, memberID string) (campaign.Participation, error) {
	eventID := p.Campaign.EventID
	rows, err := s.reads.EntriesOf(ctx, db.EntriesOfParams{EventID: eventID, MemberID: memberID})
	if err != nil {
		return campaign.Participation{}, postgres.Err(err)
	}
	for _, r := range rows {
		p.Entries = append(p.Entries, campaign.Entry{
			ID: r.ID, EventID: eventID, MemberID: memberID, Period: r.Period, DrawNo: int(r.DrawNo), Streak: int(r.Streak), PrizeID: orZero(r.PrizeID),
		})
	}
	if len(p.Campaign.Milestones) > 0 {
		reached, err := s.reads.ReachedMilestones(ctx, db.ReachedMilestonesParams{MemberIds: []string{memberID}, EventID: eventID})
		if err != nil {
			return campaign.Participation{}, postgres.Err(err)
		}
		for _, r := range reached {
			p.Milestones = append(p.Milestones, int(r.Day))
		}
		slices.Sort(p.Milestones)
	}
	var present []*campaign.RewardedEntry
	for _, e := range p.PresentEntries() {
		present = append(present, &campaign.RewardedEntry{Entry: e, Prize: prizeOf(&p.Campaign, e.PrizeID), Repeated: true})
	}
	if err := loadRewards(ctx, s.reads, &p.Campaign, present); err != nil {
		return campaign.Participation{}, err
	}
	for _, e := range present {
		p.Earned = append(p.Earned, *e)
	}
	return p, nil
}
