package room_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waits"
	"urr.guru/services/vwr/internal/room"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

func counters(issued, serving int64) room.Counters {
	return room.Counters{EventID: "e", Active: true, Round: 1, Issued: issued, Serving: serving, Settings: room.DefaultSettings()}
}

func TestRateLimiterAllowance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counters room.Counters
		rate     float64
		after    float64 // seconds since the counter was first observed
		want     int64
	}{
		"just seen":                     {counters(1000, 0), 50, 0, 0},
		"rate by time":                  {counters(1000, 0), 50, 0.4, 20},
		"whole positions only":          {counters(1000, 0), 50, 0.05, 2},
		"a slow rate":                   {counters(1000, 0), 0.5, 1.9, 0},
		"never above one batch":         {counters(100_000, 0), 50, 3600, 500},
		"never past the last given out": {counters(7, 5), 50, 10, 2},
		"nobody waits":                  {counters(7, 7), 50, 10, 0},
		"a rate out of all bounds":      {counters(1<<40, 0), 1e300, 10, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p room.RateLimiter
			p.Observe(c.counters, at(0))
			require.Equal(t, c.want, p.Allowance(c.counters, c.rate, at(c.after)))
		})
	}
}

func TestRateLimiterRestartsWhenCounterMoves(t *testing.T) {
	t.Parallel()
	var p room.RateLimiter
	require.Zero(t, p.Allowance(counters(1000, 0), 50, at(100)), "nothing was seen yet")
	p.Observe(counters(1000, 0), at(0))
	p.Observe(counters(1000, 0), at(1)) // the same value does not restart the measurement
	require.Equal(t, int64(100), p.Allowance(counters(1000, 0), 50, at(2)), "after 2 s")
	p.Observe(counters(1000, 40), at(2))
	require.Equal(t, int64(25), p.Allowance(counters(1000, 40), 50, at(2.5)), "half a second after another replica moved it")
	next := counters(1000, 40)
	next.Round = 2
	require.Zero(t, p.Allowance(next, 50, at(3)), "a round that was not seen")
	p.Observe(next, at(3))
	require.Equal(t, int64(50), p.Allowance(next, 50, at(4)), "a second after the new round was seen")
}

// A replica that writes whenever a position is due serves exactly the configured rate, even if less
// than one position is earned per step.
func TestRateLimiterKeepsFractions(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.3, 1, 2.5, 7, 50, 333} {
		c := counters(1_000_000, 0)
		var p room.RateLimiter
		p.Observe(c, at(0))
		for s := 0.4; s <= 400.01; s += 0.4 {
			p.Observe(c, at(s))
			if n := p.Allowance(c, rate, at(s)); n > 0 {
				p.RecordAdvance(n, rate, at(s))
				c.Serving += n
			}
		}
		require.LessOrEqual(t, float64(c.Serving), rate*400+0.001, "served in 400 s at %v/s", rate)
		require.GreaterOrEqual(t, float64(c.Serving), rate*400-1.001, "served in 400 s at %v/s", rate)
	}
}

// What is earned beyond the batch or the last position is lost, so time in which nobody waits earns
// nothing.
func TestRateLimiterDropsCutOffAllowance(t *testing.T) {
	t.Parallel()
	var p room.RateLimiter
	c := counters(10, 0)
	p.Observe(c, at(0))
	n := p.Allowance(c, 50, at(60))
	require.Equal(t, int64(10), n, "all who wait")
	p.RecordAdvance(n, 50, at(60))
	c.Serving, c.Issued = 10, 10_000
	require.Equal(t, int64(5), p.Allowance(c, 50, at(60.1)), "0.1 s later")
}

func TestClaimShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		served, claimed int64 // per second
		seconds         int
		want            float64
	}{
		"nothing seen":             {0, 0, 0, 1},
		"a young window":           {50, 0, 79, 1},
		"everybody comes":          {50, 50, 90, 1},
		"half of them come":        {50, 25, 90, 2010.0 / 4010},
		"nobody comes":             {50, 0, 90, room.MinShare},
		"latecomers":               {50, 75, 90, 6010.0 / 4010},
		"a visitors of latecomers": {50, 500, 90, room.MaxShare},
		"nobody is served":         {0, 0, 90, 1},
		"what was before is past":  {50, 25, 480, 2010.0 / 4010},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s room.ClaimShare
			for i := range c.seconds + 1 {
				if c.seconds == 0 {
					break
				}
				cs := counters(1_000_000, c.served*int64(i))
				cs.Claimed = c.claimed * int64(i)
				s.Observe(cs, cs.Claimed, at(float64(i)))
			}
			require.InDelta(t, c.want, s.Share(), 1e-9)
		})
	}
}

func TestClaimShareResetsWithNewRound(t *testing.T) {
	t.Parallel()
	var s room.ClaimShare
	for i := range 91 {
		s.Observe(counters(10_000, int64(50*i)), 0, at(float64(i)))
	}
	require.InDelta(t, room.MinShare, s.Share(), 0)
	next := counters(0, 0)
	next.Round = 2
	s.Observe(next, 0, at(91))
	require.InDelta(t, 1, s.Share(), 0, "a new round")
}

// After an operator's advance or a much higher rate, the share is unchanged until the visitors whom
// the counter reached early have polled, however few claim. Then a new window begins.
func TestClaimShareWaitsForLatePolls(t *testing.T) {
	t.Parallel()
	for name, surprise := range map[string]func(*room.Counters){
		"an advance":    func(c *room.Counters) { c.Serving += 50_000 },
		"a higher rate": func(c *room.Counters) { c.Settings.Batch *= 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s room.ClaimShare
			c := counters(1_000_000, 0)
			claimed, second := int64(0), 0
			run := func(seconds int, share float64) {
				for range seconds {
					c.Serving += int64(c.Settings.Rate())
					claimed += int64(share * c.Settings.Rate())
					second++
					s.Observe(c, claimed, at(float64(second)))
				}
			}
			run(100, 0.8)
			before := s.Share()
			require.InDelta(t, 0.8, before, 0.01)
			surprise(&c)
			run(int(waits.LongestPoll.Seconds()), 0)
			claimed += 50_000 // now all of them have claimed
			run(int(room.ShareWindow.Seconds())-1, 0.5)
			require.InDelta(t, before, s.Share(), 0)
			run(5, 0.5)
			require.InDelta(t, 0.5, s.Share(), 0.01)
		})
	}
}
