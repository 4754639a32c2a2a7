package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"urr.guru/services/payment/internal/payment"
)

// signatureHeader carries t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">[,v1=…].
const signatureHeader = "stripe-signature"

// tolerance is the largest difference between a webhook's time and ours, before and after it.
const tolerance = 5 * time.Minute

// ParseWebhook verifies and decodes a webhook. The library's own check accepts times in the future, and
// refuses events of other versions of the API: of an event only its type and the order are read here.
// A dispute has no metadata of ours: it names the charge and its intent.
func (c *Client) ParseWebhook(headers map[string]string, body []byte, now time.Time) (payment.Notice, error) {
	if !c.genuine(headers[signatureHeader], body, now) {
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
		return payment.Notice{OrderID: event.Data.Object.Metadata[orderMember]}, nil
	case "charge.refunded", "charge.refund.updated", "refund.created", "refund.updated", "refund.failed":
		return payment.Notice{OrderID: event.Data.Object.Metadata[orderMember], Refund: true}, nil
	case "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn",
		"charge.dispute.funds_reinstated":
		return payment.Notice{ChargeID: event.Data.Object.PaymentIntent, Refund: true}, nil
	default:
		return payment.Notice{}, nil
	}
}

func (c *Client) genuine(signature string, body []byte, now time.Time) bool {
	stamp, sums := parse(signature)
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	return slices.ContainsFunc(c.current.Load().webhooks, func(secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		return slices.ContainsFunc(sums, func(sum []byte) bool { return hmac.Equal(sum, want) })
	})
}

// parse splits the value of signatureHeader into its time and its sums. There are several while a
// secret is being replaced.
func parse(signature string) (stamp string, sums [][]byte) {
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil {
				sums = append(sums, sum)
			}
		}
	}
	return stamp, sums
}
