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

// ledger begins every confirmation, and remembers what was decided.
type ledger struct{ voider }

func (l *ledger) Begin(context.Context, string, *idempotency.Key, Decide) (Begun, error) {
	return Begun{Payment: in(Confirming), Mine: true}, nil
}

// slow is a provider that answers after a while, and a ticket service that answers at once.
type slow struct {
	Provider
	Tickets

	// more is what it captures above what is asked for.
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

// The charge goes on when the request's time is over, and the answer comes before.
func TestTheAnswerComesBeforeTheDeadline(t *testing.T) {
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

// What the provider says that it captured counts: another amount is left to the sweeper, which
// gives it back.
func TestAChargeOfAnotherAmountIsUnknown(t *testing.T) {
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

// A request without a deadline is answered too: the provider has its own.
func TestAChargeWithoutAnAnswerInTimeIsUnknown(t *testing.T) {
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
