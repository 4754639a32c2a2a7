package room_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waits"
	"urr.guru/services/vwr/internal/room"
)

func inFlight(issued, serving, limit int64) room.Counters {
	c := counters(issued, serving)
	c.Settings.Inlet, c.Settings.MaxInFlight = room.MaxInFlight, limit
	return c
}

func TestInFlightLimiter(t *testing.T) {
	t.Parallel()
	type seen struct {
		at      float64
		serving int64
		load    room.TierTwoLoad
	}
	for name, c := range map[string]struct {
		history []seen
		issued  int64
		want    int64 // the last allowance
	}{
		"empty tier 2": {[]seen{{0, 0, room.TierTwoLoad{}}}, 1000, 100},
		"some inside":  {[]seen{{0, 0, room.TierTwoLoad{Waiting: 30, Active: 20}}}, 1000, 50},
		"full":         {[]seen{{0, 0, room.TierTwoLoad{Waiting: 80, Active: 40}}}, 1000, 0},
		"few wait":     {[]seen{{0, 0, room.TierTwoLoad{}}}, 3, 3},
		"those on the way count": {
			[]seen{{0, 0, room.TierTwoLoad{}}, {1, 100, room.TierTwoLoad{Arrived: 40, Active: 40}}}, 1000, 0,
		},
		"those who arrived count once": {
			[]seen{{0, 0, room.TierTwoLoad{}}, {1, 60, room.TierTwoLoad{Arrived: 60, Active: 60}}}, 1000, 40,
		},
		"who has not arrived within 90 s has left": {
			[]seen{{0, 0, room.TierTwoLoad{}}, {1, 100, room.TierTwoLoad{}}, {91.5, 100, room.TierTwoLoad{}}}, 1000, 100,
		},
		"before, those on the way may still poll": {
			[]seen{{0, 0, room.TierTwoLoad{}}, {1, 100, room.TierTwoLoad{}}, {1 + waits.LongestPoll.Seconds(), 100, room.TierTwoLoad{}}}, 1000, 0,
		},
		"an operator's advance counts as served": {
			[]seen{{0, 0, room.TierTwoLoad{}}, {1, 50_000, room.TierTwoLoad{}}, {67, 50_000, room.TierTwoLoad{Arrived: 49_950, Active: 30}}}, 90_000, 20,
		},
		"a replica that has just begun counts everyone ever served": {
			[]seen{{0, 500, room.TierTwoLoad{Arrived: 430, Active: 10}}}, 1000, 20,
		},
		"but never fewer than none": {
			[]seen{{0, 500, room.TierTwoLoad{Arrived: 600, Active: 10}}}, 1000, 90,
		},
		"a tier 2 that has lost its count is watched anew": {
			[]seen{{0, 0, room.TierTwoLoad{Arrived: 50}}, {1, 90, room.TierTwoLoad{Arrived: 5}}}, 1000, 15,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f room.InFlightLimiter
			var got int64
			for _, s := range c.history {
				cs := inFlight(c.issued, s.serving, 100)
				f.Observe(cs, s.load, at(s.at))
				got = f.Allowance(cs, s.load)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestInFlightLimiterIsBoundedByBatch(t *testing.T) {
	t.Parallel()
	var f room.InFlightLimiter
	c := inFlight(10_000, 0, 5_000)
	f.Observe(c, room.TierTwoLoad{}, at(0))
	require.Equal(t, c.Settings.Batch, f.Allowance(c, room.TierTwoLoad{}))
}

// The rate under earlier settings does not count. A counter that does not move counts as stalled
// only after some time.
func TestRateMeterStartsAnewWithOtherSettings(t *testing.T) {
	t.Parallel()
	var m room.RateMeter
	c := counters(100_000, 0)
	for i := range 60 {
		m.Observe(c, at(float64(i)))
		c.Serving += 50
	}
	require.InDelta(t, 50, m.Rate(), 1)
	c.Settings.Batch /= 10
	m.Observe(c, at(60))
	require.Zero(t, m.Rate(), "the configured rate counts")
	for i := range 10 {
		c.Serving += 5
		m.Observe(c, at(61+float64(i)))
	}
	require.InDelta(t, 5, m.Rate(), 0.1)
	stalledAfter := 30 + 2*c.Settings.Interval.Seconds()
	m.Observe(c, at(70+stalledAfter))
	require.False(t, m.Stalled())
	m.Observe(c, at(71+stalledAfter))
	require.True(t, m.Stalled())
	c.Settings.MaxInFlight++
	m.Observe(c, at(72+stalledAfter))
	require.False(t, m.Stalled(), "the operator has changed something")
}

func TestRateMeter(t *testing.T) {
	t.Parallel()
	var m room.RateMeter
	c := counters(100_000, 0)
	for i := range 8 {
		m.Observe(c, at(0.4*float64(i)))
		require.Zero(t, m.Rate(), "after %.1f s", 0.4*float64(i))
		c.Serving += 20
	}
	for i := 8; i < 50; i++ {
		m.Observe(c, at(0.4*float64(i)))
		c.Serving += 20
	}
	require.InDelta(t, 50, m.Rate(), 1)
	c.Serving = c.Issued
	m.Observe(c, at(20))
	before := m.Rate()
	for i := range 100 { // time in which nobody waits is not measured
		m.Observe(c, at(21+float64(i)))
	}
	require.InDelta(t, before, m.Rate(), 0, "an empty line")
}
