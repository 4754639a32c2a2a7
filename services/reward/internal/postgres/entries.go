package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

const (
	// maxEntries is the most entries in one transaction. Each has up to two advisory locks.
	maxEntries = 100
	// maxWaiting is the most requests that may wait for an entry in one campaign. Further ones are
	// refused with errs.ErrOverloaded, since they would wait for longer than the gateway does.
	maxWaiting = 2000
	// maxCampaigns is the most campaigns that may have waiting requests at the same time.
	maxCampaigns = 10_000
	// entryDelay is how long the first request of an idle campaign waits for more.
	entryDelay   = 300 * time.Microsecond
	entryTimeout = 5 * time.Second
)

// Campaigns stores campaigns and entries. Entries are made by group commit: one transaction makes
// all entries of a campaign that were requested while the previous one was being committed. So up
// to 100 draws share one lock of a prize, and a busy campaign uses one connection. All campaigns
// together use half of the connections; the rest is for payouts and operators.
type Campaigns struct {
	*Database

	running *semaphore.Weighted
	entries *batch.Groups[string, entryRequest, campaign.RewardedEntry]
}

var _ campaign.Store = (*Campaigns)(nil)

// NewCampaigns makes the store of campaigns and entries.
func NewCampaigns(d *Database) *Campaigns {
	s := &Campaigns{Database: d, running: semaphore.NewWeighted(int64(max(1, d.pool.Config().MaxConns/2)))}
	s.entries = batch.NewGroups(batch.Config{Max: maxEntries, Delay: entryDelay, Queue: maxWaiting, Timeout: entryTimeout}, maxCampaigns, s.enterAll)
	return s
}

// Close waits for the entries that are being made.
func (s *Campaigns) Close(ctx context.Context) error { return s.entries.Close(ctx) }

// entryRequest is a member's request for an entry.
type entryRequest struct {
	memberID string
	method   campaign.EntryMethod
}

type entryResult = batch.Result[campaign.RewardedEntry]

// Enter makes an entry of a member. It reads the time after it has locked the member: a request
// that waits for the lock over midnight counts for the new day.
func (s *Campaigns) Enter(ctx context.Context, eventID, memberID string, method campaign.EntryMethod) (campaign.RewardedEntry, error) {
	return s.entries.Do(ctx, eventID, entryRequest{memberID: memberID, method: method})
}

// enterAll makes entries of a campaign. A member's second request waits for the next transaction.
func (s *Campaigns) enterAll(ctx context.Context, eventID string, requests []entryRequest) ([]entryResult, error) {
	if err := s.running.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.running.Release(1)
	results, remaining := make([]entryResult, len(requests)), make([]int, len(requests))
	for i := range remaining {
		remaining[i] = i
	}
	for len(remaining) > 0 {
		var indexes, next []int
		entering := make(map[string]bool, len(remaining))
		for _, i := range remaining {
			if member := requests[i].memberID; entering[member] {
				next = append(next, i)
			} else {
				entering[member] = true
				indexes = append(indexes, i)
			}
		}
		s.enterTogether(ctx, eventID, requests, indexes, results)
		remaining = next
	}
	return results, nil
}

// enterTogether makes the entries of requests[indexes], of different members, in one transaction.
// If that fails although the database is available, it makes each entry in a transaction of its
// own, so that an entry that cannot be made prevents no other.
func (s *Campaigns) enterTogether(ctx context.Context, eventID string, requests []entryRequest, indexes []int, results []entryResult) {
	members := make([]entryRequest, len(indexes))
	for n, i := range indexes {
		members[n] = requests[i]
	}
	made, err := s.enterInOneTx(ctx, eventID, members)
	switch {
	case err == nil:
		for n, i := range indexes {
			results[i] = made[n]
		}
	case len(indexes) == 1 || errors.Is(err, errs.ErrUnavailable) || ctx.Err() != nil:
		for _, i := range indexes {
			results[i].Err = err
		}
	default:
		for _, i := range indexes {
			s.enterTogether(ctx, eventID, requests, []int{i}, results)
		}
	}
}

func (s *Campaigns) enterInOneTx(ctx context.Context, eventID string, requests []entryRequest) (results []entryResult, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		t := &entryTx{tx: tx, q: q, eventID: eventID, entries: make([]*newEntry, len(requests))}
		members := make([]string, len(requests))
		for i, r := range requests {
			t.entries[i], members[i] = &newEntry{entryRequest: r}, r.memberID
		}
		if err := q.LockMembers(ctx, db.LockMembersParams{EventID: eventID, MemberIds: members}); err != nil {
			return fmt.Errorf("lock members: %w", err)
		}
		if t.campaign, t.now, err = s.readCampaign(ctx, q, eventID); err != nil {
			return err
		}
		if err := t.makeEntries(ctx); err != nil {
			return err
		}
		results = make([]entryResult, len(requests))
		for i, e := range t.entries {
			results[i] = entryResult{Value: e.earned, Err: e.err}
		}
		return nil
	})
	if errors.Is(err, campaign.ErrNotFound) {
		results = make([]entryResult, len(requests))
		for i := range results {
			results[i].Err = err
		}
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	earned := 0
	for _, r := range results {
		if r.Err == nil && !r.Value.Repeated {
			earned += len(r.Value.Rewards)
		}
	}
	countStatus(payout.Pending, earned)
	return results, nil
}
