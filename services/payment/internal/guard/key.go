package guard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/payment/internal/payment"
)

// keyRetry is the pause between two look-ups that find out whether a refused key is accepted again.
const keyRetry = 5 * time.Second

var keyRefused = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_payment_key_refused_since_timestamp_seconds",
	Help: "Since when the provider does not accept the secret key; no series while it does. No page is opened and nothing is charged.",
}, []string{"provider"})

// key is what is known about a provider's secret key. At the start nothing is, and some providers'
// pages open without a call: so the first page or charge looks it up before.
type key struct {
	provider string

	mu      sync.Mutex
	asked   bool
	refused bool
	askedAt time.Time
}

// note records what the result of a call says about the key.
func (k *key) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := errors.Is(err, payment.ErrKeyRefused)
	switch {
	case refused && !k.refused:
		keyRefused.WithLabelValues(k.provider).SetToCurrentTime()
		k.askedAt = time.Now()
	case !refused:
		keyRefused.DeleteLabelValues(k.provider)
	}
	k.refused = refused
}

// state reports whether the key is refused, and whether the caller has to find that out again: one
// caller at the start, and one every keyRetry while it is refused.
func (k *key) state() (refused, ask bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ask = !k.asked || k.refused && time.Since(k.askedAt) >= keyRetry; ask {
		k.asked, k.askedAt = true, time.Now()
	}
	return k.refused, ask
}

// nobody is the order by which the key is looked up: there is no such one.
const nobody = "key-check"

// admit returns ErrKeyRefused while the provider does not accept the key.
func (m measured) admit(ctx context.Context) error {
	refused, ask := m.key.state()
	if ask {
		_, err := m.Provider.Ask(ctx, payment.Payment{OrderID: nobody, Ref: nobody})
		m.key.note(err)
		refused = errors.Is(err, payment.ErrKeyRefused)
	}
	if refused {
		return payment.ErrKeyRefused
	}
	return nil
}
