package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/faults"
	"urr.guru/services/payment/sandbox"
)

const moneySecret = "sandbox-secret-of-thirty-two-bytes" //nolint:gosec // of the test

// moneyProvider is the sandbox provider with its ledger, and the network in front of it.
type moneyProvider struct {
	world  *money
	ledger *sandbox.Ledger
	server *sandbox.Server

	// wire is read-locked while a request is in transit. Time passes only under its write lock, so
	// that a slow machine does not make requests slow.
	wire sync.RWMutex

	mu    sync.Mutex
	rand  *rand.Rand
	late  []lateCall
	hooks []moneyHook
}

// lateCall is a request that was sent and arrives later.
type lateCall struct {
	at  time.Time
	act func()
}

// moneyHook is a webhook that the provider has not sent yet.
type moneyHook struct{ kind, orderID string }

// inFlight is the longest time that a request is in transit.
const inFlight = 59 * time.Second

func newMoneyProvider(m *money, path string) *moneyProvider {
	m.t.Helper()
	ledger, err := sandbox.Open(path, m.clock.Now)
	require.NoError(m.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &moneyProvider{world: m, ledger: ledger, rand: rand.New(rand.NewPCG(m.seed, 1<<32))} //nolint:gosec // repeatable
	p.server = sandbox.NewServer(ctx, ledger, sandbox.Options{
		// Charges and refunds stay pending until the test completes them.
		Delays: &sandbox.Delays{Late: 1000 * time.Hour},
	}, slog.New(slog.DiscardHandler))
	p.setFaults(false)
	m.t.Cleanup(func() {
		cancel()
		p.server.Wait()
		require.NoError(m.t, ledger.Close())
	})
	return p
}

// setFaults sets the provider's faults in refunds.
func (p *moneyProvider) setFaults(wholeOnly bool) {
	f := sandbox.Faults{Seed: p.world.seed, KeyLife: faults.Duration(moneyKeyLife), SettleFor: faults.Duration(1000 * time.Hour)}
	if p.world.faults.Load() {
		f.WholeOnly, f.Refused, f.Pending, f.Repeated = wholeOnly, 0.12, 0.25, 0.08
	}
	p.server.SetFaults(f)
}

// roll returns a random number below n. Without faults it returns n, which selects no fault.
func (p *moneyProvider) roll(n int) int {
	if !p.world.faults.Load() {
		return n
	}
	return p.pick(n)
}

func (p *moneyProvider) pick(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n)
}

// providerLine is the connection from a payment process to the provider.
type providerLine struct {
	*moneyProvider

	caller *moneyProcess
}

var errNoAnswer = errors.New("the provider does not answer")

func (l *providerLine) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.caller.step() {
		return nil, errDead
	}
	refund := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/refunds")
	if refund && l.roll(100) < 6 {
		l.caller.stop() // before it sends the call, until the lease and the key have ended
	}
	res, err := l.send(r)
	if refund && errors.Is(err, errNoAnswer) && l.roll(100) < 40 {
		l.world.advance(2 * moneyKeyLife) // so that the key is forgotten at the next attempt
	}
	if !l.caller.step() {
		return nil, errDead
	}
	return res, err
}

// send sends a request. The request or its answer may get lost, or the request may arrive after the
// caller has given up.
func (l *providerLine) send(r *http.Request) (*http.Response, error) {
	l.wire.RLock()
	defer l.wire.RUnlock()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	n := l.roll(100)
	if r.URL.Path == "/v1/charges" && n == 99 {
		body = bytes.Replace(body, []byte(`"amount":`), []byte(`"amount":1`), 1) // a wrong amount
	}
	switch {
	case n < 6:
		return nil, errNoAnswer
	case n < 13 && r.Method == http.MethodPost:
		l.delay(func() { _ = l.serve(r.Method, r.URL.Path, body) })
		return nil, errNoAnswer
	}
	res := l.serve(r.Method, r.URL.Path, body)
	if n < 22 || res == nil {
		return nil, errNoAnswer
	}
	return res, nil
}

// delay lets a request arrive later, within inFlight.
func (p *moneyProvider) delay(act func()) {
	p.world.count("late call to the provider")
	at := p.world.clock.Now().Add(time.Duration(p.pick(int(inFlight/time.Second))) * time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = append(p.late, lateCall{at: at, act: act})
}

// deliverLate lets the late requests that are due by a time arrive, each at its own time. The
// caller holds the wire.
func (p *moneyProvider) deliverLate(until time.Time) {
	p.mu.Lock()
	slices.SortStableFunc(p.late, func(a, b lateCall) int { return a.at.Compare(b.at) })
	n := 0
	for n < len(p.late) && !p.late[n].at.After(until) {
		n++
	}
	due := slices.Clone(p.late[:n])
	p.late = p.late[n:]
	p.mu.Unlock()
	for _, call := range due {
		if left := call.at.Sub(p.world.clock.Now()); left > 0 {
			p.world.clock.Advance(left)
		}
		call.act()
	}
}

// serve returns the provider's answer; nil: it drops the connection.
func (p *moneyProvider) serve(method, path string, body []byte) (res *http.Response) {
	defer func() {
		if what := recover(); what != nil && what != http.ErrAbortHandler { //nolint:errorlint // the value itself
			panic(what)
		}
	}()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, r)
	res = w.Result()
	if method == http.MethodPost && res.StatusCode < http.StatusMultipleChoices {
		kind := "charge.captured"
		var order string
		if rest, ok := strings.CutPrefix(path, "/v1/charges/"); ok {
			kind = "charge.refunded"
			order, _, _ = strings.Cut(rest, "/")
		} else {
			var charge sandbox.Charge
			_ = json.Unmarshal(body, &charge)
			order = charge.OrderID
		}
		p.addWebhook(kind, order)
	}
	return res
}

// addWebhook adds a webhook, which may be sent twice or never.
func (p *moneyProvider) addWebhook(kind, orderID string) {
	n := p.roll(100)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 20 {
		return
	}
	p.hooks = append(p.hooks, moneyHook{kind, orderID})
	if n < 35 {
		p.hooks = append(p.hooks, moneyHook{kind, orderID})
	}
}

// nextHook removes a random webhook, and returns it as a signed request.
func (p *moneyProvider) nextHook() (headers map[string]string, body []byte, ok bool) {
	p.mu.Lock()
	if len(p.hooks) == 0 {
		p.mu.Unlock()
		return nil, nil, false
	}
	i := p.rand.IntN(len(p.hooks))
	h := p.hooks[i]
	p.hooks = slices.Delete(p.hooks, i, i+1)
	p.mu.Unlock()
	body, err := json.Marshal(sandbox.Notice{ID: uuid.NewString(), Type: h.kind, OrderID: h.orderID, Amount: 1, Currency: "KRW"})
	if err != nil {
		panic(err) // texts and numbers
	}
	return map[string]string{sandbox.SignatureHeader: sandbox.Sign([]byte(moneySecret), p.world.clock.Now(), body)}, body, true
}

// refundByHand refunds a random part of a charge, or all that is left in one or two parts, as a
// person does at the provider.
func (p *moneyProvider) refundByHand(whole bool) {
	charges, _ := p.ledger.All()
	charges = slices.DeleteFunc(charges, func(c sandbox.Charge) bool {
		return c.Status != sandbox.Captured || c.Amount == c.RefundedAmount
	})
	if len(charges) == 0 {
		return
	}
	c := charges[p.pick(len(charges))]
	left := c.Amount - c.RefundedAmount
	parts := []int64{1 + int64(p.pick(int(left)))}
	if rest := left - parts[0]; whole && rest > 0 {
		parts = append(parts, rest)
	}
	if whole && p.pick(2) == 0 {
		parts = []int64{left}
	}
	p.wire.RLock()
	defer p.wire.RUnlock()
	for _, amount := range parts {
		body := []byte(fmt.Sprintf(`{"amount": %d}`, amount))
		if res := p.serve(http.MethodPost, "/v1/charges/"+c.OrderID+"/refunds/by-hand", body); res.StatusCode == http.StatusOK {
			p.world.count("refund by hand")
		}
	}
}

// settleCharge captures or declines a pending charge.
func (p *moneyProvider) settleCharge() {
	charges, _ := p.ledger.All()
	for _, c := range charges {
		if c.Status != sandbox.Pending {
			continue
		}
		status, kind := sandbox.Captured, "charge.captured"
		if strings.HasPrefix(c.PaymentKey, "late-decline-") {
			status, kind = sandbox.Declined, "charge.declined"
		}
		if _, err := p.ledger.Settle(c.OrderID, status, "CARD_DECLINED"); err != nil {
			p.world.violate("settle a charge: %v", err)
		}
		p.addWebhook(kind, c.OrderID)
		return
	}
}

// settleRefund completes a pending refund, or lets an accepted or completed refund fail, also one by
// hand, as happens days later if the payer's account is closed.
func (p *moneyProvider) settleRefund(fail bool) {
	_, refunds := p.ledger.All()
	refunds = slices.DeleteFunc(refunds, func(r sandbox.Refund) bool {
		return r.Status == sandbox.RefundFailed || !fail && r.Status == sandbox.RefundDone
	})
	if len(refunds) == 0 {
		return
	}
	r := refunds[p.pick(len(refunds))]
	status, kind := sandbox.RefundDone, "refund.done"
	if fail {
		status, kind = sandbox.RefundFailed, "refund.failed"
		p.world.count("refund fails later")
		if r.Reference == "" {
			p.world.count("refund by hand fails later")
		}
	}
	if _, err := p.ledger.SettleRefund(r.RefundID, status); err != nil {
		p.world.violate("settle a refund: %v", err)
	}
	p.addWebhook(kind, r.OrderID)
}

// settleAll completes every pending charge and refund, and adds a webhook for each captured charge.
func (p *moneyProvider) settleAll() {
	charges, refunds := p.ledger.All()
	for _, c := range charges {
		switch c.Status {
		case sandbox.Pending:
			p.settleCharge()
		case sandbox.Captured:
			p.addWebhook("charge.refunded", c.OrderID)
		case sandbox.Declined, sandbox.Voided:
		}
	}
	for _, r := range refunds {
		if r.Status == sandbox.RefundPending {
			p.settleRefund(false)
		}
	}
}
