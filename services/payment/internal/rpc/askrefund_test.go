package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/sandbox"
)

// refundBy asks for a refund of tickets as a user does; without tickets, of all of them.
func (b *bundle) refundBy(userID string, p *paymentv1.PrepareResponse, key string, tickets ...string) (*paymentv1.Refund, error) {
	return b.refunds.RefundPayment(b.t.Context(), &paymentv1.RefundPaymentRequest{
		Caller: caller(userID, key), PaymentId: p.GetPaymentId(), TicketIds: tickets, Reason: "cannot come",
	})
}

func operator(key string) *commonv1.Caller {
	return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}, IdempotencyKey: key}
}

func (b *bundle) refundByOperator(p *paymentv1.PrepareResponse, key string, fees *bool, tickets ...string) (*paymentv1.Refund, error) {
	return b.operators.RefundAnyPayment(b.t.Context(), &paymentv1.RefundAnyPaymentRequest{
		Caller: operator(key), PaymentId: p.GetPaymentId(), TicketIds: tickets, Reason: "goodwill", Fees: fees,
	})
}

func (b *bundle) ticketID(p *paymentv1.PrepareResponse, i int) string {
	return b.tickets.Of(p.GetPaymentId())[i].ID
}

// The answer already has the items. The payment shows the refund as PENDING, and later as DONE.
func TestUserRefundsOneOfTwo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	first := b.ticketID(p, 0)
	r, err := b.refundBy(user, p, "k1", first)
	require.NoError(t, err)
	require.Equal(t, "PENDING", r.GetStatus())
	require.EqualValues(t, 29000, r.GetAmount(), "without the fee")
	require.Len(t, r.GetItems(), 1)
	require.Equal(t, first, r.GetItems()[0].GetTicketId())

	again, err := b.refundBy(user, p, "k1", first)
	require.NoError(t, err)
	require.True(t, proto.Equal(r, again), "a repeated request: %v", again)
	_, err = b.refundBy(user, p, "k1")
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)
	_, err = b.refundBy("bob", p, "k2", first)
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)

	shown := b.get(p)
	require.Equal(t, "PENDING", shown.GetRefunds()[0].GetStatus())
	b.untilRefund(p, "USER", "DONE")
	shown = b.get(p)
	require.Equal(t, "CONFIRMED", shown.GetStatus())
	require.EqualValues(t, 29000, shown.GetRefundedAmount())
	require.Equal(t, "DONE", shown.GetRefunds()[0].GetStatus())
	require.EqualValues(t, 29000, shown.GetItems()[0].GetAmount())

	second, err := b.refundBy(user, p, "k3")
	require.NoError(t, err)
	require.Len(t, second.GetItems(), 1)
	b.sweep(time.Second)
	b.requireBalanced(p)
}

// Tickets that another refund has claimed are refused without a row and without a call. Tickets
// that the ticket service refuses are listed with the reason, also when the request is repeated.
func TestRefusedRefundNamesTickets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	first, second := b.ticketID(p, 0), b.ticketID(p, 1)
	_, err := b.refundBy(user, p, "k1", first)
	require.NoError(t, err)
	rows := `SELECT count(*) FROM refunds`
	require.EqualValues(t, 1, b.count(rows))
	// Whether an operator can give more back for a ticket that was refunded, the ticket service decides.
	for i, status := range []string{"REFUNDING", "REFUNDED"} {
		for name, ask := range map[string]func() (*paymentv1.Refund, error){
			"user":     func() (*paymentv1.Refund, error) { return b.refundBy(user, p, "k2", first, second) },
			"operator": func() (*paymentv1.Refund, error) { return b.refundByOperator(p, "k2", nil, first, second) },
		} {
			_, err = ask()
			refusal := errs.From(err)
			require.Equal(t, "NOT_REFUNDABLE", refusal.Reason, name)
			require.Equal(t, first, refusal.Metadata["ticketIds"], name)
			require.Equal(t, status, refusal.Metadata["ticketReasons"], name)
		}
		require.EqualValues(t, 1+i, b.count(rows))
		b.untilRefund(p, "USER", "DONE")
		b.apply(p)
	}

	b.tickets.Use(p.GetPaymentId(), 1)
	for range 2 {
		_, err = b.refundBy(user, p, "k3", second)
		refusal := errs.From(err)
		require.Equal(t, "NOT_REFUNDABLE", refusal.Reason)
		require.Equal(t, second+" USED", refusal.Metadata["ticketIds"]+" "+refusal.Metadata["ticketReasons"])
	}
	require.EqualValues(t, 3, b.count(rows))
	refused := b.get(p).GetRefunds()[2]
	require.Equal(t, "REFUSED", refused.GetStatus())
	require.Equal(t, "USED", refused.GetLeft()[0].GetReason())
	require.Len(t, b.get(p).GetItems(), 1)
}

// A refund that would give back less than was shown is refused with what it would give back, and
// claims nothing. What was shown never raises it.
func TestShownAmounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	first := b.ticketID(p, 0)
	ask := func(key string, amount int64) (*paymentv1.Refund, error) {
		return b.refunds.RefundPayment(t.Context(), &paymentv1.RefundPaymentRequest{
			Caller: caller(user, key), PaymentId: p.GetPaymentId(), TicketIds: []string{first}, Amount: &amount,
		})
	}
	for range 2 {
		_, err := ask("k1", 29001)
		require.ErrorIs(t, err, errs.ErrAmountChanged)
		require.Equal(t, "29000", errs.From(err).Metadata["amount"])
	}
	_, err := ask("k1", 29000)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused, "that key is for another amount")
	_, err = b.operators.RefundAnyPayment(t.Context(), &paymentv1.RefundAnyPaymentRequest{
		Caller: operator("k1"), PaymentId: p.GetPaymentId(), TicketIds: []string{first}, Reason: "r", Amount: proto.Int64(30001),
	})
	require.ErrorIs(t, err, errs.ErrAmountChanged)
	require.Equal(t, "30000", errs.From(err).Metadata["amount"])
	require.Equal(t, "VALID", b.tickets.Of(p.GetPaymentId())[0].Status)
	r, err := ask("k2", 1)
	require.NoError(t, err)
	require.EqualValues(t, 29000, r.GetAmount())
	again, err := ask("k2", 1)
	require.NoError(t, err)
	require.Equal(t, r.GetRefundId(), again.GetRefundId())
	b.untilRefunds("DONE", 1)
	b.requireBalanced(p)
}

// A request that could not be decided at once carries the amount to the later decision. Its payer
// sees why it was refused.
func TestShownAmountOfALaterDecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.tickets.Fail("BeginRefund", errs.ErrUnavailable)
	r, err := b.refunds.RefundPayment(t.Context(), &paymentv1.RefundPaymentRequest{
		Caller: caller(user, "k"), PaymentId: p.GetPaymentId(), Amount: proto.Int64(53000),
	})
	require.NoError(t, err)
	require.Equal(t, "REQUESTED", r.GetStatus())
	b.tickets.RaiseFee(p.GetPaymentId(), 0, 9000)
	b.untilRefund(p, "USER", "REJECTED")
	shown := b.get(p).GetRefunds()[0]
	require.Equal(t, "AMOUNT_CHANGED", shown.GetReason())
	require.EqualValues(t, 45000, shown.GetAmount())
	require.Empty(t, shown.GetItems())
	require.Zero(t, b.get(p).GetRefundedAmount())
	for _, ticket := range b.tickets.Of(p.GetPaymentId()) {
		require.Equal(t, "VALID", ticket.Status)
	}
	b.requireBalanced(p)
}

// If the ticket service does not answer, the refund stays stored, and the sweeper continues.
func TestRefundWithoutTicket(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"BeginRefund", "BeginRefundAnswer"} {
		b := setup(t)
		p, _ := b.paid(30000, 25000)
		b.tickets.Fail(fails, errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable)
		r, err := b.refundBy(user, p, "k1", b.ticketID(p, 0))
		require.NoError(t, err)
		require.Equal(t, "REQUESTED", r.GetStatus())
		require.Empty(t, r.GetItems())
		b.untilRefund(p, "USER", "DONE")
		again, err := b.refundBy(user, p, "k1", b.ticketID(p, 0))
		require.NoError(t, err)
		require.Equal(t, "DONE", again.GetStatus())
		require.Len(t, again.GetItems(), 1)
		b.requireBalanced(p)
	}
}

func TestRefundsPerHour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(amount)
	other, _ := b.paid(amount)
	unknownTicket := uuid.NewString()
	for i := range 20 {
		_, err := b.refundBy(user, p, fmt.Sprint("k", i), unknownTicket)
		require.ErrorIs(t, err, errs.ErrNotRefundable)
		b.clock.Advance(time.Minute)
	}
	_, err := b.refundBy(user, other, "k")
	limited := errs.From(err)
	require.Equal(t, "RATE_LIMITED", limited.Reason)
	require.Equal(t, 40*time.Minute, limited.RetryAfter)
	_, err = b.refundBy(user, p, "k3", unknownTicket)
	require.ErrorIs(t, err, errs.ErrNotRefundable, "a repeated request is none")
	_, err = b.refundByOperator(p, "k", nil, unknownTicket)
	require.ErrorIs(t, err, errs.ErrNotRefundable, "operators have no limit")
	b.clock.Advance(40 * time.Minute)
	_, err = b.refundBy(user, other, "k")
	require.NoError(t, err)
}

// A user's many rejected requests do not make the payment slow to read, and are deleted later. The
// other refunds are always shown.
func TestRejectedRefundsStayFew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	unknownTickets := make([]string, 101)
	for i := range unknownTickets {
		unknownTickets[i] = uuid.NewString()
	}
	_, err := b.refundBy(user, p, "many", unknownTickets...)
	require.ErrorIs(t, err, errs.ErrInvalidRequest, "no order has as many")
	accepted, err := b.refundBy(user, p, "k", b.ticketID(p, 0))
	require.NoError(t, err)
	timeline := len(b.get(p).GetTimeline())
	for i := range 60 {
		b.clock.Advance(4 * time.Minute)
		_, err := b.refundBy(user, p, fmt.Sprint("k", i), unknownTickets[:100]...)
		require.ErrorIs(t, err, errs.ErrNotRefundable)
	}
	shown := b.get(p)
	require.Len(t, shown.GetRefunds(), 51, "what counts, and the latest of the others")
	require.Equal(t, accepted.GetRefundId(), shown.GetRefunds()[0].GetRefundId(), "the oldest first")
	require.Len(t, shown.GetTimeline(), timeline, "nothing has happened to the payment")
	_, err = b.refundBy(user, p, "again", b.ticketID(p, 0))
	require.ErrorIs(t, err, errs.ErrNotRefundable)

	rejected := func() int64 { return b.count(`SELECT count(*) FROM refunds WHERE status = 'REJECTED'`) }
	store := postgres.NewStore(b.pool, postgres.Options{Now: b.clock.Now, PagesPerHour: 1000})
	b.clock.Advance(30*24*time.Hour - 4*time.Hour)
	require.NoError(t, store.PruneRefunds(t.Context()))
	require.EqualValues(t, 60, rejected(), "a request may be repeated")
	b.clock.Advance(2 * time.Hour)
	require.NoError(t, store.PruneRefunds(t.Context()))
	require.Less(t, rejected(), int64(60))
	b.clock.Advance(3 * time.Hour)
	require.NoError(t, store.PruneRefunds(t.Context()))
	require.Zero(t, rejected())
	require.Len(t, b.get(p).GetRefunds(), 1)
}

func TestOperatorsRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	_, err := b.operators.RefundAnyPayment(t.Context(), &paymentv1.RefundAnyPaymentRequest{
		Caller: caller(user, "k"), PaymentId: p.GetPaymentId(), Reason: "mine",
	})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	withoutFees, err := b.refundByOperator(p, "k1", proto.Bool(false), b.ticketID(p, 0))
	require.NoError(t, err)
	require.EqualValues(t, 29000, withoutFees.GetAmount())
	withFees, err := b.refundByOperator(p, "k2", nil)
	require.NoError(t, err)
	require.EqualValues(t, 25000, withFees.GetAmount(), "with the fee")
	b.untilRefunds("DONE", 2)
	b.requireBalanced(p)
	require.Contains(t, notes(b.get(p)), "refund requested")
	require.NotContains(t, strings.Join(notes(b.get(p)), ";"), "goodwill", "the reason is the operators' own")

	page, err := b.operators.ListRefunds(t.Context(), &paymentv1.ListRefundsRequest{Caller: operator(""), Limit: 1})
	require.NoError(t, err)
	require.Equal(t, withFees.GetRefundId(), page.GetItems()[0].GetRefundId(), "newest first")
	require.Equal(t, user, page.GetItems()[0].GetUserId())
	require.Len(t, page.GetItems()[0].GetItems(), 1)
	page, err = b.operators.ListRefunds(t.Context(), &paymentv1.ListRefundsRequest{Caller: operator(""), Cursor: page.GetNextCursor(), Status: "DONE"})
	require.NoError(t, err)
	require.Len(t, page.GetItems(), 1)
	require.Equal(t, withoutFees.GetRefundId(), page.GetItems()[0].GetRefundId())
	require.Empty(t, page.GetNextCursor())
	page, err = b.operators.ListRefunds(t.Context(), &paymentv1.ListRefundsRequest{Caller: operator(""), Status: "HELD"})
	require.NoError(t, err)
	require.Empty(t, page.GetItems())
}

// What was paid for a ticket that an operator has voided can be given back in parts, by its name.
func TestVoidedTicketIsRefundedInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.tickets.Void(p.GetPaymentId(), 0)
	_, err := b.refundBy(user, p, "k", b.ticketID(p, 0))
	require.Equal(t, "VOIDED", errs.From(err).Metadata["ticketReasons"])
	for i, part := range []int64{29000, 1000} {
		r, err := b.refundByOperator(p, fmt.Sprint("k", i), proto.Bool(i > 0), b.ticketID(p, 0))
		require.NoError(t, err)
		require.Equal(t, part, r.GetAmount())
		b.untilRefunds("DONE", int64(i+1))
		b.apply(p)
	}
	_, err = b.refundByOperator(p, "again", nil, b.ticketID(p, 0))
	require.Equal(t, "VOIDED", errs.From(err).Metadata["ticketReasons"], "nothing is left")
	require.Equal(t, "VALID", b.tickets.Of(p.GetPaymentId())[1].Status)
	b.requireBalanced(p)
}

// untilRefunds sweeps once a second until n refunds have the status, for at most a minute.
func (b *bundle) untilRefunds(status string, n int64) {
	b.t.Helper()
	query := `SELECT count(*) FROM refunds WHERE status = $1`
	for second := 0; second < 60 && b.count(query, status) < n; second++ {
		b.sweep(time.Second)
	}
	require.Equal(b.t, n, b.count(query, status))
}

// An operator sends a HELD refund again, or ends it as paid elsewhere or as paid by hand at the
// provider. Money paid by hand then counts for this refund. All sums agree.
func TestHeldRefunds(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"retry", "otherwise", "by hand"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.paid(amount)
			other, _ := b.paid(amount)
			b.provider.SetFaults(sandbox.Faults{Refused: 1})
			b.promise(p, "e1")
			held := b.untilRefund(p, "EVENT_CANCELLED", "HELD")
			b.provider.SetFaults(sandbox.Faults{})
			require.Equal(t, "HELD", b.get(p).GetRefunds()[0].GetStatus())
			resolve := func(id string, otherwise bool) (*paymentv1.Refund, error) {
				return b.operators.ResolveRefund(t.Context(), &paymentv1.ResolveRefundRequest{
					Caller: operator(""), RefundId: id, PaidOtherwise: proto.Bool(otherwise), Note: "of 3 May",
				})
			}
			_, err := resolve(uuid.NewString(), true)
			require.ErrorIs(t, err, errs.ErrRefundNotFound)
			_, err = resolve(held.id, false)
			require.ErrorIs(t, err, errs.ErrRefundNotPaid)
			switch way {
			case "retry":
				_, err = b.operators.RetryRefund(t.Context(), &paymentv1.RetryRefundRequest{Caller: operator(""), RefundId: held.id})
				require.NoError(t, err)
				b.untilRefund(p, "EVENT_CANCELLED", "DONE")
			case "otherwise":
				r, err := resolve(held.id, true)
				require.NoError(t, err)
				require.Equal(t, "DONE", r.GetStatus())
			case "by hand":
				b.provider.RefundManually(p.GetOrderId(), amount)
				require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
				b.untilRefund(p, "BY_HAND", "DONE")
				require.Equal(t, amount, b.count(`SELECT sum(hand - hand_used)::bigint FROM payments`))
				_, err = resolve(held.id, false)
				require.NoError(t, err)
				require.Zero(t, b.count(`SELECT sum(hand - hand_used)::bigint FROM payments`))
			}
			b.requireBalanced(p)
			require.NotContains(t, strings.Join(notes(b.get(p)), ";"), "3 May", "the note is the operators' own")
			_, err = resolve(held.id, true)
			require.ErrorIs(t, err, errs.ErrRefundNotHeld)
			b.requireBalanced(other)
		})
	}
}

// raceRuns is how often each race is run.
const raceRuns = 20

// If two requests ask for the same tickets at once, one refund claims them, and all sums agree.
func TestRefundRaces(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(b *bundle, p *paymentv1.PrepareResponse, tickets ...string) (*paymentv1.Refund, error){
		"user against operator": func(b *bundle, p *paymentv1.PrepareResponse, tickets ...string) (*paymentv1.Refund, error) {
			return b.refundByOperator(p, "op", proto.Bool(false), tickets...)
		},
		"the same key twice": func(b *bundle, p *paymentv1.PrepareResponse, tickets ...string) (*paymentv1.Refund, error) {
			return b.refundBy(user, p, "user", tickets...)
		},
		"by hand against user": func(b *bundle, p *paymentv1.PrepareResponse, _ ...string) (*paymentv1.Refund, error) {
			b.provider.RefundManually(p.GetOrderId(), amount)
			return nil, b.webhook("charge.refunded", p.GetOrderId())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for range raceRuns {
				p, _ := b.paid(30000, 25000)
				tickets := []string{b.ticketID(p, 0), b.ticketID(p, 1)}
				var both sync.WaitGroup
				var errFirst, errSecond error
				both.Go(func() { _, errFirst = b.refundBy(user, p, "user", tickets...) })
				both.Go(func() { _, errSecond = second(b, p, tickets...) })
				both.Go(func() { b.service.SweepOnce(t.Context()) })
				both.Wait()
				undone := `SELECT count(*) FROM refunds WHERE status IN ('REQUESTED', 'PENDING') OR abort_due`
				for second := 0; second < 200 && (second < 3 || b.count(undone) > 0); second++ {
					b.sweep(time.Second)
				}
				b.requireOneRefund(p, name, errFirst, errSecond)
			}
		})
	}
}

func (b *bundle) requireOneRefund(p *paymentv1.PrepareResponse, race string, errs ...error) {
	b.t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	switch race {
	case "user against operator":
		require.Equal(b.t, 1, won, "%v", errs)
		require.EqualValues(b.t, 53000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	case "the same key twice":
		require.Equal(b.t, 2, won, "%v", errs)
		require.EqualValues(b.t, 53000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	default:
		require.Equal(b.t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	}
	require.LessOrEqual(b.t, b.count(`SELECT count(*) FROM refunds WHERE payment_id = $1 AND status = 'DONE' AND cause <> 'BY_HAND'`,
		uuid.MustParse(p.GetPaymentId())), int64(1))
	var ended int
	for _, e := range b.events(p) {
		if problem := b.tickets.Apply(e); problem != "" {
			b.t.Fatal(problem)
		}
		ended += strings.Count(e.GetType(), "REFUNDED")
	}
	require.Positive(b.t, ended)
	require.NotContains(b.t, []string{b.tickets.Of(p.GetPaymentId())[0].Status, b.tickets.Of(p.GetPaymentId())[1].Status}, "REFUNDING")
	b.requireBalanced(p)
}
