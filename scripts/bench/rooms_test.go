package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/awsproxy"
)

func TestFaultsOfPositions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		given         given
		gaps, doubles int
	}{
		{nil, 0, 0},
		{given{3, 1, 2}, 0, 0},
		{given{2, 5}, 3, 0},
		{given{1, 2, 2, 2, 4}, 1, 2},
	} {
		gaps, doubles := tt.given.faults()
		require.Equal(t, [2]int{tt.gaps, tt.doubles}, [2]int{gaps, doubles}, "%v", tt.given)
		if tt.gaps+tt.doubles == 0 {
			require.NoError(t, tt.given.exact())
		} else {
			require.Error(t, tt.given.exact())
		}
	}
}

func TestTakeAll(t *testing.T) {
	t.Parallel()
	all, took, err := takeAll(t.Context(), 100, 7, func(_ context.Context, i int) (int64, error) { return int64(i + 1), nil })
	require.NoError(t, err)
	require.Positive(t, took)
	require.Len(t, all, 100)
	require.NoError(t, all.exact())
}

func TestOnlyWritesOfTheCounterCount(t *testing.T) {
	t.Parallel()
	body := func(event, expression string) []byte {
		return []byte(`{"Key": {"eventId": {"S": "` + event + `"}}, "UpdateExpression": "` + expression + `"}`)
	}
	const adds = "ADD nextPosition :n SET updatedAt = :now"
	require.True(t, issues(awsproxy.Call{Name: "UpdateItem", Body: body("a", adds)}, "a"))
	for _, c := range []awsproxy.Call{
		{Name: "UpdateItem", Body: body("b", adds)}, {Name: "PutItem", Body: body("a", adds)},
		{Name: "UpdateItem", Body: body("a", "SET servingCounter = :to")}, {Name: "UpdateItem", Body: []byte("{")},
	} {
		require.False(t, issues(c, "a"), "%s %s", c.Name, c.Body)
	}
}
