package payment

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
)

// ledger begins every confirmation and records the decisions.
type ledger struct{ voider }

func (l *ledger) Begin(context.Context, string, *idempotency.Key, Decide) (Begun, error) {
	return Begun{Payment: in(Confirming), MustCharge: true}, nil
}

// slow is a provider that answers after 5 s, and a ticket service that answers at once.
type slow struct {
	Provider
	Tickets

	// more is added to the captured amount.
	more int64
}

func (slow) Begin(context.Context, Payment) error { return nil }

func (s slow) Charge(ctx context.Context, p Payment) (Outcome, error) {
	select {
	case <-time.After(5 * time.Second):
		return Outcome{State: Captured, Amount: p.Amount + s.more}, nil
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// The answer comes before the request's deadline, and the charge continues.
func TestConfirmAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		s := New(l, slow{}, slow{}, nil, slog.New(slog.DiscardHandler), Options{ProviderTimeout: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		got, err := s.Confirm(ctx, ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, 2*time.Second-answerMargin, time.Since(began))
		cancel()
		require.NoError(t, s.Wait(context.Background()))
		require.Equal(t, []Status{Confirmed}, l.after)
	})
}

// A charge that was captured with another amount than requested stays UNKNOWN. The sweeper refunds
// it.
func TestWrongAmountIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, provider := &ledger{}, slow{more: 1}
		s := New(l, provider, provider, nil, slog.New(slog.DiscardHandler), Options{ProviderTimeout: 10 * time.Second})
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, []Status{Unknown}, l.after)
	})
}

// Without a deadline the provider's timeout ends the call.
func TestChargeTimeoutIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		s := New(l, slow{}, slow{}, nil, slog.New(slog.DiscardHandler), Options{ProviderTimeout: 4 * time.Second})
		began := time.Now()
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, []Status{Unknown}, l.after)
	})
}
