package sandbox

import (
	"encoding/json"
	"time"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/signature"
)

// signatureHeader contains t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">.
const signatureHeader = "x-sandbox-signature"

func (c *Client) ParseWebhook(headers map[string]string, body []byte, now time.Time) (payment.Notice, error) {
	if !signature.Genuine(headers[signatureHeader], body, *c.secrets.Load(), now) {
		return payment.Notice{}, payment.ErrWebhookSignature
	}
	var call struct {
		Type    string `json:"type"`
		OrderID string `json:"orderId"`
	}
	if err := json.Unmarshal(body, &call); err != nil {
		return payment.Notice{}, payment.ErrWebhookSignature.Wrap(err)
	}
	switch call.Type {
	case "charge.captured", "charge.declined", "session.completed":
		return payment.Notice{OrderID: call.OrderID}, nil
	case "charge.refunded", "refund.done", "refund.failed":
		return payment.Notice{OrderID: call.OrderID, Refund: true}, nil
	default:
		return payment.Notice{}, nil
	}
}
