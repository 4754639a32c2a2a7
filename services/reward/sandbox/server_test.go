package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/sandbox"
)

// provider is a sandbox behind HTTP.
type provider struct {
	t      *testing.T
	url    string
	ledger *sandbox.Ledger
}

func serve(t *testing.T, faults string) *provider {
	t.Helper()
	ledger, err := sandbox.Open(filepath.Join(t.TempDir(), "ledger"), time.Now)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	handler := sandbox.NewServer(ctx, ledger, sandbox.Faults{}, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(handler)
	t.Cleanup(func() { stop(); server.Close(); handler.Wait(); _ = ledger.Close() })
	p := &provider{t: t, url: server.URL, ledger: ledger}
	status, body := p.call(http.MethodPut, "/v1/faults", faults)
	require.Equal(t, http.StatusNoContent, status, body)
	return p
}

// call sends a request and returns the answer; status is 0 when there was none.
func (p *provider) call(method, path, body string) (status int, answer string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(raw)
}

func (p *provider) pay(key string) int {
	p.t.Helper()
	status, _ := p.call(http.MethodPost, "/v1/payouts", fmt.Sprintf(`{"key": %q, "memberId": "m", "kind": "POINT", "value": 100}`, key))
	return status
}

func (p *provider) lookup(key string) int {
	p.t.Helper()
	status, _ := p.call(http.MethodGet, "/v1/payouts/"+key, "")
	return status
}

func (p *provider) void(key string) int {
	p.t.Helper()
	status, _ := p.call(http.MethodPost, "/v1/payouts/"+key+"/void", "")
	return status
}

func TestFaultsOfAPayout(t *testing.T) {
	t.Parallel()
	for faults, want := range map[string]struct {
		status, paid int
	}{
		`{}`:                                 {http.StatusOK, 1},
		`{"refused": 1}`:                     {http.StatusUnprocessableEntity, 0},
		`{"refusedForGood": 1}`:              {http.StatusGone, 0},
		`{"busy": 1}`:                        {http.StatusTooManyRequests, 0},
		`{"unavailable": 1}`:                 {http.StatusServiceUnavailable, 0},
		`{"down": true}`:                     {http.StatusServiceUnavailable, 0},
		`{"silent": 1}`:                      {0, 0},
		`{"lost": 1}`:                        {0, 1},
		`{"failed": 1}`:                      {http.StatusInternalServerError, 1},
		`{"slow": 1, "slowFor": "1ms"}`:      {http.StatusOK, 1},
		`{"silent": 1, "silenceFor": "1ms"}`: {0, 0},
	} {
		t.Run(faults, func(t *testing.T) {
			t.Parallel()
			p := serve(t, faults)
			require.Equal(t, want.status, p.pay("k"))
			require.Len(t, p.ledger.All(), want.paid)
		})
	}
}

// The provider may pay after a look-up has found no payment.
func TestPaidAfterTheAnswerAbsent(t *testing.T) {
	t.Parallel()
	p := serve(t, `{"late": 1, "lateFor": "300ms"}`)
	require.Zero(t, p.pay("k"))
	require.Equal(t, http.StatusNotFound, p.lookup("k"))
	testkit.Until(t, func() bool { return p.lookup("k") == http.StatusOK }, "it is paid after all")
	require.Zero(t, p.pay("void"))
	require.Equal(t, http.StatusNoContent, p.void("void"))
	p.call(http.MethodPut, "/v1/faults", `{}`)
	require.Equal(t, http.StatusGone, p.pay("void"), "not even late")
	require.Equal(t, http.StatusConflict, p.void("k"))
}

func TestKeysThatCannotBeVoided(t *testing.T) {
	t.Parallel()
	p := serve(t, `{"noVoid": 0.5}`)
	counts := map[int]int{}
	for i := range 50 {
		key := fmt.Sprint("k", i)
		status := p.void(key)
		require.Equal(t, status, p.void(key), "the same however often it is tried")
		counts[status]++
	}
	require.Len(t, counts, 2)
	require.NotZero(t, counts[http.StatusNoContent])
	require.NotZero(t, counts[http.StatusNotImplemented])
	for _, bad := range []string{`{"noVoid": 1.5}`, `{"voidLost": -0.5}`} {
		status, _ := p.call(http.MethodPut, "/v1/faults", bad)
		require.Equal(t, http.StatusBadRequest, status)
	}
}

// A void takes effect even if its answer is lost: the key is never paid.
func TestVoidWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	p := serve(t, `{"voidLost": 1}`)
	require.Zero(t, p.void("k"))
	require.Equal(t, http.StatusNotFound, p.lookup("k"))
	require.Equal(t, http.StatusGone, p.pay("k"))
	p.call(http.MethodPut, "/v1/faults", `{}`)
	require.Equal(t, http.StatusNoContent, p.void("k"), "the same when it is asked again")
}

// A connection without an answer stays open until the client leaves.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := serve(t, `{"lost": 1, "silenceFor": "1h"}`)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/payouts", strings.NewReader(`{"key": "k", "memberId": "m", "kind": "POINT", "value": 1}`))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(req)
		done <- err
	}()
	testkit.Until(t, func() bool { return p.lookup("k") == http.StatusOK }, "it is paid")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestRetentionOfKeys(t *testing.T) {
	t.Parallel()
	p := serve(t, `{}`)
	require.Equal(t, http.StatusOK, p.pay("k"))
	require.Equal(t, http.StatusOK, p.pay("k"))
	require.Len(t, p.ledger.All(), 1)
	p.call(http.MethodPut, "/v1/faults", `{"keyRetention": "1ns", "lookupRetention": "1ns"}`)
	require.Equal(t, http.StatusOK, p.pay("k"))
	require.Len(t, p.ledger.All(), 2, "the key is forgotten")
	require.Equal(t, http.StatusNotFound, p.lookup("k"), "so is the payout")
}

func TestFaultsAsJSON(t *testing.T) {
	t.Parallel()
	p := serve(t, `{"seed": 7, "lost": 0.2, "slow": 0.1, "slowFor": "1.5s"}`)
	_, text := p.call(http.MethodGet, "/v1/faults", "")
	var got sandbox.Faults
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, sandbox.Faults{Seed: 7, Lost: 0.2, Slow: 0.1, SlowFor: 1500 * time.Millisecond}, got)
	require.Contains(t, text, `"slowFor":"1.5s"`)
	for _, bad := range []string{`{"lots": 0.2}`, `{"lost": 0.6, "slow": 0.6}`, `{"lost": -0.1}`, `{"slowFor": "soon"}`, `{"slowFor": "-1s"}`, `[]`} {
		status, body := p.call(http.MethodPut, "/v1/faults", bad)
		require.Equal(t, http.StatusBadRequest, status, body)
	}
	_, after := p.call(http.MethodGet, "/v1/faults", "")
	require.Equal(t, text, after, "a refused change changes nothing")
}

// The ledger's file has every payout whose answer was sent, whatever ends the process.
func TestLedgerSurvivesAKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	l, err := sandbox.Open(file, time.Now)
	require.NoError(t, err)
	for _, key := range []string{"a", "b"} {
		_, err := l.Pay(sandbox.Order{Key: key, MemberID: "m", Kind: "POINT", Value: 1}, time.Hour)
		require.NoError(t, err)
	}
	_, err = l.Void("v")
	require.NoError(t, err)
	// Not closed: the process was killed while it wrote the third payout.
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, tail := range []string{"", `{"payout":{"key":"c`, "\n"} {
		copied := filepath.Join(t.TempDir(), "ledger")
		require.NoError(t, os.WriteFile(copied, append(bytes.Clone(raw), tail...), 0o600))
		again, err := sandbox.Open(copied, time.Now)
		require.NoError(t, err)
		require.Len(t, again.All(), 2)
		_, err = again.Pay(sandbox.Order{Key: "v", MemberID: "m", Kind: "POINT", Value: 1}, time.Hour)
		require.Error(t, err, "void")
		_, err = again.Pay(sandbox.Order{Key: "d", MemberID: "m", Kind: "POINT", Value: 1}, time.Hour)
		require.NoError(t, err)
		require.NoError(t, again.Close())
		again, err = sandbox.Open(copied, time.Now)
		require.NoError(t, err)
		require.Len(t, again.All(), 3)
		require.NoError(t, again.Close())
	}
	require.NoError(t, l.Close())
}

// The ledger is listed with one payout per line, also after the first page.
func TestLedgerListing(t *testing.T) {
	t.Parallel()
	p := serve(t, `{}`)
	for i := range 1001 {
		_, err := p.ledger.Pay(sandbox.Order{Key: fmt.Sprint(i), MemberID: "m", Kind: "COUPON", Value: 1}, time.Hour)
		require.NoError(t, err)
	}
	status, body := p.call(http.MethodGet, "/v1/ledger", "")
	require.Equal(t, http.StatusOK, status)
	n := 0
	for line := range strings.Lines(body) {
		var payout sandbox.Payout
		require.NoError(t, json.Unmarshal([]byte(line), &payout))
		require.Equal(t, fmt.Sprint(n), payout.Key)
		n++
	}
	require.Equal(t, 1001, n)
}
