package line

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// watch observes a state per second, in which admissions have grown by perSecond.
func watch(p *rateEstimator, s LineState, seconds int, perSecond int64) LineState {
	for range seconds {
		s.Now += 1000
		s.Sale.At = s.Now
		s.Admitted += perSecond
		p.observe(s)
	}
	return s
}

// watched returns a rateEstimator that has observed s, and then this number of seconds with
// perSecond admissions each. It also returns the last state.
func watched(s LineState, seconds int, perSecond int64) (*rateEstimator, LineState) {
	p := &rateEstimator{}
	p.observe(s)
	return p, watch(p, s, seconds, perSecond)
}

// crowd is a line with many waiters.
func crowd() LineState {
	return LineState{Epoch: 1, Now: 1_000_000, Waiting: 5000, SettingsAt: 1, Threshold: 10_000}
}

func TestEstimatedWait(t *testing.T) {
	t.Parallel()
	full := crowd()
	full.Active, full.Threshold, full.SlotMS = 600, 600, 600_000
	nearlyFull := full
	nearlyFull.Active = 550
	for name, c := range map[string]struct {
		state     LineState
		seconds   int
		perSecond int64
		want      map[int64]int64 // seconds by position
	}{
		"a full house that is being measured": {full, 4, 100, map[int64]int64{1: 0, 300: 0}},
		"some fit in, others are not known":   {nearlyFull, 4, 0, map[int64]int64{1: 5, 50: 5, 51: 0}},
		"the first five seconds":              {crowd(), 4, 100, map[int64]int64{1: 5, 250: 5, 300: 6, 5000: 100}},
		"a steady rate":                       {crowd(), 60, 20, map[int64]int64{20: 1, 1000: 50}},
		// one of 600 slots of 600 s expires every second, even if nobody leaves.
		"a full house that nobody left": {full, 60, 0, map[int64]int64{300: 300}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := watched(c.state, c.seconds, c.perSecond)
			for position, want := range c.want {
				require.Equal(t, want, p.estimateWait(position, s, s.Sale.OpensAt), "position %d", position)
			}
		})
	}
}

func TestRateFollowsChangesWithinAMinute(t *testing.T) {
	t.Parallel()
	p, s := watched(crowd(), 60, 20)
	require.InDelta(t, 20, p.rate, 0.002)
	p, s = watched(s, 120, 100)
	watch(p, s, 60, 10)
	require.InDelta(t, 10, p.rate, 13)
	require.Greater(t, p.rate, 10.0)
}

// Two minutes after the rate of admissions has changed, the estimate is within a quarter of the
// true wait, at any rate. In the first seconds it is not many times too long.
func TestEstimateFollowsTheRate(t *testing.T) {
	t.Parallel()
	const position = 3000
	first, s := watched(crowd(), 1, 0)
	require.LessOrEqual(t, first.estimateWait(position, s, s.Sale.OpensAt), int64(position/50))
	p, s := watched(crowd(), 60, 20)
	for _, rate := range []int64{100, 10, 50, 5} {
		s = watch(p, s, 120, rate)
		require.InEpsilon(t, position/rate, p.estimateWait(position, s, s.Sale.OpensAt), 0.25, "at %d per second", rate)
	}
}

func TestEstimatedWaitBeforeTheSaleOpens(t *testing.T) {
	t.Parallel()
	s := crowd()
	s.Sale = Sale{Status: Scheduled, OpensAt: s.Now + 3_600_000}
	p, s := watched(s, 3599, 0)
	require.Equal(t, int64(6), p.estimateWait(1, s, s.Sale.OpensAt))
	require.Equal(t, int64(1+100), p.estimateWait(5000, s, s.Sale.OpensAt))
	s = watch(p, s, 60, 20) // the hour before the opening does not count
	require.Equal(t, int64(50), p.estimateWait(1000, s, s.Sale.OpensAt))
}

func TestEstimatedWaitWhileTheSaleStops(t *testing.T) {
	t.Parallel()
	for _, status := range []SaleStatus{SalePaused, SoldOut} {
		t.Run(status.String(), func(t *testing.T) {
			t.Parallel()
			p, s := watched(crowd(), 60, 20)
			s.Sale.Status = status
			s = watch(p, s, 3600, 0)
			require.Zero(t, p.estimateWait(1000, s, s.Sale.OpensAt), "nobody is admitted")
			s.Sale.Status = OnSale
			require.Equal(t, int64(50), p.estimateWait(1000, s, s.Sale.OpensAt), "it goes on as fast as it went")
			s = watch(p, s, 10, 20)
			require.Equal(t, int64(50), p.estimateWait(1000, s, s.Sale.OpensAt))
		})
	}
}

func TestEstimatedWaitIsAtMostADay(t *testing.T) {
	t.Parallel()
	p, s := watched(crowd(), 10, 0)
	s.Admitted++
	s.Now += 1000
	p.observe(s)
	require.Equal(t, int64(86_400), p.estimateWait(10_000_000, s, s.Sale.OpensAt))
}

func TestTimesWithoutQueueAreIgnored(t *testing.T) {
	t.Parallel()
	empty := crowd()
	empty.Waiting = 0
	p, s := watched(empty, 600, 0)
	s.Waiting = 100
	p.observe(s)
	s = watch(p, s, 10, 50)
	require.Equal(t, int64(2), p.estimateWait(100, s, s.Sale.OpensAt))
}

func TestNewEpochResetsEstimate(t *testing.T) {
	t.Parallel()
	p, s := watched(crowd(), 60, 100)
	s.Admitted, s.Now = 0, s.Now-5000
	p.observe(s)
	require.Equal(t, int64(20), p.estimateWait(1000, s, s.Sale.OpensAt))
}

func TestPollTable(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[int64]int64{
		0: 1, 999: 1, 1000: 5, 4999: 5, 5000: 10, 9999: 10, 10_000: 30, 99_999: 30, 100_000: 60, 9_000_000: 60,
	} {
		require.Equal(t, want, PollInterval(ahead), "%d ahead", ahead)
	}
	for _, poll := range []int64{1, 3, 5, 10, 30, 60} {
		for range 200 {
			got := jitter(poll)
			require.GreaterOrEqual(t, got, max(1, poll*9/10))
			require.LessOrEqual(t, got, min(60, poll*11/10+1))
		}
	}
}

func TestNoEstimateWhileNobodyIsAdmitted(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(s *LineState){
		"paused":            func(s *LineState) { s.Paused = true },
		"recovering":        func(s *LineState) { s.PauseUntil = s.Now + 1 },
		"without settings":  func(s *LineState) { s.SettingsAt = 0 },
		"threshold 0":       func(s *LineState) { s.Threshold = 0 },
		"sold out":          func(s *LineState) { s.Sale.Status = SoldOut },
		"paused, scheduled": func(s *LineState) { s.Paused, s.Sale = true, Sale{Status: Scheduled, OpensAt: s.Now + 60_000} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := watched(crowd(), 60, 20)
			stop(&s)
			require.Zero(t, p.estimateWait(1, s, s.Sale.OpensAt))
		})
	}
}

// The first estimate after a change of the threshold already uses the new threshold.
func TestEstimateFollowsTheThresholdAtOnce(t *testing.T) {
	t.Parallel()
	full := crowd()
	full.Active, full.Threshold, full.SlotMS = 600, 600, 6_000_000
	p, s := watched(full, 120, 20)
	require.Equal(t, int64(50), p.estimateWait(1000, s, s.Sale.OpensAt))
	for _, c := range []struct{ threshold, want int64 }{{300, 100}, {1200, 25}, {0, 0}} {
		s.Threshold = c.threshold
		s = watch(p, s, 1, 0) // the tick in which the threshold changes
		require.InDelta(t, c.want, p.estimateWait(1000, s, s.Sale.OpensAt), 0.1*float64(c.want)+1, "threshold %d", c.threshold)
		s = watch(p, s, 300, 20*c.threshold/600)
	}
	s.Threshold, s.Active = 600, 600
	s = watch(p, s, 2, 20)
	require.Zero(t, p.estimateWait(1000, s, s.Sale.OpensAt), "being measured")
	s = watch(p, s, 10, 20)
	require.Equal(t, int64(50), p.estimateWait(1000, s, s.Sale.OpensAt))
}
