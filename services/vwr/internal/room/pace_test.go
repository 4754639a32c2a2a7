package room_test

import (
	"testing"
	"time"

	"urr.guru/services/vwr/internal/room"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

func counters(issued, serving int64) room.Counters {
	return room.Counters{EventID: "e", Active: true, Round: 1, Issued: issued, Serving: serving, Settings: room.DefaultSettings()}
}

func TestPaceAllowance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counters room.Counters
		rate     float64
		after    float64 // s since the counter was first seen
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
			var p room.Pace
			p.Observe(c.counters, at(0))
			if got := p.Allowance(c.counters, c.rate, at(c.after)); got != c.want {
				t.Errorf("allowance %d, want %d", got, c.want)
			}
		})
	}
}

func TestPaceStartsAnewWhenTheCounterMoves(t *testing.T) {
	t.Parallel()
	var p room.Pace
	if n := p.Allowance(counters(1000, 0), 50, at(100)); n != 0 {
		t.Errorf("a pace that has seen nothing allows %d", n)
	}
	p.Observe(counters(1000, 0), at(0))
	p.Observe(counters(1000, 0), at(1)) // the same value does not
	if n := p.Allowance(counters(1000, 0), 50, at(2)); n != 100 {
		t.Errorf("after 2 s: %d, want 100", n)
	}
	p.Observe(counters(1000, 40), at(2))
	if n := p.Allowance(counters(1000, 40), 50, at(2.5)); n != 25 {
		t.Errorf("half a second after another replica moved it: %d, want 25", n)
	}
	next := counters(1000, 40)
	next.Round = 2
	if n := p.Allowance(next, 50, at(3)); n != 0 {
		t.Errorf("a round that was not seen: %d, want 0", n)
	}
	p.Observe(next, at(3))
	if n := p.Allowance(next, 50, at(4)); n != 50 {
		t.Errorf("a second after the new round was seen: %d, want 50", n)
	}
}

// A winner that steps whenever a position is due reaches exactly the rate, also when a step is worth less than one position.
func TestPaceKeepsFractions(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.3, 1, 2.5, 7, 50, 333} {
		c := counters(1_000_000, 0)
		var p room.Pace
		p.Observe(c, at(0))
		for s := 0.4; s <= 400.01; s += 0.4 {
			p.Observe(c, at(s))
			if n := p.Allowance(c, rate, at(s)); n > 0 {
				p.Advanced(n, rate, at(s))
				c.Serving += n
			}
		}
		if want := rate * 400; float64(c.Serving) > want+0.001 || float64(c.Serving) < want-1.001 {
			t.Errorf("rate %v: served %d in 400 s, want %v", rate, c.Serving, want)
		}
	}
}

// What the end of the line or the batch cut off is lost: time in which nobody waited earns nothing.
func TestPaceDropsWhatWasCutOff(t *testing.T) {
	t.Parallel()
	var p room.Pace
	c := counters(10, 0)
	p.Observe(c, at(0))
	n := p.Allowance(c, 50, at(60))
	if n != 10 {
		t.Fatalf("allowance %d, want the 10 that wait", n)
	}
	p.Advanced(n, 50, at(60))
	c.Serving, c.Issued = 10, 10_000
	if n := p.Allowance(c, 50, at(60.1)); n != 5 {
		t.Errorf("0.1 s later: %d, want 5", n)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		served, claimed int64 // per second
		seconds         int
		want            float64
	}{
		"nothing seen":            {0, 0, 0, 1},
		"a young window":          {50, 0, 19, 1},
		"everybody comes":         {50, 50, 30, 1},
		"half of them come":       {50, 25, 30, 510.0 / 1010},
		"nobody comes":            {50, 0, 30, room.MinShare},
		"latecomers":              {50, 75, 30, 1510.0 / 1010},
		"a crowd of latecomers":   {50, 500, 30, room.MaxShare},
		"nobody is served":        {0, 0, 30, 1},
		"few say little":          {1, 0, 30, 10.0 / 30},
		"what was before is past": {50, 25, 120, 510.0 / 1010},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s room.Share
			for i := range c.seconds + 1 {
				if c.seconds == 0 {
					break
				}
				cs := counters(1_000_000, c.served*int64(i))
				cs.Claimed = c.claimed * int64(i)
				s.Observe(cs, at(float64(i)))
			}
			if got := s.Value(); got < c.want-1e-9 || got > c.want+1e-9 {
				t.Errorf("share %v, want %v", got, c.want)
			}
		})
	}
}

func TestShareForgetsTheLastRound(t *testing.T) {
	t.Parallel()
	var s room.Share
	for i := range 31 {
		s.Observe(counters(10_000, int64(50*i)), at(float64(i)))
	}
	if got := s.Value(); got != room.MinShare {
		t.Fatalf("share %v, want %v", got, room.MinShare)
	}
	next := counters(0, 0)
	next.Round = 2
	s.Observe(next, at(31))
	if got := s.Value(); got != 1 {
		t.Errorf("share of a new round %v, want 1", got)
	}
}
