package sandbox

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

// signatureHeader carries t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">.
const signatureHeader = "x-sandbox-signature"

// tolerance is the largest difference between a webhook's time and ours, so that a recorded webhook
// cannot be replayed forever.
const tolerance = 5 * time.Minute

func (c *Client) ParseWebhook(headers map[string]string, body []byte, now time.Time) (payment.Notice, error) {
	if !c.genuine(headers[signatureHeader], body, now) {
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

func (c *Client) genuine(signature string, body []byte, now time.Time) bool {
	stamp, sum, ok := parse(signature)
	if !ok {
		return false
	}
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	return slices.ContainsFunc(*c.secrets.Load(), func(secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		return hmac.Equal(sum, mac.Sum(nil))
	})
}

// parse splits the value of signatureHeader, t=…,v1=…, into time stamp and decoded sum.
func parse(signature string) (stamp string, sum []byte, ok bool) {
	stamp, rest, found := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	if !found || !strings.HasPrefix(signature, "t=") {
		return "", nil, false
	}
	sum, err := hex.DecodeString(rest)
	return stamp, sum, err == nil
}
