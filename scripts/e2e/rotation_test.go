package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// secretFiles are the files with the secrets of a platform's gateway and queue services. All
// replicas of a service read the same files.
type secretFiles struct {
	t       *testing.T
	dir     string
	p       *harness.Platform
	reloads map[string]int // contents loaded so far, by service/variable
}

const (
	entrySecret = "QUEUE_ENTRY_TOKEN_SECRET"
	acceptedKey = "RPC_ACCEPT"
	signingKey  = "QUEUE_RPC_KEY"
)

func (f *secretFiles) path(service, variable string) string {
	return filepath.Join(f.dir, service, variable)
}

// env returns the environment variables with which a service reads a secret from its file.
func (f *secretFiles) env(service, variable string) []string {
	return []string{variable + "=", variable + "_FILE=" + f.path(service, variable)}
}

// write replaces a file atomically, as Kubernetes does in a mounted Secret.
func (f *secretFiles) write(service, name, content string) {
	f.t.Helper()
	path := f.path(service, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(f.t, os.WriteFile(path+".next", []byte(content), 0o600))
	require.NoError(f.t, os.Rename(path+".next", filepath.Clean(path)))
}

// change writes new content and returns when every replica of the service has loaded it.
func (f *secretFiles) change(service, variable, name, content string) {
	f.t.Helper()
	f.write(service, name, content)
	f.reloads[service+"/"+variable]++
	f.await(service, fmt.Sprintf(`urr_secret_reloads_total{variable="%s"}`, variable), float64(f.reloads[service+"/"+variable]))
}

// await waits until a metric has a value at every replica of a service.
func (f *secretFiles) await(service, metric string, want float64) {
	f.t.Helper()
	s := f.p.Service(service)
	for i := range s.Replicas() {
		f.p.Eventually(func(ctx context.Context) error {
			got, err := s.Metric(ctx, i, metric)
			if err == nil && got != want {
				err = fmt.Errorf("%s of %s-%d is %v, not %v", metric, service, i, got, want)
			}
			return err
		})
	}
}

// startRotating starts two gateways and two queue replicas that read the old keys from files.
func startRotating(t *testing.T, entryKey string, rpcKey string) *secretFiles {
	t.Helper()
	f := &secretFiles{t: t, dir: t.TempDir(), reloads: map[string]int{}}
	f.write(platform.Gateway, entrySecret, entryKey)
	f.write(platform.Queue, entrySecret, entryKey)
	f.write(platform.Gateway, signingKey, rpcKey)
	f.write(platform.VWR, signingKey, rpcKey)
	f.write(platform.Queue, acceptedKey+"/gateway", rpcKey)
	f.write(platform.Queue, acceptedKey+"/room", rpcKey)
	f.write(platform.Queue, acceptedKey+"/vwr", rpcKey)
	f.p = harness.Start(t, harness.Options{
		Replicas: map[string]int{platform.Gateway: 2, platform.Queue: 2},
		Env: map[string][]string{
			platform.Gateway: append(f.env(platform.Gateway, entrySecret), f.env(platform.Gateway, signingKey)...),
			platform.Queue:   append(f.env(platform.Queue, entrySecret), f.env(platform.Queue, acceptedKey)...),
			platform.VWR:     f.env(platform.VWR, signingKey),
		},
	})
	return f
}

// shopping renews the buyer's token and reads seats, at one gateway after the other, until stop is
// called. successes counts the reads that succeeded.
func shopping(b *buyer) (successes *atomic.Int64, stop func()) {
	successes = new(atomic.Int64)
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			at := b.AtReplica(i % 2)
			_, err := at.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+b.event, map[string]any{})
			if err != nil {
				continue
			}
			if a, err := at.Call(ctx, http.MethodGet, "/api/v1/seats/"+b.event, nil); err == nil && a.Status == http.StatusOK {
				successes.Add(1)
			}
		}
	})
	return successes, func() { cancel(); running.Wait() }
}

// TestKeyRotationNeedsNoRestart rotates keys in files while a user buys, in the documented order.
// No key causes a refusal. An invalid file changes nothing, and a removed key is no longer valid.
func TestKeyRotationNeedsNoRestart(t *testing.T) {
	t.Parallel()
	oldKey, newKey := "old:"+strings.Repeat("o", 40), "new:"+strings.Repeat("n", 40)
	oldPair, newPair := strings.Repeat("p", 40), strings.Repeat("q", 40)
	f := startRotating(t, oldKey, oldPair)
	b := newBuyer(t, f.p, newSale(t, f.p))
	successes, stop := shopping(b)
	requireProgress := func() {
		t.Helper()
		before := successes.Load()
		testkit.Until(t, func() bool { return successes.Load() > before+4 }, "buyers are let through")
	}
	requireProgress()

	for _, step := range []struct{ key, pair string }{
		{oldKey + "," + newKey, oldPair + "|" + newPair}, // append the new key
		{newKey + "," + oldKey, newPair + "|" + oldPair}, // sign with the new key
	} {
		f.change(platform.Gateway, entrySecret, entrySecret, step.key)
		f.change(platform.Queue, entrySecret, entrySecret, step.key)
		requireProgress()
		f.change(platform.Queue, acceptedKey, acceptedKey+"/gateway", step.pair)
		f.change(platform.Gateway, signingKey, signingKey, step.pair)
		requireProgress()
	}
	f.write(platform.Gateway, entrySecret, "new:short")
	f.await(platform.Gateway, `urr_secret_refused{variable="`+entrySecret+`"}`, 1)
	requireProgress()
	stop()
	const invalidTokens = `urr_token_refusals_total{kind="entry",reason="invalid"}`
	f.await(platform.Gateway, invalidTokens, 0)
	for _, method := range []string{"Check", "VerifySlots", "WatchLines", "GetLoad", "GetSale"} {
		f.await(platform.Queue, `urr_rpc_server_refusals_total{method="/urr.queue.v1.QueueService/`+method+`",reason="CALLER_REFUSED"}`, 0)
	}

	f.change(platform.Gateway, entrySecret, entrySecret, newKey) // remove the old key
	f.await(platform.Gateway, `urr_secret_refused{variable="`+entrySecret+`"}`, 0)
	a := f.p.Client(b.user).With("x-queue-entry-token", signedBy(t, oldKey, b)).CallWhileOverloaded(t.Context(), http.MethodGet, "/api/v1/seats/"+b.event, nil)
	require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
	refused, err := f.p.Service(platform.Gateway).Metric(t.Context(), 0, invalidTokens)
	require.NoError(t, err)
	require.Positive(t, refused)
}

// signedBy returns an entry token of the buyer, signed with the key as the queue service signs.
func signedBy(t *testing.T, key string, b *buyer) string {
	t.Helper()
	keys, err := token.ParseKeySet(config.Secret(key))
	require.NoError(t, err)
	now := time.Now()
	signed, err := keys.Sign(claims.NewEntry(b.event, b.user, "slot", 1, now.Add(time.Hour), now))
	require.NoError(t, err)
	return signed
}
