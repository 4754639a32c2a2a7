package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdmissionsOfARecord(t *testing.T) {
	t.Parallel()
	all, err := decodeAdmissions(map[string]any{"tick": "7", "at": "7001", "slots": "a\ns-1 5000 0 0\nb c\ns-2 6000 0 0", "since": "b c\n9"})
	require.NoError(t, err)
	require.Equal(t, []Admission{
		{Slot: "s-1", User: "a", Score: 5000, Tick: 7, PresentSince: 5, At: 7001}, {Slot: "s-2", User: "b c", Score: 6000, Tick: 7, PresentSince: 9, At: 7001},
	}, all)
	for _, damaged := range []map[string]any{
		{"tick": "7", "at": "7001"}, {"tick": "7", "at": "", "slots": "a\ns-1 5000 0 0"}, {"tick": "7", "at": "7001", "slots": "a\ns-1"}, {"user": "a"},
	} {
		_, err = decodeAdmissions(damaged)
		require.Error(t, err, "%v", damaged)
	}
}
