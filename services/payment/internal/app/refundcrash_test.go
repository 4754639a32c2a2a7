//go:build failpoint

package app_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire"
	"urr.guru/proto/events"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/sandbox"
)

// untilRefund waits until the only refund has the status, and its claim need not be released.
func (c *crash) untilRefund(status string) {
	c.t.Helper()
	testkit.Until(c.t, func() bool {
		var n int
		err := c.db.QueryRow(c.t.Context(), `SELECT count(*) FROM refunds WHERE status = $1 AND NOT abort_due`, status).Scan(&n)
		require.NoError(c.t, err)
		return n == 1
	}, "the refund to be %s", status)
}

// At whichever failpoint the process dies, the refund is made once and published once.
func TestRefundCrashPoints(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"payment.refund.requested", "payment.refund.after_begin", "payment.refund.before_send", "payment.refund.after_provider",
		"payment.refund.before_publish", "payment.refund.after_publish", "outbox.before_publish@2", "outbox.after_publish@2",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			if point[0] == 'p' {
				point += "@1"
			}
			killed := c.start(point + "=exit")
			orderID, ask := c.requestRefund(killed)
			require.ErrorContains(t, killed.Wait(), "killed")
			c.overdue()
			c.start("")
			var again *paymentv1.Refund
			repeat := func() (err error) {
				again, err = c.refunds.RefundPayment(t.Context(), ask)
				return err
			}
			// If a publication failed and was repeated, that counts as two passes of the relay: then the
			// process may have died before it got the request.
			testkit.UntilNoError(t, repeat, "the same request to be answered again")
			c.untilRefund("DONE")
			testkit.UntilNoError(t, repeat, "the same request to be answered again")
			require.Equal(t, "DONE", again.GetStatus())
			require.EqualValues(t, 30000, c.provider.Order(orderID).RefundedAmount)
			require.Len(t, c.provider.RefundsOf(orderID), 1)
			require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, c.published())
		})
	}
}

// requestRefund pays for two tickets and asks to refund one. The process may die before it answers.
// The events are published in separate passes of the relay, since the failpoints count passes.
func (c *crash) requestRefund(process *processtest.Process) (orderID string, ask *paymentv1.RefundPaymentRequest) {
	c.t.Helper()
	p := c.prepare(c.tickets.Add("ann", 55000, time.Minute))
	first := paymenttest.Ticket{ID: uuid.NewString(), Paid: 30000}
	c.tickets.Issue(p.GetPaymentId(), first, paymenttest.Ticket{ID: uuid.NewString(), Paid: 25000})
	_, err := c.confirm(p, "ok-1")
	require.NoError(c.t, err)
	testkit.Until(c.t, func() bool {
		select {
		case <-process.Ended():
			return true
		default:
			return c.unpublished() == 0
		}
	}, "the confirmation to be published")
	ask = &paymentv1.RefundPaymentRequest{
		Caller: caller(uuid.NewString()), PaymentId: p.GetPaymentId(), TicketIds: []string{first.ID}, Reason: "cannot come",
	}
	_, err = c.refunds.RefundPayment(c.t.Context(), ask)
	if err != nil {
		require.Equal(c.t, codes.Unavailable, status.Code(err))
	}
	return p.GetOrderId(), ask
}

// At whichever failpoint the process dies while money by hand is assigned to a ticket, the money is
// used once, and the ticket is claimed and published once.
func TestCrashWhileMoneyByHandIsAssigned(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"payment.refund.requested@1", "payment.refund.after_begin@2"} { // the first one records the money
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			killed := c.start(point + "=exit")
			p := c.prepare(c.tickets.Add("ann", 55000, time.Minute))
			first := paymenttest.Ticket{ID: uuid.NewString(), Paid: 30000}
			c.tickets.Issue(p.GetPaymentId(), first, paymenttest.Ticket{ID: uuid.NewString(), Paid: 25000})
			_, err := c.confirm(p, "ok-1")
			require.NoError(t, err)
			c.provider.RefundManually(p.GetOrderId(), 30000)
			_, err = c.db.Exec(t.Context(), `UPDATE payments SET hinted = true, lease = lease + 1, check_at = now()`) // as a webhook does
			require.NoError(t, err)
			c.untilRefund("DONE")
			assign := func() (*paymentv1.Refund, error) {
				return c.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{
					Caller:    &commonv1.Caller{UserId: "op", Roles: []string{"admin"}, IdempotencyKey: "k"},
					PaymentId: p.GetPaymentId(), TicketIds: []string{first.ID},
				})
			}
			_, err = assign()
			require.Equal(t, codes.Unavailable, status.Code(err), err)
			require.ErrorContains(t, killed.Wait(), "killed")
			c.overdue()
			c.start("")
			testkit.Until(t, func() bool {
				again, err := assign()
				return err == nil && again.GetStatus() == "DONE"
			}, "the same request to be answered again")
			var used int64
			require.NoError(t, c.db.QueryRow(t.Context(), `SELECT hand_used FROM payments`).Scan(&used))
			require.EqualValues(t, 30000, used)
			require.EqualValues(t, 30000, c.tickets.Of(p.GetPaymentId())[0].Given)
			require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED", "PAYMENT_REFUNDED"}, c.published())
			require.Zero(t, c.provider.Calls(paymenttest.Refunds))
		})
	}
}

// The process dies after it released a refund's claim. The next one releases it again.
func TestCrashAfterAbortOfRefund(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	c.provider.SetFaults(sandbox.Faults{Refused: 1})
	killed := c.start("payment.refund.after_abort@1=exit")
	orderID, _ := c.requestRefund(killed)
	require.ErrorContains(t, killed.Wait(), "killed")
	c.overdue()
	c.start("")
	c.untilRefund("REFUSED")
	require.Empty(t, c.provider.RefundsOf(orderID))
	var id string
	require.NoError(t, c.db.QueryRow(t.Context(), `SELECT id::text FROM refunds`).Scan(&id))
	require.Equal(t, "ABORTED", c.tickets.Claim(id))
}

// The process dies while it consumes a rejection by the ticket service. The payment is refunded
// once. The next process gets the event after the broker has removed the first from the group.
func TestCrashWhileConsuming(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"payment.event.before_commit", "payment.event.after_commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			cfg := kafkatest.Config(t)
			cfg.TopicPrefix = c.env["KAFKA_TOPIC_PREFIX"]
			require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: events.Reservations}))
			killed := c.start(point + "@1=exit")
			p := c.prepare(c.tickets.Add("ann", 55000, time.Minute))
			_, err := c.confirm(p, "ok-1")
			require.NoError(t, err)
			c.tickets.Reject(p.GetPaymentId())
			value, err := wire.Marshal(&eventsv1.ReservationEvent{
				Type: events.ReservationRejected, ReservationId: uuid.NewString(), PaymentId: proto.String(p.GetPaymentId()), Reason: proto.String("HOLD_EXPIRED"),
			})
			require.NoError(t, err)
			require.NoError(t, kafkatest.ProducerOf(t, cfg).Publish(t.Context(), kafka.Record{
				Topic: events.Reservations, Key: []byte("r"), Value: value,
				Headers: kafka.EventHeaders(uuid.New(), "ticket", events.ReservationRejected, time.Now()),
			}))
			require.ErrorContains(t, killed.Wait(), "killed")
			c.start("")
			c.untilRefund("DONE")
			require.EqualValues(t, 55000, c.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Len(t, c.provider.RefundsOf(p.GetOrderId()), 1)
		})
	}
}
