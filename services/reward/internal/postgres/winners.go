package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/inbox"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

// Winners stores the winners of promotions and their rewards in PostgreSQL.
type Winners struct{ *Database }

var _ campaign.WinnerStore = Winners{}

func (s Winners) Announce(ctx context.Context, all []campaign.Announcement) (rewarded int, err error) {
	keys := make([]string, len(all))
	for i, a := range all {
		keys[i] = a.EventKey
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		rewarded = 0
		fresh, err := inbox.ClaimAll(ctx, tx, keys, campaign.Group)
		if err != nil {
			return err
		}
		byPromotion := make(map[string]*db.InsertWinnersParams)
		for _, a := range all {
			if !fresh[a.EventKey] {
				continue
			}
			p := byPromotion[a.PromotionID]
			if p == nil {
				p = &db.InsertWinnersParams{PromotionID: a.PromotionID}
				byPromotion[a.PromotionID] = p
			}
			p.RequestIds, p.MemberIds, p.AnnouncedAts = append(p.RequestIds, a.RequestID), append(p.MemberIds, a.MemberID), append(p.AnnouncedAts, a.At)
		}
		for _, promotion := range slices.Sorted(maps.Keys(byPromotion)) {
			n, err := s.announceOf(ctx, q, byPromotion[promotion])
			if err != nil {
				return err
			}
			rewarded += n
		}
		return nil
	})
	if err == nil {
		countStatus(payout.Pending, rewarded)
	}
	return rewarded, err
}

// announceOf stores winners of one promotion, and rewards them in the campaigns of this promotion.
func (s Winners) announceOf(ctx context.Context, q *db.Queries, winners *db.InsertWinnersParams) (rewarded int, err error) {
	if err := q.LockPromotionShared(ctx, winners.PromotionID); err != nil {
		return 0, err
	}
	if err := q.InsertWinners(ctx, *winners); err != nil {
		return 0, err
	}
	campaigns, err := q.CampaignsOfPromotion(ctx, winners.PromotionID)
	for _, c := range campaigns {
		n, err := rewardWinners(ctx, q, c, s.now(), winners.RequestIds, winners.MemberIds)
		if err != nil {
			return 0, err
		}
		rewarded += n
	}
	return rewarded, err
}

func (s Winners) RewardEarlier(ctx context.Context) (rewarded int, more bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, _ pgx.Tx, q *db.Queries) error {
		rewarded, more = 0, false
		c, err := q.LockUnfinishedWinners(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		winners, err := q.WinnersAfter(ctx, db.WinnersAfterParams{PromotionID: *c.PromotionID, After: c.WinnersAfter, Chunk: chunk})
		if err != nil {
			return err
		}
		more = true
		cursor, done := c.WinnersAfter, len(winners) < chunk
		var requests, members []string
		for _, w := range winners {
			requests, members, cursor = append(requests, w.RequestID), append(members, w.MemberID), w.RequestID
		}
		if len(winners) > 0 {
			if rewarded, err = rewardWinners(ctx, q, c, s.now(), requests, members); err != nil {
				return err
			}
		}
		return q.SetWinnersCursor(ctx, db.SetWinnersCursorParams{EventID: c.EventID, WinnersAfter: cursor, Done: done, Now: s.now()})
	})
	if err == nil {
		countStatus(payout.Pending, rewarded)
	}
	return rewarded, more, err
}

func rewardWinners(ctx context.Context, q *db.Queries, c db.Campaign, testNow *time.Time, requests, members []string) (int, error) {
	n, err := q.RewardWinners(ctx, db.RewardWinnersParams{
		EventID: c.EventID, RequestIds: requests, MemberIds: members, Now: testNow, Kind: *c.DailyKind, Value: *c.DailyValue,
		KeyPrefix: campaign.WinnerKeyPrefix(c.EventID),
	})
	return int(n), err
}
