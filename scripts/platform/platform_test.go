package platform_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
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

// Commands without URR_PORT_OFFSET use the offset of the running platform. If it is set, even to 0,
// they use its value.
func TestCommandsFindPortsOfTheRunningPlatform(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "scripts"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "scripts", "go.mod"), nil, 0o600))
	t.Chdir(root)
	offset := func() int {
		l, err := platform.Find()
		require.NoError(t, err)
		return l.Offset
	}
	t.Setenv("URR_PORT_OFFSET", "3100")
	l, err := platform.Find()
	require.NoError(t, err)
	require.NoError(t, l.KeepOffset())
	require.NoError(t, os.Unsetenv("URR_PORT_OFFSET"))
	require.Equal(t, 3100, offset())
	t.Setenv("URR_PORT_OFFSET", "0")
	require.Zero(t, offset())
	require.NoError(t, os.Unsetenv("URR_PORT_OFFSET"))
	require.NoError(t, l.ForgetOffset())
	require.NoError(t, l.ForgetOffset(), "twice is once")
	require.Zero(t, offset())
}

// Every service starts after those that it needs, and no two services share a port.
func TestServicesStartAfterTheirDependencies(t *testing.T) {
	t.Parallel()
	ports := map[int]string{}
	var before []string
	for _, s := range platform.Services() {
		require.Subset(t, before, s.Needs, s.Name)
		// The worker service needs the table of the ingest service. The vwr and reward services call the
		// ingest service only when an operator opens a room or a campaign of a promotion.
		if s.Name != platform.Ingest && s.Name != platform.VWR && s.Name != platform.Reward {
			require.Subset(t, s.Needs, s.Calls, s.Name)
		}
		for _, port := range slices.Compact([]int{s.Port, s.OpsPort}) {
			require.Empty(t, ports[port], "port %d of %s", port, s.Name)
			ports[port] = s.Name
		}
		before = append(before, s.Name)
	}
}

func TestSecretsAreGeneratedOnceAndKept(t *testing.T) {
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

	// A missing key of caller and callee is generated; existing keys are kept.
	kept := maps.Clone(first.RPC)
	delete(kept, "gateway>queue")
	first.RPC = kept
	first.Certificates = maps.Clone(first.Certificates)
	delete(first.Certificates, "queue")
	raw, err := json.Marshal(first)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.State("secrets.json"), raw, 0o600))
	third, err := platform.LoadSecrets(t.Context(), l)
	require.NoError(t, err)
	require.NotEmpty(t, third.RPC["gateway>queue"])
	require.NotEqual(t, again.RPC["gateway>queue"], third.RPC["gateway>queue"])
	require.Equal(t, again.RPC["vwr>queue"], third.RPC["vwr>queue"])
	require.Equal(t, again.Certificates["vwr"], third.Certificates["vwr"])
	require.NotEqual(t, again.Certificates["queue"], third.Certificates["queue"])
}

func TestConcurrentFirstLoadsGiveTheSameSecrets(t *testing.T) {
	t.Parallel()
	l := platform.Layout{Root: t.TempDir()}
	got := make([]platform.Secrets, 8)
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], errs[i] = platform.LoadSecrets(t.Context(), l) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, s := range got {
		require.Equal(t, got[0], s)
	}
}

// The service that signs and the one that checks the signature have the same key.
func TestEnvHasTheSameKeyForBothSidesOfAPair(t *testing.T) {
	t.Parallel()
	l := platform.Layout{Root: t.TempDir()}
	w := l.Wiring(platform.NewSecrets())
	w.Providers = []string{platform.Stripe, platform.Toss}
	envOf := func(s platform.Service) map[string]string {
		vars := map[string]string{}
		for _, kv := range w.Env(s, l.Listen(s)) {
			k, v, _ := strings.Cut(kv, "=")
			vars[k] = v
		}
		return vars
	}
	env := func(name string) map[string]string {
		s, err := platform.Lookup(name)
		require.NoError(t, err)
		return envOf(s)
	}
	for _, caller := range platform.Services() {
		if caller.Name != platform.Sandbox {
			cfg, err := config.LoadFrom[rpc.TLSConfig](t.Context(), env(caller.Name))
			require.NoError(t, err)
			_, err = rpc.NewIdentity(caller.Name, *cfg)
			require.NoError(t, err, "the certificate of %s is its own, by an authority that all trust", caller.Name)
		}
		for _, callee := range caller.Calls {
			key := env(caller.Name)[strings.ToUpper(callee)+"_RPC_KEY"]
			require.NotEmpty(t, key)
			require.Contains(t, strings.Split(env(callee)["RPC_ACCEPT"], ","), caller.Name+":"+key)
			require.Equal(t, env(callee)["GRPC_ADDR"], env(caller.Name)[strings.ToUpper(callee)+"_ADDR"])
		}
	}
	require.Equal(t, env("payment")["SANDBOX_WEBHOOK_SECRET"], env("sandbox")["SANDBOX_WEBHOOK_SECRET"])
	fakes := envOf(platform.FakeProviders())
	for _, name := range []string{"STRIPE_SECRET_KEY", "STRIPE_WEBHOOK_SECRET", "TOSS_SECRET_KEY"} {
		require.NotEmpty(t, fakes[name])
		require.Equal(t, fakes[name], env("payment")[name])
	}
	require.Equal(t, fakes["TOSS_CLIENT_KEY"], env("gateway")["TOSS_CLIENT_KEY"])
	require.Equal(t, "http://"+fakes["STRIPE_ADDR"], env("payment")["STRIPE_URL"])
	require.Equal(t, "http://"+fakes["TOSS_ADDR"], env("payment")["TOSS_URL"])
	require.Empty(t, env("stats")["SESSION_SECRET"], "a service gets no secret that it does not use")
}

// The only blocked port that an offset can give to a page, metrics or ledger is 10080.
func TestBrowserPortsAvoidBlockedPorts(t *testing.T) {
	t.Parallel()
	for _, s := range platform.Services() {
		for port, opened := range map[int]bool{s.Port: s.Name == platform.Gateway || s.Name == platform.Sandbox, s.OpsPort: true} {
			_, err := platform.ParseOffset(strconv.Itoa(10080 - port))
			if port != s.OpsPort && !opened {
				require.NoError(t, err, "gRPC of %s", s.Name)
				continue
			}
			require.ErrorContains(t, err, "browsers open no page on port 10080, where "+s.Name+" would listen")
			suggested := regexp.MustCompile(`URR_PORT_OFFSET=(\d+)\)$`).FindStringSubmatch(err.Error())
			require.NotNil(t, suggested, err)
			_, err = platform.ParseOffset(suggested[1])
			require.NoError(t, err)
		}
	}
	n, err := platform.ParseOffset("2100")
	require.NoError(t, err)
	require.Equal(t, 2100, n)
}

func TestSuggestedOffsetIsUsable(t *testing.T) {
	t.Parallel()
	taken := map[int]bool{platform.KafkaPort + 1000: true, 8080 + 3000: true, platform.SQSPort + 46000: true}
	free := func(port int) bool { return !taken[port] }
	for start, want := range map[int]int{
		0:    4000, // Kafka's port is taken at 1000, the pages are blocked at 2000, the gateway's port is taken at 3000
		4000: 5000, 1888: 2888, 46000: 0, 45500: 0, 45000: 0,
	} {
		got, found := platform.OtherOffset(start, free)
		require.True(t, found)
		require.Equal(t, want, got, "after %d", start)
	}
	_, found := platform.OtherOffset(7, func(int) bool { return false })
	require.False(t, found)
}
