package app_test

import (
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func rows(name string, n, perRow int32) *ticketv1.SectionSpec {
	return &ticketv1.SectionSpec{Section: name, Price: 55000, Rows: &n, SeatsPerRow: &perRow}
}

// TestService runs the real process on PostgreSQL and Kafka, from an empty database to a stop.
func TestService(t *testing.T) {
	t.Parallel()
	s := newService(t)
	out, err := processtest.Run(t, s.env, "migrate")
	require.NoError(t, err, out)
	p := s.start("")
	t.Run("serves", func(t *testing.T) {
		for name, test := range map[string]func(s *service){
			"reservationLife": reservationLife, "a hold expires": holdExpires, "poison": poisonIsDeadLettered,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(s.forSubtest(t, "e-"+uuid.NewString()))
			})
		}
	})
	p.Signal(syscall.SIGTERM)
	require.NoError(t, p.Wait(), "a clean stop")
}

// reservationLife holds seats, pays twice (the second payment is rejected) and refunds the first.
func reservationLife(s *service) {
	s.t.Helper()
	s.putSale("ASSIGNED", rows("A", 2, 10))
	r := s.mustHold("ann", "A-1-1", "A-1-2")
	payment := uuid.NewString()
	_, err := s.payables.BeginPayment(s.t.Context(), &ticketv1.BeginPaymentRequest{
		PaymentType: "reservation", ReferenceId: r.GetReservationId(), PaymentId: payment, UserId: "ann",
	})
	require.NoError(s.t, err)
	paid := s.pay(r, payment)
	s.waitForStatus(r, "CONFIRMED")
	require.Len(s.t, s.ticketsOf("ann"), 2)

	second := uuid.NewString()
	paidAgain := s.pay(r, second)
	compensated := s.refund(r, uuid.NewString(), second, "COMPENSATION")
	refund := uuid.NewString()
	s.mustClaimRefund(r, refund, payment)
	refunded := s.refund(r, refund, payment, "USER")
	s.waitForStatus(r, "REFUNDED")
	s.waitUntilProcessed(paid, paidAgain, compensated, refunded) // they are in two partitions
	for _, tk := range s.ticketsOf("ann") {
		require.Equal(s.t, "REFUNDED", tk.GetStatus())
	}
	got := s.published(r)
	require.ElementsMatch(s.t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "RESERVATION_REJECTED", "RESERVATION_CANCELLED"}, got)
	require.Equal(s.t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, got[:2])
}

func holdExpires(s *service) {
	s.t.Helper()
	s.putSale("ASSIGNED", rows("A", 1, 10))
	r := s.mustHold("bob", "A-1-1")
	s.endHold(r)
	s.waitForStatus(r, "EXPIRED")
	s.pay(r, uuid.NewString())
	s.waitForStatus(r, "REJECTED")
	require.Empty(s.t, s.ticketsOf("bob"))
	require.Equal(s.t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED", "RESERVATION_REJECTED"}, s.published(r))
	s.mustHold("cat", "A-1-1")
}

// Payment events that cannot be applied go to the dead-letter topic and do not block later ones.
func poisonIsDeadLettered(s *service) {
	s.t.Helper()
	s.putSale("ASSIGNED", rows("A", 1, 10))
	r := s.mustHold("dan", "A-1-1")
	payment := uuid.NewString()
	bad := []string{
		`{`, `{"type":"PAYMENT_CONFIRMED"}`, `{"type":"PAYMENT_LOST","paymentId":"` + payment + `","referenceId":"` + payment + `"}`,
		`{"type":"PAYMENT_CONFIRMED","paymentType":"gift","paymentId":"` + payment + `","referenceId":"` + payment + `"}`,
		`{"type":"PAYMENT_REFUNDED","cause":"USER","refundId":"` + payment + `","paymentId":"` + payment + `","referenceId":"` + payment + `"}`,
	}
	for _, value := range bad {
		s.publishRaw("order-"+payment, []byte(value), nil) // to the partition of the payment below
	}
	all := len(bad) + 1
	s.publishPaid(r, payment) // it was not begun yet
	testkit.Until(s.t, func() bool { return len(s.readTopic("payment-events"+kafka.DLQSuffix)) == all }, "nobody gets tickets for it")
	s.pay(r, payment)
	s.waitForStatus(r, "CONFIRMED")

	var letters []kafka.Record
	testkit.Until(s.t, func() bool {
		letters = s.readTopic("payment-events" + kafka.DLQSuffix)
		return len(letters) == all
	}, "the dead letters are written")
	for i, l := range letters[:len(bad)] {
		require.Equal(s.t, bad[i], string(l.Value), "the original bytes")
		require.Equal(s.t, group, l.Headers[kafka.HeaderGroup])
		require.NotEmpty(s.t, l.Headers[kafka.HeaderError])
	}

	out, err := processtest.Run(s.t, s.env, "kafka", "redrive", "--max", "3")
	require.NoError(s.t, err, out)
	require.Equal(s.t, "payment-events: 3 redriven, 0 refused by the broker\n", out)
	testkit.Until(s.t, func() bool {
		letters = s.readTopic("payment-events" + kafka.DLQSuffix)
		return len(letters) == all+3
	}, "those that fail again are dead letters again")
	operator := &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
	again, err := s.letters.RedriveTopic(s.t.Context(), &kafkav1.RedriveTopicRequest{Caller: operator, Topic: "payment-events"})
	require.NoError(s.t, err)
	require.Len(s.t, again.GetRedriven(), all, "the one that was left, and three new ones")
	page, err := s.letters.ListTopicDeadLetters(s.t.Context(), &kafkav1.ListTopicDeadLettersRequest{Caller: operator, Topic: "payment-events", Limit: 100})
	require.NoError(s.t, err)
	redriven := 0
	for _, l := range page.GetItems() {
		require.Equal(s.t, group, l.GetGroup())
		if l.RedrivenAt != nil {
			redriven++
		}
	}
	require.Equal(s.t, all+3, redriven)
}
