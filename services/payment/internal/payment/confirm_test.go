package payment

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
)

// ledger begins every confirmation and records the decisions.
type ledger struct{ recorder }

func (l *ledger) Begin(context.Context, string, *idempotency.Key, Decide) (Begun, error) {
	return Begun{Payment: in(Confirming), Before: in(Prepared), MustCharge: true}, nil
}

// slow is a provider that answers after 5 s, and a ticket service that answers at once.
type slow struct {
	Provider
	Tickets

	// more is added to the captured amount. timeout bounds a charge; default 10 s.
	more    int64
	timeout time.Duration
}

func (slow) Begin(context.Context, Payment, PayTime) (time.Time, error) { return time.Time{}, nil }

func (s slow) Capabilities() Capabilities {
	return Capabilities{ChargeTime: cmp.Or(s.timeout, 10*time.Second)}
}

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
		s := New(l, slow{}, only(slow{}), slog.New(slog.DiscardHandler), Options{})
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
		s := New(l, provider, only(provider), slog.New(slog.DiscardHandler), Options{})
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
		s := New(l, slow{}, only(slow{timeout: 4 * time.Second}), slog.New(slog.DiscardHandler), Options{})
		began := time.Now()
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, []Status{Unknown}, l.after)
	})
}

// hanging is a ticket service that never answers Begin.
type hanging struct {
	Provider
	Tickets

	aborts int
}

func (*hanging) Begin(ctx context.Context, _ Payment, _ PayTime) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (*hanging) Capabilities() Capabilities { return Capabilities{ChargeTime: 8 * time.Second} }

func (h *hanging) Abort(context.Context, Payment) error { h.aborts++; return nil }

// patient is a ledger that writes only while its context lasts.
type patient struct{ ledger }

func (l *patient) Apply(ctx context.Context, id uuid.UUID, decide Decide) (Payment, error) {
	if err := ctx.Err(); err != nil {
		return Payment{}, err
	}
	return l.ledger.Apply(ctx, id, decide)
}

// A ticket service that hangs ends the confirmation within seconds: the claim is released, and the
// payment may be confirmed again.
func TestHangingTicketReturnsPaymentToPrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, h := &patient{}, &hanging{}
		s := New(l, h, only(h), slog.New(slog.DiscardHandler), Options{})
		began := time.Now()
		_, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.ErrorIs(t, err, errs.ErrUnavailable)
		require.Equal(t, ticketTimeout, time.Since(began))
		require.Equal(t, []Status{Confirming, Prepared}, l.after, "it takes the time for the release first")
		require.Equal(t, 1, h.aborts)
	})
}

// stubborn is a provider that answers only after the confirmation's whole time.
type stubborn struct{ slow }

func (stubborn) Charge(ctx context.Context, _ Payment) (Outcome, error) {
	<-ctx.Done()
	time.Sleep(10 * time.Second) // in simulated time
	return Outcome{}, ctx.Err()
}

// The outcome is written although the time of the charge is over.
func TestOutcomeIsWrittenAfterTheChargeTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, provider := &patient{}, stubborn{slow{timeout: 8 * time.Second}}
		s := New(l, provider, only(provider), slog.New(slog.DiscardHandler), Options{})
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, []Status{Unknown}, l.after)
	})
}
