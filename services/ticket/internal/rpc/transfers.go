package rpc

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/transfer"
)

// transferPath is the link to the page on which a user accepts an offer. The claim (a secret)
// follows in the fragment, which browsers do not send, so that no server logs it.
const transferPath = "/transfers#/"

// Transfers serves the RPCs about tickets that pass from one user to another.
type Transfers struct {
	ticketv1.UnimplementedTransferServiceServer

	transfers *transfer.Service
}

// NewTransfers makes a server that calls s for transfers.
func NewTransfers(s *transfer.Service) *Transfers { return &Transfers{transfers: s} }

func (s *Transfers) OfferTicket(ctx context.Context, req *ticketv1.OfferTicketRequest) (*ticketv1.Transfer, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	if req.GetToUserId() != "" && !ids.ValidUser(req.GetToUserId()) {
		return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "toUserId", Message: "is not a user id"})
	}
	request := transfer.Request{Seller: user, ToUser: req.GetToUserId(), Price: req.GetPrice()}
	if request.TicketID, err = parseID(req.GetTicketId()); err != nil {
		return nil, err
	}
	if req.GetDeadline() != nil {
		request.Deadline = req.GetDeadline().AsTime()
	}
	key, err := idempotency.Require(user, "OfferTicket", req.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(req))
	if err != nil {
		return nil, err
	}
	t, claim, err := s.transfers.Offer(ctx, request, key)
	if err != nil {
		return nil, err
	}
	out := fromTransfer(t, user)
	if claim != "" {
		out.Claim, out.ClaimUrl = &claim, new(transferPath+claim)
	}
	return out, nil
}

func (s *Transfers) CancelTransfer(ctx context.Context, req *ticketv1.CancelTransferRequest) (*ticketv1.Transfer, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	id, err := parseID(req.GetTransferId())
	if err != nil {
		return nil, err
	}
	t, err := s.transfers.Cancel(ctx, user, id)
	return fromTransferOf(user, t, err)
}

func (s *Transfers) ListMyTransfers(ctx context.Context, req *ticketv1.ListMyTransfersRequest) (*ticketv1.ListMyTransfersResponse, error) {
	user, err := rpc.ValidUserFrom(req)
	if err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.transfers.List(ctx, user, pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListMyTransfersResponse{Items: make([]*ticketv1.Transfer, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromTransfer(&list[i], user)
	}
	return res, nil
}

func (s *Transfers) LookAtTransfer(ctx context.Context, req *ticketv1.LookAtTransferRequest) (*ticketv1.Transfer, error) {
	user, id, err := offerOf(req)
	if err != nil {
		return nil, err
	}
	t, err := s.transfers.Look(ctx, user, req.GetClaim(), id)
	return fromTransferOf(user, t, err)
}

func (s *Transfers) AcceptTransfer(ctx context.Context, req *ticketv1.AcceptTransferRequest) (*ticketv1.Transfer, error) {
	user, id, err := offerOf(req)
	if err != nil {
		return nil, err
	}
	t, err := s.transfers.Accept(ctx, user, toContact(req.GetCaller()), req.GetClaim(), id, req.GetCaller().GetClaims()...)
	return fromTransferOf(user, t, err)
}

// offerRequest is a request with the secret (claim) in an offer's link, or with the offer's id.
type offerRequest interface {
	GetClaim() string
	GetTransferId() string
}

// offerOf returns the caller, and the id of the offer; zero: the request has a claim instead.
func offerOf(req offerRequest) (user string, id uuid.UUID, err error) {
	if user, err = rpc.ValidUserFrom(req); err != nil {
		return "", uuid.Nil, err
	}
	if (req.GetClaim() == "") == (req.GetTransferId() == "") {
		return "", uuid.Nil, invalidField("claim", "is required, or else a transferId")
	}
	if req.GetTransferId() != "" {
		id, err = parseID(req.GetTransferId())
	}
	return user, id, err
}

func fromTransferOf(user string, t *transfer.View, err error) (*ticketv1.Transfer, error) {
	if err != nil {
		return nil, err
	}
	return fromTransfer(t, user), nil
}

// fromTransfer returns a transfer as this user sees it. Users do not see each other's ids, but the
// seller sees the user to whom the offer was made.
func fromTransfer(t *transfer.View, user string) *ticketv1.Transfer {
	out := &ticketv1.Transfer{
		TransferId: t.ID.String(), EventId: t.EventID, EventTitle: t.EventTitle, StartsAt: timestamp(t.StartsAt), TimeZone: t.TimeZone,
		Section: t.Ticket.Section, FaceValue: t.Ticket.Price, Price: t.Price, Currency: t.Currency, Status: string(t.Status),
		Deadline: timestamp(t.Deadline), CreatedAt: timestamp(t.CreatedAt),
	}
	if t.Ticket.Seat != nil {
		out.Seat = fromSeat(t.Ticket.Seat)
	}
	if t.Reason != "" {
		out.Reason = &t.Reason
	}
	switch user {
	case t.Seller:
		out.Role, out.TicketId = "SELLER", new(t.TicketID.String())
		if t.ToUser != "" {
			out.ToUserId = &t.ToUser
		}
	case t.Buyer:
		out.Role = "BUYER"
		if t.NewTicket != uuid.Nil {
			out.TicketId = new(t.NewTicket.String())
		}
		if t.Status == transfer.Awaiting {
			out.ExpiresAt = timestamp(t.Until)
			if t.PaymentID != uuid.Nil {
				out.PaymentId = new(t.PaymentID.String())
			}
		}
	}
	return out
}

func fromPossible(p transfer.Possible, offer uuid.UUID) *ticketv1.Transferable {
	out := &ticketv1.Transferable{Until: timestamp(p.Until), MaxPrice: p.MaxPrice}
	if p.Reason != "" {
		out.Reason = &p.Reason
	}
	if offer != uuid.Nil {
		out.TransferId = new(offer.String())
	}
	return out
}
