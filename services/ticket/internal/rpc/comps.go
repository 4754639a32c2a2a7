package rpc

import (
	"context"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/text"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/comp"
)

// claimPath is the link to the page on which a user claims the tickets of a comp. The claim (a
// secret) follows in the fragment, which browsers do not send, so that no server logs it.
const claimPath = "/my#/"

// Comps serves the RPCs for comps: orders that the organiser gives away.
type Comps struct {
	ticketv1.UnimplementedCompServiceServer

	comps *comp.Service
}

// NewComps makes a server that calls s for comps.
func NewComps(s *comp.Service) *Comps { return &Comps{comps: s} }

func (s *Comps) CreateComp(ctx context.Context, req *ticketv1.CreateCompRequest) (*ticketv1.Comp, error) {
	operator, err := rpc.RequireRole(req, roleAdmin)
	if err != nil {
		return nil, err
	}
	compRequest, err := toComp(req)
	if err != nil {
		return nil, err
	}
	if compRequest.IdempotencyKey, err = idempotency.Require(operator, "CreateComp", req.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(req)); err != nil {
		return nil, err
	}
	created, err := s.comps.Make(ctx, compRequest)
	if err != nil {
		return nil, err
	}
	return fromComp(&created), nil
}

func toComp(req *ticketv1.CreateCompRequest) (comp.Request, error) {
	c := comp.Request{
		EventID: req.GetEventId(), Name: req.GetName(), SeatIDs: req.GetSeatIds(), Section: req.GetSection(), Quantity: int(req.GetQuantity()),
		UserID: req.GetUserId(),
	}
	bySeat := len(c.SeatIDs) > 0
	switch {
	case !text.HasVisible(c.Name):
		return c, invalidField("name", "must have a visible character")
	case c.UserID != "" && !ids.ValidUser(c.UserID):
		return c, errs.ErrInvalidID.WithFields(errs.Field{Path: "userId", Message: "is not a user id"})
	case bySeat && (c.Section != "" || c.Quantity != 0):
		return c, invalidField("section", "excludes seatIds")
	case !bySeat && c.Section == "":
		return c, invalidField("seatIds", "is required, or a section with a quantity")
	case !bySeat && c.Quantity == 0:
		return c, invalidField("quantity", "is required with a section")
	}
	if bySeat {
		c.Quantity = len(c.SeatIDs)
	}
	return c, nil
}

func (s *Comps) ListComps(ctx context.Context, req *ticketv1.ListCompsRequest) (*ticketv1.ListCompsResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.comps.List(ctx, req.GetEventId(), pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListCompsResponse{Items: make([]*ticketv1.Comp, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromComp(&list[i])
	}
	return res, nil
}

func (s *Comps) ClaimComp(ctx context.Context, req *ticketv1.ClaimCompRequest) (*ticketv1.ClaimedComp, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	c, err := s.comps.Claim(ctx, req.GetClaim(), user, toContact(req.GetCaller()))
	if err != nil {
		return nil, err
	}
	return &ticketv1.ClaimedComp{ReservationId: c.ID.String(), EventId: c.EventID}, nil
}

func fromComp(c *comp.Comp) *ticketv1.Comp {
	out := &ticketv1.Comp{
		ReservationId: c.ID.String(), EventId: c.EventID, Name: c.Name, SeatIds: c.SeatIDs(), Section: c.Section, Quantity: int32(c.Quantity), //nolint:gosec // ≤ 1000
		Status: string(c.Status), CreatedAt: timestamp(c.CreatedAt),
	}
	if c.UserID != "" {
		out.UserId = &c.UserID
	}
	for _, id := range c.TicketIDs {
		out.TicketIds = append(out.TicketIds, id.String())
	}
	if c.Claim != "" {
		out.Claim, out.ClaimUrl = &c.Claim, new(claimPath+c.Claim)
	}
	return out
}
