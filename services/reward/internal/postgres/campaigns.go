package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

func (s *Campaigns) Create(ctx context.Context, c campaign.Campaign, key *idempotency.Key) (campaign.Campaign, time.Time, error) {
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		first, err := answers.Claim(ctx, tx, key)
		if err != nil {
			return err
		}
		if first != "" {
			c.EventID = first
			return nil
		}
		if err := insertCampaign(ctx, q, c, s.now()); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, key, c.EventID)
	})
	if err != nil {
		return campaign.Campaign{}, time.Time{}, err
	}
	return s.readCampaign(ctx, s.q, c.EventID)
}

// insertCampaign inserts a campaign with its milestones and prizes; testNow: see Database.now.
func insertCampaign(ctx context.Context, q *db.Queries, c campaign.Campaign, testNow *time.Time) error {
	params := db.InsertCampaignParams{
		EventID: c.EventID, Title: c.Title, Kind: string(c.Kind), OpensAt: c.OpensAt, ClosesAt: c.ClosesAt,
		DrawsPerMember: int32(c.DrawsPerMember), Period: string(c.Period), Now: testNow, //nolint:gosec // validated
		ExpectedVisitors: c.Expected.Visitors, ExpectedWithin: int32(c.Expected.WithinSeconds), //nolint:gosec // ≤ 86,400
	}
	if c.PromotionID != "" {
		params.PromotionID = &c.PromotionID
		if err := q.LockPromotion(ctx, c.PromotionID); err != nil {
			return fmt.Errorf("lock promotion: %w", err)
		}
	}
	if c.Daily != nil {
		params.DailyKind, params.DailyValue = new(string(c.Daily.Kind)), &c.Daily.Value
	}
	if err := q.InsertCampaign(ctx, params); err != nil {
		return fmt.Errorf("insert campaign: %w", err)
	}
	for _, m := range c.Milestones {
		if err := q.InsertMilestone(ctx, db.InsertMilestoneParams{
			EventID: c.EventID, Day: int32(m.Day), Kind: string(m.Kind), Value: m.Value, Every: m.Every, //nolint:gosec // validated
		}); err != nil {
			return fmt.Errorf("insert milestone: %w", err)
		}
	}
	for _, p := range c.Prizes {
		kind := string(p.Reward.Kind)
		if p.Blank {
			kind = campaign.KindNone
		}
		if err := q.InsertPrize(ctx, db.InsertPrizeParams{
			EventID: c.EventID, Name: p.Name, Kind: kind, Value: p.Reward.Value, Weight: p.Weight, Stock: p.Stock,
		}); err != nil {
			return fmt.Errorf("insert prize: %w", err)
		}
	}
	return nil
}

func (s *Campaigns) Get(ctx context.Context, eventID string) (campaign.Campaign, time.Time, error) {
	return s.readCampaign(ctx, s.reads, eventID)
}

// readCampaign returns a campaign with its milestones and prizes, and the database's time.
func (d *Database) readCampaign(ctx context.Context, q *db.Queries, eventID string) (campaign.Campaign, time.Time, error) {
	row, err := q.GetCampaign(ctx, db.GetCampaignParams{EventID: eventID, Now: d.now()})
	if errors.Is(err, pgx.ErrNoRows) {
		return campaign.Campaign{}, time.Time{}, campaign.ErrNotFound
	}
	if err != nil {
		return campaign.Campaign{}, time.Time{}, postgres.Err(err)
	}
	c := toCampaign(row.Campaign)
	milestones, err := q.Milestones(ctx, eventID)
	if err != nil {
		return campaign.Campaign{}, time.Time{}, postgres.Err(err)
	}
	for _, m := range milestones {
		c.Milestones = append(c.Milestones, campaign.Milestone{
			Reward: campaign.Reward{Kind: payout.Kind(m.Kind), Value: m.Value}, Day: int(m.Day), Every: m.Every,
		})
	}
	prizes, err := q.Prizes(ctx, eventID)
	if err != nil {
		return campaign.Campaign{}, time.Time{}, postgres.Err(err)
	}
	for _, p := range prizes {
		c.Prizes = append(c.Prizes, toPrize(p))
	}
	return c, row.Now, nil
}

func toCampaign(r db.Campaign) campaign.Campaign {
	c := campaign.Campaign{
		EventID: r.EventID, Title: r.Title, Kind: campaign.Kind(r.Kind), OpensAt: r.OpensAt, ClosesAt: r.ClosesAt,
		DrawsPerMember: int(r.DrawsPerMember), Period: campaign.Period(r.Period), CancelledAt: orZero(r.CancelledAt),
		PromotionID: orZero(r.PromotionID), Expected: plan.Expected{Visitors: r.ExpectedVisitors, WithinSeconds: int64(r.ExpectedWithin)},
	}
	if r.DailyKind != nil && r.DailyValue != nil {
		c.Daily = &campaign.Reward{Kind: payout.Kind(*r.DailyKind), Value: *r.DailyValue}
	}
	return c
}

func toPrize(p db.Prize) campaign.Prize {
	out := campaign.Prize{
		ID: p.ID, Name: p.Name, Blank: p.Kind == campaign.KindNone, Reward: campaign.Reward{Value: p.Value}, Weight: p.Weight, Stock: p.Stock, Initial: p.Initial,
	}
	if !out.Blank {
		out.Reward.Kind = payout.Kind(p.Kind)
	}
	return out
}

// ExpectedOpenings returns the openings of campaigns at which operators expect a crowd.
func (s *Campaigns) ExpectedOpenings(ctx context.Context, since, until time.Time) ([]planned.Opening, error) {
	rows, err := s.reads.ExpectedOpenings(ctx, db.ExpectedOpeningsParams{Since: since, Until: until})
	out := make([]planned.Opening, len(rows))
	for i, r := range rows {
		out[i] = planned.Opening{EventID: r.EventID, At: r.OpensAt, Expected: plan.Expected{Visitors: r.ExpectedVisitors, WithinSeconds: int64(r.ExpectedWithin)}}
	}
	return out, postgres.Err(err)
}
