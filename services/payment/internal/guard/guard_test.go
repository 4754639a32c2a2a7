package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
)

// provider answers with err after the time latency, and counts the calls.
type provider struct {
	payment.Provider

	mu      sync.Mutex
	latency time.Duration
	err     error
	calls   int
}

func (p *provider) Charge(ctx context.Context, _ payment.Payment) (payment.Outcome, error) {
	p.mu.Lock()
	p.calls++
	latency, err := p.latency, p.err
	p.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return payment.Outcome{}, ctx.Err()
	}
	return payment.Outcome{State: payment.Refused}, err
}

func (p *provider) set(latency time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency, p.err, p.calls = latency, err, 0
}

func (p *provider) called() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// charge makes a charge with a timeout of 8 s.
func charge(g *guard.Provider) error { return chargeFor(g, 8*time.Second) }

func chargeFor(g *guard.Provider, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := g.Charge(ctx, payment.Payment{})
	return err
}

func TestSilentProviderOpensTheCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		g := guard.New(p, guard.Limits{ChargesAtOnce: 100})
		for range 15 {
			require.NoError(t, charge(g), "declines are answers")
		}
		p.set(time.Hour, nil)
		var charges sync.WaitGroup
		for range 20 {
			charges.Go(func() { _ = charge(g) })
		}
		charges.Wait()
		require.Equal(t, 20, p.called())
		require.ErrorIs(t, charge(g), payment.ErrNotAdmitted)
		require.Equal(t, 20, p.called(), "nothing is sent")

		time.Sleep(5*time.Second + 1)
		require.NotErrorIs(t, charge(g), payment.ErrNotAdmitted, "one tries again")
		require.ErrorIs(t, charge(g), payment.ErrNotAdmitted)
		p.set(0, nil)
		time.Sleep(5*time.Second + 1)
		for range 3 {
			require.NoError(t, charge(g))
		}
	})
}

// Charges with a timeout of a minute count as failures too when they time out.
func TestSlowProviderOpensTheCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{latency: time.Hour}
		g := guard.New(p, guard.Limits{ChargesAtOnce: 100, ChargeTime: time.Minute})
		var charges sync.WaitGroup
		for range 20 {
			charges.Go(func() { _ = chargeFor(g, time.Minute) })
		}
		charges.Wait()
		require.ErrorIs(t, charge(g), payment.ErrNotAdmitted)
		require.Equal(t, 20, p.called())
	})
}

func TestFewFailuresKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	p := &provider{}
	g := guard.New(p, guard.Limits{ChargesAtOnce: 1})
	errAway := errors.New("away")
	for range 30 {
		require.NoError(t, charge(g))
		p.set(0, errAway)
		require.ErrorIs(t, charge(g), errAway)
		p.set(0, nil)
		require.NoError(t, charge(g))
	}
}

func TestRejectionsKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	p := &provider{err: fmt.Errorf("%w: status 422", payment.ErrChargeRejected)}
	g := guard.New(p, guard.Limits{ChargesAtOnce: 1})
	for range 100 {
		require.ErrorIs(t, charge(g), payment.ErrChargeRejected)
	}
	require.Equal(t, 100, p.called())
}

func TestChargesAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{latency: time.Second}
		g := guard.New(p, guard.Limits{ChargesAtOnce: 2})
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- charge(g) }()
		}
		synctest.Wait()
		require.ErrorIs(t, charge(g), payment.ErrNotAdmitted)
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		require.NoError(t, charge(g))
	})
}

// Refunds of cancelled events get half of the rate, so that other refunds need not wait for them.
func TestRefundRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard.New(&provider{}, guard.Limits{ChargesAtOnce: 1, Refunds: 10, Lookups: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		var mu sync.Mutex
		sent := 0
		for range 1000 {
			waiting.Go(func() {
				if g.AwaitRefund(ctx, payment.EventCancelled) == nil {
					mu.Lock()
					sent++
					mu.Unlock()
				}
			})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		require.InDelta(t, 5+50, sent, 1, "a second's tokens, and five a second")
		mu.Unlock()
		began := time.Now()
		for range 5 {
			require.NoError(t, g.AwaitRefund(ctx, payment.Compensation))
		}
		require.Less(t, time.Since(began), time.Second)
		cancel()
		waiting.Wait()
	})
}

// Charges wait for a token, but only while enough time is left for the charge itself.
func TestChargeRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		g := guard.New(p, guard.Limits{ChargesAtOnce: 300, Charges: 20})
		var charges sync.WaitGroup
		refused := make(chan error, 300)
		for range 300 {
			charges.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := g.Charge(ctx, payment.Payment{}); err != nil {
					refused <- err
				}
			})
		}
		time.Sleep(time.Second + 1)
		require.Equal(t, 20+20, p.called(), "a second's tokens, and as many a second")
		charges.Wait()
		require.Equal(t, 20+200, p.called())
		require.ErrorIs(t, <-refused, payment.ErrNotAdmitted)
	})
}
