// Package paymenttest holds what stands in for payment's neighbours in tests: a provider with a ledger, and ticket.
package paymenttest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Charge is an order in the provider's ledger.
type Charge struct {
	ChargeID       string `json:"chargeId"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitempty"`
	Amount         int64  `json:"amount"`
	RefundedAmount int64  `json:"refundedAmount"`
}

// Provider speaks the sandbox's protocol over an in-memory ledger. What happens to a charge is decided by the beginning of its payment
// key: ok-, decline-, timeout- (charged, the answer is cut off), lost- (not charged, no answer until the caller has enough), pending-
// (until Decide).
type Provider struct {
	mu      sync.Mutex
	orders  map[string]Charge
	refunds map[string]int64 // by key
	calls   map[string]int   // by method and path pattern
	refusal map[string]int   // how many calls still fail, likewise
	gate    chan struct{}    // nil: open
}

// NewProvider makes a provider without orders.
func NewProvider() *Provider {
	return &Provider{orders: map[string]Charge{}, refunds: map[string]int64{}, calls: map[string]int{}, refusal: map[string]int{}}
}

// Handler serves the protocol.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /v1/charges":                   p.charge,
		"GET /v1/charges/{orderId}":          p.get,
		"POST /v1/charges/{orderId}/void":    p.void,
		"POST /v1/charges/{orderId}/refunds": p.refund,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.calls[pattern]++
			failing := p.refusal[pattern] > 0
			if failing {
				p.refusal[pattern]--
			}
			p.mu.Unlock()
			if failing {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			handle(w, r)
		})
	}
	return mux
}

// Fail makes the next n calls of a pattern (as "POST /v1/charges/{orderId}/refunds") answer 503.
func (p *Provider) Fail(pattern string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal[pattern] = n
}

// Calls counts the calls of a pattern.
func (p *Provider) Calls(pattern string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[pattern]
}

// Order returns an order's state.
func (p *Provider) Order(orderID string) Charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[orderID]
}

// Decide ends a pending charge, or puts one into the ledger that nobody has seen before.
func (p *Provider) Decide(orderID, status string, amount int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders[orderID] = Charge{ChargeID: uuid.NewString(), Status: status, Amount: amount}
}

// Hold makes charges wait until the returned function is called.
func (p *Provider) Hold() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

func (p *Provider) charge(w http.ResponseWriter, r *http.Request) {
	var in struct {
		PaymentKey, OrderID, Currency, IdempotencyKey string
		Amount                                        int64
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Amount <= 0 || in.IdempotencyKey == "" || in.Currency == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	if strings.HasPrefix(in.PaymentKey, "lost-") {
		<-r.Context().Done()
		return
	}
	c := p.capture(in.OrderID, in.PaymentKey, in.Amount)
	if strings.HasPrefix(in.PaymentKey, "timeout-") {
		panic(http.ErrAbortHandler) // who only left it unanswered could not know that it was charged before its caller had enough
	}
	code := map[string]int{"CAPTURED": http.StatusOK, "PENDING": http.StatusAccepted}[c.Status]
	if code == 0 {
		code = http.StatusPaymentRequired
	}
	answer(w, code, c)
}

func (p *Provider) capture(orderID, paymentKey string, amount int64) Charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.orders[orderID]
	if ok {
		return c
	}
	c = Charge{ChargeID: uuid.NewString(), Status: "CAPTURED", Amount: amount}
	switch {
	case strings.HasPrefix(paymentKey, "decline-"):
		c.Status, c.DeclineCode = "DECLINED", "CARD_DECLINED"
	case strings.HasPrefix(paymentKey, "pending-"):
		c.Status = "PENDING"
	}
	p.orders[orderID] = c
	return c
}

func (p *Provider) get(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	c, ok := p.orders[r.PathValue("orderId")]
	p.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, c)
}

func (p *Provider) void(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.PathValue("orderId")
	if p.orders[id].Status == "CAPTURED" {
		w.WriteHeader(http.StatusConflict)
		return
	}
	p.orders[id] = Charge{Status: "VOIDED"}
	answer(w, http.StatusOK, p.orders[id])
}

func (p *Provider) refund(w http.ResponseWriter, r *http.Request) {
	var in struct {
		IdempotencyKey string
		Amount         int64
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // what is missing is refused below
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.PathValue("orderId")
	c := p.orders[id]
	if _, done := p.refunds[in.IdempotencyKey]; !done {
		if c.Status != "CAPTURED" || c.RefundedAmount+in.Amount > c.Amount || in.Amount <= 0 || in.IdempotencyKey == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		c.RefundedAmount += in.Amount
		p.orders[id], p.refunds[in.IdempotencyKey] = c, in.Amount
	}
	answer(w, http.StatusOK, map[string]string{"refundId": "r-" + in.IdempotencyKey, "status": "REFUNDED"})
}

// Webhook makes a signed call about an order.
func Webhook(secret, eventType, orderID string, at time.Time) (headers map[string]string, body []byte) {
	body, err := json.Marshal(map[string]any{"id": uuid.NewString(), "type": eventType, "orderId": orderID, "amount": 1, "currency": "KRW"})
	if err != nil {
		panic(err) // strings and numbers
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return map[string]string{"x-sandbox-signature": "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))}, body
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has left
}
