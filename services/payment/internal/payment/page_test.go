package payment

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unsent is a provider to which no charge is sent.
type unsent struct {
	slow

	err error
}

func (u unsent) Charge(context.Context, Payment) (Outcome, error) { return Outcome{}, u.err }

// That a charge was not sent proves nothing about an earlier one.
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
		l := &ledger{}
		s := New(l, slow{}, only(unsent{err: c.err}), slog.New(slog.DiscardHandler), Options{})
		_, _ = s.charge(t.Context(), in(Confirming), in(c.from))
		require.Equal(t, []Status{c.want}, l.after, "%s: %v", c.from, c.err)
	}
}

// asker is a provider that cannot void.
type asker struct {
	Provider

	state State
}

func (a asker) Cancel(context.Context, Payment) (Outcome, error) { return Outcome{State: a.state}, nil }

func (asker) Capabilities() Capabilities {
	return Capabilities{Finality: 15 * time.Minute, CallTime: time.Second}
}

// Where a charge cannot be made impossible, only its age ends it: that of the latest one, at a look-up
// that began after it.
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
		p := in(Confirming)
		p.ConfirmingAt, p.ChargedAt = now.Add(-time.Hour), now.Add(-c.age)
		r := &recorder{}
		known, err := New(r, nil, only(asker{state: c.canceled}), nil, Options{}).voidOverdue(t.Context(), p, Outcome{State: Absent}, now)
		require.NoError(t, err, name)
		require.Equal(t, c.want != nil, known, name)
		require.Equal(t, c.want, r.after, name)
	}
}

// timer is a store that keeps the time until a payment's next check.
type timer struct {
	Stores

	next time.Duration
}

func (t *timer) Reschedule(_ context.Context, _ Payment, in time.Duration) error {
	t.next = in
	return nil
}

// An authorisation that its provider cannot cancel yet is tried again; one that no provider of its kind
// ever cancels is left to lapse.
func TestPageIsClosedLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider Provider
		pending  bool
	}{
		"not yet": {voider{outcome: Outcome{State: NotPossible}}, true},
		"never":   {asker{state: NotPossible}, false},
		"closed":  {voider{outcome: Outcome{State: Void}}, false},
	} {
		l := &timer{}
		err := New(l, nil, only(c.provider), nil, Options{}).closePage(t.Context(), in(Expired))
		require.Equal(t, c.pending, errors.Is(err, errNotClosed), name)
		require.Equal(t, c.pending, l.next != Never, name)
	}
}

func TestChargesAgain(t *testing.T) {
	t.Parallel()
	voids, cannot := New(nil, nil, only(voider{}), nil, Options{}), New(nil, nil, only(asker{}), nil, Options{})
	p := in(Unknown)
	p.Attempt = 1
	require.True(t, voids.chargesAgain(p, Outcome{State: Absent}))
	require.False(t, voids.chargesAgain(p, Outcome{State: Pending}))
	p.Attempt = 2
	require.False(t, voids.chargesAgain(p, Outcome{State: Absent}), "it is voided")
	require.True(t, voids.chargesAgain(p, Outcome{State: Authorized}), "the buyer has agreed")
	require.True(t, cannot.chargesAgain(p, Outcome{State: Absent}), "nothing else settles it soon")
	p.NoCharge = true
	require.False(t, cannot.chargesAgain(p, Outcome{State: Authorized}))
}

// hosted is a provider with a page.
type hosted struct{ Provider }

func (hosted) Capabilities() Capabilities {
	return Capabilities{PageTime: 12 * time.Minute, Finality: 15 * time.Minute, ChargeTime: time.Minute}
}

// Payment is not ready while holds end before a payment can be settled.
func TestHoldsLastLongEnough(t *testing.T) {
	t.Parallel()
	a := &ages{}
	s := New(nil, a, only(hosted{}), slog.New(slog.DiscardHandler), Options{})
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
