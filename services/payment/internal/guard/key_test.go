package guard_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
)

// locked is a provider that opens pages without a call, and accepts its key or not.
type locked struct {
	answering

	refuses bool
	opened  int
}

func (l *locked) Open(context.Context, payment.Payment) (payment.Page, error) {
	l.opened++
	return payment.Page{URL: "https://pay"}, nil
}

func (l *locked) Ask(context.Context, payment.Payment) (payment.Outcome, error) {
	if l.refuses {
		return payment.Outcome{}, payment.ErrKeyRefused
	}
	return payment.Outcome{}, nil
}

// While the provider refuses the key, no page is opened, not even the first, and a metric says since
// when. The first call that is accepted ends that.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	provider := &locked{refuses: true}
	p := guard.Measured("test-key", provider)
	for range 3 {
		_, err := p.Open(t.Context(), payment.Payment{})
		require.ErrorIs(t, err, payment.ErrKeyRefused)
		_, err = p.Charge(t.Context(), payment.Payment{}, payment.Outcome{})
		require.ErrorIs(t, err, payment.ErrNotAdmitted)
	}
	require.Zero(t, provider.opened)
	require.True(t, isRefused(t, "test-key"))
	provider.refuses = false
	_, err := p.Ask(t.Context(), payment.Payment{})
	require.NoError(t, err)
	require.False(t, isRefused(t, "test-key"))
	_, err = p.Open(t.Context(), payment.Payment{})
	require.NoError(t, err)
}

// isRefused reports whether the metric of a provider's refused key has a value.
func isRefused(t *testing.T, provider string) bool {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "urr_payment_key_refused_since_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == provider {
				return m.GetGauge().GetValue() > 0
			}
		}
	}
	return false
}
