package purchases_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
)

// eachClubRace calls race repeatedly, each time for a new user, and then checks the invariants.
func eachClubRace(t *testing.T, race func(t *testing.T, c *club, user string)) {
	t.Helper()
	t.Parallel()
	c := openClub(t)
	for i := range storetest.Races(t) {
		race(t, c, "u"+strconv.Itoa(i))
	}
	c.RequireInvariants(t)
	c.RequireNoDeadlocks(t)
}

func (c *club) settle(e settlement.PaymentEvent) func() error {
	c.Begun(c.t, e)
	return func() error { return c.Settlement.Settle(c.t.Context(), storetest.Group, []settlement.PaymentEvent{e}) }
}

// race runs acts at the same time. All of them must succeed.
func (c *club) race(acts ...func() error) {
	c.t.Helper()
	for _, err := range storetest.Concurrently(len(acts), func(i int) error { return acts[i]() }) {
		require.NoError(c.t, err)
	}
}

// Concurrent purchases of a user become one, even just after an unpaid purchase has expired.
func TestBoughtTwiceAtOnce(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		for range 2 {
			var ids [3]uuid.UUID
			buy := func(i int) func() error {
				return func() error {
					m, err := c.Memberships.Buy(t.Context(), user, c.plan, purchase.Contact{})
					if err == nil {
						ids[i] = m.ID
					}
					return err
				}
			}
			c.race(buy(0), buy(1), buy(2), func() error { return c.Memberships.ExpireDue(t.Context()) })
			require.Equal(t, [3]uuid.UUID{ids[0], ids[0], ids[0]}, ids)
			c.Clock.Advance(membership.PayWithin)
		}
		require.EqualValues(t, 2, c.Count(t, `SELECT count(*) FROM memberships WHERE user_id = $1`, user))
	})
}

// A member buys and pays the next term at several replicas at once, and gets one.
func TestBoughtAheadAtOnce(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		c.buy(user)
		other := c.Replica(t)
		buy := func(s *storetest.Service) func() error {
			return func() error {
				m, err := s.Memberships.Buy(t.Context(), user, c.plan, purchase.Contact{})
				if err != nil {
					require.ErrorIs(t, err, membership.ErrAhead)
					return nil
				}
				e := taken(m)
				s.Begun(t, e)
				return s.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e})
			}
		}
		c.race(buy(c.Service), buy(other), buy(c.Service), buy(other))
		require.EqualValues(t, 2, c.Count(t, `SELECT count(*) FROM memberships WHERE user_id = $1 AND status = 'ACTIVE'`, user))
	})
}

// Of two concurrent payments one buys the membership, and the other one is rejected.
func TestPaidTwiceAtOnce(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		m := c.begin(user)
		a, b := taken(m), taken(m)
		c.race(c.settle(a), c.settle(b), c.settle(a), c.settle(b))
		require.NotEqual(t, c.rejected(a.Payment), c.rejected(b.Payment))
		require.Equal(t, membership.Active, c.find(m.ID).Status)
	})
}

// The time to pay ends while a payment begins, and while a payment is confirmed.
func TestPaidAtTheEndOfTheTime(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		m := c.begin(user)
		e := taken(m)
		c.Clock.Set(m.Until.Add(-10 * time.Microsecond)) // each reading advances the clock by 1 µs
		expire := func() error { return c.Memberships.ExpireDue(t.Context()) }
		var claimed error
		c.race(expire, func() error {
			_, claimed = c.Memberships.BeginPayment(t.Context(), user, m.ID, e.Payment.ID, purchase.PayTime{})
			return nil
		})
		if claimed != nil {
			require.ErrorIs(t, claimed, purchase.ErrHoldExpired)
			return
		}
		c.Clock.Set(c.find(m.ID).Until.Add(-10 * time.Microsecond))
		c.race(expire, c.settle(e))
		require.Equal(t, c.rejected(e.Payment), c.find(m.ID).Status == membership.Cancelled)
	})
}

// A user buys another membership while the refund of an earlier one is made.
func TestExtendedWhileTheOneBeforeEnds(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		first, paid := c.buy(user)
		claim := c.BeginRefund(t, c.request(paid, refund.Operator))
		e := taken(c.begin(user))
		c.race(c.settle(storetest.MadeRefund(claim, paid)), c.settle(e))
		require.Equal(t, membership.Ended, c.find(first.ID).Status)
		require.False(t, c.rejected(e.Payment))
	})
}

// An operator's refund competes with one by hand. At most one of them claims the membership.
func TestRefundedTwiceAtOnce(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		m, paid := c.buy(user)
		operator, hand := c.request(paid, refund.Operator), c.request(paid, refund.ByHand)
		var claims [2]*refund.Claim
		begin := func(i int, req refund.Request) func() error {
			return func() (err error) { claims[i], err = c.Refunds.Begin(t.Context(), req); return err }
		}
		c.race(begin(0, operator), begin(1, hand), func() error { return c.Refunds.Abort(t.Context(), operator.ID) })
		const claimed = "FROM refund_claims WHERE membership_id = $1 AND status IN ('BEGUN', 'DONE')"
		require.LessOrEqual(t, c.Count(t, "SELECT count(*) "+claimed, m.ID), int64(1))
		require.Equal(t, c.Count(t, "SELECT coalesce(sum(membership_amount), 0)::bigint "+claimed, m.ID),
			c.Count(t, "SELECT given FROM memberships WHERE membership_id = $1", m.ID))
		if claims[1].MembershipAmount > 0 {
			c.Settle(t, storetest.MadeRefund(claims[1], paid))
			require.Equal(t, membership.Ended, c.find(m.ID).Status)
			return
		}
		require.Equal(t, membership.Active, c.find(m.ID).Status, "the claim was given up")
	})
}

// A refund by hand competes with the confirmation. The membership ends, or the payment is rejected.
func TestConfirmedAgainstByHand(t *testing.T) {
	eachClubRace(t, func(t *testing.T, c *club, user string) {
		t.Helper()
		m := c.begin(user)
		e := taken(m)
		var claim *refund.Claim
		c.race(c.settle(e), func() (err error) {
			claim, err = c.Refunds.Begin(t.Context(), c.request(e.Payment, refund.ByHand))
			return err
		})
		c.Settle(t, storetest.MadeRefund(claim, e.Payment))
		want := membership.Pending
		if claim.MembershipAmount > 0 {
			want = membership.Ended
		}
		require.Equal(t, want, c.find(m.ID).Status)
		require.Equal(t, want == membership.Pending, c.rejected(e.Payment))
	})
}
