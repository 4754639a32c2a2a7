package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/sandbox"
)

const secret = "0123456789abcdef0123456789abcdef"

// receiver receives the webhooks. It refuses as many of the first ones as refuse says.
type receiver struct {
	mu     sync.Mutex
	refuse int
	got    []map[string]any
	signed []bool
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}
	if r.refuse > 0 {
		r.refuse--
		answer.StatusCode = http.StatusServiceUnavailable
		return answer, nil
	}
	var n map[string]any
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, err
	}
	r.got = append(r.got, n)
	r.signed = append(r.signed, req.Header.Get(sandbox.SignatureHeader) == sandbox.Sign([]byte(secret), time.Now(), body))
	return answer, nil
}

// received and signatures copy what has arrived, under the lock, since synctest does not prevent
// data races.
func (r *receiver) received() []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *receiver) signatures() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.signed)
}

type provider struct {
	*sandbox.Server
	hooks *receiver
	stop  func()
}

// start serves the ledger of a file. In a synctest bubble it uses simulated time.
func start(t *testing.T, file string) *provider {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ledger, err := sandbox.Open(file, time.Now)
	require.NoError(t, err)
	hooks := &receiver{}
	s := sandbox.NewServer(ctx, ledger, sandbox.Options{
		WebhookURL: "http://gateway/hook", WebhookSecret: secret, Client: &http.Client{Transport: hooks},
	}, slog.New(slog.DiscardHandler))
	stop := sync.OnceFunc(func() {
		cancel()
		s.Wait()
		require.NoError(t, ledger.Close())
	})
	t.Cleanup(stop)
	return &provider{Server: s, hooks: hooks, stop: stop}
}

func (p *provider) call(ctx context.Context, method, path, body string) (status int, answer map[string]any) {
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
	_ = json.NewDecoder(bytes.NewReader(rec.Body.Bytes())).Decode(&answer)
	return rec.Code, answer
}

func (p *provider) charge(t *testing.T, order, key string) (status int, answer map[string]any) {
	t.Helper()
	return p.call(t.Context(), http.MethodPost, "/v1/charges",
		`{"paymentKey":"`+key+`","orderId":"`+order+`","amount":55000,"currency":"KRW","idempotencyKey":"k-`+order+key+`"}`)
}

func (p *provider) status(t *testing.T, order string) any {
	t.Helper()
	code, c := p.call(t.Context(), http.MethodGet, "/v1/charges/"+order, "")
	if code == http.StatusNotFound {
		return nil
	}
	require.Equal(t, http.StatusOK, code)
	return c["status"]
}

func TestChargeByPaymentKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		key    string
		answer int
		status any
		hooks  []string
	}{
		{"ok-1", http.StatusOK, "CAPTURED", []string{"charge.captured"}},
		{"decline-1", http.StatusPaymentRequired, "DECLINED", []string{"charge.declined"}},
		{"nonsense", http.StatusPaymentRequired, "DECLINED", []string{"charge.declined"}},
		{"late-1", http.StatusAccepted, "PENDING", nil},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := start(t, filepath.Join(t.TempDir(), "ledger"))
				code, _ := p.charge(t, "o", tt.key)
				require.Equal(t, tt.answer, code)
				synctest.Wait()
				require.Equal(t, tt.status, p.status(t, "o"))
				var types []string
				for _, n := range p.hooks.received() {
					types = append(types, n["type"].(string))
				}
				require.Equal(t, tt.hooks, types)
			})
		})
	}
}

// A client gives up after 5 s. The order has these statuses 5 s and 15 s after its request.
func TestWithoutAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ at5, at15 any }{
		"timeout-1": {"CAPTURED", "CAPTURED"},
		"lost-1":    {nil, nil},
		"slow-1":    {nil, "CAPTURED"}, // charged after the client has disconnected
	}
	for key, tt := range tests {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := start(t, filepath.Join(t.TempDir(), "ledger"))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				go func() {
					defer func() { _ = recover() }() // http.ErrAbortHandler, which drops the connection
					_, _ = p.call(ctx, http.MethodPost, "/v1/charges",
						`{"paymentKey":"`+key+`","orderId":"o","amount":1,"currency":"KRW","idempotencyKey":"k"}`)
				}()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.at5, p.status(t, "o"))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.at15, p.status(t, "o"))
				require.Empty(t, p.hooks.received(), "the network that lost the answer must lose the webhook")
			})
		})
	}
}

func TestLateChargeIsReportedAfterThreeSecondsAndRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, filepath.Join(t.TempDir(), "ledger"))
		p.hooks.refuse = 2
		_, _ = p.charge(t, "o", "late-1")
		time.Sleep(2900 * time.Millisecond)
		require.Equal(t, "PENDING", p.status(t, "o"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "CAPTURED", p.status(t, "o"))
		require.Empty(t, p.hooks.received())
		time.Sleep(4 * time.Second) // more than the waits of 1 s and 2 s before retries
		synctest.Wait()
		require.Len(t, p.hooks.received(), 1)
		require.Equal(t, []bool{true}, p.hooks.signatures())
		require.Equal(t, "charge.captured", p.hooks.received()[0]["type"])
		require.InDelta(t, 55000, p.hooks.received()[0]["amount"], 0)
	})
}

func TestRestartKeepsTheLedgerAndTakesUpPendingCharges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger")
		p := start(t, file)
		_, first := p.charge(t, "paid", "ok-1")
		_, _ = p.charge(t, "late", "late-1")
		p.stop()

		p = start(t, file)
		_, again := p.charge(t, "paid", "ok-1")
		require.Equal(t, first, again, "a repeated attempt must not charge twice")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Equal(t, "CAPTURED", p.status(t, "late"))
	})
}

func TestVoid(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "ledger"))
	void := func(order string) int {
		code, _ := p.call(t.Context(), http.MethodPost, "/v1/charges/"+order+"/void", `{"idempotencyKey":"v"}`)
		return code
	}
	require.Equal(t, http.StatusOK, void("unknown"), "an order never seen can be voided")
	code, answer := p.charge(t, "unknown", "ok-1")
	require.Equal(t, http.StatusPaymentRequired, code)
	require.Equal(t, "ORDER_VOIDED", answer["declineCode"])
	require.Equal(t, "VOIDED", p.status(t, "unknown"))
	require.Equal(t, http.StatusOK, void("unknown"))

	_, _ = p.charge(t, "paid", "ok-1")
	require.Equal(t, http.StatusConflict, void("paid"))
}

func TestRefundIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := start(t, filepath.Join(t.TempDir(), "ledger"))
		_, _ = p.charge(t, "o", "ok-1")
		synctest.Wait()
		before := len(p.hooks.received())
		code, _ := p.call(t.Context(), http.MethodPost, "/v1/charges/o/refunds", `{"idempotencyKey":"by-hand","amount":100}`)
		require.Equal(t, http.StatusOK, code)
		synctest.Wait()
		reports := p.hooks.received()[before:]
		require.Len(t, reports, 1)
		require.Equal(t, "charge.refunded", reports[0]["type"])
		require.Equal(t, "o", reports[0]["orderId"])
	})
}

func TestRefund(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "ledger"))
	refund := func(order, key, amount string) (status int, id any) {
		code, answer := p.call(t.Context(), http.MethodPost, "/v1/charges/"+order+"/refunds",
			`{"idempotencyKey":"`+key+`","amount":`+amount+`}`)
		return code, answer["refundId"]
	}
	_, _ = p.charge(t, "o", "ok-1")
	code, id := refund("o", "a", "50000")
	require.Equal(t, http.StatusOK, code)
	code, again := refund("o", "a", "50000")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, id, again)

	for name, tt := range map[string]struct {
		order, key, amount string
		want               int
	}{
		"more than is left": {"o", "b", "5001", http.StatusUnprocessableEntity},
		"a key used before": {"o", "a", "1", http.StatusUnprocessableEntity},
		"no such charge":    {"x", "c", "1", http.StatusNotFound},
		"nothing":           {"o", "d", "0", http.StatusBadRequest},
	} {
		code, _ := refund(tt.order, tt.key, tt.amount)
		require.Equal(t, tt.want, code, name)
	}
	code, ledger := p.call(t.Context(), http.MethodGet, "/v1/ledger", "")
	require.Equal(t, http.StatusOK, code)
	require.Len(t, ledger["refunds"], 1)
	require.InDelta(t, 50000, ledger["charges"].([]any)[0].(map[string]any)["refundedAmount"], 0)
}
