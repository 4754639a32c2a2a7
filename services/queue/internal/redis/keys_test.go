package redis_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// keyRecorder records the keys of every script call.
type keyRecorder struct {
	goredis.Hook

	keys *[][]string
}

func (h keyRecorder) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") {
			n := args[2].(int)
			keys := make([]string, n)
			for i := range n {
				keys[i] = args[3+i].(string)
			}
			*h.keys = append(*h.keys, keys)
		}
		return next(ctx, cmd)
	}
}

func (h keyRecorder) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h keyRecorder) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func TestScriptKeysShareHashTag(t *testing.T) {
	t.Parallel()
	client, event := redistest.Open(t), redistest.Prefix(t)
	var calls [][]string
	client.AddHook(keyRecorder{keys: &calls})
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	c := t.Context()
	_, _, err = store.Check(c, event, line.KnownState{}, []line.PlaceClaim{
		{UserID: "a", Join: true, Begin: true, Tier1: line.Tier1{Round: 1, Position: 1}}, {UserID: "b", Join: true, Tier1: line.Tier1{Round: 2, Position: 1}},
		{UserID: "c", Join: true, Tier1: line.Tier1{Round: 1, Position: 2}}, {UserID: "d", Join: true, Tier1: line.Tier1{Round: 1, Position: 300}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"{" + event + "}:t1:1:0", "{" + event + "}:t1:2:0", "{" + event + "}:t1:1:3"}, calls[len(calls)-1][22:],
		"each page's key once")
	packed, err := client.ObjectEncoding(c, "{"+event+"}:t1:1:0").Result()
	require.NoError(t, err)
	require.Equal(t, "listpack", packed)
	_, _, err = store.Admit(c, event, line.KnownState{})
	require.NoError(t, err)
	_, _, _, err = store.Clean(c, event, line.KnownState{})
	require.NoError(t, err)
	_, _, err = store.Release(c, event, line.KnownState{}, "a", "")
	require.NoError(t, err)
	_, err = store.Peek(c, event, line.KnownState{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(calls), 5)
	for _, keys := range calls {
		for _, k := range keys {
			require.True(t, strings.HasPrefix(k, "{"+event+"}:"), k)
		}
	}
}

// A script may use a key that is not among KEYS on one server, but not on a cluster.
func TestScriptsUseOnlyPassedKeys(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.Len(t, files, 9)
	literalKey := regexp.MustCompile(`call\(\s*'[A-Z]+',\s*['"]`)
	for _, f := range files {
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range literalKey.FindAllString(string(src), -1) {
			require.Contains(t, m, "'INFO'", f)
		}
	}
}

// TestSuiteOnCluster runs the other tests on a cluster. TestRedisRestart kills its own server.
func TestSuiteOnCluster(t *testing.T) {
	redistest.OnCluster(t, "TestRedisRestart", "TestLinesOnSeveralNodes", "TestKeysOfALineShareOneSlot")
}

func TestLinesOnSeveralNodes(t *testing.T) {
	t.Parallel()
	client, event := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithRegistry("registry-"+event), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	c := t.Context()
	for _, id := range []string{event + "-1", event + "-2", event + "-3", event + "-4"} {
		st, err := store.Open(c, id, line.KnownState{})
		require.NoError(t, err)
		_, err = store.ApplySettings(c, id, line.KnownState{}, line.Settings{}, st.Now)
		require.NoError(t, err)
		_, out, err := store.Check(c, id, line.KnownState{}, []line.PlaceClaim{
			{UserID: "a", Join: true, Tier1: line.Tier1{Required: true, Round: 1, Position: 1}}, {UserID: "b", Join: true},
		})
		require.NoError(t, err)
		require.Equal(t, []line.VisitorState{line.Inside, line.Inside}, []line.VisitorState{out[0].State, out[1].State})
		require.NoError(t, store.AddEvents(c, id))
	}
	for _, lookup := range []struct {
		event, user string
		holder      bool
	}{{event + "-1", "a", true}, {event + "-2", "b", true}, {event + "-3", "x", false}} {
		members, err := store.LookUp(c, lookup.event, []line.MemberQuery{{UserID: lookup.user, Holder: lookup.holder}})
		require.NoError(t, err)
		require.Equal(t, lookup.holder, members[0].Found)
	}
	require.NoError(t, store.UpdateLastSeen(c, event+"-1", []line.LastSeenUpdate{{UserID: "a", Holder: true, At: 5}, {UserID: "b"}}))
	known, err := store.ListEvents(c)
	require.NoError(t, err)
	require.Len(t, known, 4)
}

// In a cluster all keys that a line ever has are in one hash slot; other lines have other slots.
func TestKeysOfALineShareOneSlot(t *testing.T) {
	f := setupOn(t, redistest.OpenCluster(t), redistest.ClusterPrefix(t))
	f.open()
	f.apply(line.Settings{Threshold: ptr(2), Blocked: []string{"bad"}})
	in := f.joinAt("in", 1)
	f.joinAt("far", 4711)
	f.hold("in", in.SlotID, f.clock().Add(time.Hour))
	f.crowd("w", 15)
	f.joinAt("late", 5)
	f.live(20*time.Second, "in", "w-0")
	f.release("far", f.status("far").SlotID)
	f.live(time.Second, "in")
	ticket := f.ticket(f.status("w-3"))
	f.failover()
	f.advance(10 * time.Second)
	f.claim(line.PlaceClaim{UserID: "w-3", Ticket: ticket})
	f.live(10*time.Minute, "in")
	f.clean()
	keys := redistest.Keys(t, f.client, "*"+f.event+"*")
	require.Greater(t, len(keys), 12)
	slots := map[int64][]string{}
	for _, k := range keys {
		slot, err := f.client.ClusterKeySlot(f.ctx(), k).Result()
		require.NoError(t, err)
		slots[slot] = append(slots[slot], k)
	}
	require.Len(t, slots, 1, "%v", slots)
	other, err := f.client.ClusterKeySlot(f.ctx(), "{"+f.event+"-2}:line").Result()
	require.NoError(t, err)
	require.NotContains(t, slots, other)
}
