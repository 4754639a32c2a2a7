package purchases_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
)

// club is a ticket service that sells a membership plan of a month.
type club struct {
	*storetest.Service

	t    *testing.T
	plan string
}

func openClub(t *testing.T) *club {
	t.Helper()
	c := &club{Service: storetest.New(t), t: t}
	c.plan = c.create(100).ID
	return c
}

func (c *club) create(price int64) *membership.Plan {
	c.t.Helper()
	p, err := c.Memberships.Create(c.t.Context(), membership.Plan{Name: "Friends", Price: price, Currency: "KRW", Months: 1}, nil)
	require.NoError(c.t, err)
	return p
}

func (c *club) begin(user string) *membership.View {
	c.t.Helper()
	m, err := c.Memberships.Buy(c.t.Context(), user, c.plan, purchase.Contact{})
	require.NoError(c.t, err)
	return m
}

func (c *club) find(id uuid.UUID) *membership.View {
	c.t.Helper()
	m, err := c.MembershipStore.Find(c.t.Context(), id)
	require.NoError(c.t, err)
	return m
}

// taken returns the Kafka event that a new payment for a membership was confirmed.
func taken(m *membership.View) settlement.PaymentEvent {
	return settlement.PaymentEvent{
		Key: uuid.NewString(), Type: purchase.Membership, ReferenceID: m.ID,
		Payment: purchase.Payment{ID: uuid.New(), UserID: m.UserID, Amount: m.Price, Currency: m.Currency},
	}
}

// buy has user buy and pay for a membership.
func (c *club) buy(user string) (*membership.View, purchase.Payment) {
	c.t.Helper()
	m := c.begin(user)
	e := taken(m)
	_, err := c.Memberships.BeginPayment(c.t.Context(), user, m.ID, e.Payment.ID, purchase.PayTime{})
	require.NoError(c.t, err)
	c.Settle(c.t, e, e)
	return c.find(m.ID), e.Payment
}

func (c *club) request(p purchase.Payment, cause refund.Cause) refund.Request {
	req := c.RefundRequest(p, cause)
	req.Membership, req.AwaitsTickets = true, true
	return req
}

// giveBack claims the membership of a payment and applies the event of the refund twice.
func (c *club) giveBack(p purchase.Payment, cause refund.Cause) {
	c.t.Helper()
	claim := c.BeginRefund(c.t, c.request(p, cause))
	require.Equal(c.t, refund.Begun, claim.Status, claim.Reason)
	refundMade := storetest.MadeRefund(claim, p)
	c.Settle(c.t, refundMade, refundMade)
}

func (c *club) rejected(p purchase.Payment) bool {
	c.t.Helper()
	return c.Count(c.t, `SELECT count(*) FROM ended_payments WHERE payment_id = $1`, p.ID) == 1 &&
		c.Count(c.t, `SELECT count(*) FROM outbox WHERE type = 'MEMBERSHIP_REJECTED' AND payload::json->>'paymentId' = $1`, p.ID.String()) == 1
}

// An unpaid purchase keeps its terms and is returned again. A later purchase extends a paid one.
func TestBuyAndExtend(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	first := c.begin("u")
	require.Equal(t, membership.Pending, first.Status)
	require.Equal(t, "Friends", first.Name)
	c.RequireFromNow(t, membership.PayWithin, first.Until)
	_, err := c.Memberships.Update(t.Context(), c.plan, false)
	require.NoError(t, err)
	require.Equal(t, first.ID, c.begin("u").ID, "it is under way, although the sale has ended")
	_, err = c.Memberships.Buy(t.Context(), "v", c.plan, purchase.Contact{})
	require.ErrorIs(t, err, membership.ErrPlanNotOnSale)
	_, err = c.Memberships.Buy(t.Context(), "v", uuid.NewString(), purchase.Contact{})
	require.ErrorIs(t, err, membership.ErrPlanNotFound)
	first, _ = c.buy("u")
	require.Equal(t, membership.Active, first.Status)
	c.RequireFromNow(t, 0, first.StartsAt)
	_, err = c.Memberships.Update(t.Context(), c.plan, true)
	require.NoError(t, err)

	second, _ := c.buy("u")
	require.Equal(t, first.EndsAt, second.StartsAt)
	c.Clock.Set(second.EndsAt)
	require.Equal(t, membership.Expired, c.find(second.ID).StatusNow())
	third, _ := c.buy("u")
	require.True(t, third.StartsAt.After(second.EndsAt), "nothing lasts that it could extend")
	list, next, err := c.Memberships.List(t.Context(), "u", 2, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{third.ID, second.ID}, []uuid.UUID{list[0].ID, list[1].ID})
	list, next, err = c.Memberships.List(t.Context(), "u", 2, next)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Zero(t, next)
	c.RequireInvariants(t)
}

// An unpaid purchase ends after its time to pay, and does not prevent another purchase.
func TestAbandonedPurchase(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	first := c.begin("u")
	c.Clock.Advance(membership.PayWithin)
	second := c.begin("u") // the first one has not been ended yet
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, membership.Cancelled, c.find(first.ID).Status)
	latePayment := taken(first)
	c.Settle(t, latePayment)
	require.True(t, c.rejected(latePayment.Payment))
	counts, err := c.MembershipStore.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, membership.Counts{Pending: 1}, counts)
	c.Clock.Advance(membership.PayWithin + time.Minute + time.Second)
	counts, err = c.MembershipStore.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, membership.Counts{Pending: 1, Overdue: 1}, counts)
	require.NoError(t, c.Memberships.ExpireDue(t.Context()))
	require.Equal(t, membership.Cancelled, c.find(second.ID).Status)
	_, err = c.Memberships.Payable(t.Context(), "u", second.ID)
	require.ErrorIs(t, err, purchase.ErrHoldExpired)
	c.RequireInvariants(t)
}

// A payment under way extends the time to pay, up to a limit. After an aborted payment there is
// time for another one.
func TestPaymentUnderWay(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	ctx, m := t.Context(), c.begin("u")
	payment, otherPayment := uuid.New(), uuid.New()
	claim := func(user string, payment uuid.UUID, pt purchase.PayTime) (*purchase.Payable, error) {
		return c.Memberships.BeginPayment(ctx, user, m.ID, payment, pt)
	}
	_, err := claim("v", payment, purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrReferenceNotFound)
	_, err = c.Memberships.BeginPayment(ctx, "u", uuid.New(), payment, purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrReferenceNotFound)
	c.Clock.Set(m.Until.Add(-time.Minute))
	opened, err := claim("u", payment, purchase.PayTime{Within: 12 * time.Minute, AtLeast: 3 * time.Minute, Opens: true})
	require.NoError(t, err)
	c.RequireFromNow(t, 12*time.Minute, opened.ExpiresAt)
	_, err = claim("u", otherPayment, purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrPaymentInProgress)
	again, err := claim("u", payment, purchase.PayTime{})
	require.NoError(t, err)
	require.Equal(t, opened.ExpiresAt, again.ExpiresAt)
	c.Clock.Set(opened.ExpiresAt.Add(-time.Second))
	require.NoError(t, c.Memberships.ExpireDue(ctx))
	paying, err := c.Memberships.ExtendPayments(ctx, []purchase.UnderWay{{ReferenceID: m.ID, PaymentID: payment}, {ReferenceID: m.ID, PaymentID: otherPayment}})
	require.NoError(t, err)
	require.Equal(t, []purchase.UnderWay{{ReferenceID: m.ID, PaymentID: payment}}, paying)
	require.True(t, c.find(m.ID).Until.After(opened.ExpiresAt))

	require.NoError(t, c.Memberships.AbortPayment(ctx, m.ID, otherPayment, purchase.Failure{}))
	require.Equal(t, payment, c.find(m.ID).PaymentID)
	require.NoError(t, c.Memberships.AbortPayment(ctx, m.ID, payment, purchase.Failure{}))
	retry := c.find(m.ID)
	require.Zero(t, retry.PaymentID)
	c.RequireFromNow(t, purchase.RetryWithin, retry.Until)
	for range 2 {
		_, err = claim("u", otherPayment, purchase.PayTime{Within: 3 * time.Minute, AtLeast: time.Second, Opens: true})
		require.NoError(t, err)
		require.NoError(t, c.Memberships.AbortPayment(ctx, m.ID, otherPayment, purchase.Failure{}))
	}
	_, err = claim("u", otherPayment, purchase.PayTime{Within: 3 * time.Minute, AtLeast: time.Second, Opens: true})
	require.ErrorIs(t, err, purchase.ErrNotPayable, "three pages are enough")
	c.RequireInvariants(t)
}

// A payment that buys no membership is rejected, so that it is refunded.
func TestRejectedPayments(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	m := c.begin("u")
	second := taken(m)
	_, paid := c.buy("u")
	c.Settle(t, second)
	require.True(t, c.rejected(second.Payment))
	require.False(t, c.rejected(paid))
	_, err := c.Memberships.Payable(t.Context(), "u", m.ID)
	require.ErrorIs(t, err, purchase.ErrAlreadyPaid)
	c.giveBack(paid, refund.Operator)
	third := taken(m)
	c.Settle(t, third)
	require.True(t, c.rejected(third.Payment))
	c.RequireInvariants(t)
}

// A free plan is bought in the same way, once by each user, whatever has become of it.
func TestFreePlan(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	c.plan = c.create(0).ID
	m, paid := c.buy("u")
	require.Equal(t, membership.Active, m.Status)
	c.refused("u", membership.ErrFreeOnce)
	other, _ := c.buy("other")
	c.giveBack(paid, refund.Operator)
	require.Equal(t, membership.Ended, c.find(m.ID).Status)
	c.refused("u", membership.ErrFreeOnce)
	c.Clock.Set(other.EndsAt)
	c.refused("other", membership.ErrFreeOnce)
	c.RequireInvariants(t)
}

func (c *club) refused(user string, want error) {
	c.t.Helper()
	_, err := c.Memberships.Buy(c.t.Context(), user, c.plan, purchase.Contact{})
	require.ErrorIs(c.t, err, want)
}

// A member buys the next term, but not the one after it before the next one has begun.
func TestOneTermAhead(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	first, _ := c.buy("u")
	c.buy("u")
	c.refused("u", membership.ErrAhead)
	c.buy("another user")
	plan := c.plan
	c.plan = c.create(100).ID
	c.buy("u")
	c.plan = plan
	c.Clock.Set(first.EndsAt.Add(-time.Second))
	c.refused("u", membership.ErrAhead)
	c.Clock.Set(first.EndsAt)
	_, paid := c.buy("u")
	c.refused("u", membership.ErrAhead)
	claim := c.BeginRefund(t, c.request(paid, refund.Operator))
	c.refused("u", membership.ErrAhead)
	c.Settle(t, storetest.MadeRefund(claim, paid))
	c.buy("u")
	c.RequireInvariants(t)
}

// After the refund of one of several memberships, the later ones begin earlier.
func TestRefundOfConsecutiveMemberships(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	first, paidFirst := c.buy("u")
	second, paidSecond := c.buy("u")
	c.giveBack(paidSecond, refund.Operator) // the second membership has not begun
	require.Equal(t, membership.Ended, c.find(second.ID).Status)

	c.Clock.Advance(24 * time.Hour)
	claim := c.BeginRefund(t, c.request(paidFirst, refund.Operator))
	third, _ := c.buy("u")
	require.Equal(t, first.EndsAt, third.StartsAt)
	c.Settle(t, storetest.MadeRefund(claim, paidFirst))
	c.RequireFromNow(t, 0, c.find(third.ID).StartsAt)
	fourth, _ := c.buy("u")
	require.Equal(t, c.find(third.ID).EndsAt, fourth.StartsAt)
	c.RequireInvariants(t)
}

// An expired membership can be refunded. Memberships that have begun since then keep their periods.
func TestRefundOfAnExpiredMembership(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	first, paid := c.buy("u")
	second, _ := c.buy("u")
	c.Clock.Set(first.EndsAt.Add(time.Hour))
	third, _ := c.buy("u")
	c.giveBack(paid, refund.ByHand)
	require.Equal(t, first.EndsAt, c.find(second.ID).StartsAt)
	require.Equal(t, second.EndsAt, c.find(third.ID).StartsAt)
	require.Equal(t, []string{`BY_HAND`}, c.reasons(first.ID))
	c.RequireInvariants(t)
}

func (c *club) reasons(id uuid.UUID) (reasons []string) {
	c.t.Helper()
	rows, err := c.Pool.Query(c.t.Context(), `SELECT payload::json->>'reason' FROM outbox WHERE key = $1 AND type = 'MEMBERSHIP_ENDED'`, id.String())
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var r string
		require.NoError(c.t, rows.Scan(&r))
		reasons = append(reasons, r)
	}
	return reasons
}

// After an aborted refund the membership is active again. Repeating the request does not claim it.
func TestAbortedRefund(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	m, paid := c.buy("u")
	req := c.request(paid, refund.Operator)
	claim := c.BeginRefund(t, req)
	require.EqualValues(t, 100, claim.MembershipAmount)
	require.Equal(t, membership.Refunding, c.find(m.ID).StatusNow())
	require.Equal(t, claim.MembershipID, c.BeginRefund(t, req).MembershipID)
	require.Equal(t, refund.ReasonNotRefundable, c.BeginRefund(t, c.request(paid, refund.Operator)).Reason)
	for range 2 {
		require.NoError(t, c.Refunds.Abort(t.Context(), req.ID))
	}
	require.Equal(t, membership.Active, c.find(m.ID).Status)
	require.Equal(t, refund.Aborted, c.BeginRefund(t, req).Status)
	c.giveBack(paid, refund.Operator)
	c.RequireInvariants(t)
}

// A payment that was refunded by hand before its Kafka event arrived buys nothing.
func TestGivenBackByHandBeforeItIsHeardOf(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	m := c.begin("u")
	e := taken(m)
	require.Equal(t, refund.ReasonTicketsPending, c.BeginRefund(t, c.request(e.Payment, refund.Operator)).Reason)
	c.Settle(t, storetest.MadeRefund(c.BeginRefund(t, c.request(e.Payment, refund.ByHand)), e.Payment))
	c.Settle(t, e)
	require.Equal(t, membership.Pending, c.find(m.ID).Status)
	require.Equal(t, refund.ReasonNotRefundable, c.BeginRefund(t, c.request(e.Payment, refund.Operator)).Reason)
	c.RequireInvariants(t)
}

// Holders have a membership now. If a time is given, they must also have bought one before it.
func TestHolders(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	holders := func(before *time.Time) []string {
		list, err := c.Memberships.Holders(t.Context(), c.plan, before, []string{"old", "extends", "lapsed", "returns", "new", "refunding", "ended", "pending", "nobody"})
		require.NoError(t, err)
		slices.Sort(list)
		return list
	}
	c.buy("lapsed")
	c.buy("returns")
	c.buy("extends")
	start := c.Clock.Now()
	c.Clock.Set(start.AddDate(0, 0, 20))
	for _, user := range []string{"old", "extends"} {
		c.buy(user)
	}
	_, refunding := c.buy("refunding")
	_, ended := c.buy("ended")
	cutoff := start.AddDate(0, 0, 35) // when the membership of "returns" is over
	c.Clock.Set(cutoff.Add(time.Hour))
	for _, user := range []string{"new", "returns", "extends"} {
		c.buy(user)
	}
	c.begin("pending")
	require.Equal(t, []string{"ended", "extends", "new", "old", "refunding", "returns"}, holders(nil))
	c.BeginRefund(t, c.request(refunding, refund.Operator))
	c.giveBack(ended, refund.Operator)
	require.Equal(t, []string{"extends", "new", "old", "returns"}, holders(nil))
	require.Equal(t, []string{"extends", "old"}, holders(&cutoff))
	later := c.Clock.Now().Add(time.Hour)
	require.Equal(t, []string{"extends", "new", "old", "returns"}, holders(&later), "bought before a time to come")
	none, err := c.Memberships.Holders(t.Context(), "unknown", nil, []string{"old"})
	require.NoError(t, err)
	require.Empty(t, none)
}

// A repeated request does not make a second plan.
func TestPlans(t *testing.T) {
	t.Parallel()
	c := openClub(t)
	key, err := idempotency.Require("op", "CreatePlan", "k", "plan")
	require.NoError(t, err)
	spec := membership.Plan{Name: "Second", Price: 5, Currency: "EUR", Months: 12}
	created, err := c.Memberships.Create(t.Context(), spec, key)
	require.NoError(t, err)
	again, err := c.Memberships.Create(t.Context(), spec, key)
	require.NoError(t, err)
	require.Equal(t, created, again)
	_, err = c.Memberships.Update(t.Context(), c.plan, false)
	require.NoError(t, err)
	_, err = c.Memberships.Update(t.Context(), uuid.NewString(), false)
	require.ErrorIs(t, err, membership.ErrPlanNotFound)
	onSale, err := c.Memberships.OnSale(t.Context())
	require.NoError(t, err)
	require.Equal(t, []membership.Plan{*created}, onSale)
	all, next, err := c.Memberships.All(t.Context(), 1, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, created.ID, all[0].ID)
	all, next, err = c.Memberships.All(t.Context(), 1, next)
	require.NoError(t, err)
	require.Equal(t, c.plan, all[0].ID)
	require.Zero(t, next)
}
