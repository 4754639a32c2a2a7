package lifecycle_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc/authority"
	"urr.guru/pkg/telemetry/metricstest"
)

// secretsConfig is the configuration of a test service: its own secret and the keys of its callers.
type secretsConfig struct {
	lifecycle.Config

	Key    config.Secret            `env:"FOLLOWED_KEY, required"`
	Accept map[string]config.Secret `env:"FOLLOWED_ACCEPT"`
}

func (c *secretsConfig) Validate() error {
	if !strings.HasPrefix(c.Key.Reveal(), "good") {
		return config.Invalid("FOLLOWED_KEY", c.Key, "must be good")
	}
	return nil
}

// recorder records what an app logs and applies.
type recorder struct {
	mu      sync.Mutex
	log     bytes.Buffer
	applied []*secretsConfig
}

func (w *recorder) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *recorder) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// apply records the configuration, unless its key of the gateway is "too short".
func (w *recorder) apply(next *secretsConfig) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next.Accept["gateway"] == "too short" {
		return errors.New("a key is too short")
	}
	w.applied = append(w.applied, next)
	return nil
}

// last returns the last applied configuration and the number of calls.
func (w *recorder) last() (*secretsConfig, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.applied) == 0 {
		return nil, 0
	}
	return w.applied[len(w.applied)-1], len(w.applied)
}

// follow runs, inside a synctest bubble, an app that follows the secret files below dir.
func follow(t *testing.T, dir string) *recorder {
	t.Helper()
	t.Setenv("FOLLOWED_KEY_FILE", filepath.Join(dir, "key"))
	t.Setenv("FOLLOWED_ACCEPT_FILE", filepath.Join(dir, "accept"))
	if _, err := os.Stat(filepath.Join(dir, "tls")); err == nil {
		t.Setenv("RPC_PLAIN", "")
		t.Setenv("RPC_TLS_FILE", filepath.Join(dir, "tls"))
	}
	cfg, err := config.Load[secretsConfig](t.Context())
	require.NoError(t, err)
	w := new(recorder)
	a, err := lifecycle.Start(t.Context(), "test", lifecycle.Config{ShutdownTimeout: time.Minute, TLS: cfg.TLS}, slog.New(slog.NewTextHandler(w, nil)))
	require.NoError(t, err)
	lifecycle.FollowSecrets(a, cfg, w.apply)
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return w
}

// mount writes a Secret as the kubelet does: all its files change at once.
func mount(t *testing.T, dir string, members map[string]string) {
	t.Helper()
	data := filepath.Join(dir, "..data-"+rand.Text())
	require.NoError(t, os.Mkdir(data, 0o700))
	for name, content := range members {
		path := filepath.Join(data, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		top, _, _ := strings.Cut(name, "/")
		_ = os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)) // fails if it exists
	}
	require.NoError(t, os.Symlink(filepath.Base(data), filepath.Join(dir, "..next")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
}

// rounds waits until the files were read n times.
func rounds(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}

// metric returns a metric's value, which other tests of the process may have changed before.
func metric(t *testing.T, name, variable string) float64 {
	t.Helper()
	value, _ := metricstest.MetricSum(t, name, map[string]string{"variable": variable})
	return value
}

func TestChangedSecretsAreApplied(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, map[string]string{"key": "good 1", "accept/gateway": "g1", "accept/vwr": "v1"})
	synctest.Test(t, func(t *testing.T) {
		before := metric(t, "urr_secret_reloads_total", "FOLLOWED_KEY")
		w := follow(t, dir)
		rounds(5)
		_, n := w.last()
		require.Zero(t, n, "nothing has changed")
		require.NotContains(t, w.logged(), "secret")

		mount(t, dir, map[string]string{"key": "good 2", "accept/gateway": "g1|g2", "accept/vwr": "v1"})
		rounds(3)
		last, n := w.last()
		require.Equal(t, 2, n, "each file by itself")
		require.Equal(t, "good 2", last.Key.Reveal())
		require.Equal(t, map[string]config.Secret{"gateway": "g1|g2", "vwr": "v1"}, last.Accept)
		require.InDelta(t, before+1, metric(t, "urr_secret_reloads_total", "FOLLOWED_KEY"), 0)
		require.Equal(t, 2, strings.Count(w.logged(), "secret changed"))
		require.NotContains(t, w.logged(), "good 2")
	})
}

func TestRefusedContentChangesNothing(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, map[string]string{"key": "good 1", "accept/gateway": "g1"})
	synctest.Test(t, func(t *testing.T) {
		w := follow(t, dir)
		refused := func() float64 { return metric(t, "urr_secret_refused", "FOLLOWED_KEY") }
		inForce := func() []string {
			last, _ := w.last()
			return []string{last.Key.Reveal(), last.Accept["gateway"].Reveal()}
		}
		mount(t, dir, map[string]string{"key": "bad", "accept/gateway": "g2"})
		rounds(10)
		require.Equal(t, []string{"good 1", "g2"}, inForce(), "one that is wrong holds up no other")
		require.InDelta(t, 1, refused(), 0)
		require.Equal(t, 1, strings.Count(w.logged(), "secret refused"), "once, not each second")
		require.Contains(t, w.logged(), filepath.Join(dir, "key"))
		require.Contains(t, w.logged(), "must be good")

		mount(t, dir, map[string]string{"key": "good 2", "accept/gateway": "too short"})
		rounds(10)
		require.Equal(t, []string{"good 2", "g2"}, inForce())
		require.Zero(t, refused())
		require.Contains(t, w.logged(), "a key is too short")

		require.NoError(t, os.Remove(filepath.Join(dir, "key")))
		rounds(10)
		require.InDelta(t, 1, refused(), 0)
		require.Contains(t, w.logged(), "no such file or directory")
		require.Equal(t, []string{"good 2", "g2"}, inForce())
	})
}

// The External Secrets operator may empty a key before it writes the next content, or delete and
// recreate the Secret. The old content stays in use, and a key that returns unchanged is no reload.
func TestEmptiedSecretStaysInUse(t *testing.T) {
	dir := t.TempDir()
	first := map[string]string{"key": "good 1", "accept/gateway": "g1", "accept/vwr": "v1"}
	mount(t, dir, first)
	synctest.Test(t, func(t *testing.T) {
		w := follow(t, dir)
		refused := func() []float64 {
			return []float64{metric(t, "urr_secret_refused", "FOLLOWED_KEY"), metric(t, "urr_secret_refused", "FOLLOWED_ACCEPT")}
		}
		for _, emptied := range []map[string]string{
			{"key": "", "accept/gateway": "g1", "accept/vwr": ""},
			{}, // deleted
		} {
			mount(t, dir, emptied)
			rounds(5)
			_, n := w.last()
			require.Zero(t, n, "an incomplete set of callers must not be applied either")
			require.Equal(t, []float64{1, 1}, refused())
			mount(t, dir, first)
			rounds(3)
			_, n = w.last()
			require.Zero(t, n)
			require.Equal(t, []float64{0, 0}, refused())
		}
		mount(t, dir, map[string]string{"key": "good 2", "accept/gateway": "g2", "accept/vwr": "v1"})
		rounds(3)
		last, n := w.last()
		require.Equal(t, 2, n)
		require.Equal(t, "good 2", last.Key.Reveal())
		require.Equal(t, map[string]config.Secret{"gateway": "g2", "vwr": "v1"}, last.Accept)
	})
}

// A file that is written in place may be read incomplete, and an incomplete set may look complete.
func TestPartiallyWrittenFileIsIgnored(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, map[string]string{"key": "good 1", "accept/gateway": "g1"})
	synctest.Test(t, func(t *testing.T) {
		w := follow(t, dir)
		rounds(1)
		for _, part := range []string{"good", "good 2", "good 2,go", "good 2,good 1"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte(part), 0o600))
			rounds(1)
		}
		_, n := w.last()
		require.Zero(t, n)
		rounds(1)
		last, n := w.last()
		require.Equal(t, 1, n)
		require.Equal(t, "good 2,good 1", last.Key.Reveal())
	})
}

// The App itself renews the certificate for calls. One that others would refuse changes nothing.
func TestChangedCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour)
		ca, err := authority.New(end.Add(24 * time.Hour))
		require.NoError(t, err)
		mountCertificate := func(service string, end time.Time) {
			pair, err := ca.Issue(service, end)
			require.NoError(t, err)
			members := map[string]string{"key": "good", "accept/gateway": "g"}
			for name, content := range pair.Config(ca).Certificate {
				members["tls/"+name] = content.Reveal()
			}
			mount(t, dir, members)
		}
		mountCertificate("test", end)
		w := follow(t, dir)
		requireExpiry := func(want time.Time) {
			t.Helper()
			rounds(5)
			got, _ := metricstest.MetricSum(t, "urr_rpc_certificate_expires_timestamp_seconds", nil)
			require.InDelta(t, float64(want.Unix()), got, 0)
		}
		requireExpiry(end)
		mountCertificate("test", end.Add(time.Hour))
		requireExpiry(end.Add(time.Hour))
		require.Zero(t, metric(t, "urr_secret_refused", "RPC_TLS"))

		mountCertificate("other", end.Add(2*time.Hour))
		requireExpiry(end.Add(time.Hour))
		require.InDelta(t, 1, metric(t, "urr_secret_refused", "RPC_TLS"), 0)
		require.Contains(t, w.logged(), "valid for other, not test")
	})
}
