package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
)

// entryTx is one transaction that makes entries of several members in one campaign.
type entryTx struct {
	tx       pgx.Tx
	q        *db.Queries
	eventID  string
	campaign campaign.Campaign
	now      time.Time
	entries  []*newEntry
}

// newEntry is a request for an entry, with what the steps of its transaction have found out so far.
type newEntry struct {
	entryRequest

	query     campaign.MemberQuery
	earlierID int64 // the id of the entry that an earlier request with the same key made; 0: none
	answered  bool  // earned is the entry of an earlier request
	state     campaign.MemberState
	rewards   []campaign.NewAllocation

	earned campaign.RewardedEntry
	err    error
}

// unanswered returns the entries that are still to be made: neither refused nor made earlier.
func (t *entryTx) unanswered() (open []*newEntry) {
	for _, e := range t.entries {
		if e.err == nil && !e.answered {
			open = append(open, e)
		}
	}
	return open
}

func (t *entryTx) makeEntries(ctx context.Context) error {
	for _, e := range t.entries {
		e.query, e.err = e.method.Query(&t.campaign, t.now)
	}
	for _, step := range []func(context.Context) error{t.claimIdempotencyKeys, t.findEarlier, t.readMemberStates, t.decide, t.insertEntries, t.keepIdempotencyKeys} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *entryTx) claimIdempotencyKeys(ctx context.Context) error {
	open := t.unanswered()
	keys := make([]*idempotency.Key, len(open))
	for i, e := range open {
		keys[i] = e.query.Key
	}
	states, err := answers.ClaimAll(ctx, t.tx, keys)
	if err != nil {
		return err
	}
	for i, e := range open {
		if e.err = states[i].Err; e.err != nil || states[i].Answer == "" {
			continue
		}
		if e.earlierID, err = strconv.ParseInt(states[i].Answer, 10, 64); err != nil {
			return fmt.Errorf("kept answer: %w", err)
		}
	}
	return nil
}

// memberPeriod identifies the first entry of a member in a period.
type memberPeriod struct{ member, period string }

// findEarlier answers the requests that repeat earlier ones, and refuses all other requests if the
// campaign is closed. It also reads the streaks that new entries continue.
func (t *entryTx) findEarlier(ctx context.Context) error {
	var ids []int64
	wanted := db.FirstEntriesParams{EventID: t.eventID}
	add := func(member, period string) {
		wanted.MemberIds, wanted.Periods = append(wanted.MemberIds, member), append(wanted.Periods, period)
	}
	for _, e := range t.unanswered() {
		switch {
		case e.earlierID != 0:
			ids = append(ids, e.earlierID)
		case e.query.Once:
			add(e.memberID, e.query.Period)
		}
		if e.query.Before != "" {
			add(e.memberID, e.query.Before)
		}
	}
	byID, err := t.entriesByID(ctx, ids)
	if err != nil {
		return err
	}
	first, err := t.firstEntries(ctx, wanted)
	if err != nil {
		return err
	}
	for _, e := range t.unanswered() {
		earlier, found := byID[e.earlierID]
		if e.earlierID == 0 && e.query.Once {
			earlier, found = first[memberPeriod{e.memberID, e.query.Period}]
		}
		switch {
		case found:
			e.answered, e.earned = true, campaign.RewardedEntry{Entry: earlier, Repeated: true, Prize: prizeOf(&t.campaign, earlier.PrizeID)}
		case e.query.Closed != nil:
			e.err = e.query.Closed
		}
		e.state.Streak = first[memberPeriod{e.memberID, e.query.Before}].Streak
	}
	var answered []*campaign.RewardedEntry
	for _, e := range t.entries {
		if e.answered {
			answered = append(answered, &e.earned)
		}
	}
	return loadRewards(ctx, t.q, &t.campaign, answered)
}

func (t *entryTx) entriesByID(ctx context.Context, ids []int64) (map[int64]campaign.Entry, error) {
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // none was asked for
	}
	rows, err := t.q.EntriesByID(ctx, ids)
	found := make(map[int64]campaign.Entry, len(rows))
	for _, r := range rows {
		found[r.ID] = t.toEntry(db.FirstEntriesRow(r))
	}
	return found, err
}

func (t *entryTx) firstEntries(ctx context.Context, wanted db.FirstEntriesParams) (map[memberPeriod]campaign.Entry, error) {
	if len(wanted.MemberIds) == 0 {
		return nil, nil //nolint:nilnil // none was asked for
	}
	rows, err := t.q.FirstEntries(ctx, wanted)
	found := make(map[memberPeriod]campaign.Entry, len(rows))
	for _, r := range rows {
		found[memberPeriod{r.MemberID, r.Period}] = t.toEntry(r)
	}
	return found, err
}

func (t *entryTx) toEntry(r db.FirstEntriesRow) campaign.Entry {
	return campaign.Entry{
		ID: r.ID, EventID: t.eventID, MemberID: r.MemberID, Period: r.Period, DrawNo: int(r.DrawNo), Streak: int(r.Streak),
		PrizeID: orZero(r.PrizeID), At: r.CreatedAt,
	}
}

// readMemberStates reads what EntryMethod.Decide needs to know of members, except their streaks.
func (t *entryTx) readMemberStates(ctx context.Context) error {
	counted, streaks := db.CountEntriesParams{EventID: t.eventID}, db.ReachedMilestonesParams{EventID: t.eventID}
	open := make(map[string]*newEntry)
	for _, e := range t.unanswered() {
		open[e.memberID] = e
		e.state.Campaign, e.state.Now, e.state.Reached = t.campaign, t.now, make(map[int]bool)
		if !e.query.Once {
			counted.MemberIds, counted.Periods = append(counted.MemberIds, e.memberID), append(counted.Periods, e.query.Period)
		}
		if e.query.Before != "" {
			streaks.MemberIds = append(streaks.MemberIds, e.memberID)
		}
	}
	if len(counted.MemberIds) > 0 {
		rows, err := t.q.CountEntries(ctx, counted)
		if err != nil {
			return err
		}
		for _, r := range rows {
			open[r.MemberID].state.Made = int(r.Made)
		}
	}
	if len(streaks.MemberIds) > 0 && len(t.campaign.Milestones) > 0 {
		rows, err := t.q.ReachedMilestones(ctx, streaks)
		if err != nil {
			return err
		}
		for _, r := range rows {
			open[r.MemberID].state.Reached[int(r.Day)] = true
		}
	}
	return nil
}

// decide calls EntryMethod.Decide for each request, in the order of arrival, and draws the prizes.
// Prizes with a stock are locked until the commit. All draws share the stock that lockStock read.
func (t *entryTx) decide(ctx context.Context) error {
	open := t.unanswered()
	if len(open) == 0 {
		return nil
	}
	if t.campaign.Kind == campaign.Random {
		if err := t.lockStock(ctx); err != nil {
			return err
		}
	}
	taken := make(map[int64]int64)
	for _, e := range open {
		change, err := e.method.Decide(e.state)
		if err != nil {
			e.err = err
			continue
		}
		e.earned.Entry, e.rewards = change.Entry, change.Rewards
		if change.Draw == nil {
			continue
		}
		if e.earned.Prize = change.Draw(func(p *campaign.Prize) bool { return takeFromStock(p, taken) }); e.earned.Prize != nil {
			e.earned.PrizeID = e.earned.Prize.ID
		}
	}
	return t.takePrizes(ctx, taken)
}

// lockStock locks the prizes that have a stock, and reads how many of each are left.
func (t *entryTx) lockStock(ctx context.Context) error {
	left := make(map[int64]int64)
	for i := range t.campaign.Prizes {
		if p := &t.campaign.Prizes[i]; p.Stock != nil && *p.Stock > 0 {
			left[p.ID] = 0
		}
	}
	if len(left) == 0 {
		return nil
	}
	rows, err := t.q.LockPrizes(ctx, t.eventID)
	if err != nil {
		return err
	}
	for _, r := range rows {
		left[r.ID] = orZero(r.Stock)
	}
	for i := range t.campaign.Prizes {
		if p := &t.campaign.Prizes[i]; p.Stock != nil {
			*p.Stock = left[p.ID]
		}
	}
	return nil
}

// takeFromStock lowers the stock of a prize in memory, which the draws of a transaction share, and
// counts the prize in taken. It returns false if none is left.
func takeFromStock(p *campaign.Prize, taken map[int64]int64) bool {
	if p.Stock == nil {
		return true
	}
	if *p.Stock == 0 {
		return false
	}
	*p.Stock--
	taken[p.ID]++
	return true
}

func (t *entryTx) takePrizes(ctx context.Context, taken map[int64]int64) error {
	if len(taken) == 0 {
		return nil
	}
	var params db.TakePrizesParams
	for id, n := range taken {
		params.Ids, params.Counts = append(params.Ids, id), append(params.Counts, n)
	}
	rows, err := t.q.TakePrizes(ctx, params)
	if err == nil && rows != int64(len(taken)) {
		err = fmt.Errorf("take %d prizes: %d had the stock", len(taken), rows)
	}
	return err
}

// insertEntries inserts entries and rewards. It fails if a reward's idempotency key exists already.
func (t *entryTx) insertEntries(ctx context.Context) error {
	open := t.unanswered()
	if len(open) == 0 {
		return nil
	}
	params := db.InsertEntriesParams{EventID: t.eventID, CreatedAt: t.now}
	byMember := make(map[string]*newEntry, len(open))
	for _, e := range open {
		byMember[e.memberID] = e
		params.MemberIds, params.Periods = append(params.MemberIds, e.memberID), append(params.Periods, e.earned.Period)
		params.DrawNos, params.Streaks = append(params.DrawNos, int32(e.earned.DrawNo)), append(params.Streaks, int32(e.earned.Streak)) //nolint:gosec // small counts
		params.PrizeIds = append(params.PrizeIds, e.earned.PrizeID)
	}
	rows, err := t.q.InsertEntries(ctx, params)
	if err != nil {
		return err
	}
	for _, r := range rows {
		e := byMember[r.MemberID]
		if e.earned.ID = r.ID; e.earned.Prize != nil {
			e.rewards = campaign.PrizeRewards(e.earned.Entry, e.earned.Prize)
		}
	}
	if err := t.insertRewards(ctx, open); err != nil {
		return err
	}
	return t.publishEntries(ctx, open)
}

func (t *entryTx) publishEntries(ctx context.Context, made []*newEntry) error {
	list := make([]outbox.Event, len(made))
	for i, e := range made {
		id := strconv.FormatInt(e.earned.ID, 10)
		payload := &eventsv1.RewardEvent{
			Type: events.RewardEntered, EventId: t.eventID, UserId: e.memberID, EntryId: &id, Version: 1, OccurredAt: timestamppb.New(t.now),
		}
		if e.earned.PrizeID != 0 {
			payload.PrizeId = new(strconv.FormatInt(e.earned.PrizeID, 10))
		}
		list[i] = outbox.Event{Topic: events.Rewards, Key: id, Type: events.RewardEntered, EntityVersion: 1, Payload: payload}
	}
	return outbox.Insert(ctx, t.tx, source, list...)
}

func (t *entryTx) insertRewards(ctx context.Context, made []*newEntry) error {
	params := db.InsertAllocationsParams{EventID: t.eventID, CreatedAt: t.now}
	for _, e := range made {
		for _, r := range e.rewards {
			params.MemberIds, params.EntryIds = append(params.MemberIds, e.memberID), append(params.EntryIds, e.earned.ID)
			params.Kinds, params.Values = append(params.Kinds, string(r.Kind)), append(params.Values, r.Value)
			params.Reasons, params.Keys = append(params.Reasons, string(r.Reason)), append(params.Keys, r.Key)
			params.Milestones = append(params.Milestones, int32(r.Milestone)) //nolint:gosec // validated
		}
	}
	if len(params.Keys) == 0 {
		return nil
	}
	rows, err := t.q.InsertAllocations(ctx, params)
	if err != nil {
		return fmt.Errorf("allocate %d rewards: %w", len(params.Keys), err)
	}
	if len(rows) != len(params.Keys) {
		return fmt.Errorf("allocate %d rewards: %d were inserted", len(params.Keys), len(rows))
	}
	for _, e := range made {
		for _, r := range e.rewards {
			if rows[0].EntryID != e.earned.ID {
				return fmt.Errorf("reward %s: allocated in another order", r.Key)
			}
			e.earned.Rewards = append(e.earned.Rewards, payout.Allocation{
				ID: rows[0].ID, EventID: t.eventID, MemberID: e.memberID, Kind: r.Kind, Value: r.Value, Reason: string(r.Reason), CreatedAt: t.now,
				Status: payout.Pending, IdempotencyKey: r.Key, NextRetryAt: t.now, Version: 1,
			})
			rows = rows[1:]
		}
	}
	return nil
}

// keepIdempotencyKeys stores for each key the id of the entry that answered its request, even if an
// earlier request without the key made this entry: a repetition on the next day returns it too.
func (t *entryTx) keepIdempotencyKeys(ctx context.Context) error {
	var keys []*idempotency.Key
	var kept []string
	for _, e := range t.entries {
		if e.err == nil && e.earlierID == 0 {
			keys, kept = append(keys, e.query.Key), append(kept, strconv.FormatInt(e.earned.ID, 10))
		}
	}
	return answers.KeepAll(ctx, t.tx, keys, kept)
}
