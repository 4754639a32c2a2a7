package faults_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/faults"
)

// Each fault affects its share of the calls, and the same call always gets the same fault.
func TestShares(t *testing.T) {
	t.Parallel()
	shares := []faults.FaultShare[string]{{Size: 0.2, Fault: "lost"}, {Fault: "never"}, {Size: 0.3, Fault: "late"}}
	sum, err := faults.Sum(shares)
	require.NoError(t, err)
	require.InDelta(t, 0.5, sum, 1e-9)
	const calls = 10_000
	count := map[string]int{}
	for i := range calls {
		name := fmt.Sprint("key-", i)
		require.Equal(t, faults.Chance(7, name, 1), faults.Chance(7, name, 1)) //nolint:testifylint // the same to the bit
		count[faults.Pick(shares, faults.Chance(7, name, 1))]++
	}
	require.InDelta(t, 0.2*calls, count["lost"], 200)
	require.InDelta(t, 0.3*calls, count["late"], 200)
	require.InDelta(t, 0.5*calls, count[""], 200)
	require.NotContains(t, count, "never")
	require.NotEqual(t, faults.Chance(7, "key", 1), faults.Chance(8, "key", 1))
	require.NotEqual(t, faults.Chance(7, "key", 1), faults.Chance(7, "key", 2))

	_, err = faults.Sum([]faults.FaultShare[string]{{Size: 0.5, Fault: "lost"}, {Size: -0.1, Fault: "late"}})
	require.Error(t, err)
}

func TestDuration(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(faults.Duration(1500 * time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, `"1.5s"`, string(text))
	var d faults.Duration
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, faults.Duration(1500*time.Millisecond), d)
	for _, bad := range []string{`"-1s"`, `"soon"`, `""`} {
		require.Error(t, json.Unmarshal([]byte(bad), &d), bad)
	}
}
