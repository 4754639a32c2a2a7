package sandbox

import (
	"strings"
	"time"
)

// behaviour is what a payment key asks for by its prefix.
type behaviour struct {
	status  Status        // what the charge becomes; empty: nothing is charged
	decline string        // its code
	wait    time.Duration // before anything is charged
	silent  bool          // the connection is left without an answer
	pending time.Duration // answered PENDING, and status only after this time
	webhook bool
}

const (
	slowAnswer  = 10 * time.Second
	lateWebhook = 3 * time.Second
)

// behaviourOf reads the prefix of a payment key; an unknown one is declined, so that a forgotten
// prefix cannot pass for a payment. Where the network swallows the answer it swallows the webhook
// too: only asking can settle such a payment.
func behaviourOf(paymentKey string) behaviour {
	const declined = "CARD_DECLINED"
	prefixes := []struct {
		prefix string
		behaviour
	}{
		{"ok-", behaviour{status: Captured, webhook: true}},
		{"decline-", behaviour{status: Declined, decline: declined, webhook: true}},
		{"timeout-", behaviour{status: Captured, silent: true}},
		{"lost-", behaviour{silent: true}},
		{"slow-", behaviour{status: Captured, wait: slowAnswer}},
		{"late-decline-", behaviour{status: Declined, decline: declined, pending: lateWebhook, webhook: true}},
		{"late-", behaviour{status: Captured, pending: lateWebhook, webhook: true}},
	}
	for _, p := range prefixes {
		if strings.HasPrefix(paymentKey, p.prefix) {
			return p.behaviour
		}
	}
	return behaviour{status: Declined, decline: "UNKNOWN_PAYMENT_KEY", webhook: true}
}
