package stripe

import (
	"encoding/json"
	"time"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/signature"
)

// signatureHeader contains t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">[,v1=…].
const signatureHeader = "stripe-signature"

// ParseWebhook verifies and decodes a webhook. It does not use the library's check, which accepts
// future times and refuses other versions of the API. It reads only an event's type and order. A
// dispute has no metadata with the order: its intent's id is read instead.
func (c *Client) ParseWebhook(headers map[string]string, body []byte, now time.Time) (payment.Notice, error) {
	if !signature.Genuine(headers[signatureHeader], body, c.current.Load().webhooks, now) {
		return payment.Notice{}, payment.ErrWebhookSignature
	}
	var event struct {
		Type string `json:"type"`
		Data struct {
			Object struct {
				Metadata      map[string]string `json:"metadata"`
				PaymentIntent string            `json:"payment_intent"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return payment.Notice{}, payment.ErrWebhookSignature.Wrap(err)
	}
	switch event.Type {
	case "checkout.session.completed", "checkout.session.expired", "payment_intent.amount_capturable_updated", "payment_intent.succeeded",
		"payment_intent.canceled":
		return payment.Notice{OrderID: event.Data.Object.Metadata[orderKey]}, nil
	case "charge.refunded", "charge.refund.updated", "refund.created", "refund.updated", "refund.failed":
		return payment.Notice{OrderID: event.Data.Object.Metadata[orderKey], Refund: true}, nil
	case "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn",
		"charge.dispute.funds_reinstated":
		return payment.Notice{ChargeID: event.Data.Object.PaymentIntent, Refund: true}, nil
	default:
		return payment.Notice{}, nil
	}
}
