package spread_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/spread"
)

var start = time.Unix(1_800_000_000, 0)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// The pages compute the same; their test reads the same cases.
func TestCasesSharedWithThePages(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var cases struct{ Over, Again [][3]float64 }
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases.Over {
		require.Equal(t, seconds(c[2]), spread.Over(int64(c[0]), c[1]), "%v", c)
	}
	for _, c := range cases.Again {
		i := spread.Instant{Start: start, Over: seconds(c[1])}
		require.Equal(t, seconds(c[2]), i.Again(start.Add(seconds(c[0]))), "%v", c)
	}
	require.Zero(t, spread.Over(1_000_000, 0), "without a rate")
}

func TestTurns(t *testing.T) {
	t.Parallel()
	i := spread.Instant{Start: start, Over: time.Minute, Round: 7}
	other := i
	other.Round = 8
	moved := 0
	for n := range 1000 {
		id := fmt.Sprint("visitor ", n)
		turn := i.TurnOf(id, start.Add(-time.Second))
		require.Equal(t, turn, i.TurnOf(id, time.Time{}))
		require.False(t, turn.Before(start))
		require.True(t, turn.Before(start.Add(time.Minute)))
		if turn.After(other.TurnOf(id, time.Time{})) {
			moved++
		}
	}
	require.InDelta(t, 500, moved, 100, "each round has another order")

	// Whoever gets an id after the start asks after those who waited, and never gains by a later one.
	for n := range 1000 {
		turn := i.TurnOf(strconv.Itoa(n), start)
		require.False(t, turn.Before(start.Add(time.Minute)))
		require.True(t, turn.Before(start.Add(2*time.Minute+time.Second)))
	}
	last := start
	for made := start; made.Before(start.Add(10 * time.Minute)); made = made.Add(time.Second) {
		turn := i.TurnOf("new", made)
		require.False(t, turn.Before(last))
		require.False(t, turn.Before(made))
		last = turn
	}
	require.Equal(t, start.Add(6*time.Minute), i.TurnOf("new", start.Add(6*time.Minute)), "the spread is over")

	few := spread.Instant{Start: start}
	require.Equal(t, start, few.TurnOf("early", time.Time{}))
	require.Equal(t, start.Add(time.Second), few.TurnOf("new", start.Add(time.Second)))
	require.Equal(t, start, few.End(start.Add(time.Hour)), "a small crowd is not waited for")
}

// histogram counts requests by second after the start.
type histogram map[int]int

func (h histogram) add(at time.Time) { h[int(at.Sub(start)/time.Second)]++ }

func (h histogram) busiest() (n int) {
	for _, count := range h {
		n = max(n, count)
	}
	return n
}

// log prints the histogram in at most about 30 lines.
func (h histogram) log(t *testing.T, name string, rate float64) {
	t.Helper()
	last := 0
	for s := range h {
		last = max(last, s)
	}
	step := last/30 + 1
	t.Logf("%s: planned %.0f/s, busiest second %d (%.2f)", name, rate, h.busiest(), float64(h.busiest())/rate)
	for from := 0; from <= last; from += step {
		peak := 0
		for s := from; s < from+step; s++ {
			peak = max(peak, h[s])
		}
		t.Logf("%5d s %7d/s %s", from, peak, strings.Repeat("#", int(40*float64(peak)/rate)))
	}
}

// crowds are the crowds of the models, and the planned rates of their requests.
var crowds = []struct {
	visitors int
	rate     float64
}{{10_000, 1000}, {100_000, 1000}, {1_000_000, 16_667}}

// Half of a crowd waits before the door, half comes after it at the planned rate. Every tenth visitor
// asks once a second from the start, in vain.
func TestOpeningModel(t *testing.T) {
	t.Parallel()
	for _, c := range crowds {
		i := spread.Instant{Start: start, Over: spread.Over(int64(c.visitors), c.rate)}
		answered := histogram{}
		var patient, impatient []time.Duration
		for n := range c.visitors {
			made, arrives := start.Add(-time.Minute), start
			if n%2 == 1 {
				arrives = start.Add(seconds(float64(n/2) / c.rate))
				made = arrives.Truncate(time.Second) // ids have whole seconds
			}
			turn := i.TurnOf(strconv.Itoa(n), made)
			if n%20 < 2 {
				asks := max(arrives.Sub(start), 0)
				for start.Add(asks).Before(turn) {
					asks += time.Second
				}
				turn = start.Add(asks)
				impatient = append(impatient, asks)
			} else {
				patient = append(patient, turn.Sub(start))
			}
			answered.add(turn)
		}
		answered.log(t, fmt.Sprintf("%d visitors", c.visitors), c.rate)
		require.LessOrEqual(t, float64(answered.busiest()), 1.5*c.rate)
		require.Greater(t, mean(impatient), mean(patient)-i.Over/50, "asking early gains nothing")
	}
}

// A whole crowd that comes within 3 s after the start is spread like one that waited, and asks
// after those. A stream that goes on at the planned rate asks at most at 1.34 of it on average.
func TestLateCrowdModel(t *testing.T) {
	t.Parallel()
	for _, c := range crowds {
		i := spread.Instant{Start: start, Over: spread.Over(int64(c.visitors), c.rate)}
		for name, stream := range map[string]time.Duration{"at once": 3 * time.Second, "stream": 8 * i.Over} {
			visitors := c.visitors
			if name == "stream" {
				visitors = int(min(1000, c.rate) * stream.Seconds())
			}
			asked, first := histogram{}, start.Add(2*i.Over)
			for n := range visitors {
				arrives := start.Add(stream * time.Duration(n) / time.Duration(visitors))
				turn := i.TurnOf(strconv.Itoa(n), arrives.Truncate(time.Second))
				if turn.Before(first) {
					first = turn
				}
				asked.add(turn)
			}
			require.False(t, first.Before(start.Add(i.Over)))
			rate := min(c.rate, float64(visitors)/stream.Seconds())
			asked.log(t, fmt.Sprintf("%d visitors, %s", visitors, name), rate)
			require.LessOrEqual(t, float64(asked.busiest()), 1.5*rate)
		}
	}
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(len(all))
}

// All entrants of a lobby ask for a result that comes late: no second is busier than planned, and
// everybody has the result at the end of the spread.
func TestLateModel(t *testing.T) {
	t.Parallel()
	for _, c := range crowds {
		i := spread.Instant{Start: start, Over: spread.Over(int64(c.visitors), c.rate)}
		for _, late := range []time.Duration{0, time.Second, i.Over / 2, i.Over, 5 * i.Over} {
			came := start.Add(late)
			asked, last := histogram{}, start
			for n := range c.visitors {
				at := i.TurnOf(strconv.Itoa(n), time.Time{})
				for ; at.Before(came); at = at.Add(i.Again(at)) {
					asked.add(at)
				}
				asked.add(at)
				if at.After(last) {
					last = at
				}
			}
			asked.log(t, fmt.Sprintf("%d entrants, %v late", c.visitors, late), c.rate)
			require.LessOrEqual(t, float64(asked.busiest()), 1.5*c.rate)
			require.False(t, last.After(i.End(came)), "the counter moves before somebody has asked")
		}
	}
}
