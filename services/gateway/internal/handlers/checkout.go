package handlers

import (
	"net/http"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// CheckoutHandlers serves the response that the checkout page polls while the user pays.
type CheckoutHandlers struct {
	Reservations ticketv1.ReservationServiceClient
	Payments     paymentv1.PaymentServiceClient
}

// Get responds with a reservation and, while it is not paid, with its payment. It reads the payment
// second. Otherwise the payment could begin between the two reads, and the response would have a
// payment that is still PREPARED and a reservation that is already PAYING.
func (h *CheckoutHandlers) Get(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	ctx := caller.With(r.Context(), q.Caller())
	reservation, err := h.Reservations.GetMyReservation(ctx, &ticketv1.GetReservationRequest{ReservationId: q.Param("reservation_id")})
	if err != nil {
		return err
	}
	out := &gatewayv1.Checkout{Reservation: reservation}
	switch reservation.GetStatus() {
	case "HELD", "PAYING":
		if out.Payment, err = h.Payments.GetPayment(ctx, &paymentv1.GetPaymentRequest{PaymentId: q.Param("payment_id")}); err != nil {
			return err
		}
		if out.GetPayment().GetReferenceId() != reservation.GetReservationId() {
			return errs.ErrPaymentNotFound
		}
	}
	return WriteMessage(w, http.StatusOK, out)
}
