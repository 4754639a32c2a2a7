package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const maxBody = 64 << 10

// Server serves the API of the sandbox provider over HTTP, from a Ledger.
type Server struct {
	ledger   *Ledger
	webhooks *webhooks
	delays   Delays
	log      *slog.Logger
	mux      *http.ServeMux

	mu     sync.Mutex
	faults Faults
	calls  map[string]int // the number of refund calls, by idempotency key

	stopped    <-chan struct{}
	background func(func(context.Context)) // starts work that outlives its request: late captures and webhooks
	work       sync.WaitGroup
}

// Options are the options of a Server.
type Options struct {
	WebhookURL    string // empty: no webhooks
	WebhookSecret string
	Client        *http.Client // for webhooks; nil: one with a timeout of 5 s
	Delays        *Delays      // nil: those of development
	Faults        Faults       // what goes wrong with refunds
}

// NewServer makes the server of a ledger, and resumes the ledger's pending charges and refunds. To
// stop it, the caller ends ctx and then calls Wait.
func NewServer(ctx context.Context, ledger *Ledger, opts Options, log *slog.Logger) *Server {
	s := &Server{ledger: ledger, delays: defaultDelays(), log: log, mux: http.NewServeMux(), calls: map[string]int{}, stopped: ctx.Done()}
	s.faults = opts.Faults
	if opts.Delays != nil {
		s.delays = *opts.Delays
	}
	s.background = func(f func(context.Context)) { s.work.Go(func() { f(ctx) }) }
	s.webhooks = newWebhooks(opts, ledger.now, log)
	s.mux.HandleFunc("POST /v1/charges", s.charge)
	s.mux.HandleFunc("GET /v1/charges/{orderId}", s.get)
	s.mux.HandleFunc("POST /v1/charges/{orderId}/void", s.void)
	s.mux.HandleFunc("POST /v1/charges/{orderId}/refunds", s.refund)
	s.mux.HandleFunc("GET /v1/charges/{orderId}/refunds", s.listRefunds)
	s.mux.HandleFunc("POST /v1/charges/{orderId}/refunds/by-hand", s.refundByHand)
	s.mux.HandleFunc("POST /v1/refunds/{refundId}/settle", s.settleRefund)
	s.mux.HandleFunc("POST /v1/sessions", s.openSession)
	s.mux.HandleFunc("GET /v1/sessions/{sessionId}", s.getSession)
	s.mux.HandleFunc("GET /pay/{sessionId}", s.showPage)
	s.mux.HandleFunc("POST /pay/{sessionId}", s.choose)
	s.mux.HandleFunc("GET /v1/faults", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.currentFaults()) })
	s.mux.HandleFunc("PUT /v1/faults", s.setFaults)
	s.mux.HandleFunc("GET /v1/ledger", s.listAll)
	s.mux.HandleFunc("GET /v1/ledger/entries", s.listEntries)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	s.mux.HandleFunc("GET /healthz", ok)
	s.mux.HandleFunc("GET /readyz", ok)
	charges, refunds := ledger.All()
	for _, c := range charges {
		if c.Status == Pending {
			s.settleLater(c.OrderID, behaviourOf(c.PaymentKey, s.delays))
		}
	}
	for _, r := range refunds {
		s.followUpRefund(r)
	}
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) Wait() { s.work.Wait() }

func (s *Server) charge(w http.ResponseWriter, r *http.Request) {
	var o Order
	if !decode(w, r, &o) {
		return
	}
	if o.OrderID == "" || o.IdempotencyKey == "" || o.Amount <= 0 || len(o.Currency) != 3 {
		refuse(w, http.StatusBadRequest, "orderId, idempotencyKey, an amount above 0 and a currency of three letters are required")
		return
	}
	if c, found, err := s.ledger.Attempt(o); err != nil {
		s.refuse(w, err)
		return
	} else if found {
		answerCharge(w, c)
		return
	}
	b := behaviourOf(o.PaymentKey, s.delays)
	if b.wait > 0 && !b.late && !s.sleep(b.wait) {
		panic(http.ErrAbortHandler)
	}
	if b.status == "" {
		s.dropConnection(r)
	}
	// If the client disconnects after this point, the charge is made all the same.
	status := b.status
	if b.late {
		status = Pending
	}
	c, fresh, err := s.ledger.Charge(o, status, b.decline)
	if err != nil {
		s.refuse(w, err)
		return
	}
	if fresh {
		s.startFollowUp(c, b)
		if b.silent {
			s.dropConnection(r)
		}
	}
	answerCharge(w, c)
}

// startFollowUp starts, in the background, the end of a pending charge, or the webhook of another.
func (s *Server) startFollowUp(c Charge, b behaviour) {
	switch {
	case c.Status == Pending:
		s.settleLater(c.OrderID, b)
	case b.webhook:
		s.background(func(ctx context.Context) { s.webhooks.send(ctx, c) })
	}
}

func (s *Server) settleLater(orderID string, b behaviour) {
	s.background(func(ctx context.Context) {
		if !s.sleep(b.wait) {
			return // the next start of the server resumes the charge
		}
		c, err := s.ledger.Settle(orderID, b.status, b.decline)
		if err != nil {
			s.log.ErrorContext(ctx, "settle", "order_id", orderID, "error", err)
			return
		}
		s.webhooks.send(ctx, c)
	})
}

// sleep waits for d. It returns false if the server stops during it.
func (s *Server) sleep(d time.Duration) bool {
	select {
	case <-s.stopped:
		return false
	case <-time.After(d):
		return true
	}
}

// dropConnection drops the connection of a request without an answer, after a delay. It panics.
func (s *Server) dropConnection(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.stopped:
	case <-time.After(s.delays.Silence):
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	c, ok := s.ledger.Get(r.PathValue("orderId"))
	if !ok {
		s.refuse(w, ErrNotFound)
		return
	}
	answer(w, http.StatusOK, c)
}

func (s *Server) void(w http.ResponseWriter, r *http.Request) {
	var body struct {
		IdempotencyKey string `json:"idempotencyKey"` // not used: a second void changes nothing
	}
	if !decode(w, r, &body) {
		return
	}
	c, err := s.ledger.Void(r.PathValue("orderId"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusOK, c)
}

// listAll returns all charges and refunds, for audits.
func (s *Server) listAll(w http.ResponseWriter, _ *http.Request) {
	charges, refunds := s.ledger.All()
	answer(w, http.StatusOK, map[string]any{"charges": charges, "refunds": refunds})
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ErrCaptured), errors.Is(err, ErrNotCaptured):
		status = http.StatusConflict
	case errors.Is(err, ErrTooMuch), errors.Is(err, ErrKeyReused), errors.Is(err, errNotNow):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, ErrPartial), errors.Is(err, ErrDisputed):
		status = http.StatusGone
	default:
		s.log.Error("ledger", "error", err)
	}
	body := map[string]string{"error": err.Error()}
	switch {
	case errors.Is(err, ErrTooMuch):
		body["code"] = "TOO_MUCH"
	case errors.Is(err, errNotNow):
		body["code"] = "NOT_NOW"
	}
	answer(w, status, body)
}

func answerCharge(w http.ResponseWriter, c Charge) {
	switch c.Status {
	case Captured:
		answer(w, http.StatusOK, map[string]any{"chargeId": c.ChargeID, "status": c.Status, "amount": c.Amount})
	case Pending:
		answer(w, http.StatusAccepted, map[string]any{"chargeId": c.ChargeID, "status": c.Status})
	case Declined, Voided:
		code := c.DeclineCode
		if code == "" {
			code = "ORDER_VOIDED"
		}
		answer(w, http.StatusPaymentRequired, map[string]any{"declineCode": code})
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("bad body: %v", err))
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]string{"error": message})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has left
}
