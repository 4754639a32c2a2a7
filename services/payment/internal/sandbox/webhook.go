package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"urr.guru/services/payment/internal/payment"
)

// signatureHeader carries t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">.
const signatureHeader = "x-sandbox-signature"

// tolerance is how far a webhook's time may be from ours: what was recorded once cannot be sent for ever.
const tolerance = 5 * time.Minute

// ClientParams implements payment.Checkout: the sandbox has no page of its own, the payer chooses what happens by the payment key.
func (c *Client) ClientParams(payment.Payment) map[string]string {
	return map[string]string{"paymentKeys": "ok- decline- timeout- lost- slow- late-"}
}

// Webhook implements payment.Checkout.
func (c *Client) Webhook(headers map[string]string, body []byte, now time.Time) (orderID string, err error) {
	if !c.genuine(headers[signatureHeader], body, now) {
		return "", payment.ErrWebhookSignature
	}
	var call struct {
		Type    string `json:"type"`
		OrderID string `json:"orderId"`
	}
	if err := json.Unmarshal(body, &call); err != nil {
		return "", payment.ErrWebhookSignature.Wrap(err)
	}
	switch call.Type {
	case "charge.captured", "charge.declined":
		return call.OrderID, nil
	default:
		return "", nil
	}
}

func (c *Client) genuine(signature string, body []byte, now time.Time) bool {
	stamp, sum, ok := parse(signature)
	if !ok {
		return false
	}
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, []byte(c.secret.Reveal()))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return hmac.Equal(sum, mac.Sum(nil))
}

// parse reads t=…,v1=….
func parse(signature string) (stamp string, sum []byte, ok bool) {
	stamp, rest, found := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	if !found || !strings.HasPrefix(signature, "t=") {
		return "", nil, false
	}
	sum, err := hex.DecodeString(rest)
	return stamp, sum, err == nil
}
