package redis_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// hook records the keys of every script call.
type hook struct {
	goredis.Hook

	keys *[][]string
}

func (h hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
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

func (h hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func TestScriptKeysShareHashTag(t *testing.T) {
	t.Parallel()
	client, event := redistest.Open(t), redistest.Prefix(t)
	var calls [][]string
	client.AddHook(hook{keys: &calls})
	store, err := redis.NewStore(client, line.DefaultRules())
	require.NoError(t, err)
	c := t.Context()
	_, _, err = store.Check(c, event, line.KnownState{}, []line.Claim{
		{UserID: "a", Join: true, Begin: true, Tier1: line.Tier1{Round: 1, Position: 1}}, {UserID: "b", Join: true, Tier1: line.Tier1{Round: 2, Position: 1}},
		{UserID: "c", Join: true, Tier1: line.Tier1{Round: 1, Position: 2}}, {UserID: "d", Join: true, Tier1: line.Tier1{Round: 1, Position: 300}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"{" + event + "}:t1:1:0", "{" + event + "}:t1:2:0", "{" + event + "}:t1:1:3"}, calls[len(calls)-1][18:],
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

// A key that is not among KEYS works on one server and fails on a cluster.
func TestScriptsUseOnlyPassedKeys(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.Len(t, files, 7)
	made := regexp.MustCompile(`call\(\s*'[A-Z]+',\s*['"]`)
	for _, f := range files {
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range made.FindAllString(string(src), -1) {
			require.Contains(t, m, "'INFO'", f)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client, event := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithRegistry("registry-"+event))
	require.NoError(t, err)
	c := t.Context()
	// The keys are on several nodes.
	for _, id := range []string{event + "-1", event + "-2", event + "-3", event + "-4"} {
		st, err := store.Open(c, id, line.KnownState{})
		require.NoError(t, err)
		_, err = store.Apply(c, id, line.KnownState{}, line.Settings{}, st.Now)
		require.NoError(t, err)
		_, out, err := store.Check(c, id, line.KnownState{}, []line.Claim{
			{UserID: "a", Join: true, Tier1: line.Tier1{Required: true, Round: 1, Position: 1}}, {UserID: "b", Join: true},
		})
		require.NoError(t, err)
		require.Equal(t, []line.Standing{line.Inside, line.Inside}, []line.Standing{out[0].Standing, out[1].Standing})
		require.NoError(t, store.Add(c, id))
	}
	for _, look := range []struct {
		event, user string
		holder      bool
	}{{event + "-1", "a", true}, {event + "-2", "b", true}, {event + "-3", "x", false}} {
		members, err := store.LookUp(c, look.event, []line.MemberQuery{{UserID: look.user, Holder: look.holder}})
		require.NoError(t, err)
		require.Equal(t, look.holder, members[0].Found)
	}
	require.NoError(t, store.UpdateLastSeen(c, event+"-1", []line.LastSeenUpdate{{UserID: "a", Holder: true, At: 5}, {UserID: "b"}}))
	known, err := store.Events(c)
	require.NoError(t, err)
	require.Len(t, known, 4)
}
