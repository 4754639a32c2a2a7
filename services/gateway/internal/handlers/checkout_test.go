package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fakeCheckout has one reservation and one payment, and records the calls.
type fakeCheckout struct {
	ticketv1.ReservationServiceClient
	paymentv1.PaymentServiceClient

	status, reference string
	calls             []string
}

func (c *fakeCheckout) GetMyReservation(
	context.Context, *ticketv1.GetReservationRequest, ...grpc.CallOption,
) (*ticketv1.Reservation, error) {
	c.calls = append(c.calls, "reservation")
	return &ticketv1.Reservation{ReservationId: "r", Status: c.status}, nil
}

func (c *fakeCheckout) GetPayment(context.Context, *paymentv1.GetPaymentRequest, ...grpc.CallOption) (*paymentv1.Payment, error) {
	c.calls = append(c.calls, "payment")
	return &paymentv1.Payment{PaymentId: "p", ReferenceId: c.reference, Status: "PENDING"}, nil
}

// The payment is read after the reservation, and only while the reservation is not paid.
func TestCheckout(t *testing.T) {
	t.Parallel()
	for status, calls := range map[string][]string{
		"HELD": {"reservation", "payment"}, "PAYING": {"reservation", "payment"}, "CONFIRMED": {"reservation"}, "EXPIRED": {"reservation"},
	} {
		c := &fakeCheckout{status: status, reference: "r"}
		rec := httptest.NewRecorder()
		h := &CheckoutHandlers{Reservations: c, Payments: c}
		require.NoError(t, h.Get(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), &edge.Request{Match: edge.Match{Route: &edge.Route{}}}))
		require.Equal(t, calls, c.calls, status)
		require.Equal(t, len(calls) == 2, strings.Contains(rec.Body.String(), `"payment"`), status)
	}
	c := &fakeCheckout{status: "HELD", reference: "another"}
	h := &CheckoutHandlers{Reservations: c, Payments: c}
	require.ErrorIs(t, h.Get(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), &edge.Request{Match: edge.Match{Route: &edge.Route{}}}), errs.ErrPaymentNotFound)
}
