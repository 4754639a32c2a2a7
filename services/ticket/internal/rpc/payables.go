package rpc

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
)

// Payables serves the RPCs that the payment service calls: what can be paid, and claims of refunds.
type Payables struct {
	ticketv1.UnimplementedPayableServiceServer

	targets purchase.Targets
	refunds refund.Store
	paid    PaidMemberships
	backlog Backlog
	takers  TakersStore
	settled SettledStore
	// maxExtension is the maximum time by which payments may extend a hold.
	maxExtension time.Duration
}

// Backlog measures the payment events that this service has not applied yet.
type Backlog interface {
	// Age returns the age of the oldest event that is not applied, and the time since the
	// measurement. known is false before the first measurement.
	Age() (oldest, measuredAgo time.Duration, known bool)
}

// PaidMemberships finds the payments of memberships.
type PaidMemberships interface {
	// PaidBy returns the payment that has paid for a membership. Errors: membership.ErrNotFound,
	// ErrNotPaid.
	PaidBy(ctx context.Context, id uuid.UUID) (uuid.UUID, error)
}

// TakersStore keeps what the payment providers take.
type TakersStore interface {
	PutTakers(ctx context.Context, takers event.Takers) error
}

// NewPayables makes a Payables.
func NewPayables(
	targets purchase.Targets, refunds refund.Store, paid PaidMemberships, backlog Backlog, takers TakersStore, settled SettledStore,
	maxExtension time.Duration,
) *Payables {
	return &Payables{targets: targets, refunds: refunds, paid: paid, backlog: backlog, takers: takers, settled: settled, maxExtension: maxExtension}
}

// GetSettlement also stores what the payment providers take.
func (s *Payables) GetSettlement(ctx context.Context, req *ticketv1.GetSettlementRequest) (*ticketv1.Settlement, error) {
	if takers := toTakers(req.GetProviders()); len(takers) > 0 { // a payment service of an older version says nothing
		if err := s.takers.PutTakers(ctx, takers); err != nil {
			return nil, err
		}
	}
	oldest, ago, known := s.backlog.Age()
	if !known { // an age of 0 would mean that every event is applied
		return nil, errs.ErrUnavailable
	}
	return &ticketv1.Settlement{
		OldestUnappliedMs: oldest.Milliseconds(), MeasuredAgoMs: ago.Milliseconds(), HoldMaxExtensionMs: s.maxExtension.Milliseconds(),
	}, nil
}

func toTakers(list []*commonv1.ProviderLimits) event.Takers {
	takers := make(event.Takers, len(list))
	for i, p := range list {
		takers[i] = event.Taker{Provider: p.GetProvider(), Currencies: map[string]event.AmountLimits{}}
		for _, c := range p.GetCurrencies() {
			takers[i].Currencies[c.GetCurrency()] = event.AmountLimits{Smallest: c.GetSmallest(), Largest: c.GetLargest(), Step: c.GetStep()}
		}
	}
	return takers
}

// payableRequest is a request with the kind and the id of what is to be paid.
type payableRequest interface {
	GetPaymentType() string
	GetReferenceId() string
}

// referenceOf returns the settlement target for the payment type of a request (tickets, a transfer,
// a membership), and the id of what is to be paid.
func (s *Payables) referenceOf(req payableRequest) (target purchase.Target, id uuid.UUID, err error) {
	if target, err = s.targets.Of(purchase.Type(req.GetPaymentType())); err == nil {
		id, err = parseID(req.GetReferenceId())
	}
	return target, id, err
}

// paymentOf returns what referenceOf returns, and the id of the payment.
func (s *Payables) paymentOf(req interface {
	payableRequest
	GetPaymentId() string
},
) (target purchase.Target, id, payment uuid.UUID, err error) {
	if target, id, err = s.referenceOf(req); err == nil {
		payment, err = parseID(req.GetPaymentId())
	}
	return target, id, payment, err
}

func (s *Payables) GetPayable(ctx context.Context, req *ticketv1.GetPayableRequest) (*ticketv1.Payable, error) {
	target, id, err := s.referenceOf(req)
	if err != nil {
		return nil, err
	}
	return fromPayable(target.Payable(ctx, req.GetUserId(), id))
}

func (s *Payables) BeginPayment(ctx context.Context, req *ticketv1.BeginPaymentRequest) (*ticketv1.Payable, error) {
	target, id, payment, err := s.paymentOf(req)
	if err != nil {
		return nil, err
	}
	return fromPayable(target.BeginPayment(ctx, req.GetUserId(), id, payment, payTime(req)))
}

func payTime(req *ticketv1.BeginPaymentRequest) purchase.PayTime {
	t := purchase.PayTime{Within: req.GetWithin().AsDuration(), AtLeast: req.GetAtLeast().AsDuration(), Opens: req.GetOpens()}
	if t.AtLeast == 0 {
		t.AtLeast = t.Within
	}
	return t
}

func (s *Payables) ExtendPayments(ctx context.Context, req *ticketv1.ExtendPaymentsRequest) (*ticketv1.ExtendPaymentsResponse, error) {
	byType := map[purchase.Type][]purchase.UnderWay{}
	for _, p := range req.GetPayments() {
		typ := purchase.Type(p.GetPaymentType())
		if !s.targets.Sold(typ) {
			continue // nothing of this type is sold here; the other payments are still extended
		}
		_, id, payment, err := s.paymentOf(p)
		if err != nil {
			return nil, err
		}
		byType[typ] = append(byType[typ], purchase.UnderWay{ReferenceID: id, PaymentID: payment})
	}
	out := &ticketv1.ExtendPaymentsResponse{}
	for typ, payments := range byType {
		extended, err := s.targets[typ].ExtendPayments(ctx, payments)
		if err != nil {
			return nil, err
		}
		for _, p := range extended {
			out.PaymentIds = append(out.PaymentIds, p.PaymentID.String())
		}
	}
	return out, nil
}

func (s *Payables) AbortPayment(ctx context.Context, req *ticketv1.AbortPaymentRequest) (*emptypb.Empty, error) {
	target, id, payment, err := s.paymentOf(req)
	if err != nil {
		return nil, err
	}
	if err := target.AbortPayment(ctx, id, payment, purchase.Failure{Declined: req.GetDeclined(), Unopened: req.GetUnopened()}); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func fromPayable(p *purchase.Payable, err error) (*ticketv1.Payable, error) {
	if err != nil {
		return nil, err
	}
	return &ticketv1.Payable{
		PaymentType: string(p.Type), ReferenceId: p.ID.String(), UserId: p.UserID, EventId: p.EventID, Amount: p.Amount,
		Currency: p.Currency, ExpiresAt: timestamppb.New(p.ExpiresAt), Description: p.Description,
		StatementSuffix: p.StatementSuffix,
	}, nil
}
