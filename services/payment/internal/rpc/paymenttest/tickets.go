package paymenttest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Hold is a reservation that can be paid.
type Hold struct {
	UserID    string
	Amount    int64
	ExpiresAt time.Time
	Payment   string // the payment that has claimed the hold; empty: none
	Aborts    int    // how often it was released
	// Declined and Unopened are what the latest release said about its payment.
	Declined, Unopened bool
	Opens              int // how often it was claimed for a page
	// Last is the latest time to which ExpiresAt may be moved; zero without Tickets.Lengthen.
	Last time.Time
}

// Tickets is a fake of the ticket service's PayableService, with holds and tickets in memory.
type Tickets struct {
	ticketv1.UnimplementedPayableServiceServer

	now func() time.Time

	mu    sync.Mutex
	holds map[string]Hold
	// tickets and memberships are mapped by payment id, claims by refund id.
	tickets     map[string][]Ticket
	claims      map[string]claim
	memberships map[string]*Membership
	rejected    map[string]bool    // by payment id
	fail        map[string][]error // the errors of the next calls, by method

	providers       []*commonv1.ProviderLimits
	onlyWhole       int64
	oldestUnapplied time.Duration
	lengthens       bool
	// description and suffix are what is paid for, and its StatementSuffix.
	description, suffix string
}

// NewTickets makes a fake of the ticket service without holds.
func NewTickets(now func() time.Time) *Tickets {
	return &Tickets{now: now, holds: map[string]Hold{}, tickets: map[string][]Ticket{}, claims: map[string]claim{}, memberships: map[string]*Membership{}, rejected: map[string]bool{}, fail: map[string][]error{}}
}

// Add makes a hold for a user, to be paid with the amount, and returns its id.
func (t *Tickets) Add(userID string, amount int64, life time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := uuid.NewString()
	h := Hold{UserID: userID, Amount: amount, ExpiresAt: t.now().Add(life)}
	if t.lengthens {
		h.Last = h.ExpiresAt.Add(maxExtension)
	}
	t.holds[id] = h
	return id
}

func (t *Tickets) Hold(id string) Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holds[id]
}

// Fail makes the next calls of a method ("Payable", "Begin", "Abort", "Extend", "BeginRefund",
// "AbortRefund") return the errors, one error per call. "BeginAnswer" and "BeginRefundAnswer" make
// these calls claim first and then return the error.
func (t *Tickets) Fail(method string, answers ...error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail[method] = answers
}

// Lengthen makes charges extend holds, as the real ticket service does. Otherwise only pages do, so
// that the holds of a test end soon.
func (t *Tickets) Lengthen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lengthens = true
}

// failure removes and returns the next error of a method; nil: none. The caller holds the lock.
func (t *Tickets) failure(method string) error {
	queue := t.fail[method]
	if len(queue) == 0 {
		return nil
	}
	t.fail[method] = queue[1:]
	return queue[0]
}

func (t *Tickets) GetPayable(_ context.Context, in *ticketv1.GetPayableRequest) (*ticketv1.Payable, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("Payable"); err != nil {
		return nil, err
	}
	h, ok := t.holds[in.GetReferenceId()]
	if !ok || h.UserID != in.GetUserId() {
		return nil, errs.ErrReferenceNotFound
	}
	p := h.payable(in.GetReferenceId())
	p.Description, p.StatementSuffix = t.description, t.suffix
	return p, nil
}

// Describe sets the description of what is paid for, and its StatementSuffix.
func (t *Tickets) Describe(description, suffix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.description, t.suffix = description, suffix
}

func (t *Tickets) BeginPayment(_ context.Context, in *ticketv1.BeginPaymentRequest) (*ticketv1.Payable, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("Begin"); err != nil {
		return nil, err
	}
	h := t.holds[in.GetReferenceId()]
	switch {
	case t.now().After(h.ExpiresAt):
		return nil, errs.ErrHoldExpired
	case h.Payment != "" && h.Payment != in.GetPaymentId():
		return nil, errs.ErrPaymentInProgress
	}
	if in.GetOpens() && h.Payment == "" {
		h.Opens++
	}
	if in.GetOpens() || t.lengthens {
		h.lengthen(t.now().Add(in.GetWithin().AsDuration()))
	}
	h.Payment = in.GetPaymentId()
	t.holds[in.GetReferenceId()] = h
	return h.payable(in.GetReferenceId()), t.failure("BeginAnswer")
}

// SetOldestUnapplied sets the age of the oldest unapplied payment event.
func (t *Tickets) SetOldestUnapplied(age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.oldestUnapplied = age
}

// Providers returns what the payment service said last about what its providers take.
func (t *Tickets) Providers() []*commonv1.ProviderLimits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.providers
}

func (t *Tickets) GetSettlement(_ context.Context, in *ticketv1.GetSettlementRequest) (*ticketv1.Settlement, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.providers = in.GetProviders()
	return &ticketv1.Settlement{
		OldestUnappliedMs: t.oldestUnapplied.Milliseconds(), HoldMaxExtensionMs: maxExtension.Milliseconds(),
	}, t.failure("Settlement")
}

func (t *Tickets) AbortPayment(_ context.Context, in *ticketv1.AbortPaymentRequest) (*emptypb.Empty, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("Abort"); err != nil {
		return nil, err
	}
	if h := t.holds[in.GetReferenceId()]; h.Payment == in.GetPaymentId() {
		h.Payment = ""
		h.Aborts++
		h.Declined, h.Unopened = in.GetDeclined(), in.GetUnopened()
		t.holds[in.GetReferenceId()] = h
	}
	return &emptypb.Empty{}, nil
}

// ExtendPayments extends the holds of payments by 3 min from now.
func (t *Tickets) ExtendPayments(_ context.Context, in *ticketv1.ExtendPaymentsRequest) (*ticketv1.ExtendPaymentsResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("Extend"); err != nil {
		return nil, err
	}
	out := &ticketv1.ExtendPaymentsResponse{}
	for _, p := range in.GetPayments() {
		h, ok := t.holds[p.GetReferenceId()]
		if !ok || h.Payment != p.GetPaymentId() || t.now().After(h.ExpiresAt) {
			continue
		}
		out.PaymentIds = append(out.PaymentIds, p.GetPaymentId())
		h.lengthen(t.now().Add(3 * time.Minute))
		t.holds[p.GetReferenceId()] = h
	}
	return out, nil
}

// Settle removes a hold, as the ticket service does when it applies a payment's event.
func (t *Tickets) Settle(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.holds, id)
}

// maxExtension is the longest time by which payments may extend holds.
const maxExtension = 30 * time.Minute

// lengthen moves the hold's end to a later time, but not beyond Last.
func (h *Hold) lengthen(end time.Time) {
	if !h.Last.IsZero() && end.After(h.Last) {
		end = h.Last
	}
	if end.After(h.ExpiresAt) {
		h.ExpiresAt = end
	}
}

func (h Hold) payable(id string) *ticketv1.Payable {
	return &ticketv1.Payable{
		PaymentType: "reservation", ReferenceId: id, UserId: h.UserID, EventId: "demo", Amount: h.Amount, Currency: "KRW",
		ExpiresAt: timestamppb.New(h.ExpiresAt),
	}
}
