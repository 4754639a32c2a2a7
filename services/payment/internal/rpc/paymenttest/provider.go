// Package paymenttest provides fakes of what the payment service calls: a provider that the test
// controls, and the ticket service.
package paymenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/payment/sandbox"
)

// The provider's calls, by the names that Calls, Fail, Lose, Delay and Block accept.
const (
	Charges = "POST /v1/charges"
	Lookups = "GET /v1/charges/{orderId}"
	Voids   = "POST /v1/charges/{orderId}/void"
	Refunds = "POST /v1/charges/{orderId}/refunds"
	// RefundLists asks for the refunds of an order.
	RefundLists = "GET /v1/charges/{orderId}/refunds"
	Sessions    = "POST /v1/sessions"
	// SessionLookups asks what the payer has done on the page.
	SessionLookups = "GET /v1/sessions/{sessionId}"
	// Listings list the entries of the account in a period.
	Listings = "GET /v1/ledger/entries"
)

// Provider is the sandbox provider, whose calls a test can count, block and fail. It never waits: a
// call that gets no answer is disconnected at once, and a late charge stays pending until Settle.
type Provider struct {
	tb     testing.TB
	ledger *sandbox.Ledger
	server *sandbox.Server

	mu       sync.Mutex
	calls    map[string]int
	failures map[string]int // how many of the next calls fail
	lost     map[string]int // how many of the next calls take effect, but answer 503
	late     map[string]int // how many of the next calls answer 503, and take effect at Arrive
	arriving []func()
	gates    map[string]chan struct{} // blocks calls until the gate is closed
}

// NewProvider makes a provider without orders, which is closed when the test ends.
func NewProvider(tb testing.TB, now func() time.Time) *Provider {
	tb.Helper()
	ledger, err := sandbox.Open(filepath.Join(tb.TempDir(), "ledger"), now)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := sandbox.NewServer(ctx, ledger, sandbox.Options{Delays: &sandbox.Delays{Late: 24 * time.Hour}}, slog.New(slog.DiscardHandler))
	tb.Cleanup(func() {
		cancel()
		server.Wait()
		if err := ledger.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &Provider{tb: tb, ledger: ledger, server: server, calls: map[string]int{}, failures: map[string]int{}, lost: map[string]int{}, late: map[string]int{}, gates: map[string]chan struct{}{}}
}

func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, call := range []string{Charges, Lookups, Voids, Refunds, RefundLists, Sessions, SessionLookups, Listings} {
		mux.HandleFunc(call, func(w http.ResponseWriter, r *http.Request) {
			gate, failing := p.countCall(call)
			if failing || p.losesAnswer(call, r) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if gate != nil && !wait(gate, r) {
				return
			}
			p.server.ServeHTTP(w, r)
		})
	}
	mux.Handle("/pay/", p.server)
	return mux
}

// losesAnswer reports whether a call answers 503 after Lose or Delay, and has it take effect.
func (p *Provider) losesAnswer(call string, r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost, late := p.lost[call] > 0, p.late[call] > 0
	if !lost && !late {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return true
	}
	copied := r.Clone(context.WithoutCancel(r.Context()))
	copied.Body = io.NopCloser(bytes.NewReader(body))
	act := func() {
		defer func() { _ = recover() }() // a call without an answer makes it panic
		p.server.ServeHTTP(httptest.NewRecorder(), copied)
	}
	if lost {
		p.lost[call]--
		act()
	} else {
		p.late[call]--
		p.arriving = append(p.arriving, act)
	}
	return true
}

// Lose makes the next n calls of a kind take effect, but answer 503.
func (p *Provider) Lose(call string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[call] = n
}

// Delay makes the next n calls of a kind answer 503, and take effect at the next Arrive.
func (p *Provider) Delay(call string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late[call] = n
}

// Arrive makes the calls that Delay has postponed take effect.
func (p *Provider) Arrive() {
	p.mu.Lock()
	arriving := p.arriving
	p.arriving = nil
	p.mu.Unlock()
	for _, act := range arriving {
		act()
	}
}

// SetFaults sets which refunds the provider refuses or fails.
func (p *Provider) SetFaults(f sandbox.Faults) { p.server.SetFaults(f) }

// RefundsOf returns the refunds of an order, oldest first.
func (p *Provider) RefundsOf(orderID string) []sandbox.Refund {
	_, refunds, _ := p.ledger.Refunds(orderID)
	return refunds
}

// SettleRefund makes a pending refund DONE or FAILED, as a real provider does days later.
func (p *Provider) SettleRefund(refundID string, status sandbox.RefundStatus) {
	p.tb.Helper()
	if _, err := p.ledger.SettleRefund(refundID, status); err != nil {
		p.tb.Fatalf("settle refund %s: %v", refundID, err)
	}
}

// countCall counts a call. It returns the gate that blocks the call, and whether the call fails.
func (p *Provider) countCall(call string) (gate <-chan struct{}, failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[call]++
	if p.failures[call] > 0 {
		p.failures[call]--
		return nil, true
	}
	return p.gates[call], false
}

// wait reports whether the gate opened before the client disconnected. It reads the body first,
// since only then does a server notice that its client has disconnected.
func wait(gate <-chan struct{}, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	select {
	case <-gate:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Block blocks calls of a kind until the returned function is called, or the test ends.
func (p *Provider) Block(call string) (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gates[call] = gate
	p.mu.Unlock()
	release = sync.OnceFunc(func() { close(gate) })
	p.tb.Cleanup(release)
	return release
}

// Fail makes the next n calls of a kind answer 503.
func (p *Provider) Fail(call string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures[call] = n
}

func (p *Provider) Calls(call string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[call]
}

// Order returns the charge of an order; the zero Charge for an unknown order.
func (p *Provider) Order(orderID string) sandbox.Charge {
	c, _ := p.ledger.Get(orderID)
	return c
}

// Session returns the payment page of an order; the zero Session if it has none.
func (p *Provider) Session(orderID string) sandbox.Session { return p.ledger.SessionOf(orderID) }

// Settle makes a pending charge CAPTURED or DECLINED.
func (p *Provider) Settle(orderID, status string) {
	p.tb.Helper()
	if _, err := p.ledger.Settle(orderID, sandbox.Status(status), "CARD_DECLINED"); err != nil {
		p.tb.Fatalf("settle order %s: %v", orderID, err)
	}
}

// Capture charges an order as if a delayed request of the payment service had arrived.
func (p *Provider) Capture(orderID string, amount int64) {
	p.tb.Helper()
	o := sandbox.Order{PaymentKey: "ok-late", OrderID: orderID, Amount: amount, Currency: "KRW", IdempotencyKey: uuid.NewString()}
	c, _, err := p.ledger.Charge(o, sandbox.Captured, "")
	if err != nil || c.Status != sandbox.Captured {
		p.tb.Fatalf("capture order %s: %s, %v", orderID, c.Status, err)
	}
}

// RefundAgain makes a second refund with the id of an earlier one, as an error on either side
// would.
func (p *Provider) RefundAgain(orderID, refundID string, amount int64) {
	p.tb.Helper()
	q := sandbox.RefundRequest{OrderID: orderID, IdempotencyKey: uuid.NewString(), Reference: refundID, Amount: amount}
	if _, _, err := p.ledger.Refund(q, sandbox.RefundRules{Status: sandbox.RefundDone}); err != nil {
		p.tb.Fatalf("refund order %s again: %v", orderID, err)
	}
}

// RefundManually refunds a charge as a person does it at the provider.
func (p *Provider) RefundManually(orderID string, amount int64) {
	p.tb.Helper()
	q := sandbox.RefundRequest{OrderID: orderID, IdempotencyKey: uuid.NewString(), Amount: amount}
	if _, _, err := p.ledger.Refund(q, sandbox.RefundRules{Status: sandbox.RefundDone}); err != nil {
		p.tb.Fatalf("give back order %s: %v", orderID, err)
	}
}

// Webhook makes a signed webhook about an order.
func Webhook(secret, eventType, orderID string, at time.Time) (headers map[string]string, body []byte) {
	body, err := json.Marshal(sandbox.Notice{ID: uuid.NewString(), Type: eventType, OrderID: orderID, Amount: 1, Currency: "KRW"})
	if err != nil {
		panic(err) // strings and numbers
	}
	return map[string]string{sandbox.SignatureHeader: sandbox.Sign([]byte(secret), at, body)}, body
}
