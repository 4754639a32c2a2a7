package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	ticket "urr.guru/services/ticket/internal/kafka"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

// settler is a fake Settler. It records the events that it gets, and returns err.
type settler struct {
	events []settlement.PaymentEvent
	err    error
}

func (s *settler) Settle(_ context.Context, group string, events []settlement.PaymentEvent) error {
	if group != "ticket-service-group" {
		return errors.New("wrong group")
	}
	s.events = append(s.events, events...)
	return s.err
}

var payment, reference, refundID = uuid.New(), uuid.New(), uuid.New()

var targets = purchase.Targets{purchase.Reservation: &reservation.Service{}}

func record(id, value string) kafka.Record {
	return kafka.Record{Topic: "payment-events", EventID: id, Value: []byte(value)}
}

func TestHandleDecodesPaymentEvents(t *testing.T) {
	t.Parallel()
	ids := `"paymentId":"` + payment.String() + `","referenceId":"` + reference.String() + `"`
	var s settler
	require.NoError(t, ticket.Handle(targets, &s)(t.Context(), []kafka.Record{
		record("1", `{"type":"PAYMENT_CONFIRMED","userId":"u","eventId":"e","amount":55000,"currency":"KRW","version":3,"new":"member",`+ids+`}`),
		record("2", `{"type":"PAYMENT_REFUNDED","paymentType":"reservation","cause":"USER","refundId":"`+refundID.String()+`",`+ids+`}`),
		record("3", `{"type":"PAYMENT_REFUNDED","cause":"COMPENSATION",`+ids+`}`),
		record("4", `{"type":"PAYMENT_DISPUTED","version":7,`+ids+`}`),
		record("5", `{"type":"PAYMENT_DISPUTE_CLOSED","version":8,`+ids+`}`),
		record("6", `{"type":"PAYMENT_DECLINED","declineCode":"CARD"}`), // the payment service releases the reservation
	}))
	require.Equal(t, []settlement.PaymentEvent{
		{Key: "1", Type: purchase.Reservation, ReferenceID: reference, Payment: purchase.Payment{ID: payment, UserID: "u", EventID: "e", Amount: 55000, Currency: "KRW"}},
		{Key: "2", Type: purchase.Reservation, ReferenceID: reference, Refunded: true, Cause: refund.User, RefundID: refundID, Payment: purchase.Payment{ID: payment}},
		{Key: "3", Type: purchase.Reservation, ReferenceID: reference, Refunded: true, Cause: refund.Compensation, Payment: purchase.Payment{ID: payment}},
		{Key: "4", Type: purchase.Reservation, ReferenceID: reference, Dispute: &settlement.Dispute{Open: true, Version: 7}, Payment: purchase.Payment{ID: payment}},
		{Key: "5", Type: purchase.Reservation, ReferenceID: reference, Dispute: &settlement.Dispute{Version: 8}, Payment: purchase.Payment{ID: payment}},
	}, s.events)

	s.err = errors.New("away")
	err := ticket.Handle(targets, &s)(t.Context(), []kafka.Record{record("3", `{"type":"PAYMENT_CONFIRMED",`+ids+`}`)})
	require.ErrorIs(t, err, s.err)
	require.False(t, kafka.IsPoison(err), "it is tried again")
	for _, s.err = range []error{settlement.ErrUnclaimed, settlement.ErrNotBegun} {
		err = ticket.Handle(targets, &s)(t.Context(), []kafka.Record{record("4", `{"type":"PAYMENT_CONFIRMED",`+ids+`}`)})
		require.True(t, kafka.IsPoison(err), "nobody could decide more on a second try: %v", s.err)
	}
}

// Without a word about parts, as by an older payment service, parts can be refunded.
func TestWhetherPartsCanBeRefunded(t *testing.T) {
	t.Parallel()
	for parts, whole := range map[string]bool{`"partialRefunds":false,`: true, `"partialRefunds":true,`: false, ``: false} {
		var s settler
		value := `{"type":"PAYMENT_CONFIRMED",` + parts + `"paymentId":"` + payment.String() + `","referenceId":"` + reference.String() + `"}`
		require.NoError(t, ticket.Handle(targets, &s)(t.Context(), []kafka.Record{record("1", value)}))
		require.Equal(t, whole, s.events[0].Payment.WholeOnly, parts)
	}
}

func TestHandleRefusesPoison(t *testing.T) {
	t.Parallel()
	ids := `"paymentId":"` + payment.String() + `","referenceId":"` + reference.String() + `"`
	for _, value := range []string{
		``, `{`, `[]`, `{"type":1,` + ids + `}`, `{` + ids + `}`, `{"type":"PAYMENT_LOST",` + ids + `}`,
		`{"type":"PAYMENT_CONFIRMED","paymentType":"transfer",` + ids + `}`, `{"type":"PAYMENT_CONFIRMED","paymentType":"gift",` + ids + `}`,
		`{"type":"PAYMENT_CONFIRMED","paymentId":"` + payment.String() + `"}`, `{"type":"PAYMENT_CONFIRMED","referenceId":"` + reference.String() + `"}`,
		`{"type":"PAYMENT_REFUNDED","cause":"USER",` + ids + `}`, `{"type":"PAYMENT_REFUNDED","cause":"BY_HAND","refundId":"1",` + ids + `}`,
		`{"type":"PAYMENT_CONFIRMED","paymentId":"1","referenceId":"` + reference.String() + `"}`,
	} {
		var s settler
		err := ticket.Handle(targets, &s)(t.Context(), []kafka.Record{record("1", value)})
		require.True(t, kafka.IsPoison(err), "%s: %v", value, err)
		require.Empty(t, s.events)
	}
}
