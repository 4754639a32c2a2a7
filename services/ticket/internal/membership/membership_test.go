package membership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
)

// seoul returns a time in Korea, where the months of memberships begin and end.
func seoul(year int, month time.Month, day, hour int) time.Time {
	return time.Date(year, month, day, hour, 0, 0, 0, time.FixedZone("KST", 9*60*60)).UTC()
}

func pending(months int, now time.Time) *membership.Membership {
	return membership.New("u", &membership.Plan{ID: "p", Price: 100, Currency: "KRW", Months: months}, now)
}

func paymentOf(m *membership.Membership) purchase.Payment {
	return purchase.Payment{ID: uuid.New(), UserID: m.UserID, Amount: m.Price, Currency: m.Currency}
}

// settle applies a payment of m, whose user also has others of the plan.
func settle(m *membership.Membership, now time.Time, others ...*membership.Membership) (rejected string) {
	return purchase.Settle(&membership.Purchase{Membership: m, Others: others}, paymentOf(m), now, time.Hour)
}

// Months are those of the calendar: the same day and time, or the last day of a shorter month.
func TestMonthsOfTheCalendar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start  time.Time
		months int
		end    time.Time
	}{
		{seoul(2030, time.January, 15, 10), 1, seoul(2030, time.February, 15, 10)},
		{seoul(2030, time.January, 31, 10), 1, seoul(2030, time.February, 28, 10)},
		{seoul(2028, time.January, 31, 10), 1, seoul(2028, time.February, 29, 10)},
		{seoul(2030, time.October, 31, 10), 13, seoul(2031, time.November, 30, 10)},
		{seoul(2028, time.February, 29, 10), 12, seoul(2029, time.February, 28, 10)},
		{seoul(2030, time.March, 1, 5), 1, seoul(2030, time.April, 1, 5)}, // the day before in UTC
		{seoul(2030, time.December, 31, 23), 120, seoul(2040, time.December, 31, 23)},
	} {
		m := pending(c.months, c.start)
		require.Empty(t, settle(m, c.start))
		require.Equal(t, c.start, m.StartsAt)
		require.Equal(t, c.end, m.EndsAt, c.start)
	}
}

// A payment that would still buy more than one term ahead, or a free plan once more, is rejected.
func TestSettleRefusesWhatCannotBeBought(t *testing.T) {
	t.Parallel()
	noon := seoul(2030, time.May, 1, 12)
	present, next, free := pending(1, noon), pending(1, noon), pending(1, noon)
	require.Empty(t, settle(present, noon))
	require.Empty(t, settle(next, noon, present))
	third := pending(1, noon)
	require.Equal(t, "MEMBERSHIP_AHEAD", settle(third, noon, present, next))
	require.Equal(t, membership.Pending, third.Status)
	free.Price = 0
	require.Equal(t, "FREE_PLAN_ONCE", settle(free, noon, present))
}

func TestStatusNow(t *testing.T) {
	t.Parallel()
	noon := seoul(2030, time.May, 1, 12)
	m := pending(1, noon)
	status := func(now time.Time) membership.Status {
		return (&membership.View{Membership: *m, Now: now}).StatusNow()
	}
	require.Equal(t, membership.Pending, status(noon))
	require.Equal(t, membership.Cancelled, status(noon.Add(membership.PayWithin)), "before the sweeper has seen it")
	require.Empty(t, settle(m, noon))
	require.Equal(t, membership.Active, status(m.EndsAt.Add(-1)))
	require.Equal(t, membership.Expired, status(m.EndsAt))
	req := refund.Request{ID: uuid.New(), Cause: refund.Operator, AskedAt: m.EndsAt}
	require.Equal(t, refund.Begun, membership.DecideRefund(req, m, m.EndsAt).Status, "also after its end")
	require.Equal(t, membership.Refunding, status(m.EndsAt))
}

// A refund claims the membership if an operator asks for it, or if all was given back by hand.
func TestDecideRefund(t *testing.T) {
	t.Parallel()
	noon := seoul(2030, time.May, 1, 12)
	for name, c := range map[string]struct {
		change  func(*refund.Request)
		unknown bool
		status  refund.Status
		reason  string
		amount  int64
		present int64
	}{
		"by an operator":                  {status: refund.Begun, amount: 100},
		"as shown":                        {change: func(r *refund.Request) { r.Shown = new(int64(100)) }, status: refund.Begun, amount: 100},
		"less than shown":                 {change: func(r *refund.Request) { r.Shown = new(int64(101)) }, status: refund.Refused, reason: refund.ReasonAmountChanged, present: 100},
		"by its user":                     {change: func(r *refund.Request) { r.Cause = refund.User }, status: refund.Refused, reason: refund.ReasonNotRefundable},
		"of tickets":                      {change: func(r *refund.Request) { r.TicketIDs = []uuid.UUID{uuid.New()} }, status: refund.Refused, reason: refund.ReasonNotRefundable},
		"too old":                         {change: func(r *refund.Request) { r.AskedAt = noon.Add(-refund.AskedWithin) }, status: refund.Refused, reason: refund.ReasonTooOld},
		"not heard of":                    {unknown: true, status: refund.Refused, reason: refund.ReasonTicketsPending},
		"rejected":                        {change: func(r *refund.Request) { r.AwaitsTickets = false }, unknown: true, status: refund.Refused, reason: refund.ReasonNotRefundable},
		"by hand, whole":                  {change: func(r *refund.Request) { r.Cause, r.Whole = refund.ByHand, true }, status: refund.Begun, amount: 100},
		"by hand, in part":                {change: func(r *refund.Request) { r.Cause = refund.ByHand }, status: refund.Begun},
		"by hand, whole and not heard of": {change: func(r *refund.Request) { r.Cause, r.Whole = refund.ByHand, true }, unknown: true, status: refund.Begun},
	} {
		m := pending(1, noon)
		require.Empty(t, settle(m, noon))
		req := refund.Request{ID: uuid.New(), Cause: refund.Operator, AskedAt: noon, AwaitsTickets: true}
		if c.change != nil {
			c.change(&req)
		}
		found := m
		if c.unknown {
			found = nil
		}
		got := membership.DecideRefund(req, found, noon)
		require.Equal(t, []any{c.status, c.reason, c.amount}, []any{got.Status, got.Reason, got.MembershipAmount}, name)
		require.Equal(t, c.amount > 0, m.Status == membership.Refunding, name)
		require.Equal(t, c.present, got.PresentAmount, name)
		if c.amount > 0 {
			require.Equal(t, refund.ReasonNotRefundable, membership.DecideRefund(refund.Request{ID: uuid.New(), Cause: refund.Operator, AskedAt: noon}, m, noon).Reason)
			require.Error(t, m.Unclaim(uuid.New(), c.amount), "another refund has claimed it")
			require.NoError(t, m.Unclaim(req.ID, c.amount))
			require.Zero(t, m.GivenBack)
		}
	}
}

// countedPlans counts how often the plans on sale are read.
type countedPlans struct {
	membership.Plans

	reads int
}

func (p *countedPlans) ListOnSale(context.Context, int) ([]membership.Plan, error) {
	p.reads++
	return []membership.Plan{{ID: "p"}}, nil
}

func (*countedPlans) SetOnSale(context.Context, string, bool) error { return nil }

func (*countedPlans) Plan(context.Context, string) (*membership.Plan, error) {
	return &membership.Plan{}, nil
}

// However many ask, the plans on sale are read once a second, and after an operator's change.
func TestPlansOnSaleAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plans := &countedPlans{}
		s := membership.NewService(plans, nil, time.Minute)
		requireReads := func(want int) {
			t.Helper()
			for range 9 {
				got, err := s.OnSale(t.Context())
				require.NoError(t, err)
				require.Len(t, got, 1)
			}
			require.Equal(t, want, plans.reads)
		}
		requireReads(1)
		time.Sleep(time.Second) // by the fake clock
		requireReads(2)
		_, err := s.Update(t.Context(), "p", false)
		require.NoError(t, err)
		requireReads(3)
	})
}
