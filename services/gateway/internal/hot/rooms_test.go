package hot

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/vwrstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// TestWaitingIsWhatVWRWouldSay: the hand-written answer is the message's own form.
func TestWaitingIsWhatVWRWouldSay(t *testing.T) {
	t.Parallel()
	s := &vwrstate.State{Serving: 1 << 40, Rate: 3}
	got := appendWaiting(nil, s, 1<<40+1000)
	m := &vwrv1.Checked{}
	require.NoError(t, wire.Unmarshal(got, m))
	require.True(t, proto.Equal(&vwrv1.Checked{
		Position: 1<<40 + 1000, ServingCounter: 1 << 40, Ahead: 1000, EstimatedWait: 334, NextPoll: m.GetNextPoll(),
	}, m))
	want, err := wire.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestNextPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead             int64
		least, mean, most int64
	}{{1, 2, 2, 2}, {500, 2, 2, 2}, {501, 5, 5, 5}, {2000, 5, 5, 5}, {2001, 9, 10, 11}, {10_000, 9, 10, 11}, {10_001, 14, 15, 16}, {1 << 40, 14, 15, 16}} {
		require.Equal(t, c.least, nextPoll(c.ahead, 0), c.ahead)
		require.Equal(t, c.mean, nextPoll(c.ahead, 0.5), c.ahead)
		require.InDelta(t, c.most, nextPoll(c.ahead, 0.999), 1, c.ahead)
	}
}

func TestProviderNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"sandbox": true, "toss-2": true, "Sandbox": false, "a_b": false, "a/b": false, "": true, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": false} {
		require.Equal(t, ok, providerName(name), name)
	}
}
