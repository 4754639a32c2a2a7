package sandbox

import (
	"strings"
	"time"
)

// behaviour is what the provider does with a charge. The payment key's prefix decides.
type behaviour struct {
	status  Status        // the final status of the charge; empty: nothing is charged
	decline string        // the decline code
	wait    time.Duration // the time before the charge has its status
	late    bool          // the answer is PENDING, and is sent before the wait
	silent  bool          // no answer is sent
	webhook bool          // the final status is reported
}

// Delays are the provider's waiting times.
type Delays struct {
	Slow    time.Duration // before a slow charge is captured and answered
	Late    time.Duration // before a late charge is captured or declined
	Silence time.Duration // before a connection without an answer is dropped
}

// defaultDelays returns the delays in development. They are so long that clients time out before
// slow and silent charges end.
func defaultDelays() Delays {
	return Delays{Slow: 10 * time.Second, Late: 3 * time.Second, Silence: 30 * time.Second}
}

// behaviourOf returns the behaviour for the prefix of a payment key. An unknown prefix is declined,
// so that a forgotten prefix does not look like a payment. A charge without an answer has no
// webhook either, so that only a look-up can show its outcome.
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
