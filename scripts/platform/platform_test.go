package platform_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

func TestParseOffset(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"": 0, "0": 0, "1000": 1000, "46000": 46000} {
		got, err := platform.ParseOffset(value)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, value := range []string{"-1", "46001", "1e3", "one"} {
		_, err := platform.ParseOffset(value)
		require.ErrorContains(t, err, "URR_PORT_OFFSET", value)
	}
}

// Nobody may have to wait for a service that starts later, and no two may listen on one port.
func TestServicesStartAfterWhatTheyNeed(t *testing.T) {
	t.Parallel()
	ports := map[int]string{}
	var before []string
	for _, s := range platform.Services() {
		require.Subset(t, before, s.Needs, s.Name)
		require.Subset(t, s.Needs, s.Calls, s.Name)
		for _, port := range slices.Compact([]int{s.Port, s.OpsPort}) {
			require.Empty(t, ports[port], "port %d of %s", port, s.Name)
			ports[port] = s.Name
		}
		before = append(before, s.Name)
	}
}

func TestSecretsAreMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	l := platform.Layout{Root: t.TempDir()}
	first, err := platform.LoadSecrets(t.Context(), l)
	require.NoError(t, err)
	again, err := platform.LoadSecrets(t.Context(), l)
	require.NoError(t, err)
	require.Equal(t, first, again)
	info, err := os.Stat(l.State("secrets.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NotEqual(t, first.RPC["vwr>queue"], first.RPC["gateway>queue"], "every pair has a key of its own")

	// A pair of services that is new gets a key; the others keep theirs.
	kept := maps.Clone(first.RPC)
	delete(kept, "gateway>queue")
	first.RPC = kept
	raw, err := json.Marshal(first)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.State("secrets.json"), raw, 0o600))
	third, err := platform.LoadSecrets(t.Context(), l)
	require.NoError(t, err)
	require.NotEmpty(t, third.RPC["gateway>queue"])
	require.NotEqual(t, again.RPC["gateway>queue"], third.RPC["gateway>queue"])
	require.Equal(t, again.RPC["vwr>queue"], third.RPC["vwr>queue"])
}

func TestSecretsAreTheSameForAllWhoAskFirst(t *testing.T) {
	t.Parallel()
	l := platform.Layout{Root: t.TempDir()}
	got := make([]platform.Secrets, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			got[i], err = platform.LoadSecrets(t.Context(), l)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for _, s := range got {
		require.Equal(t, got[0], s)
	}
}

// What one side signs with, the other must check with.
func TestEnvGivesBothSidesOfAPairTheSameKey(t *testing.T) {
	t.Parallel()
	l := platform.Layout{Root: t.TempDir()}
	w := l.Wiring(platform.NewSecrets())
	env := func(name string) map[string]string {
		s, err := platform.Lookup(name)
		require.NoError(t, err)
		vars := map[string]string{}
		for _, kv := range w.Env(s, l.Listen(s)) {
			k, v, _ := strings.Cut(kv, "=")
			vars[k] = v
		}
		return vars
	}
	for _, caller := range platform.Services() {
		for _, callee := range caller.Calls {
			key := env(caller.Name)[strings.ToUpper(callee)+"_RPC_KEY"]
			require.NotEmpty(t, key)
			require.Contains(t, strings.Split(env(callee)["RPC_ACCEPT"], ","), caller.Name+":"+key)
			require.Equal(t, env(callee)["GRPC_ADDR"], env(caller.Name)[strings.ToUpper(callee)+"_ADDR"])
		}
	}
	require.Equal(t, env("payment")["SANDBOX_WEBHOOK_SECRET"], env("sandbox")["SANDBOX_WEBHOOK_SECRET"])
	require.Empty(t, env("stats")["SESSION_SECRET"], "a service gets no secret that it does not use")
}
