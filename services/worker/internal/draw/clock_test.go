package draw_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

func (w *environment) status(t *testing.T) promotion.PromotionStatus {
	t.Helper()
	l := w.lottery(t)
	return l.Promotion.Status(w.store.Millis())
}

// A process whose clock is wrong takes no step, not even for an operator: it could close a lottery
// too early, or cancel it too late.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 3)
	for _, w.skew = range []time.Duration{3 * time.Second, -3 * time.Second} {
		require.Equal(t, promotion.DrawOpen, w.pass(t, after))
		_, err := w.drawer(w.store).Void(t.Context(), w.event)
		require.ErrorIs(t, err, errs.ErrUnavailable)
	}
	w.skew = 0
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	w.skew = 3 * time.Second
	require.Equal(t, promotion.DrawRoot, w.pass(t, settles))
	require.Zero(t, w.source.asked)
	w.skew = 0
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
}

// A draw whose beacon has ended is cancelled a week after its announcement, and never before. If
// the beacon answers at that time, the draw gets a result.
func TestBeaconThatHasEnded(t *testing.T) {
	t.Parallel()
	lost := announced + fairdraw.BeaconDeadline
	for name, ended := range map[string]bool{"ended": true, "back at last": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, nil)
			w.enter(t, 3)
			w.pass(t, after)
			w.source.silent = true
			for _, at := range []time.Duration{round, announced, announced + fairdraw.SeedDeadline, lost - time.Millisecond} {
				require.Equal(t, promotion.DrawRoot, w.pass(t, at))
			}
			w.source.silent = ended
			if !ended {
				require.Equal(t, promotion.DrawSettled, w.pass(t, lost))
				w.requireResults(t)
				return
			}
			require.Equal(t, promotion.DrawVoid, w.pass(t, lost))
			w.requireVoided(t, promotion.BeaconLost)
			require.Equal(t, promotion.PromotionVoid, w.status(t))
			l := w.lottery(t)
			d, err := l.Draw.Document(&l.Promotion)
			require.NoError(t, err)
			require.Equal(t, "BEACON_LOST", d.VoidReason)
		})
	}
}
