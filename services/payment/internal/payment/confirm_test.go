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
}

func (slow) Begin(context.Context, Payment) error { return nil }

func (slow) Charge(ctx context.Context, _ Payment) (Outcome, error) {
	select {
	case <-time.After(5 * time.Second):
		return Outcome{State: Captured}, nil
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// The charge goes on when the request's time is over, and the answer comes before.
func TestTheAnswerComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		s := New(l, nil, slow{}, slow{}, nil, func() {}, slog.New(slog.DiscardHandler), Options{ProviderTimeout: 10 * time.Second})
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
