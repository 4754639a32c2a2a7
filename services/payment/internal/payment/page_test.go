package payment

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unsentProvider is a provider whose Charge sends nothing and returns err.
type unsentProvider struct {
	slow

	err error
}

func (u unsentProvider) Charge(context.Context, Payment, Outcome) (Outcome, error) {
	return Outcome{}, u.err
}

// An UNKNOWN payment stays UNKNOWN if a repeated charge is not sent: the earlier charge may exist.
func TestUnsentChargeAfterAnUnknownOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from Status
		err  error
		want Status
	}{
		{Prepared, ErrNotSent, Declined},
		{Open, ErrNotSent, Open},
		{Unknown, ErrNotSent, Unknown},
		{Open, ErrNotAdmitted, Open},
		{Unknown, ErrNotAdmitted, Unknown},
		{Confirming, ErrNotAdmitted, Unknown},
		{Open, errors.New("no answer"), Unknown},
	} {
		l := &chargingStore{}
		s := New(l, slow{}, onlyProvider(unsentProvider{err: c.err}), slog.New(slog.DiscardHandler), Options{})
		_, _ = s.charge(t.Context(), paymentIn(Confirming), paymentIn(c.from), Outcome{})
		require.Equal(t, []Status{c.want}, l.statuses, "%s: %v", c.from, c.err)
	}
}

// noVoid is a provider that cannot void. Cancel returns state.
type noVoid struct {
	Provider

	state State
}

func (n noVoid) Cancel(context.Context, Payment) (Outcome, error) {
	return Outcome{State: n.state}, nil
}

func (noVoid) Capabilities() Capabilities {
	return Capabilities{Finality: 15 * time.Minute, CallTime: time.Second}
}

// Without void, a payment whose charge the provider does not know ends by the latest charge's age.
func TestFinality(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age      time.Duration
		canceled State
		want     []Status
	}{
		"early":    {15*time.Minute - 1, NotPossible, nil},
		"final":    {15 * time.Minute, NotPossible, []Status{Declined}},
		"captured": {15 * time.Minute, Captured, nil},
	} {
		p := paymentIn(Confirming)
		p.ConfirmingAt, p.ChargedAt = now.Add(-time.Hour), now.Add(-c.age)
		r := &recorder{}
		known, err := New(r, nil, onlyProvider(noVoid{state: c.canceled}), nil, Options{}).voidOverdue(t.Context(), p, Outcome{State: Absent}, now)
		require.NoError(t, err, name)
		require.Equal(t, c.want != nil, known, name)
		require.Equal(t, c.want, r.statuses, name)
	}
}

// timerStore is a store that records how long the payment's next check is postponed.
type timerStore struct {
	Stores

	next time.Duration
}

func (t *timerStore) Reschedule(_ context.Context, _ Payment, wait time.Duration) error {
	t.next = wait
	return nil
}

// If the provider can void, it is asked again to cancel an authorisation; otherwise that expires.
func TestPageIsClosedLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider Provider
		pending  bool
	}{
		"not yet": {voider{outcome: Outcome{State: NotPossible}}, true},
		"never":   {noVoid{state: NotPossible}, false},
		"closed":  {voider{outcome: Outcome{State: Void}}, false},
	} {
		l := &timerStore{}
		err := New(l, nil, onlyProvider(c.provider), nil, Options{}).closePage(t.Context(), paymentIn(Expired))
		require.Equal(t, c.pending, errors.Is(err, errNotClosed), name)
		require.Equal(t, c.pending, l.next != Never, name)
	}
}

func TestChargesAgain(t *testing.T) {
	t.Parallel()
	voidable, notVoidable := New(nil, nil, onlyProvider(voider{}), nil, Options{}), New(nil, nil, onlyProvider(noVoid{}), nil, Options{})
	p := paymentIn(Unknown)
	p.Attempt = 1
	require.True(t, voidable.chargesAgain(p, Outcome{State: Absent}))
	require.False(t, voidable.chargesAgain(p, Outcome{State: Pending}))
	p.Attempt = 2
	require.False(t, voidable.chargesAgain(p, Outcome{State: Absent}), "it is voided")
	require.True(t, voidable.chargesAgain(p, Outcome{State: Authorized}), "the buyer has agreed")
	require.True(t, notVoidable.chargesAgain(p, Outcome{State: Absent}), "nothing else settles it soon")
	p.NoCharge = true
	require.False(t, notVoidable.chargesAgain(p, Outcome{State: Authorized}))
}

// pageProvider is a provider with a page.
type pageProvider struct{ Provider }

func (pageProvider) Capabilities() Capabilities {
	return Capabilities{PageTime: 12 * time.Minute, Finality: 15 * time.Minute, ChargeTime: time.Minute}
}

// CheckHolds, a readiness check, fails while holds end before a charge's outcome can be known.
func TestHoldsLastLongEnough(t *testing.T) {
	t.Parallel()
	a := &ages{}
	s := New(nil, a, onlyProvider(pageProvider{}), slog.New(slog.DiscardHandler), Options{})
	s.gate = NewGate(a, a, time.Now)
	check := func(extension time.Duration) error {
		a.extension = extension
		s.MeasureGate(t.Context())
		return s.CheckHolds(t.Context())
	}
	require.NoError(t, s.CheckHolds(t.Context()), "not known yet")
	require.ErrorContains(t, check(30*time.Minute), "HOLD_MAX_EXTENSION is 30m")
	require.NoError(t, check(31*time.Minute))
}

func TestPageEnd(t *testing.T) {
	t.Parallel()
	require.Equal(t, now.Add(20*time.Second), pageEnd(now, now.Add(5*time.Minute), Capabilities{PageTime: 20 * time.Second}), "a long hold")
	require.Equal(t, now.Add(2*time.Minute+30*time.Second), pageEnd(now, now.Add(3*time.Minute), Capabilities{PageTime: 12 * time.Minute}))
}

func TestProvidersInOrder(t *testing.T) {
	t.Parallel()
	p := Providers{Default: "b", ByName: map[string]Provider{"c": nil, "a": nil, "b": nil}}
	require.Equal(t, []string{"b", "a", "c"}, p.Names())
	require.Equal(t, []string{"b", "a", "c", NoProvider}, p.Rows())
}
