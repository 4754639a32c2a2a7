package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pkgredis "urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

func TestRedisRestart(t *testing.T) {
	t.Parallel()
	// The kernel has the log of a killed server. Syncing it to a busy disk could exceed the client's
	// timeout, so Redis does not sync.
	s := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "no")
	client, err := pkgredis.Open(t.Context(), pkgredis.Config{Addrs: []string{s.Addr()}, PoolSize: 2})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	rules := line.DefaultRules()
	rules.Pause = time.Second
	store, err := redis.NewStore(client, rules, redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	cache := line.NewLineCache(time.Now)
	ask := func(c line.PlaceClaim) (line.LineState, line.ClaimOutcome) {
		t.Helper()
		st, out, err := store.Check(t.Context(), "ev", cache.Snapshot("ev"), []line.PlaceClaim{c})
		require.NoError(t, err)
		cache.Observe("ev", st)
		return st, out[0]
	}
	st, err := store.Open(t.Context(), "ev", line.KnownState{})
	require.NoError(t, err)
	one := int64(1)
	st, err = store.ApplySettings(t.Context(), "ev", line.KnownState{}, line.Settings{Threshold: &one}, st.Now)
	require.NoError(t, err)
	cache.Observe("ev", st)
	_, a := ask(line.PlaceClaim{UserID: "a", Join: true})
	before, w := ask(line.PlaceClaim{UserID: "w", Join: true})
	require.Equal(t, []line.VisitorState{line.Inside, line.Waiting}, []line.VisitorState{a.State, w.State})
	same, _ := ask(line.PlaceClaim{UserID: "w"})
	require.Equal(t, before.Epoch, same.Epoch, "Redis's own time and run id hold an epoch")

	s.Kill()
	_, err = store.Peek(t.Context(), "ev", cache.Snapshot("ev"))
	require.Error(t, err)
	s.Start()
	testkit.UntilNoError(t, func() error { return store.Ping(t.Context()) }, "Redis comes back")
	st, again := ask(line.PlaceClaim{UserID: "w"})
	require.True(t, st.BegunNow, "another run id")
	require.Greater(t, st.Epoch, before.Epoch)
	require.Equal(t, w.Score, again.Score, "the log was read back")
	_, back := ask(line.PlaceClaim{UserID: "a"})
	require.Equal(t, a.SlotID, back.SlotID)

	require.NoError(t, client.FlushAll(t.Context()).Err())
	entry := &line.EntryClaims{SlotID: a.SlotID, Epoch: st.Epoch, End: a.End}
	wiped, adopted := ask(line.PlaceClaim{UserID: "a", Entry: entry})
	require.Equal(t, a.SlotID, adopted.SlotID)
	require.Equal(t, one, wiped.Threshold)
	_, found := ask(line.PlaceClaim{UserID: "w", Ticket: &line.Ticket{Score: w.Score, Epoch: st.Epoch, IssuedAt: st.Now}})
	require.Equal(t, w.Score, found.Score)

	_, _, err = store.Check(t.Context(), "ev", line.KnownState{}, nil)
	require.NoError(t, err, "no claims at all")
}
