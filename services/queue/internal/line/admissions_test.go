package line

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// observeSeconds observes a state per second, in which admissions have grown by perSecond.
func observeSeconds(c *admissionCounter, s LineState, seconds int, perSecond int64) LineState {
	for range seconds {
		s.Now += 1000
		s.Admitted += perSecond
		c.observe(s)
	}
	return s
}

func TestAdmissionsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	s := LineState{Epoch: 1, Now: 1_000_000, Admitted: 7} // nobody waits
	c := &admissionCounter{}
	require.Zero(t, c.perMinute())
	c.observe(s)
	require.Zero(t, c.perMinute(), "when they were admitted is not known")
	s = observeSeconds(c, s, 1, 2)
	require.InDelta(t, 24, c.perMinute(), 0, "two in the five seconds that count at least")
	s = observeSeconds(c, s, 29, 2)
	require.InDelta(t, 120, c.perMinute(), 0, "as a rate of half a minute")
	s = observeSeconds(c, s, 60, 3)
	require.InDelta(t, 180, c.perMinute(), 0)
	s = observeSeconds(c, s, 30, 0)
	require.InDelta(t, 90, c.perMinute(), 0)
	observeSeconds(c, s, 30, 0)
	require.Zero(t, c.perMinute())
	require.LessOrEqual(t, len(c.samples), 62)
}

// A line that is not in use is observed only about once a minute.
func TestAdmissionsOfRareStates(t *testing.T) {
	t.Parallel()
	s := LineState{Epoch: 1, Now: 1_000_000}
	c := &admissionCounter{}
	for range 3 {
		s.Now += 75_000
		s.Admitted += 75
		c.observe(s)
	}
	require.InDelta(t, 60, c.perMinute(), 0)
	s.Now += 300
	s.Admitted += 15
	c.observe(s)
	require.InDelta(t, 71.7, c.perMinute(), 0, "the latest state counts, however soon it comes")
}

func TestAdmissionsRestartAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(s *LineState){
		"the line was lost":      func(s *LineState) { s.Admitted = 0 },
		"the clock was set back": func(s *LineState) { s.Now -= 3_600_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &admissionCounter{}
			s := observeSeconds(c, LineState{Epoch: 1, Now: 10_000_000}, 60, 10)
			lose(&s)
			c.observe(s)
			require.Zero(t, c.perMinute())
			observeSeconds(c, s, 10, 1)
			require.InDelta(t, 60, c.perMinute(), 0)
		})
	}
}
