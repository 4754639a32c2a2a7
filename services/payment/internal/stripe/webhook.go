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
// dispute, a warning of fraud and a refund by hand have no metadata with the order: their intent's id is
// read instead.
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
				FraudType     string            `json:"fraud_type"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return payment.Notice{}, payment.ErrWebhookSignature.Wrap(err)
	}
	about := event.Data.Object
	switch event.Type {
	case "checkout.session.completed", "checkout.session.expired", "payment_intent.amount_capturable_updated", "payment_intent.succeeded",
		"payment_intent.canceled":
		return payment.Notice{OrderID: about.Metadata[orderKey]}, nil
	case "charge.refunded", "charge.refund.updated", "refund.created", "refund.updated", "refund.failed":
		notice := payment.Notice{OrderID: about.Metadata[orderKey], Refund: true}
		if notice.OrderID == "" { // a refund that a person made
			notice.ChargeID = about.PaymentIntent
		}
		return notice, nil
	case "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn",
		"charge.dispute.funds_reinstated":
		return payment.Notice{ChargeID: about.PaymentIntent, Refund: true}, nil
	case "radar.early_fraud_warning.created", "radar.early_fraud_warning.updated":
		return payment.Notice{ChargeID: about.PaymentIntent, FraudType: fraudType(about.FraudType)}, nil
	default:
		return payment.Notice{}, nil
	}
}
