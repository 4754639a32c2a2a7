package sandbox

import (
	"strings"
	"time"
)

// behaviour is what the prefix of a payment key requests.
type behaviour struct {
	status  Status        // what the charge becomes; empty: nothing is charged
	decline string        // its code
	wait    time.Duration // before that
	late    bool          // answered PENDING before the wait, not after it
	silent  bool          // the connection is left without an answer
	webhook bool
}

// Delays are the provider's waiting times.
type Delays struct {
	Slow    time.Duration // before a slow charge is captured and answered
	Late    time.Duration // before a late charge is captured or declined
	Silence time.Duration // before a connection that gets no answer is dropped, unless its client goes first
}

// defaultDelays are the delays of development: clients time out before a slow charge or a silent
// one ends.
func defaultDelays() Delays {
	return Delays{Slow: 10 * time.Second, Late: 3 * time.Second, Silence: 30 * time.Second}
}

// behaviourOf reads the prefix of a payment key. An unknown prefix is declined, so that a forgotten
// prefix does not look like a payment. Where the answer is lost the webhook is lost too: only a
// lookup can settle such a payment.
func behaviourOf(paymentKey string, d Delays) behaviour {
	const declined = "CARD_DECLINED"
	prefixes := []struct {
		prefix string
		behaviour
	}{
		{"ok-", behaviour{status: Captured, webhook: true}},
		{"decline-", behaviour{status: Declined, decline: declined, webhook: true}},
		{"timeout-", behaviour{status: Captured, silent: true}},
		{"lost-", behaviour{silent: true}},
		{"slow-", behaviour{status: Captured, wait: d.Slow}},
		{"late-decline-", behaviour{status: Declined, decline: declined, late: true, wait: d.Late, webhook: true}},
		{"late-", behaviour{status: Captured, late: true, wait: d.Late, webhook: true}},
	}
	for _, p := range prefixes {
		if strings.HasPrefix(paymentKey, p.prefix) {
			return p.behaviour
		}
	}
	return behaviour{status: Declined, decline: "UNKNOWN_PAYMENT_KEY", webhook: true}
}
