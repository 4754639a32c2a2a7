package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
)

type shownMembership struct {
	MembershipID, PlanID, Name, Status, PaymentID string
	Amount                                        int64
	StartsAt, EndsAt, PayUntil                    time.Time
}

// createPlan puts a plan for one month of membership on sale, and returns its id.
func createPlan(t *testing.T, p *harness.Platform, price int64) string {
	t.Helper()
	var plan struct {
		PlanID string
		OnSale bool
	}
	a := p.Operator().With("Idempotency-Key", uuid.NewString()).MustCall(t.Context(), http.MethodPost, "/api/v1/admin/memberships/plans",
		map[string]any{"name": "Friends of the hall", "price": price, "currency": "KRW", "months": 1}, &plan)
	require.Equal(t, http.StatusCreated, a.Status)
	require.True(t, plan.OnSale)
	return plan.PlanID
}

// endSale takes a membership plan off sale.
func endSale(t *testing.T, p *harness.Platform, plan string) {
	t.Helper()
	p.Operator().MustCall(t.Context(), http.MethodPut, "/api/v1/admin/memberships/plans/"+plan, map[string]any{"onSale": false}, nil)
}

// buyMembership begins the purchase of a membership by a plan. It is PENDING until it is paid.
func (b *buyer) buyMembership(plan string) (m shownMembership) {
	b.t.Helper()
	a := b.MustCall(b.t.Context(), http.MethodPost, "/api/v1/memberships", map[string]any{"planId": plan}, &m)
	require.Equal(b.t, http.StatusCreated, a.Status)
	return m
}

// awaitMembership polls the buyer's memberships until the one with this id has the status.
func (b *buyer) awaitMembership(p *harness.Platform, id, status string) (found shownMembership) {
	b.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		var page struct{ Items []shownMembership }
		a, err := b.Call(ctx, http.MethodGet, "/api/v1/my/memberships", nil)
		if err == nil {
			err = a.Decode(&page)
		}
		for _, m := range page.Items {
			if found = m; m.MembershipID == id && m.Status == status {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("membership %s is not %s: %+v", id, status, page.Items))
	})
	return found
}

// TestMemberships buys a membership after a declined payment, a second one that extends it, and a
// free one. When the first is refunded, the second moves forward. The audit then finds no fault.
func TestMemberships(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	plan, free := createPlan(t, p, 9900), createPlan(t, p, 0)
	b := &buyer{t: t, user: "member-" + uuid.NewString()[:8]}
	b.Client = p.Client(b.user)
	pay := func(m shownMembership) preparedPayment {
		prepared := b.prepareFor("membership", m.MembershipID)
		require.Equal(t, m.Amount, prepared.Amount)
		b.confirm(prepared, "ok-"+uuid.NewString())
		return prepared
	}

	first := b.buyMembership(plan)
	require.Equal(t, []any{"PENDING", int64(9900)}, []any{first.Status, first.Amount})
	require.Equal(t, first.MembershipID, b.buyMembership(plan).MembershipID)
	declined := b.prepareFor("membership", first.MembershipID)
	b.confirm(declined, "decline-"+uuid.NewString())
	paid := pay(first)
	first = b.awaitMembership(p, first.MembershipID, "ACTIVE")
	require.Equal(t, paid.PaymentID, first.PaymentID)
	requireCharged(t, p, paid, 0)

	second := b.buyMembership(plan)
	require.NotEqual(t, first.MembershipID, second.MembershipID)
	paidSecond := pay(second)
	second = b.awaitMembership(p, second.MembershipID, "ACTIVE")
	require.Equal(t, first.EndsAt, second.StartsAt)
	freeMembership := b.buyMembership(free)
	pay(freeMembership)
	b.awaitMembership(p, freeMembership.MembershipID, "ACTIVE")
	for sold, code := range map[string]string{plan: "MEMBERSHIP_AHEAD", free: "FREE_PLAN_ONCE"} {
		answer, err := b.Call(t.Context(), http.MethodPost, "/api/v1/memberships", map[string]any{"planId": sold})
		require.NoError(t, err)
		require.Equal(t, code, answer.Code())
	}

	refund := p.Operator().With("Idempotency-Key", uuid.NewString())
	a := refund.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/memberships/"+first.MembershipID+"/refund", map[string]any{"reason": "moved away"}, nil)
	require.Equal(t, http.StatusAccepted, a.Status)
	b.awaitMembership(p, first.MembershipID, "ENDED")
	requireCharged(t, p, paid, 9900)
	moved := b.awaitMembership(p, second.MembershipID, "ACTIVE")
	require.True(t, moved.StartsAt.Before(second.StartsAt))
	var list struct {
		Items []struct{ MembershipID, UserID, PaymentID, Status string }
	}
	p.Operator().MustCall(t.Context(), http.MethodGet, "/api/v1/admin/memberships?userId="+b.user, nil, &list)
	require.Len(t, list.Items, 3)
	require.Equal(t, []string{b.user, paidSecond.PaymentID}, []string{list.Items[1].UserID, list.Items[1].PaymentID})

	endSale(t, p, plan)
	answer, err := b.Call(t.Context(), http.MethodPost, "/api/v1/memberships", map[string]any{"planId": plan})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, answer.Status)

	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	p.Eventually(func(ctx context.Context) error { // the last Kafka events may be in transit
		faults, err := stores.Faults(ctx, audit.NoEvent)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = errors.New(strings.Join(all, "\n"))
		}
		return err
	})
}
