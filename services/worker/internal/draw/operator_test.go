package draw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// leaseless is a store that gives every process the lease, so that all work at once.
type leaseless struct{ store }

func (leaseless) AcquireLease(context.Context, string) (bool, error) { return true, nil }

// An operator can submit the beacon's value if no relay answers. A false value is refused.
func TestSubmit(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.source.silent = true
	w.enter(t, 5)
	drawer := w.drawer(w.store)
	number := w.source.Chain().FirstAt(cutoff.Add(round))
	value := w.source.Round(number)
	submit := func(value, signature string) error {
		_, err := drawer.SubmitBeacon(t.Context(), w.event, value, signature)
		return err
	}
	require.ErrorIs(t, submit(value.Randomness, value.Signature), errs.ErrConflict, "no root yet")
	w.pass(t, after)
	require.ErrorIs(t, submit(value.Randomness, value.Signature), errs.ErrConflict, "before the round")
	require.Equal(t, promotion.DrawRoot, w.pass(t, round))
	other := w.source.Round(number + 1)
	require.ErrorIs(t, submit(other.Randomness, other.Signature), errs.ErrInvalidRequest)
	require.ErrorIs(t, submit(strings.Repeat("0", 64), value.Signature), errs.ErrInvalidRequest)
	require.NoError(t, submit(value.Randomness, value.Signature))
	require.NoError(t, submit(value.Randomness, value.Signature), "repeated")
	require.Equal(t, promotion.DrawDrawn, w.pass(t, ranked))
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	require.True(t, w.verify(t).Complete)
	_, err := drawer.SubmitBeacon(t.Context(), "none", value.Randomness, value.Signature)
	require.ErrorIs(t, err, errs.ErrPromotionNotFound)
}

// A lottery can be cancelled at any time before its round. All its requests are then rejected.
func TestVoid(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"open": -time.Second, "after the root": round - 11*time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, nil)
			w.enter(t, 5)
			w.pass(t, at)
			for range 2 {
				d, err := w.drawer(w.store).Void(t.Context(), w.event)
				require.NoError(t, err)
				require.Equal(t, cutoff.Add(at).UnixMilli(), d.VoidedAt)
			}
			l := w.lottery(t)
			require.Equal(t, promotion.PromotionVoid, l.Promotion.Status(w.store.Millis()))
			w.verify(t)
			require.Equal(t, promotion.DrawVoid, w.pass(t, at))
			for _, e := range w.entries {
				r, _, err := w.store.Request(t.Context(), e.RequestID)
				require.NoError(t, err)
				require.Equal(t, promotion.RejectedVoid, r.ResultCode)
			}
			require.Empty(t, w.ofType(t, "OPEN_DRAW"))
			require.NotZero(t, w.lottery(t).Draw.SettledAt)
			require.Equal(t, promotion.DrawVoid, w.pass(t, announced))
			w.verify(t)
		})
	}
}

// A draw without a beacon has no result once the key of its seed is lost, so it can be cancelled
// then, at any time.
func TestVoidWithoutTheSeed(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]promotion.DrawPhase{"before the draw": promotion.DrawRoot, "before the announcement": promotion.DrawDrawn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, func(c *fairdraw.Commitment) { c.Beacon = nil })
			w.enter(t, 5)
			if lost == promotion.DrawRoot {
				w.keysAre(t, keyConfig(2))
			}
			w.pass(t, after)
			require.Equal(t, lost, w.pass(t, ranked))
			w.keysAre(t, keyConfig(2))
			require.Equal(t, lost, w.pass(t, announced+time.Hour))
			w.keysAre(t, keyConfig(1))
			_, err := w.drawer(w.store).Void(t.Context(), w.event)
			require.ErrorIs(t, err, errs.ErrDrawFixed, "the key is there")
			w.keysAre(t, keyConfig(2))
			_, err = w.drawer(w.store).Void(t.Context(), w.event)
			require.NoError(t, err)
			require.Equal(t, promotion.DrawVoid, w.pass(t, announced+time.Hour))
			w.verify(t)
			w.requireVoided(t, promotion.SeedKeyLost)
		})
	}
}

// requireVoided checks that a lottery's requests have ended, and why it was cancelled.
func (w *environment) requireVoided(t *testing.T, why promotion.VoidReason) {
	t.Helper()
	require.Equal(t, why, w.lottery(t).Draw.VoidReason)
	for _, e := range w.entries {
		r, _, err := w.store.Request(t.Context(), e.RequestID)
		require.NoError(t, err)
		require.Equal(t, promotion.RejectedVoid, r.ResultCode)
	}
	require.Empty(t, w.ofType(t, "OPEN_DRAW"))
}

// A draw whose signing key is lost has no root and so no result. It can be cancelled at any time,
// but verifiers report it if this is late: outsiders cannot tell that the key is lost.
func TestVoidWithoutTheSigningKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at     time.Duration
		change func(*fairdraw.Commitment)
		fault  fairdraw.FaultCode // the fault that verifiers find
	}{
		"at the round":             {round, nil, fairdraw.VoidLate},
		"after a day":              {announced + fairdraw.SeedDeadline, nil, fairdraw.VoidLate},
		"without a beacon":         {announced + time.Hour, func(c *fairdraw.Commitment) { c.Beacon = nil }, ""},
		"before the root was late": {after, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, tc.change)
			w.enter(t, 5)
			w.keysAre(t, otherSigningKey())
			for _, at := range []time.Duration{after, tc.at} {
				w.clock.Set(cutoff.Add(at))
				require.NoError(t, w.drawer(w.store).Pass(t.Context()))
				require.Equal(t, promotion.DrawClosed, w.lottery(t).Draw.Phase)
			}
			why := promotion.SigningKeyLost
			if tc.at != after {
				w.keysAre(t, keyConfig(1))
				_, err := w.drawer(w.store).Void(t.Context(), w.event)
				require.ErrorIs(t, err, errs.ErrDrawFixed, "the key is there")
				w.keysAre(t, otherSigningKey())
			} else {
				why = ""
			}
			_, err := w.drawer(w.store).Void(t.Context(), w.event)
			require.NoError(t, err)
			require.Equal(t, promotion.DrawVoid, w.pass(t, tc.at))
			w.requireVoided(t, why)
			l := w.lottery(t)
			d, err := l.Draw.Document(&l.Promotion)
			require.NoError(t, err)
			_, err = fairdraw.Verify(&d, nil, fairdraw.Options{})
			if tc.fault == "" {
				require.NoError(t, err)
				return
			}
			fault, found := errors.AsType[*fairdraw.Fault](err)
			require.True(t, found, "%v", err)
			require.Equal(t, tc.fault, fault.Code)
		})
	}
}

// A signing key is not needed any more after the root was signed.
func TestSigningKeyLostAfterTheRoot(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 5)
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	w.keysAre(t, otherSigningKey())
	require.Equal(t, promotion.DrawDrawn, w.pass(t, ranked))
	_, err := w.drawer(w.store).Void(t.Context(), w.event)
	require.ErrorIs(t, err, errs.ErrDrawFixed)
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	w.requireResults(t)
}

// Once the beacon's value may be known, a lottery cannot be cancelled.
func TestVoidIsTooLate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pass, at time.Duration
		change   func(*fairdraw.Commitment)
	}{
		"just before the round":               {after, round - 10*time.Second, nil},
		"at the round":                        {after, round, nil},
		"drawn":                               {ranked, ranked, nil},
		"at a round that the root has missed": {after - time.Second, round, nil},
		"without a beacon":                    {after, after, func(c *fairdraw.Commitment) { c.Beacon = nil }},
		"settled":                             {settles, settles, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, tc.change)
			w.enter(t, 2)
			w.pass(t, min(tc.pass, after))
			w.pass(t, tc.pass)
			w.clock.Set(cutoff.Add(tc.at))
			_, err := w.drawer(w.store).Void(t.Context(), w.event)
			require.ErrorIs(t, err, errs.ErrDrawFixed)
			require.NotEqual(t, promotion.DrawVoid, w.lottery(t).Draw.Phase)
		})
	}
}
