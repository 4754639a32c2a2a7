package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
)

// kst is a time in Korea.
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
	store := postgres.Campaigns{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	m.service = campaign.NewService(store, func() { m.woken.Add(1) })
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
	_, err := m.service.Create(m.t.Context(), c, nil)
	require.NoError(m.t, err)
}

func (m *members) attend(event, member, at string) campaign.Earned {
	m.t.Helper()
	m.clock.Set(kst(m.t, at))
	e, err := m.service.Attend(m.t.Context(), event, member)
	require.NoError(m.t, err)
	return e
}

func keys(e campaign.Earned) (out []string) {
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

// The request that waits for the lock belongs to the day in which it continues.
func TestOverlappingRequestsAroundMidnight(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-31 23:59:59.999"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "1", Kind: campaign.Attendance, Daily: &daily})
	inside, leave := make(chan struct{}), make(chan struct{})
	store := postgres.Campaigns{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	held := make(chan error, 1)
	go func() {
		_, err := store.Enter(t.Context(), "1", "ann", campaign.EntryMethod{
			Query: func(_ *campaign.Campaign, now time.Time) (campaign.Query, error) {
				return campaign.Query{Period: string(campaign.DayOf(now))}, nil
			},
			Decide: func(s campaign.Standing) (*campaign.Change, error) {
				close(inside)
				<-leave
				e := campaign.Entry{EventID: "1", MemberID: "ann", Period: string(campaign.DayOf(s.Now)), DrawNo: 1, Streak: 1, At: s.Now}
				return &campaign.Change{Entry: e}, nil
			},
		})
		held <- err
	}()
	<-inside
	second := make(chan campaign.Earned, 1)
	go func() {
		e, err := m.service.Attend(t.Context(), "1", "ann")
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
