package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/telemetry/metricstest"
)

// An estimate from times in whole seconds never exceeds the real skew, and is close to it after
// some responses.
func TestSkew(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	// answers simulates n calls of one duration, 110 ms apart, and returns the last estimate.
	answers := func(s *dynamo.Skew, from time.Time, ahead, duration time.Duration, n int) (skew time.Duration) {
		for i := range n {
			sent := from.Add(time.Duration(i) * 110 * time.Millisecond)
			date := sent.Add(duration / 2).Truncate(time.Second)
			skew = s.Observe(sent.Add(ahead), sent.Add(duration).Add(ahead), date)
			require.LessOrEqual(t, skew.Abs(), ahead.Abs())
		}
		return skew
	}
	for _, ahead := range []time.Duration{0, 3 * time.Second, -3 * time.Second, 2100 * time.Millisecond, -20 * time.Minute} {
		got := answers(&dynamo.Skew{}, noon, ahead, 10*time.Millisecond, 30)
		require.InDelta(t, ahead.Seconds(), got.Seconds(), 0.15, "ahead by %s", ahead)
	}
	require.Zero(t, answers(&dynamo.Skew{}, noon, 2*time.Second, 5*time.Second, 1), "a slow answer proves nothing")

	s := &dynamo.Skew{}
	require.NotZero(t, answers(s, noon, 3*time.Second, 10*time.Millisecond, 30))
	require.Zero(t, answers(s, noon.Add(4*time.Second), 0, 10*time.Millisecond, 10), "the clock was corrected")
	require.Zero(t, answers(s, noon.Add(5*time.Second), 500*time.Millisecond, 10*time.Millisecond, 1), "less than the header shows")
	require.InDelta(t, 0.5, answers(s, noon.Add(time.Minute), 500*time.Millisecond, 10*time.Millisecond, 30).Seconds(), 0.15, "a new window")
}

// DynamoDB Local runs on this machine and has the same clock, so the estimated skew must be 0.
func TestClockIsWatched(t *testing.T) {
	t.Parallel()
	_, client := dynamotest.Tables(t)
	_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	require.True(t, dynamo.ClockObserved(), "DynamoDB's responses have a Date")
	value, found := metricstest.MetricSum(t, "urr_store_clock_skew_seconds", nil)
	require.True(t, found)
	require.Zero(t, value)
	require.Zero(t, dynamo.ClockSkew())
}
