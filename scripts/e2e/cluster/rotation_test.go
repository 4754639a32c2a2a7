package cluster_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// The rotated RPC key: gateways sign calls with it, and the queue service verifies them.
const (
	pairSecret  = "urr-rpc-gateway-queue"
	signingKey  = "QUEUE_RPC_KEY"
	acceptedKey = "RPC_ACCEPT"
)

// rotation rotates the RPC key between the gateway and queue services while visitors buy, in the
// documented order. No request fails.
func (w *world) rotation(t *testing.T) {
	t.Helper()
	before := w.pods(t)
	encoded := w.kubectl(t, "get", "secret", pairSecret, "-o", "jsonpath={.data.key}")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	former, next := string(decoded), strings.Repeat("n", 64)
	visitors := w.startBuyers(t)
	for _, step := range []struct{ name, keys string }{
		{"append the new key", former + "|" + next},
		{"sign with the new key", next + "|" + former},
		{"drop the old key", next},
	} {
		began := time.Now()
		w.applySecret(t, step.keys)
		visitors.buy(t)
		t.Logf("%s: in all pods after %s", step.name, time.Since(began).Round(time.Second))
	}
	visitors.end(t)
	for _, p := range w.podsOf(t, platform.Queue) {
		require.Zero(t, p.metric(t, "urr_rpc_server_refusals_total", `reason="CALLER_REFUSED"`), "%s refused calls", p.name)
	}
	require.Equal(t, before, w.pods(t), "no pod was replaced")
}

// applySecret changes the Secret and returns when all pods of both services have loaded it.
func (w *world) applySecret(t *testing.T, keys string) {
	t.Helper()
	type podSecret struct {
		pod
		variable string
		loaded   float64
	}
	var podSecrets []podSecret
	for service, variable := range map[string]string{platform.Gateway: signingKey, platform.Queue: acceptedKey} {
		for _, p := range w.podsOf(t, service) {
			podSecrets = append(podSecrets, podSecret{p, variable, p.reloads(t, variable)})
		}
	}
	w.kubectl(t, "patch", "secret", pairSecret, "-p", fmt.Sprintf(`{"stringData":{"key":%q}}`, keys))
	for _, f := range podSecrets {
		testkit.Until(t, func() bool { return f.reloads(t, f.variable) > f.loaded }, "%s loads %s", f.name, f.variable)
	}
}

// reloads returns how often the pod has loaded a changed secret.
func (p pod) reloads(t *testing.T, variable string) float64 {
	t.Helper()
	return p.metric(t, "urr_secret_reloads_total", fmt.Sprintf(`variable="%s"`, variable))
}
