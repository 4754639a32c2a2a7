package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/postgres/db"
)

// kst parses a time in Korea.
func kst(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.ParseInLocation("2006-01-02 15:04:05.000", s, time.FixedZone("KST", 9*60*60))
	require.NoError(t, err)
	return at
}

type members struct {
	t       *testing.T
	pool    *pgxpool.Pool
	clock   *testkit.Clock
	service *campaign.Service
	woken   atomic.Int32
}

func newMembers(t *testing.T, now time.Time) *members {
	t.Helper()
	m := &members{t: t, pool: postgrestest.New(t, postgres.Migrations...), clock: testkit.NewClock(now)}
	store := postgres.NewCampaigns(postgres.New(m.pool, postgres.Options{Now: m.clock.Now}))
	m.service = campaign.NewService(store, nil, func() { m.woken.Add(1) })
	return m
}

func (m *members) create(c campaign.Campaign) {
	m.t.Helper()
	c.Title, c.OpensAt, c.ClosesAt = "Campaign", m.clock.Now().AddDate(-1, 0, 0), m.clock.Now().AddDate(5, 0, 0)
	if c.DrawsPerMember == 0 {
		c.DrawsPerMember = 1
	}
	if c.Period == "" {
		c.Period = campaign.WholeCampaign
	}
	_, _, err := m.service.Create(m.t.Context(), c, nil)
	require.NoError(m.t, err)
}

func (m *members) attend(event, member, at string) campaign.RewardedEntry {
	m.t.Helper()
	m.clock.Set(kst(m.t, at))
	e, err := m.service.Attend(m.t.Context(), event, member, "")
	require.NoError(m.t, err)
	return e
}

func keys(e campaign.RewardedEntry) (out []string) {
	for _, r := range e.Rewards {
		out = append(out, r.IdempotencyKey)
	}
	return out
}

func points(n int64) campaign.Reward { return campaign.Reward{Kind: payout.Point, Value: n} }

func TestStreakAndMilestones(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	daily := points(10)
	m.create(campaign.Campaign{
		EventID: "1", Kind: campaign.Attendance, Daily: &daily,
		Milestones: []campaign.Milestone{{Reward: points(100), Day: 7}, {Reward: points(5), Day: 2, Every: true}},
	})
	for day := 1; day <= 7; day++ {
		e := m.attend("1", "10001", fmt.Sprintf("2026-03-%02d 09:00:00.000", day))
		require.Equal(t, day, e.Streak)
		want := []string{fmt.Sprintf("att-1-10001-2026-03-%02d-DAILY", day)}
		if day%2 == 0 {
			want = append(want, fmt.Sprintf("att-1-10001-2026-03-%02d-BONUS-2", day))
		}
		if day == 7 {
			want = append(want, "att-1-10001-2026-03-07-BONUS-7")
		}
		require.ElementsMatch(t, want, keys(e))
	}
	again := m.attend("1", "10001", "2026-03-07 23:59:59.999")
	require.True(t, again.Repeated)
	require.Equal(t, 7, again.Streak)
	require.Len(t, again.Rewards, 2)
	require.Equal(t, int32(7), m.woken.Load(), "a repeated request earns nothing")

	require.Equal(t, 1, m.attend("1", "10001", "2026-03-09 00:00:00.000").Streak, "a missed day ends the streak")
	for day := 10; day <= 15; day++ {
		m.attend("1", "10001", fmt.Sprintf("2026-03-%02d 09:00:00.000", day))
	}
	var bonuses int
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT count(*) FROM event_reward_allocation WHERE milestone = 7`).Scan(&bonuses))
	require.Equal(t, 1, bonuses, "the milestone is paid once per member")
}

func TestStreakOverMonthsAndLeapDay(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2028-02-27 12:00:00.000"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "leap", Kind: campaign.Attendance, Daily: &daily})
	for i, day := range []string{"2028-02-28", "2028-02-29", "2028-03-01"} {
		require.Equal(t, i+1, m.attend("leap", "ann", day+" 00:00:00.000").Streak)
	}
	for i, day := range []string{"2028-12-31", "2029-01-01", "2029-02-28", "2029-03-01"} {
		require.Equal(t, []int{1, 2, 1, 2}[i], m.attend("leap", "bob", day+" 23:59:59.999").Streak, day)
	}
}

// A request that waits for the lock counts for the day on which it gets the lock.
func TestOverlappingRequestsAroundMidnight(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-31 23:59:59.999"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "1", Kind: campaign.Attendance, Daily: &daily})
	inside, leave := make(chan struct{}), make(chan struct{})
	store := postgres.NewCampaigns(postgres.New(m.pool, postgres.Options{Now: m.clock.Now}))
	held := make(chan error, 1)
	go func() {
		_, err := store.Enter(t.Context(), "1", "ann", campaign.EntryMethod{
			Query: func(_ *campaign.Campaign, now time.Time) (campaign.MemberQuery, error) {
				return campaign.MemberQuery{Period: string(campaign.DayOf(now))}, nil
			},
			Decide: func(s campaign.MemberState) (*campaign.NewEntry, error) {
				close(inside)
				<-leave
				e := campaign.Entry{EventID: "1", MemberID: "ann", Period: string(campaign.DayOf(s.Now)), DrawNo: 1, Streak: 1, At: s.Now}
				return &campaign.NewEntry{Entry: e}, nil
			},
		})
		held <- err
	}()
	<-inside
	second := make(chan campaign.RewardedEntry, 1)
	go func() {
		e, err := m.service.Attend(t.Context(), "1", "ann", "")
		if err == nil {
			second <- e
		}
		close(second)
	}()
	testkit.Until(t, func() bool { // the second request waits for the member
		var waiting bool
		require.NoError(t, m.pool.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waiting))
		return waiting
	}, "the second request waits")
	m.clock.Set(kst(t, "2026-04-01 00:00:00.000"))
	close(leave)
	require.NoError(t, <-held)
	e := <-second
	require.Equal(t, "2026-04-01", e.Period)
	require.Equal(t, 2, e.Streak, "it sees the entry of the day before")
	require.Equal(t, []string{"att-1-ann-2026-04-01-DAILY"}, keys(e))
}

func TestIdsWithHyphensDoNotCollide(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "a9", Kind: campaign.Attendance, Daily: &daily})
	m.create(campaign.Campaign{EventID: "a9-b", Kind: campaign.Attendance, Daily: &daily})
	require.Equal(t, []string{"att-a9-b-c-2026-03-01-DAILY"}, keys(m.attend("a9", "b-c", "2026-03-01 12:00:00.000")))
	require.Equal(t, []string{"att-a9%2Db-c-2026-03-01-DAILY"}, keys(m.attend("a9-b", "c", "2026-03-01 12:00:00.000")))
}

func TestStockIsNeverOverdrawn(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	stock := int64(10)
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{
		{Name: "points", Reward: points(100), Weight: 1, Stock: &stock},
	}})
	var won, lost atomic.Int32
	var work sync.WaitGroup
	for i := range 500 {
		work.Go(func() {
			e, err := m.service.Draw(t.Context(), "d", fmt.Sprint("m", i), "")
			switch {
			case err != nil:
				t.Error(err)
			case e.Prize != nil:
				won.Add(1)
			default:
				lost.Add(1)
			}
		})
	}
	work.Wait()
	require.Equal(t, int32(10), won.Load())
	require.Equal(t, int32(490), lost.Load())
	c, _, err := m.service.Get(t.Context(), "d")
	require.NoError(t, err)
	require.Zero(t, *c.Prizes[0].Stock)
}

// A crowd draws at once, and many members twice. Each member has one entry, exactly the stock of
// prizes is won, and few transactions suffice.
func TestCrowdDrawsInFewTransactions(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	stock := int64(30)
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{
		{Name: "few", Reward: points(100), Weight: 1, Stock: &stock}, {Name: "many", Reward: points(1), Weight: 9},
	}})
	const crowd = 600
	earned := make([]campaign.RewardedEntry, crowd)
	var work sync.WaitGroup
	for i := range crowd {
		work.Go(func() {
			var err error
			if earned[i], err = m.service.Draw(t.Context(), "d", fmt.Sprint("m", i/2), ""); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	few := 0
	for i := 0; i < crowd; i += 2 {
		first, second := earned[i], earned[i+1]
		require.NotEqual(t, first.Repeated, second.Repeated)
		require.Equal(t, first.ID, second.ID)
		require.Equal(t, keys(first), keys(second))
		if first.Prize.Name == "few" {
			few++
		}
	}
	require.LessOrEqual(t, few, 30)
	c, _, err := m.service.Get(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, int64(30-few), *c.Prizes[0].Stock)
	var transactions int
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM event_entry`).Scan(&transactions))
	var published int
	require.NoError(t, m.pool.QueryRow(t.Context(), `
		SELECT count(*) FROM outbox o JOIN event_entry e ON o.key = e.id::text AND o.topic = 'reward-events' AND o.type = 'REWARD_ENTERED'
		WHERE o.payload::jsonb @> jsonb_build_object('eventId', 'd', 'entryId', e.id::text, 'userId', e.member_id, 'prizeId', e.prize_id::text)`).Scan(&published))
	require.Equal(t, crowd/2, published)
	t.Logf("%d draws in %d transactions", crowd/2, transactions)
	require.Less(t, transactions, crowd/4, "group commit")
}

// While a campaign's transaction waits, only a limited number of requests may wait with it.
func TestEntriesBeyondTheQueueAreRefused(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{{Name: "p", Reward: points(1), Weight: 1}}})
	tx, err := m.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	require.NoError(t, db.New(tx).LockMembers(t.Context(), db.LockMembersParams{EventID: "d", MemberIds: []string{"ann"}}))
	var refused, made atomic.Int32
	var work sync.WaitGroup
	draw := func(member string) {
		work.Go(func() {
			_, err := m.service.Draw(t.Context(), "d", member, "")
			switch {
			case err == nil:
				made.Add(1)
			case errors.Is(err, errs.ErrOverloaded) && errs.From(err).RetryAfter > 0:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	draw("ann")
	awaitAdvisoryLock(t, m.pool)
	for i := range 2200 {
		draw(fmt.Sprint("m", i))
	}
	testkit.Until(t, func() bool { return refused.Load() == 200 }, "those beyond the queue are refused, and wait for nothing")
	require.NoError(t, tx.Rollback(t.Context()))
	work.Wait()
	require.Equal(t, int32(2001), made.Load())
}

// A request whose answer was lost is repeated after midnight: its key finds the entry of the day
// before.
func TestKeyFindsTheEntryOfTheDayBefore(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 23:59:59.000"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "a", Kind: campaign.Attendance, Daily: &daily})
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Period: campaign.PerDay, Prizes: []campaign.Prize{{Name: "p", Reward: daily, Weight: 1}}})
	for name, enter := range map[string]func(key string) (campaign.RewardedEntry, error){
		"attendance": func(key string) (campaign.RewardedEntry, error) {
			return m.service.Attend(t.Context(), "a", "ann", key)
		},
		"draw": func(key string) (campaign.RewardedEntry, error) { return m.service.Draw(t.Context(), "d", "ann", key) },
	} {
		m.clock.Set(kst(t, "2026-03-01 23:59:59.000"))
		first, err := enter("k1")
		require.NoError(t, err, name)
		again, err := enter("k2") // another click of the same day
		require.NoError(t, err, name)
		require.True(t, again.Repeated, name)
		m.clock.Set(kst(t, "2026-03-02 00:00:01.000"))
		for _, key := range []string{"k1", "k2"} {
			repeated, err := enter(key)
			require.NoError(t, err, name)
			require.True(t, repeated.Repeated, name)
			require.Equal(t, first.ID, repeated.ID, name)
			require.Equal(t, keys(first), keys(repeated), name)
		}
		next, err := enter("k3")
		require.NoError(t, err, name)
		require.False(t, next.Repeated, name)
		require.Equal(t, "2026-03-02", next.Period, name)
	}
}

func TestExpectedOpenings(t *testing.T) {
	t.Parallel()
	now := kst(t, "2026-03-07 12:00:00.000")
	m := newMembers(t, now)
	daily := &campaign.Reward{Kind: payout.Point, Value: 1}
	m.create(campaign.Campaign{EventID: "quiet", Kind: campaign.Attendance, Daily: daily})
	want := planned.Opening{EventID: "crowd", At: now.AddDate(-1, 0, 0), Expected: plan.Expected{Visitors: 5, WithinSeconds: 9}}
	m.create(campaign.Campaign{EventID: want.EventID, Kind: campaign.Attendance, Daily: daily, Expected: want.Expected})
	store := postgres.NewCampaigns(postgres.New(m.pool, postgres.Options{}))
	got, err := store.ExpectedOpenings(t.Context(), want.At.Add(-time.Second), want.At)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.True(t, want.At.Equal(got[0].At))
	got[0].At = want.At
	require.Equal(t, want, got[0])
	got, err = store.ExpectedOpenings(t.Context(), want.At, now)
	require.NoError(t, err)
	require.Empty(t, got, "it has opened before")
	_, _, err = m.service.Create(t.Context(), campaign.Campaign{
		EventID: "bad", Title: "Bad", Kind: campaign.Attendance, Daily: daily, OpensAt: now, ClosesAt: now.Add(time.Hour), Expected: plan.Expected{Visitors: 5},
	}, nil)
	require.Equal(t, "expected.withinSeconds", errs.From(err).Fields[0].Path)
}
