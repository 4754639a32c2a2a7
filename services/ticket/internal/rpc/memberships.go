package rpc

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/currency"
	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/text"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/membership"
)

// Memberships serves the RPCs about memberships for users.
type Memberships struct {
	ticketv1.UnimplementedMembershipServiceServer

	memberships *membership.Service
}

// NewMemberships makes a server that calls s for memberships.
func NewMemberships(s *membership.Service) *Memberships { return &Memberships{memberships: s} }

func (s *Memberships) ListPlans(ctx context.Context, _ *ticketv1.ListPlansRequest) (*ticketv1.ListPlansResponse, error) {
	list, err := s.memberships.OnSale(ctx)
	if err != nil {
		return nil, err
	}
	return &ticketv1.ListPlansResponse{Items: fromPlans(list)}, nil
}

func (s *Memberships) BuyMembership(ctx context.Context, req *ticketv1.BuyMembershipRequest) (*ticketv1.Membership, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	m, err := s.memberships.Buy(ctx, user, req.GetPlanId(), toContact(req.GetCaller()))
	if err != nil {
		return nil, err
	}
	return fromMembership(m), nil
}

func (s *Memberships) GetMyMembership(ctx context.Context, req *ticketv1.GetMyMembershipRequest) (*ticketv1.Membership, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	id, err := parseID(req.GetMembershipId())
	if err != nil {
		return nil, err
	}
	m, err := s.memberships.Get(ctx, user, id)
	if err != nil {
		return nil, err
	}
	return fromMembership(m), nil
}

func (s *Memberships) ListMyMemberships(
	ctx context.Context, req *ticketv1.ListMyMembershipsRequest,
) (*ticketv1.ListMembershipsResponse, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	return listMemberships(ctx, s.memberships, user, req)
}

// MembershipAdmin serves the operators' RPCs about memberships.
type MembershipAdmin struct {
	ticketv1.UnimplementedMembershipAdminServiceServer

	memberships *membership.Service
}

// NewMembershipAdmin makes a server for operators that calls s for memberships.
func NewMembershipAdmin(s *membership.Service) *MembershipAdmin {
	return &MembershipAdmin{memberships: s}
}

func (s *MembershipAdmin) CreatePlan(ctx context.Context, req *ticketv1.CreatePlanRequest) (*ticketv1.Plan, error) {
	operator, err := rpc.RequireRole(req, roleAdmin)
	if err != nil {
		return nil, err
	}
	switch {
	case !text.HasVisible(req.GetName()):
		return nil, invalidField("name", "must have a visible character")
	case !currency.Known(req.GetCurrency()):
		return nil, invalidField("currency", "must be a code of ISO 4217, such as KRW")
	}
	key, err := idempotency.Require(operator, "CreatePlan", req.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(req))
	if err != nil {
		return nil, err
	}
	p, err := s.memberships.Create(ctx, membership.Plan{
		Name: req.GetName(), Price: req.GetPrice(), Currency: req.GetCurrency(), Months: int(req.GetMonths()),
	}, key)
	return fromPlan(p, err)
}

func (s *MembershipAdmin) UpdatePlan(ctx context.Context, req *ticketv1.UpdatePlanRequest) (*ticketv1.Plan, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return fromPlan(s.memberships.Update(ctx, req.GetPlanId(), req.GetOnSale()))
}

func (s *MembershipAdmin) ListAllPlans(ctx context.Context, req *ticketv1.ListAllPlansRequest) (*ticketv1.ListPlansResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.memberships.All(ctx, pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	return &ticketv1.ListPlansResponse{Items: fromPlans(list), NextCursor: cursor.ID(next)}, nil
}

func (s *MembershipAdmin) ListMembershipsOf(
	ctx context.Context, req *ticketv1.ListMembershipsOfRequest,
) (*ticketv1.ListMembershipsResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	if !ids.ValidUser(req.GetUserId()) {
		return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "userId", Message: "is not a user id"})
	}
	res, err := listMemberships(ctx, s.memberships, req.GetUserId(), req)
	for _, m := range res.GetItems() {
		m.UserId = new(req.GetUserId())
	}
	return res, err
}

// listMemberships returns a page of a user's memberships.
func listMemberships(ctx context.Context, s *membership.Service, userID string, req interface {
	GetCursor() string
	GetLimit() int32
},
) (*ticketv1.ListMembershipsResponse, error) {
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.List(ctx, userID, pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListMembershipsResponse{Items: make([]*ticketv1.Membership, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromMembership(&list[i])
	}
	return res, nil
}

func fromPlans(list []membership.Plan) []*ticketv1.Plan {
	out := make([]*ticketv1.Plan, len(list))
	for i := range list {
		out[i], _ = fromPlan(&list[i], nil)
	}
	return out
}

func fromPlan(p *membership.Plan, err error) (*ticketv1.Plan, error) {
	if err != nil {
		return nil, err
	}
	return &ticketv1.Plan{
		PlanId: p.ID, Name: p.Name, Price: p.Price, Currency: p.Currency, Months: int32(p.Months), OnSale: p.OnSale, //nolint:gosec // at most 120
		CreatedAt: timestamp(p.CreatedAt),
	}, nil
}

func fromMembership(m *membership.View) *ticketv1.Membership {
	out := &ticketv1.Membership{
		MembershipId: m.ID.String(), PlanId: m.PlanID, Name: m.Name, Months: int32(m.Months), Amount: m.Price, //nolint:gosec // at most 120
		Currency: m.Currency, Status: string(m.StatusNow()), CreatedAt: timestamp(m.CreatedAt),
	}
	switch m.StatusNow() {
	case membership.Pending:
		out.PayUntil = timestamp(m.Until)
	case membership.Cancelled:
		return out // a payment that was under way is not any more
	default:
		out.StartsAt, out.EndsAt = timestamp(m.StartsAt), timestamp(m.EndsAt)
	}
	if m.PaymentID != uuid.Nil {
		out.PaymentId = new(m.PaymentID.String())
	}
	return out
}
