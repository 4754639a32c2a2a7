package payment

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func paymentIn(status Status) Payment {
	return Payment{
		ID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), UserID: "ann", Amount: 1000, Status: status,
		Reference: Reference{Type: Reservation}, Provider: "test", ExpiresAt: now.Add(time.Minute), Lease: 3,
	}
}

// owedOnce owes the compensation of a payment that was rejected.
func owedOnce(p Payment, now time.Time) (*Change, error) {
	return owed(Refund{Cause: Compensation}, Settled{Rejected: "HOLD_EXPIRED"})(p, EarlierRefunds{}, now)
}

// onlyProvider returns Providers with the single provider p.
func onlyProvider(p Provider) Providers {
	return Providers{Default: "test", ByName: map[string]Provider{"test": p}}
}

var allStatuses = []Status{Prepared, Open, Confirming, Confirmed, Declined, Unknown, Expired, Refunded}

func TestExpiry(t *testing.T) {
	t.Parallel()
	p := paymentIn(Prepared)
	for _, decide := range []Decide{expired, begin(ConfirmRequest{UserID: "ann", Amount: 1000}, time.Second, nil)} {
		change, err := decide(p, p.ExpiresAt)
		require.NoError(t, err)
		require.Equal(t, Expired, change.Status, "the end itself is too late")
	}
}

func TestEndedPaymentReleasesItsReference(t *testing.T) {
	t.Parallel()
	p := paymentIn(Prepared)
	change, err := Superseded(p, now)
	require.NoError(t, err)
	require.False(t, change.AbortDue)
	p.ConfirmingAt = now
	for _, decide := range []Decide{Superseded, expired} {
		change, err = decide(p, p.ExpiresAt)
		require.NoError(t, err)
		require.True(t, change.AbortDue)
		require.Zero(t, change.Check, "at once")
	}
	_, err = Superseded(paymentIn(Confirming), now)
	require.ErrorIs(t, err, ErrInProgress)
}

func TestBeginChecksUserBeforeAmount(t *testing.T) {
	t.Parallel()
	_, err := begin(ConfirmRequest{UserID: "bob", Amount: 1}, 0, nil)(paymentIn(Prepared), now)
	require.ErrorIs(t, err, ErrNotFound, "another user learns nothing about the amount")
	_, err = begin(ConfirmRequest{UserID: "ann", Amount: 1}, 0, nil)(paymentIn(Prepared), now)
	require.ErrorIs(t, err, ErrAmountMismatch)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for status, want := range map[Status]Status{
		Prepared: Unknown, Open: Unknown, Confirming: Unknown, Unknown: Unknown, Confirmed: Confirmed, Refunded: Confirmed, Declined: Declined,
	} {
		a, err := answer(paymentIn(status))
		require.NoError(t, err)
		require.Equal(t, want, a.Status, status)
		require.Equal(t, want == Confirmed || want == Declined, Final(paymentIn(status)) != nil, status)
	}
	_, err := answer(paymentIn(Expired))
	require.ErrorIs(t, err, ErrHoldExpired)
	p := paymentIn(Expired)
	p.Reference.Type = Transfer
	_, err = answer(p)
	require.ErrorIs(t, err, ErrExpired)
	p = paymentIn(Declined)
	p.DeclineCode = errs.ErrNotPayable.Reason
	_, err = answer(p)
	require.ErrorIs(t, err, errs.ErrNotPayable, "ticket's refusal")
	require.Nil(t, Final(p))
}

func TestServes(t *testing.T) {
	t.Parallel()
	n := Payment{UserID: "ann", Amount: 1000, Provider: "test"}
	for name, c := range map[string]struct {
		change func(*Payment)
		want   bool
	}{
		"the same":                 {func(*Payment) {}, true},
		"another user":             {func(p *Payment) { p.UserID = "bob" }, false},
		"another price":            {func(p *Payment) { p.Amount++ }, false},
		"another price, charging":  {func(p *Payment) { p.Amount++; p.Status = Confirming }, true},
		"over":                     {func(p *Payment) { p.ExpiresAt = now }, false},
		"over, but charging":       {func(p *Payment) { p.ExpiresAt = now; p.Status = Unknown }, true},
		"another user's, charging": {func(p *Payment) { p.UserID = "bob"; p.Status = Unknown }, false},
	} {
		p := paymentIn(Prepared)
		c.change(&p)
		require.Equal(t, c.want, p.ReusableFor(n, now), name)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 3: 4 * time.Second, 100: maxPoll} {
		for range 50 {
			got := backoff(n, maxPoll)
			require.InDelta(t, want.Seconds(), got.Seconds(), want.Seconds()/8)
		}
	}
}
