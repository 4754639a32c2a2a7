package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
)

func TestInversions(t *testing.T) {
	t.Parallel()
	entry := func(user string, score, tick, since int64) audit.Admission {
		return audit.Admission{User: user, Score: score, Tick: tick, PresentSince: since, At: tick * 1000}
	}
	tests := map[string]struct {
		admissions []audit.Admission
		overtaken  []string
	}{
		"in order": {
			admissions: []audit.Admission{entry("a", 1, 10, 0), entry("b", 2, 11, 0), entry("c", 3, 12, 0)},
		},
		"one tick has no order": {
			admissions: []audit.Admission{entry("b", 2, 10, 0), entry("a", 1, 10, 0)},
		},
		"overtaken while present": {
			admissions: []audit.Admission{entry("b", 2, 10, 0), entry("a", 1, 11, 0)},
			overtaken:  []string{"a"},
		},
		"absent at the time": {
			admissions: []audit.Admission{entry("b", 2, 10, 0), entry("a", 1, 12, 10500)},
		},
		"each overtaken one counts once": {
			admissions: []audit.Admission{entry("c", 3, 9, 0), entry("b", 2, 10, 0), entry("a", 1, 11, 0)},
			overtaken:  []string{"b", "a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, inv := range audit.Inversions(tt.admissions) {
				got = append(got, inv.Overtaken.User)
			}
			require.Equal(t, tt.overtaken, got)
		})
	}
}

func TestExtraTurns(t *testing.T) {
	t.Parallel()
	const round = 1_800_000_000_000_000
	admissions := []audit.Admission{
		{User: "before the round", Score: round - 5}, {User: "hoards", Score: round + 10}, {User: "buys", Score: round + 20},
		{User: "lets it pass", Score: round + 30}, {User: "lets it pass", Score: round + 30}, {User: "before the round", Score: round + 40},
		{User: "buys", Score: round + 60_000_000}, {User: "buys", Score: round + 90_000_000},
	}
	require.Empty(t, audit.ExtraTurns(admissions, round))
	require.Empty(t, audit.ExtraTurns(admissions, 0), "no round")
	again := audit.Admission{User: "hoards", Score: round + 11}
	require.Equal(t, []audit.Admission{again}, audit.ExtraTurns(append(admissions, again), round))
}
