package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/settlement"
)

func planRequest(key string) *ticketv1.CreatePlanRequest {
	operator := admin()
	operator.IdempotencyKey = key
	return &ticketv1.CreatePlanRequest{Caller: operator, Name: "Friends", Price: 9900, Currency: "KRW", Months: 12}
}

// A plan is created and sold. Its payment activates a membership, which its user and operators see.
func TestMemberships(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	plan, err := c.CreatePlan(ctx, planRequest("k"))
	require.NoError(t, err)
	again, err := c.CreatePlan(ctx, planRequest("k"))
	require.NoError(t, err)
	require.Equal(t, plan.GetPlanId(), again.GetPlanId())
	plans, err := c.ListPlans(ctx, &ticketv1.ListPlansRequest{})
	require.NoError(t, err)
	require.Len(t, plans.GetItems(), 1)
	require.True(t, plans.GetItems()[0].GetOnSale())

	m, err := c.BuyMembership(ctx, &ticketv1.BuyMembershipRequest{Caller: signedIn("u"), PlanId: plan.GetPlanId()})
	require.NoError(t, err)
	require.Equal(t, "PENDING", m.GetStatus())
	require.EqualValues(t, 9900, m.GetAmount())
	c.requireIn(t, membership.PayWithin, m.GetPayUntil())
	id, payment := m.GetMembershipId(), uuid.New()
	_, err = c.GetMembershipPayment(ctx, &ticketv1.GetMembershipPaymentRequest{MembershipId: id})
	requireReason(t, err, "NOT_REFUNDABLE")
	_, err = c.GetMembershipPayment(ctx, &ticketv1.GetMembershipPaymentRequest{MembershipId: uuid.NewString()})
	requireReason(t, err, "MEMBERSHIP_NOT_FOUND")
	p, err := c.GetPayable(ctx, &ticketv1.GetPayableRequest{PaymentType: "membership", ReferenceId: id, UserId: "u"})
	require.NoError(t, err)
	require.Equal(t, "Friends", p.GetDescription())
	_, err = c.GetPayable(ctx, &ticketv1.GetPayableRequest{PaymentType: "membership", ReferenceId: id, UserId: "v"})
	requireReason(t, err, "REFERENCE_NOT_FOUND")
	_, err = c.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{PaymentType: "membership", ReferenceId: id, PaymentId: payment.String(), UserId: "u"})
	require.NoError(t, err)
	require.NoError(t, c.settlement.Settle(ctx, "ticket-service-group", []settlement.PaymentEvent{{
		Key: uuid.NewString(), Type: purchase.Membership, ReferenceID: uuid.MustParse(id),
		Payment: purchase.Payment{ID: payment, UserID: "u", Amount: 9900, Currency: "KRW"},
	}}))

	got, err := c.GetMyMembership(ctx, &ticketv1.GetMyMembershipRequest{Caller: signedIn("u"), MembershipId: id})
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", got.GetStatus())
	_, err = c.GetMyMembership(ctx, &ticketv1.GetMyMembershipRequest{Caller: signedIn("v"), MembershipId: id})
	requireReason(t, err, "MEMBERSHIP_NOT_FOUND")
	mine, err := c.ListMyMemberships(ctx, &ticketv1.ListMyMembershipsRequest{Caller: signedIn("u")})
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", mine.GetItems()[0].GetStatus())
	require.Equal(t, mine.GetItems()[0].GetStartsAt().AsTime().AddDate(1, 0, 0), mine.GetItems()[0].GetEndsAt().AsTime())
	require.Nil(t, mine.GetItems()[0].UserId)
	ofUser, err := c.ListMembershipsOf(ctx, &ticketv1.ListMembershipsOfRequest{Caller: admin(), UserId: "u"})
	require.NoError(t, err)
	require.Equal(t, []string{"u", payment.String()}, []string{ofUser.GetItems()[0].GetUserId(), ofUser.GetItems()[0].GetPaymentId()})
	paid, err := c.GetMembershipPayment(ctx, &ticketv1.GetMembershipPaymentRequest{MembershipId: id})
	require.NoError(t, err)
	require.Equal(t, payment.String(), paid.GetPaymentId())

	_, err = c.UpdatePlan(ctx, &ticketv1.UpdatePlanRequest{Caller: admin(), PlanId: plan.GetPlanId(), OnSale: ptr(false)})
	require.NoError(t, err)
	_, err = c.BuyMembership(ctx, &ticketv1.BuyMembershipRequest{Caller: signedIn("u"), PlanId: plan.GetPlanId()})
	requireReason(t, err, "PLAN_NOT_ON_SALE")
	all, err := c.ListAllPlans(ctx, &ticketv1.ListAllPlansRequest{Caller: admin()})
	require.NoError(t, err)
	require.False(t, all.GetItems()[0].GetOnSale())
}

func TestMembershipRequestsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	for name, change := range map[string]func(*ticketv1.CreatePlanRequest){
		"name":     func(r *ticketv1.CreatePlanRequest) { r.Name = "  " },
		"price":    func(r *ticketv1.CreatePlanRequest) { r.Price = -1 },
		"currency": func(r *ticketv1.CreatePlanRequest) { r.Currency = "KRX" },
		"months":   func(r *ticketv1.CreatePlanRequest) { r.Months = 0 },
	} {
		r := planRequest("k")
		change(r)
		_, err := c.CreatePlan(ctx, r)
		requireReason(t, err, "INVALID_REQUEST", name)
	}
	_, err := c.CreatePlan(ctx, planRequest(""))
	requireReason(t, err, "IDEMPOTENCY_KEY_REQUIRED")
	user := signedIn("u")
	for _, call := range []func(*commonv1.Caller) error{
		func(caller *commonv1.Caller) error {
			_, err := c.CreatePlan(ctx, &ticketv1.CreatePlanRequest{Caller: caller, Name: "n", Currency: "KRW", Months: 1})
			return err
		},
		func(caller *commonv1.Caller) error {
			_, err := c.UpdatePlan(ctx, &ticketv1.UpdatePlanRequest{Caller: caller, PlanId: uuid.NewString(), OnSale: ptr(true)})
			return err
		},
		func(caller *commonv1.Caller) error {
			_, err := c.ListAllPlans(ctx, &ticketv1.ListAllPlansRequest{Caller: caller})
			return err
		},
		func(caller *commonv1.Caller) error {
			_, err := c.ListMembershipsOf(ctx, &ticketv1.ListMembershipsOfRequest{Caller: caller, UserId: "u"})
			return err
		},
	} {
		requireReason(t, call(user), "ROLE_REQUIRED")
	}
	_, err = c.UpdatePlan(ctx, &ticketv1.UpdatePlanRequest{Caller: admin(), PlanId: uuid.NewString(), OnSale: ptr(true)})
	requireReason(t, err, "PLAN_NOT_FOUND")
	_, err = c.BuyMembership(ctx, &ticketv1.BuyMembershipRequest{Caller: user, PlanId: uuid.NewString()})
	requireReason(t, err, "PLAN_NOT_FOUND")
	_, err = c.BuyMembership(ctx, &ticketv1.BuyMembershipRequest{PlanId: uuid.NewString()})
	requireReason(t, err, "UNAUTHENTICATED")
	_, err = c.ListMembershipsOf(ctx, &ticketv1.ListMembershipsOfRequest{Caller: admin(), UserId: "no one"})
	requireReason(t, err, "INVALID_ID", "userId")
	_, err = c.ListMyMemberships(ctx, &ticketv1.ListMyMembershipsRequest{Caller: user, Cursor: "?"})
	requireReason(t, err, "INVALID_CURSOR")
}
