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

// chargingStore is a store that lets every confirmation begin, and records the decisions.
type chargingStore struct{ recorder }

func (l *chargingStore) Begin(context.Context, string, *idempotency.Key, Decide) (Begun, error) {
	return Begun{Payment: paymentIn(Confirming), Before: paymentIn(Prepared), MustCharge: true}, nil
}

// slow is a provider that charges in 5 s, and a ticket service that answers at once.
type slow struct {
	Provider
	Tickets

	// extra is added to the captured amount. timeout is the time limit of a charge; default 10 s.
	extra   int64
	timeout time.Duration
}

func (slow) Begin(context.Context, Payment, PayTime) (time.Time, error) { return time.Time{}, nil }

func (s slow) Capabilities() Capabilities {
	return Capabilities{ChargeTime: cmp.Or(s.timeout, 10*time.Second)}
}

func (s slow) Charge(ctx context.Context, p Payment, _ Outcome) (Outcome, error) {
	select {
	case <-time.After(5 * time.Second):
		return Outcome{State: Captured, Amount: p.Amount + s.extra}, nil
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// The answer comes before the request's deadline, and the charge continues.
func TestConfirmAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &chargingStore{}
		s := New(l, slow{}, onlyProvider(slow{}), slog.New(slog.DiscardHandler), Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		got, err := s.Confirm(ctx, ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, 2*time.Second-answerMargin, time.Since(began))
		cancel()
		require.NoError(t, s.Wait(context.Background()))
		require.Equal(t, []Status{Confirmed}, l.statuses)
	})
}

// If another amount than requested was captured, the payment is UNKNOWN until the sweeper refunds
// it.
func TestWrongAmountIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, provider := &chargingStore{}, slow{extra: 1}
		s := New(l, provider, onlyProvider(provider), slog.New(slog.DiscardHandler), Options{})
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, []Status{Unknown}, l.statuses)
	})
}

// A confirmation without a deadline is answered when the charge reaches its timeout.
func TestChargeTimeoutIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &chargingStore{}
		s := New(l, slow{}, onlyProvider(slow{timeout: 4 * time.Second}), slog.New(slog.DiscardHandler), Options{})
		began := time.Now()
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, []Status{Unknown}, l.statuses)
	})
}

// hangingTicket is a ticket service that never answers Begin.
type hangingTicket struct {
	Provider
	Tickets

	aborts int
}

func (*hangingTicket) Begin(ctx context.Context, _ Payment, _ PayTime) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (*hangingTicket) Capabilities() Capabilities { return Capabilities{ChargeTime: 8 * time.Second} }

func (h *hangingTicket) Abort(context.Context, Payment) error { h.aborts++; return nil }

// cancelableStore is a chargingStore whose writes fail if their context has ended.
type cancelableStore struct{ chargingStore }

func (l *cancelableStore) Apply(ctx context.Context, id uuid.UUID, decide Decide) (Payment, error) {
	if err := ctx.Err(); err != nil {
		return Payment{}, err
	}
	return l.chargingStore.Apply(ctx, id, decide)
}

// If the ticket service does not answer, the confirmation ends within seconds: the claim is
// released, and the payment may be confirmed again.
func TestHangingTicketReturnsPaymentToPrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, h := &cancelableStore{}, &hangingTicket{}
		s := New(l, h, onlyProvider(h), slog.New(slog.DiscardHandler), Options{})
		began := time.Now()
		_, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.ErrorIs(t, err, errs.ErrUnavailable)
		require.Equal(t, ticketTimeout, time.Since(began))
		require.Equal(t, []Status{Confirming, Prepared}, l.statuses, "it takes the time for the release first")
		require.Equal(t, 1, h.aborts)
	})
}

// lateProvider is a provider whose Charge returns only 10 s after its timeout.
type lateProvider struct{ slow }

func (lateProvider) Charge(ctx context.Context, _ Payment, _ Outcome) (Outcome, error) {
	<-ctx.Done()
	time.Sleep(10 * time.Second) // in simulated time
	return Outcome{}, ctx.Err()
}

// The outcome is written even if the charge has used all of its time.
func TestOutcomeIsWrittenAfterTheChargeTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, provider := &cancelableStore{}, lateProvider{slow{timeout: 8 * time.Second}}
		s := New(l, provider, onlyProvider(provider), slog.New(slog.DiscardHandler), Options{})
		got, err := s.Confirm(t.Context(), ConfirmRequest{OrderID: "o", UserID: "ann", PaymentKey: "k", Amount: 1000, IdempotencyKey: "key"})
		require.NoError(t, err)
		require.Equal(t, Unknown, got.Status)
		require.Equal(t, []Status{Unknown}, l.statuses)
	})
}
