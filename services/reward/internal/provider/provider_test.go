package provider_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/provider"
)

// request is what a provider has received.
type request struct{ method, path, authorization, body string }

// answering is a provider that gives every request the same answer.
type answering struct {
	*provider.Client

	mu       sync.Mutex
	received []request
}

func newAnswering(t *testing.T, status int, body string, opts provider.Options) *answering {
	t.Helper()
	p := &answering{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.received = append(p.received, request{r.Method, r.URL.EscapedPath(), r.Header.Get("Authorization"), string(sent)})
		p.mu.Unlock()
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	p.Client = provider.New(server.URL+"/api/", opts)
	t.Cleanup(p.Close)
	return p
}

func (p *answering) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

const (
	key  = "att-c-a/b-2026-03-07-DAILY" // a member's id may need escapes in a path
	paid = `{"transactionId": "tx-1", "key": "` + key + `"}`
)

func allocation() payout.Allocation {
	return payout.Allocation{ID: 1, MemberID: "a/b", Kind: payout.Point, Value: 100, IdempotencyKey: key}
}

// Each answer of a provider leads to one outcome. Only an answer that certainly comes from the
// provider may say that nothing was paid.
func TestAnswers(t *testing.T) {
	t.Parallel()
	pay := func(ctx context.Context, p *answering) payout.CallResult { return p.Pay(ctx, allocation()) }
	ask := func(ctx context.Context, p *answering) payout.CallResult { return p.Lookup(ctx, key) }
	void := func(ctx context.Context, p *answering) payout.CallResult { return p.Void(ctx, key) }
	for _, c := range []struct {
		call   func(context.Context, *answering) payout.CallResult
		name   string
		status int
		body   string
		want   payout.CallOutcome
	}{
		{pay, "paid", 200, paid, payout.Paid},
		{pay, "paid without a transaction", 200, `{"key": "` + key + `"}`, payout.Unknown},
		{pay, "paid without the key", 200, `{"transactionId": "tx-1"}`, payout.Unknown},
		{pay, "paid another key", 200, `{"transactionId": "tx-1", "key": "other"}`, payout.Unknown},
		{pay, "no JSON", 200, `<html>`, payout.Unknown},
		{pay, "another success", 202, paid, payout.Unknown},
		{pay, "a redirect", 307, ``, payout.Unknown},
		{pay, "refused for now", 422, `{"error": "limit reached"}`, payout.Refused},
		{pay, "a conflict", 409, `{}`, payout.Refused},
		{pay, "refused for good", 410, `{}`, payout.RefusedForGood},
		{pay, "invalid", 400, ``, payout.RefusedForGood},
		{pay, "too many", 429, ``, payout.NotSent},
		{pay, "not signed in", 401, ``, payout.NotSent},
		{pay, "forbidden", 403, ``, payout.NotSent},
		{pay, "a wrong URL", 404, ``, payout.NotSent},
		{pay, "overloaded", 503, ``, payout.Busy},
		{pay, "a fault", 500, ``, payout.Unknown},
		{pay, "a proxy gave up", 504, `<html>`, payout.Unknown},
		{ask, "paid", 200, paid, payout.Paid},
		{ask, "paid another key", 200, `{"transactionId": "tx-1", "key": "other"}`, payout.Unknown},
		{ask, "not paid", 404, `{"key": "` + key + `", "error": "none"}`, payout.Absent},
		{ask, "not found by a proxy", 404, `<html>`, payout.Unknown},
		{ask, "not found without the key", 404, `{"error": "no such route"}`, payout.Unknown},
		{ask, "not found of another key", 404, `{"key": "other"}`, payout.Unknown},
		{ask, "not signed in", 401, ``, payout.Unknown},
		{ask, "overloaded", 503, ``, payout.Unknown},
		{void, "voided", 204, ``, payout.Voided},
		{void, "paid before", 409, paid, payout.Paid},
		{void, "a conflict without a transaction", 409, `{}`, payout.Unknown},
		{void, "paid another key before", 409, `{"transactionId": "tx-1", "key": "other"}`, payout.Unknown},
		{void, "no voids", 404, ``, payout.Absent},
		{void, "no voids", 405, ``, payout.Absent},
		{void, "no voids", 501, ``, payout.Absent},
		{void, "a fault", 500, ``, payout.Unknown},
		{void, "overloaded", 503, ``, payout.Unknown},
		{void, "a proxy gave up", 504, `<html>`, payout.Unknown},
		{void, "not signed in", 401, ``, payout.Unknown},
	} {
		t.Run(fmt.Sprintf("%d %s: %s", c.status, c.name, c.want), func(t *testing.T) {
			t.Parallel()
			p := newAnswering(t, c.status, c.body, provider.Options{})
			got := c.call(t.Context(), p)
			require.Equal(t, c.want, got.Outcome, got.Message)
			require.Equal(t, c.want == payout.Paid, got.TransactionID == "tx-1")
			require.Len(t, p.requests(), 1, "nothing is repeated or redirected")
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	p := newAnswering(t, http.StatusOK, paid, provider.Options{Token: "first"})
	a := allocation()
	a.Resends = 1
	p.Pay(t.Context(), a)
	p.Rekey("second")
	p.Lookup(t.Context(), key)
	p.Rekey("")
	p.Void(t.Context(), key)
	const escaped = "/api/v1/payouts/att-c-a%2Fb-2026-03-07-DAILY"
	require.Equal(t, []request{
		{"POST", "/api/v1/payouts", "Bearer first", `{"key":"` + key + `-R1","kind":"POINT","memberId":"a/b","value":100}`},
		{"GET", escaped, "Bearer second", ""},
		{"POST", escaped + "/void", "", "{}"},
	}, p.requests())
}

// The circuit is reported as open from the failures on until a call succeeds.
func TestCircuit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var states []bool
	p := newAnswering(t, http.StatusInternalServerError, ``, provider.Options{Circuit: func(open bool) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, open)
	}})
	for range 20 {
		p.Pay(t.Context(), allocation())
	}
	require.Len(t, p.requests(), 10, "an open circuit sends nothing")
	require.Zero(t, p.CallsAllowed())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []bool{false, true}, states)
}

// If the limiter refuses the trial call of a half-open circuit, the circuit stays open.
func TestTrialThatIsNotSentLeavesTheCircuitOpen(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var states []bool
	p := newAnswering(t, http.StatusInternalServerError, ``, provider.Options{Rate: 10, OpenFor: time.Nanosecond, Circuit: func(open bool) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, open)
	}})
	opened := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(states) > 1
	}
	for {
		if r := p.Pay(t.Context(), allocation()); opened() && r.Outcome == payout.NotSent {
			require.Equal(t, "the rate is used up", r.Message)
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, states[1:], false, "no call has succeeded")
}
