package app_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func rows(name string, n, perRow int32) *ticketv1.SectionSpec {
	return &ticketv1.SectionSpec{Section: name, Price: 55000, Rows: &n, SeatsPerRow: &perRow}
}

func (p *process) ticketsOf(user string) []*ticketv1.Ticket {
	p.t.Helper()
	page, err := p.ListMyTickets(p.t.Context(), &ticketv1.ListMyTicketsRequest{Caller: &commonv1.Caller{UserId: user}})
	require.NoError(p.t, err)
	return page.GetItems()
}

// A reservation's whole life, through the real process, PostgreSQL and Kafka.
func TestJourney(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	ended, stop := p.start("")
	p.putSale("ASSIGNED", 300, rows("A", 2, 10))
	r := p.mustHold("ann", "A-1-1", "A-1-2")
	payment := uuid.NewString()
	_, err := p.payables.BeginPayment(t.Context(), &ticketv1.BeginPaymentRequest{
		PaymentType: "reservation", ReferenceId: r.GetReservationId(), PaymentId: payment, UserId: "ann",
	})
	require.NoError(t, err)
	p.pay(r, payment)
	p.becomes(r.GetReservationId(), "CONFIRMED")
	require.Len(t, p.ticketsOf("ann"), 2)

	second := uuid.NewString()
	p.pay(r, second)
	p.refund(r, second, "COMPENSATION")
	p.refund(r, payment, "USER")
	p.becomes(r.GetReservationId(), "REFUNDED")
	p.settled(4) // the second payment's events come in another partition than the first's
	for _, tk := range p.ticketsOf("ann") {
		require.Equal(t, "REFUNDED", tk.GetStatus())
	}
	got := p.published(r.GetReservationId())
	require.ElementsMatch(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "RESERVATION_REJECTED", "RESERVATION_CANCELLED"}, got)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, got[:2])

	stop()
	require.NoError(t, <-ended, "a clean stop")
}

func TestHoldsEndByThemselves(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	p.start("")
	p.putSale("ASSIGNED", 5, rows("A", 1, 10))
	r := p.mustHold("ann", "A-1-1")
	p.becomes(r.GetReservationId(), "EXPIRED")
	payment := uuid.NewString()
	p.pay(r, payment)
	p.becomes(r.GetReservationId(), "REJECTED")
	require.Empty(t, p.ticketsOf("ann"))
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED", "RESERVATION_REJECTED"}, p.published(r.GetReservationId()))
	p.mustHold("bob", "A-1-1")
}

// What cannot be settled is put aside, and keeps nobody behind it waiting.
func TestPoisonGoesToTheDeadLetters(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	p.start("")
	p.putSale("ASSIGNED", 300, rows("A", 1, 10))
	r := p.mustHold("ann", "A-1-1")
	payment := uuid.NewString()
	bad := []string{
		`{`, `{"type":"PAYMENT_CONFIRMED"}`, `{"type":"PAYMENT_LOST","paymentId":"` + payment + `","referenceId":"` + payment + `"}`,
		`{"type":"PAYMENT_CONFIRMED","paymentType":"transfer","paymentId":"` + payment + `","referenceId":"` + payment + `"}`,
	}
	for _, value := range bad {
		p.publishRaw("order-"+payment, []byte(value), nil) // the partition of the payment below
	}
	p.pay(r, payment)
	p.becomes(r.GetReservationId(), "CONFIRMED")

	var letters []kafka.Record
	require.Eventually(t, func() bool {
		letters = p.all("payment-events" + kafka.DLQSuffix)
		return len(letters) == len(bad)
	}, 60*time.Second, 100*time.Millisecond)
	for i, l := range letters {
		require.Equal(t, bad[i], string(l.Value), "the original bytes")
		require.Equal(t, "ticket-service-group", l.Headers[kafka.HeaderGroup])
		require.NotEmpty(t, l.Headers[kafka.HeaderError])
	}
}
