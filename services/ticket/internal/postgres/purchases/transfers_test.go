package purchases_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// shop is a sale whose tickets may be transferred for money.
type shop struct {
	*storetest.Service

	t *testing.T
}

func openShop(t *testing.T, change ...func(*event.Event)) *shop {
	t.Helper()
	s := &shop{Service: storetest.New(t), t: t}
	e := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 40, 10))
	e.Transferable = new(event.TransferPriced)
	for _, f := range change {
		f(&e)
	}
	s.Put(t, e)
	return s
}

// buy sells seats to a user, and returns the payment and the tickets.
func (s *shop) buy(user string, seats ...string) (p purchase.Payment, ids []uuid.UUID) {
	s.t.Helper()
	r := s.MustHoldSeats(s.t, user, seats...)
	p = storetest.Payment(r)
	s.Confirm(s.t, r, p)
	return p, s.TicketIDs(s.t, p)
}

// offer offers a ticket to whoever has the link.
func (s *shop) offer(seller string, ticketID uuid.UUID, price int64) (*transfer.View, string) {
	s.t.Helper()
	t, claim, err := s.Transfers.Offer(s.t.Context(), transfer.Request{TicketID: ticketID, Seller: seller, Price: price}, nil)
	require.NoError(s.t, err)
	return t, claim
}

func (s *shop) accept(user, claim string) (*transfer.View, error) {
	return s.Transfers.Accept(s.t.Context(), user, purchase.Contact{}, claim, uuid.Nil)
}

// charge claims the ticket for a buyer's new payment, as the payment service does before a charge.
func (s *shop) charge(t *transfer.View, buyer string) (settlement.PaymentEvent, error) {
	e := settlement.PaymentEvent{
		Key: uuid.NewString(), Type: purchase.Transfer, ReferenceID: t.ID,
		Payment: purchase.Payment{ID: uuid.New(), UserID: buyer, EventID: t.EventID, Amount: t.Price, Currency: "KRW"},
	}
	_, err := s.Transfers.BeginPayment(s.t.Context(), buyer, t.ID, e.Payment.ID, purchase.PayTime{})
	return e, err
}

// pass transfers a ticket to a buyer, who pays, and returns the buyer's ticket and payment.
func (s *shop) pass(seller, buyer string, ticketID uuid.UUID, price int64) (uuid.UUID, purchase.Payment) {
	s.t.Helper()
	_, claim := s.offer(seller, ticketID, price)
	t, err := s.accept(buyer, claim)
	require.NoError(s.t, err)
	if price == 0 {
		return t.NewTicket, purchase.Payment{}
	}
	e, err := s.charge(t, buyer)
	require.NoError(s.t, err)
	s.Settle(s.t, e, e)
	t, err = s.TransferStore.Find(s.t.Context(), t.ID)
	require.NoError(s.t, err)
	return t.NewTicket, e.Payment
}

func (s *shop) ticket(id uuid.UUID) *ticket.View {
	s.t.Helper()
	t, err := s.Tickets.FindTicket(s.t.Context(), id)
	require.NoError(s.t, err)
	return t
}

func (s *shop) status(id uuid.UUID) transfer.Status {
	s.t.Helper()
	t, err := s.TransferStore.Find(s.t.Context(), id)
	require.NoError(s.t, err)
	return t.Status
}

func (s *shop) requireReason(err error, reason string) {
	s.t.Helper()
	require.ErrorIs(s.t, err, transfer.ErrNotTransferable)
	require.Equal(s.t, reason, errs.From(err).Metadata["reason"])
}

// A ticket is transferred for money, then for free. The seller gets the price, and no holder may
// ask for more than that holder has paid.
func TestAChainOfHolders(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	p, ids := s.buy("a", "A-1-1", "A-1-2")
	second, paidB := s.pass("a", "b", ids[0], 60)
	sold := s.ticket(ids[0])
	require.Equal(t, ticket.Transferred, sold.Status)
	require.EqualValues(t, 60, sold.GivenBack)
	_, _, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: second, Seller: "b", Price: 61}, nil)
	s.requireReason(err, transfer.PriceTooHigh) // more than b has paid
	third, _ := s.pass("b", "c", second, 0)
	fourth, paidD := s.pass("c", "d", third, 0)
	require.Zero(t, paidD.Amount)
	last := s.ticket(fourth)
	require.Equal(t, "d", last.UserID)
	require.EqualValues(t, 70, last.Price)
	require.Zero(t, last.Paid)
	require.Equal(t, "A-1-1", last.Seat.ID)
	require.Equal(t, refund.Refused, s.BeginRefund(t, s.RefundRequest(paidB, refund.User)).Status, "b's ticket is d's now")
	s.Refund(t, p, refund.User) // the other ticket of a
	require.Equal(t, ticket.Valid, s.ticket(fourth).Status)
	s.RequireInvariants(t)
}

// The buyer of a transferred ticket can get a refund. Its place is then for sale again.
func TestTheBuyerGivesTheTicketBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	_, paid := s.pass("a", "b", ids[0], 50)
	c := s.Refund(t, paid, refund.User)
	require.EqualValues(t, 50, c.Items[0].Amount)
	s.MustHoldSeats(t, "c", "A-1-1")
	s.RequireInvariants(t)
}

// A dispute also concerns tickets transferred for free since, as nobody else has paid for them.
func TestADisputeFollowsGifts(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	p, ids := s.buy("a", "A-1-1", "A-1-2")
	gift, _ := s.pass("a", "b", ids[0], 0)
	again, _ := s.pass("b", "c", gift, 0)
	sold, _ := s.pass("a", "d", ids[1], 70)
	s.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Payment: p, Dispute: &settlement.Dispute{Open: true, Version: 2}})
	require.True(t, s.ticket(again).Disputed)
	require.False(t, s.ticket(sold).Disputed, "d has paid")
	_, _, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: again, Seller: "c"}, nil)
	s.requireReason(err, transfer.Disputed)
}

// Once an operator has forbidden transfers, offers that were made before cannot be accepted.
func TestTransfersThatTheOperatorEnds(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1", "A-1-2")
	_, claim := s.offer("a", ids[0], 70)
	for _, setting := range []event.Transferable{event.TransferFree, event.TransferNone} {
		_, err := s.Pool.Exec(t.Context(), `UPDATE events SET transferable = $1`, string(setting))
		require.NoError(t, err)
		_, err = s.accept("b", claim)
		s.requireReason(err, transfer.NoTransfers)
	}
}

// An offer is refused for each of these reasons.
func TestOfferRefused(t *testing.T) {
	t.Parallel()
	offer := func(s *shop, r transfer.Request) error {
		_, _, err := s.Transfers.Offer(t.Context(), r, nil)
		return err
	}
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1", "A-1-2", "A-1-3")
	require.ErrorIs(t, offer(s, transfer.Request{TicketID: ids[0], Seller: "b"}), ticket.ErrNotFound)
	require.ErrorIs(t, offer(s, transfer.Request{TicketID: uuid.New(), Seller: "a"}), ticket.ErrNotFound)
	require.ErrorIs(t, offer(s, transfer.Request{TicketID: ids[0], Seller: "a", ToUser: "a"}), transfer.ErrOwn)
	s.requireReason(offer(s, transfer.Request{TicketID: ids[0], Seller: "a", Price: 71}), transfer.PriceTooHigh)
	closes := storetest.Start.Add(47 * time.Hour)
	for _, deadline := range []time.Time{s.Clock.Now(), closes.Add(time.Second)} {
		s.requireReason(offer(s, transfer.Request{TicketID: ids[0], Seller: "a", Deadline: deadline}), transfer.BadDeadline)
	}
	s.offer("a", ids[0], 70)
	s.requireReason(offer(s, transfer.Request{TicketID: ids[0], Seller: "a"}), transfer.Offered)
	_, err := s.Pool.Exec(t.Context(), `UPDATE tickets SET disputed = true WHERE ticket_id = $1`, ids[1])
	require.NoError(t, err)
	s.requireReason(offer(s, transfer.Request{TicketID: ids[1], Seller: "a"}), transfer.Disputed)
	s.Clock.Set(closes.Add(-transfer.PayWithin))
	s.requireReason(offer(s, transfer.Request{TicketID: ids[2], Seller: "a", Price: 1}), transfer.TooLate)
	s.offer("a", ids[2], 0)
	s.Clock.Set(closes)
	s.requireReason(offer(s, transfer.Request{TicketID: ids[2], Seller: "a"}), transfer.TooLate)

	for setting, want := range map[event.Transferable]string{event.TransferNone: transfer.NoTransfers, event.TransferFree: transfer.PriceTooHigh} {
		s := openShop(t, func(e *event.Event) { e.Transferable = &setting })
		_, ids := s.buy("a", "A-1-1")
		s.requireReason(offer(s, transfer.Request{TicketID: ids[0], Seller: "a", Price: 1}), want)
	}
}

// Repeating the request makes a new link, and the former link becomes invalid.
func TestARepeatedOfferMakesANewLink(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	req, key := transfer.Request{TicketID: ids[0], Seller: "a"}, idempotencyKey(t)
	first, formerClaim, err := s.Transfers.Offer(t.Context(), req, key)
	require.NoError(t, err)
	again, claim, err := s.Transfers.Offer(t.Context(), req, key)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	_, err = s.accept("b", formerClaim)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = s.accept("b", claim)
	require.NoError(t, err)
	_, claim, err = s.Transfers.Offer(t.Context(), req, key)
	require.NoError(t, err)
	require.Empty(t, claim, "it has ended")
}

func idempotencyKey(t *testing.T) *idempotency.Key {
	t.Helper()
	key, err := idempotency.Require("a", "OfferTicket", uuid.NewString(), "offer")
	require.NoError(t, err)
	return key
}

// Accepting an offer is refused for each of these reasons.
func TestAcceptRefused(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1", "A-1-2", "A-1-3")
	offered, claim := s.offer("a", ids[0], 70)
	_, err := s.accept("a", claim)
	require.ErrorIs(t, err, transfer.ErrOwn)
	_, err = s.accept("b", "made up")
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = s.Transfers.Accept(t.Context(), "b", purchase.Contact{}, "", offered.ID)
	require.ErrorIs(t, err, transfer.ErrNotFound, "it is not for b by name")
	_, err = s.Pool.Exec(t.Context(), `UPDATE line_settings SET blocked_users = '{blocked}' WHERE event_id = 'e'`)
	require.NoError(t, err)
	_, err = s.accept("blocked", claim)
	require.ErrorIs(t, err, transfer.ErrBlocked)
	s.buy("full", "A-2-1", "A-2-2", "A-2-3", "A-2-4")
	_, err = s.accept("full", claim)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	accepted, err := s.accept("b", claim)
	require.NoError(t, err)
	again, err := s.accept("b", claim)
	require.NoError(t, err)
	require.Equal(t, accepted.Until, again.Until, "it may be repeated")
	_, err = s.accept("c", claim)
	require.ErrorIs(t, err, transfer.ErrTaken)

	named, _, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[1], Seller: "a", ToUser: "c"}, nil)
	require.NoError(t, err)
	_, err = s.Transfers.Accept(t.Context(), "b", purchase.Contact{}, "", named.ID)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = s.Transfers.Accept(t.Context(), "c", purchase.Contact{}, "", named.ID)
	require.NoError(t, err)

	_, late := s.offer("a", ids[2], 0)
	s.Clock.Set(storetest.Start.Add(47 * time.Hour))
	_, err = s.accept("d", late)
	require.ErrorIs(t, err, transfer.ErrEnded)
	s.RequireInvariants(t)
}

// A place counts once for the limit of each user who has, or had, a ticket of this place.
func TestTheLimitCountsPlaces(t *testing.T) {
	t.Parallel()
	s := openShop(t, func(e *event.Event) { e.MaxPerUser = 2 })
	_, ids := s.buy("a", "A-1-1", "A-1-2")
	second, _ := s.pass("a", "b", ids[0], 70)
	_, err := s.HoldSeats(t.Context(), "a", "A-1-3")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded, "what was passed on still counts")
	returned, _ := s.pass("b", "a", second, 70) // A→B→A is one place
	third, _ := s.pass("a", "b", returned, 0)
	s.pass("b", "c", third, 0)
	s.buy("b", "A-2-1")
	_, err = s.HoldSeats(t.Context(), "b", "A-2-2")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	_, claim := s.offer("a", ids[1], 70)
	_, err = s.accept("b", claim)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	_, err = s.accept("c", claim)
	require.NoError(t, err)
	_, err = s.HoldSeats(t.Context(), "c", "A-2-2")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded, "a place that is to be paid counts")
	s.RequireInvariants(t)
}

// A buyer's contact is stored when the offer is accepted. Accepting it again does not change it.
func TestRepeatedAcceptanceKeepsTheContact(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("alice", "A-1-1")
	_, claim := s.offer("alice", ids[0], 0)
	for _, email := range []string{"bob@example.com", ""} {
		_, err := s.Transfers.Accept(t.Context(), "bob", purchase.Contact{Email: email}, claim, uuid.Nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, s.Count(t, "SELECT count(*) FROM transfer_contacts WHERE email = 'bob@example.com'"))
}
