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

func (p *provider) Charge(ctx context.Context, _ payment.Payment, _ payment.Outcome) (payment.Outcome, error) {
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
	_, err := g.Charge(ctx, payment.Payment{}, payment.Outcome{})
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

// A refused request, one that came too early, and one that was not sent say nothing about the provider.
func TestRefusalsKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	for _, err := range []error{payment.ErrChargeRejected, payment.ErrThrottled, errors.Join(payment.ErrNotSent, payment.ErrNoTurn)} {
		p := &provider{err: fmt.Errorf("%w: status 422", err)}
		g := guard.New(p, guard.Limits{ChargesAtOnce: 1})
		for range 100 {
			require.ErrorIs(t, charge(g), err)
		}
		require.Equal(t, 100, p.called())
	}
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
