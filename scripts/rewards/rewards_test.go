package rewards_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/rewards"
)

func TestLastLine(t *testing.T) {
	t.Parallel()
	whole := rewards.Verdict{Wanted: 2000, Members: 2000}
	require.Equal(t, "demo-rewards ok: members=2000 paid_twice=0 unpaid=0 overdrawn=0 differences=0", whole.Line())
	for name, breakIt := range map[string]func(*rewards.Verdict){
		"members=1999":  func(v *rewards.Verdict) { v.Members = 1999 },
		"paid_twice=1":  func(v *rewards.Verdict) { v.PaidTwice = 1 },
		"unpaid=1":      func(v *rewards.Verdict) { v.Unpaid = 1 },
		"overdrawn=1":   func(v *rewards.Verdict) { v.Overdrawn = 1 },
		"differences=1": func(v *rewards.Verdict) { v.Differences = 1 },
		"other=1":       func(v *rewards.Verdict) { v.Other = 1 },
	} {
		v := whole
		breakIt(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo-rewards FAILED: ")
		require.Contains(t, v.Line(), " "+name)
	}
}

func TestPrizesAddUp(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 10, 50} {
		total := 0
		for _, p := range rewards.Prizes(n) {
			if stock, limited := p["stock"].(int); limited {
				require.Positive(t, stock)
				total += stock
			}
		}
		require.Equal(t, n, total)
	}
}

func TestDaysInKorea(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 3, 7, 15, 0, 0, 0, time.UTC)
	require.Equal(t, 1, rewards.Days(midnight.Add(-time.Minute), midnight.Add(-time.Millisecond)))
	require.Equal(t, 2, rewards.Days(midnight.Add(-time.Minute), midnight))
	require.Equal(t, 1, rewards.Days(midnight, midnight.Add(24*time.Hour-time.Second)))
}

func TestOutputOfReconcile(t *testing.T) {
	t.Parallel()
	const counts = "reconcile: entries=1 allocations=1 differences=1\n"
	found, err := rewards.Parse(`unknown_entry: key "by \"hand\"": the ledger has …`+"\n"+
		`paid_twice: allocation 7, key "att-a%2D1-m-2026-03-07-DAILY": …`+"\n"+counts, 1)
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = rewards.Parse(counts, 0)
	require.NoError(t, err)
	require.Empty(t, found)
	for output, code := range map[string]int{counts: 2, "": 0, "something: else\n" + counts: 1, "paid_twice: allocation 7, key \"k\": …\n": 1} {
		_, err := rewards.Parse(output, code)
		require.Error(t, err, output)
	}
}

func TestKeysOfACampaign(t *testing.T) {
	t.Parallel()
	require.True(t, rewards.Owns("a-1", "r-1", "att-a%2D1-m-2026-03-07-DAILY"))
	require.True(t, rewards.Owns("a-1", "r-1", "rand-r%2D1-m-log-7-R1"))
	require.False(t, rewards.Owns("a-1", "r-1", "att-a%2D10-m-2026-03-07-DAILY"))
	require.False(t, rewards.Owns("a-1", "r-1", "rand-a%2D1-m-log-7"))
}
