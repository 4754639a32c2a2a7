package handlers

import (
	"net/http"
	"slices"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

// maxWebhookHeaders is the most bytes of forwarded headers, names and values together.
const maxWebhookHeaders = 8 << 10

// WebhookHandlers forwards the calls of payment providers to the payment service. It changes no
// byte, since the provider's signature covers them.
type WebhookHandlers struct {
	Payments paymentv1.PaymentServiceClient
}

func (h *WebhookHandlers) Handle(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	provider := q.Param("provider")
	if !validProviderName(provider) {
		return errs.ErrProviderUnknown
	}
	headers, err := webhookHeaders(q.Header)
	if err != nil {
		return err
	}
	in := &paymentv1.HandleWebhookRequest{Provider: provider, Headers: headers, Body: q.Body}
	if _, err := h.Payments.HandleWebhook(caller.With(r.Context(), &commonv1.Caller{}), in); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, edge.NoStore, []byte("{}"))
	return nil
}

func validProviderName(s string) bool {
	return len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// credentialHeaders are the credentials of users, which are not forwarded; providers send none of them.
var credentialHeaders = []string{
	"Authorization", "Cookie", "Proxy-Authorization",
	identity.EntryHeader, identity.QueueTicketHeader, identity.VWRTicketHeader,
}

// webhookHeaders returns the headers of the request in lower case, without credentialHeaders.
func webhookHeaders(h http.Header) (map[string]string, error) {
	out := make(map[string]string, len(h))
	size := 0
	for name, values := range h {
		if slices.Contains(credentialHeaders, name) {
			continue
		}
		v := strings.ToValidUTF8(strings.Join(values, ", "), "�")
		if size += len(name) + len(v); size > maxWebhookHeaders {
			return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "headers", Message: "are too large"})
		}
		out[strings.ToLower(name)] = v
	}
	return out, nil
}
