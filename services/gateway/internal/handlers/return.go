package handlers

import (
	"net/http"
	"unicode/utf8"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

// ReturnHandlers serves buyers who return from a payment provider's page, perhaps in another
// browser and without a session. The parameters of the URL prove the payment.
type ReturnHandlers struct {
	Payments paymentv1.PaymentServiceClient
}

// These limit the parameters that are passed on: their number, and the length of name and value.
const (
	maxReturnParams = 32
	maxReturnText   = 512
)

// looksParam is the parameter by which a page asks only for the state of the payment.
const looksParam = "looks"

// paymentPages has the path of the page on which a payment is made, by the payment's type.
var paymentPages = map[string]string{reservationType: "/checkout/", "transfer": "/transfers/", "membership": "/memberships/"} //nolint:gochecknoglobals // a constant

// Handle redirects to the payment's page, with a fragment that proves the payment, since the page
// may have no session. With looksParam, it responds with JSON and stores nothing.
func (h *ReturnHandlers) Handle(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	provider := q.Param("provider")
	if !validProviderName(provider) {
		return errs.ErrProviderUnknown
	}
	params := map[string]string{}
	for name, values := range r.URL.Query() {
		if params[name] = values[0]; len(params) > maxReturnParams || utf8.RuneCountInString(name+values[0]) > maxReturnText {
			return errs.ErrPaymentNotFound
		}
	}
	_, looks := params[looksParam]
	delete(params, looksParam)
	in := &paymentv1.ReturnPaymentRequest{Provider: provider, Params: params, Looks: looks}
	p, err := h.Payments.ReturnPayment(caller.With(r.Context(), &commonv1.Caller{}), in)
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = edge.NoStore
	if looks {
		return WriteMessage(w, http.StatusOK, p)
	}
	to := "/my"
	if page := paymentPages[p.GetPaymentType()]; page != "" {
		to = page + p.GetReferenceId() + "#" + provider + "/" + p.GetPaymentId() + "?" + r.URL.Query().Encode()
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
