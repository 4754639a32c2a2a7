package settlement_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

const (
	price        = 140
	maxExtension = 30 * time.Minute
	// payWithin is the first time to pay of each kind here, so that their times can be compared.
	payWithin = transfer.PayWithin
)

// sale is something of one type that user "u" can pay, in a batch of its own. Its Target has a
// store without a database, whose time is the batch's.
type sale struct {
	purchase.Target

	kind   purchase.Type
	id     uuid.UUID
	amount *int64
	batch  settlement.Batch
	// blocked: user "u" is blocked at the event.
	blocked bool
	// passed has the tickets that the last step has issued to a buyer.
	passed []ticket.Ticket
	// extend gives a payment under way more time, as the Target does if it is short of time.
	extend func(payment uuid.UUID)
	// acts are what else happens to this kind, by name.
	acts map[string]act
	// state has the payment under way, the end of the time to pay, and the ticket's status if any.
	state func() (payment uuid.UUID, until time.Time, tk ticket.Status)
	// fields shows the present state: first what all kinds have.
	fields func() []string
	// take returns and removes the Kafka events.
	take func() []emitted
}

// act is something that happens, with the argument of its step: a user, or nothing.
type act func(ctx context.Context, arg string) error

// emitted is a Kafka event. fields shows the copy of the purchase in it.
type emitted struct {
	typ, reason            string
	payment, sellerPayment uuid.UUID
	at                     time.Time
	fields                 []string
}

// kinds has a function for each kind, which makes a purchase.
var kinds = []func() *sale{newReservation, newTransfer, newMembership} //nolint:gochecknoglobals // a constant

func newSale(t purchase.Type, id uuid.UUID, amount *int64, b *settlement.Batch) *sale {
	b.MaxExtension = maxExtension
	return &sale{kind: t, id: id, amount: amount, batch: *b}
}

// forBatch sets how a batch finds what is sold, and how its time is extended.
func (p *sale) forBatch(find func() purchase.Purchase) {
	p.batch.Purchase = func(purchase.Type, uuid.UUID) purchase.Purchase { return find() }
	p.extend = func(payment uuid.UUID) { purchase.Extend(find(), payment, p.batch.Now, maxExtension) }
}

// changed calls decide, and undoes its changes of v if it fails, as a transaction does.
func changed[T any](v *T, decide func() error) error {
	before := *v
	err := decide()
	if err != nil {
		*v = before
	}
	return err
}

// plain makes an act of a function that never fails.
func plain(f func()) act {
	return func(context.Context, string) error {
		f()
		return nil
	}
}

// reservations is the store of one reservation, and knows its event.
type reservations struct {
	reservation.Store
	reservation.Events

	p      *sale
	r      *reservation.Reservation
	others purchase.Pages
}

func (s *reservations) Event(context.Context, string) (event.Event, error) {
	return event.Event{Spec: event.Spec{StatementSuffix: new("")}, State: s.p.batch.Closings["e"].State}, nil
}

func (s *reservations) Find(context.Context, uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return new(*s.r), s.p.batch.Now, nil
}

func (s *reservations) Change(_ context.Context, _ uuid.UUID, decide reservation.Decide) (*reservation.Reservation, error) {
	return s.r, changed(s.r, func() error { return decide(s.r, s.p.batch.Now) })
}

func (s *reservations) ChangeToBegin(_ context.Context, _ uuid.UUID, change func(*reservation.Purchase, time.Time) error) error {
	p := &reservation.Purchase{Reservation: s.r, Event: s.p.batch.Closings["e"].State, Blocked: s.p.blocked, OtherPages: s.others}
	return changed(s.r, func() error { return change(p, s.p.batch.Now) })
}

func (s *reservations) ChangeClaims(_ context.Context, payments []purchase.UnderWay, change func(*reservation.Purchase, uuid.UUID, time.Time)) error {
	change(&reservation.Purchase{Reservation: s.r}, payments[0].PaymentID, s.p.batch.Now)
	return nil
}

func newReservation() *sale {
	r := held()
	r.Claim = purchase.NewClaim(noon.Add(payWithin))
	p := newSale(purchase.Reservation, r.ID, &r.Amount, batchOf(r))
	store := &reservations{p: p, r: r}
	service := reservation.NewService(store, nil, nil, store, maxExtension)
	p.Target = service
	p.forBatch(func() purchase.Purchase {
		return &reservation.Purchase{Reservation: r, Event: p.batch.Closings["e"].State}
	})
	p.acts = map[string]act{
		"expire":      plain(func() { r.Expire(p.batch.Now) }),
		"cancel":      func(ctx context.Context, user string) error { return service.Cancel(ctx, cmp.Or(user, "u"), "", r.ID) },
		"block":       plain(func() { r.Block(p.batch.Now) }),
		"event-ends":  plain(func() { r.CancelWithEvent(p.batch.Now) }),
		"give-back":   plain(func() { r.GiveBack([]reservation.ReturnedPlace{{N: r.Released + 1, Fee: 5}}, p.batch.Now) }),
		"void":        plain(func() { r.Void([]int{r.Released + 1}, p.batch.Now) }),
		"other-pages": plain(func() { store.others = purchase.Pages{Opened: 2, Declined: 1} }),
	}
	p.state = func() (uuid.UUID, time.Time, ticket.Status) { return r.PaymentID, r.Until, "" }
	p.fields = func() []string { return reservationFields(*r) }
	p.take = func() (list []emitted) {
		for _, e := range r.TakeEvents() {
			list = append(list, emitted{typ: string(e.Type), reason: e.Reason, payment: e.PaymentID, at: e.At, fields: reservationFields(e.Reservation)})
		}
		return list
	}
	return p
}

func reservationFields(r reservation.Reservation) []string {
	return fieldsOf(string(r.Status), r.PaymentID, r.Until, r.OriginalEnd, r.Begun, r.Opens, r.Version,
		"declines", r.Declines, "charging", r.Charging, "whole", r.WholeOnly, "reason", r.Reason, "quantity", r.Quantity, "released", r.Released, "fee", r.Fee)
}

// transfers is the store of one transfer, whose ticket is t.
type transfers struct {
	transfer.Store

	p *sale
	f *transfer.Transfer
	t *ticket.Ticket
}

func (s *transfers) terms() transfer.Terms {
	return transfer.Terms{AfterSaleTerms: s.p.batch.Closings["e"], Now: s.p.batch.Now, BuyerBlocked: s.p.blocked}
}

func (s *transfers) Find(context.Context, uuid.UUID) (*transfer.View, error) {
	return &transfer.View{Transfer: *s.f, Ticket: *s.t, Now: s.p.batch.Now}, nil
}

func (s *transfers) purchase() *transfer.Purchase {
	return &transfer.Purchase{
		Transfer: s.f, Ticket: s.t, Terms: s.terms(), Issue: func(tk ticket.Ticket) { s.p.passed = append(s.p.passed, tk) },
	}
}

func (s *transfers) FindToPay(context.Context, uuid.UUID) (*transfer.Purchase, time.Time, error) {
	return s.purchase(), s.p.batch.Now, nil
}

func (s *transfers) Change(_ context.Context, _ uuid.UUID, decide transfer.Decide) error {
	return changed(s.t, func() error { return changed(s.f, func() error { return decide(s.f, s.t, s.terms()) }) })
}

func (s *transfers) ChangeToBegin(_ context.Context, _ uuid.UUID, change func(*transfer.Purchase, time.Time) error) error {
	return changed(s.t, func() error { return changed(s.f, func() error { return change(s.purchase(), s.p.batch.Now) }) })
}

func (s *transfers) ChangeClaims(_ context.Context, payments []purchase.UnderWay, change func(*transfer.Purchase, uuid.UUID, time.Time)) error {
	change(s.purchase(), payments[0].PaymentID, s.p.batch.Now)
	return nil
}

func (s *transfers) accept(_ context.Context, user string) error {
	terms := s.terms()
	terms.Transferable = event.TransferPriced
	_, err := s.f.Accept(s.t, transfer.Buyer{UserID: user, CheckLimit: func() error { return nil }}, terms)
	return err
}

func newTransfer() *sale {
	tk := &ticket.Ticket{ID: uuid.New(), EventID: "e", UserID: "v", Status: ticket.Valid, Price: price, PaymentID: paymentNamed("p9")}
	f := &transfer.Transfer{
		ID: uuid.New(), TicketID: tk.ID, EventID: "e", Seller: "v", Buyer: "u", Price: price, Currency: "KRW", Status: transfer.Awaiting,
		Deadline: noon.Add(time.Hour), Claim: purchase.NewClaim(noon.Add(payWithin)), Version: 1,
	}
	p := newSale(purchase.Transfer, f.ID, &f.Price, batchOf(held(), tk))
	store := &transfers{p: p, f: f, t: tk}
	service := transfer.NewService(store, nil, maxExtension)
	p.Target = service
	p.forBatch(func() purchase.Purchase { return store.purchase() })
	p.acts = map[string]act{
		"expire": plain(func() { f.Expire(tk, p.batch.Now) }),
		"cancel": func(ctx context.Context, user string) error {
			_, err := service.Cancel(ctx, cmp.Or(user, "u"), f.ID)
			return err
		},
		"block":       plain(func() { f.Block(tk, "u", p.batch.Now) }),
		"event-ends":  plain(func() { f.EndWith(transfer.ReasonEventCancelled, p.batch.Now) }),
		"accept":      store.accept,
		"only-for-u":  plain(func() { f.ToUser = "u" }),
		"ticket-used": plain(func() { tk.Status = ticket.Used }),
	}
	p.state = func() (uuid.UUID, time.Time, ticket.Status) { return f.PaymentID, f.Until, tk.Status }
	p.fields = func() []string { return append(transferFields(*f), "ticket="+string(tk.Status)) }
	p.take = func() (list []emitted) {
		for _, e := range f.TakeEvents() {
			list = append(list, emitted{string(e.Type), e.Reason, e.PaymentID, e.SellerPayment, e.At, transferFields(e.Transfer)})
		}
		f.GaveUp = "" // it is read anew
		return list
	}
	return p
}

func transferFields(f transfer.Transfer) []string {
	return fieldsOf(string(f.Status), f.PaymentID, f.Until, f.OriginalEnd, f.Begun, f.Opens, f.Version,
		"buyer", f.Buyer, "charging", f.Charging, "unpaid", f.UnpaidBuyers, "gave-up", f.GaveUp, "reason", f.Reason, "passed", f.NewTicket != uuid.Nil)
}

// memberships is the store of one membership. others are the user's others of the plan.
type memberships struct {
	membership.Store

	p      *sale
	m      *membership.Membership
	others []*membership.Membership
}

func (s *memberships) purchase() *membership.Purchase {
	return &membership.Purchase{Membership: s.m, Others: s.others}
}

func (s *memberships) FindToPay(context.Context, uuid.UUID) (*membership.Purchase, time.Time, error) {
	return s.purchase(), s.p.batch.Now, nil
}

func (s *memberships) ChangeToBegin(_ context.Context, _ uuid.UUID, change func(*membership.Purchase, time.Time) error) error {
	return changed(s.m, func() error { return change(s.purchase(), s.p.batch.Now) })
}

func (s *memberships) ChangeClaims(_ context.Context, payments []purchase.UnderWay, change func(*membership.Purchase, uuid.UUID, time.Time)) error {
	change(s.purchase(), payments[0].PaymentID, s.p.batch.Now)
	return nil
}

// own gives the user another membership, which begins days after noon, or before it.
func (s *memberships) own(status membership.Status, days int) act {
	start := noon.AddDate(0, 0, days)
	return plain(func() {
		s.others = append(s.others, &membership.Membership{Status: status, StartsAt: start, EndsAt: start.AddDate(0, 0, 9)})
	})
}

// refund claims the membership for a refund, or ends it if it is claimed.
func (s *memberships) refund(context.Context, string) error {
	if s.m.Status == membership.Refunding {
		return s.m.EndRefund(s.m.RefundID, refund.Operator, s.others, s.p.batch.Now)
	}
	membership.DecideRefund(refund.Request{ID: uuid.New(), Cause: refund.Operator, AskedAt: s.p.batch.Now}, s.m, s.p.batch.Now)
	return nil
}

func newMembership() *sale {
	m := membership.New("u", &membership.Plan{Price: price, Currency: "KRW", Months: 1}, noon)
	m.Claim = purchase.NewClaim(noon.Add(payWithin))
	p := newSale(purchase.Membership, m.ID, &m.Price, batchOf(held()))
	store := &memberships{p: p, m: m}
	p.Target = membership.NewService(nil, store, maxExtension)
	p.forBatch(func() purchase.Purchase { return store.purchase() })
	p.acts = map[string]act{
		"expire":      plain(func() { m.Expire(p.batch.Now) }),
		"give-back":   store.refund,
		"own-present": store.own(membership.Active, -1),
		"own-next":    store.own(membership.Active, 1),
		"own-past":    store.own(membership.Ended, -30),
	}
	p.state = func() (uuid.UUID, time.Time, ticket.Status) { return m.PaymentID, m.Until, "" }
	p.fields = func() []string { return membershipFields(*m) }
	p.take = func() (list []emitted) {
		for _, e := range m.TakeEvents() {
			list = append(list, emitted{typ: string(e.Type), reason: e.Reason, payment: e.PaymentID, at: e.At, fields: membershipFields(e.Membership)})
		}
		return list
	}
	return p
}

func membershipFields(m membership.Membership) []string {
	return fieldsOf(string(m.Status), m.PaymentID, m.Until, m.OriginalEnd, m.Begun, m.Opens, m.Version,
		"activated", offset(m.ActivatedAt), "from", offset(m.StartsAt), "to", offset(m.EndsAt), "given-back", m.GivenBack)
}

// fieldsOf shows what all kinds have, and then what only one has: pairs of a name and a value.
func fieldsOf(status string, payment uuid.UUID, until, original time.Time, begun []uuid.UUID, opens int, version int64, more ...any) []string {
	fields := []string{
		status, "payment=" + paymentName(payment), "until=" + offset(until), "of=" + offset(original),
		"begun=" + strings.Join(paymentNamesOf(begun), ","), fmt.Sprint("opens=", opens), fmt.Sprint("v=", version),
	}
	for i := 0; i < len(more); i += 2 {
		fields = append(fields, fmt.Sprint(more[i], "=", more[i+1]))
	}
	return fields
}

// eventOf returns the event that a payment of this purchase was confirmed.
func (p *sale) eventOf(payment uuid.UUID) settlement.PaymentEvent {
	return settlement.PaymentEvent{
		Type: p.kind, ReferenceID: p.id, Payment: purchase.Payment{ID: payment, UserID: "u", EventID: "e", Amount: *p.amount, Currency: "KRW"},
	}
}
