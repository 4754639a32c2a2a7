package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

const maxBody = 64 << 10

// Server answers the provider's API:
//
//	POST /v1/payouts              pays an Order: 200 with the Payout, 422 if unpaid, 410 if for good
//	GET  /v1/payouts/{key}        200 with the Payout, or 404 whose body repeats the key
//	POST /v1/payouts/{key}/void   204: the key will never be paid; 409: it was, with the Payout
//	GET  /v1/ledger               every Payout, one per line, for audits
//	GET  /v1/faults               the Faults
//	PUT  /v1/faults               replaces the Faults
type Server struct {
	ledger  *Ledger
	log     *slog.Logger
	mux     *http.ServeMux
	stopped <-chan struct{}
	work    sync.WaitGroup

	mu     sync.Mutex
	faults Faults
	calls  map[string]int // how often each key was sent, or asked to be voided
}

// NewServer serves a ledger until ctx ends. Call Wait after that.
func NewServer(ctx context.Context, ledger *Ledger, faults Faults, log *slog.Logger) *Server {
	s := &Server{ledger: ledger, faults: faults, log: log, mux: http.NewServeMux(), stopped: ctx.Done(), calls: map[string]int{}}
	s.mux.HandleFunc("POST /v1/payouts", s.pay)
	s.mux.HandleFunc("GET /v1/payouts/{key}", s.lookup)
	s.mux.HandleFunc("POST /v1/payouts/{key}/void", s.void)
	s.mux.HandleFunc("GET /v1/ledger", s.list)
	s.mux.HandleFunc("GET /v1/faults", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.currentFaults()) })
	s.mux.HandleFunc("PUT /v1/faults", s.setFaults)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	s.mux.HandleFunc("GET /healthz", ok)
	s.mux.HandleFunc("GET /readyz", ok)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Wait waits until all payments that the fault "late" has delayed are made or given up.
func (s *Server) Wait() { s.work.Wait() }

func (s *Server) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Calls returns how many times a payment was requested under a key.
func (s *Server) Calls(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	var f Faults
	if decode(w, r, &f) {
		s.SetFaults(f)
		w.WriteHeader(http.StatusNoContent)
	}
}

// nextCall counts a call of a key, and returns the settings and the fault to inject into this call.
func (s *Server) nextCall(key string) (Faults, fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key]++
	return s.faults, s.faults.faultOf(key, s.calls[key])
}

// nextVoid counts a request to void a key, and reports whether its answer is to be lost.
func (s *Server) nextVoid(key string) (f Faults, lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[voidKey(key)]++
	return s.faults, s.faults.losesVoidAnswer(key, s.calls[voidKey(key)])
}

func (s *Server) pay(w http.ResponseWriter, r *http.Request) {
	var o Order
	if !decode(w, r, &o) {
		return
	}
	if o.Key == "" || o.MemberID == "" || o.Value <= 0 || (o.Kind != "POINT" && o.Kind != "COUPON") {
		refuse(w, http.StatusBadRequest, "key, memberId, a kind (POINT, COUPON) and a value above 0 are required")
		return
	}
	f, injected := s.nextCall(o.Key)
	switch injected {
	case refused:
		refuse(w, http.StatusUnprocessableEntity, "not possible at present")
	case refusedForGood:
		refuse(w, http.StatusGone, "the member's account is closed")
	case busy:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too many requests")
	case unavailable:
		refuse(w, http.StatusServiceUnavailable, "down for maintenance")
	case silent:
		s.dropSilently(r, f)
	case late:
		s.work.Go(func() {
			if s.sleep(f.LateFor) {
				_, _ = s.ledger.Pay(o, retention(f.KeyRetention)) // fails, as intended, if the key is void
			}
		})
		panic(http.ErrAbortHandler)
	case slow:
		if !s.sleep(f.SlowFor) {
			panic(http.ErrAbortHandler)
		}
		s.payNow(w, r, o, f, none)
	case none, lost, failed:
		s.payNow(w, r, o, f, injected)
	}
}

// payNow pays the order and answers, unless the injected fault loses the answer or makes it a 500.
func (s *Server) payNow(w http.ResponseWriter, r *http.Request, o Order, f Faults, injected fault) {
	p, err := s.ledger.Pay(o, retention(f.KeyRetention))
	switch {
	case errors.Is(err, errVoided), errors.Is(err, errKeyReused):
		refuse(w, http.StatusGone, err.Error())
	case err != nil:
		s.log.Error("ledger", "error", err)
		refuse(w, http.StatusInternalServerError, err.Error())
	case injected == lost:
		s.dropSilently(r, f)
	case injected == failed:
		refuse(w, http.StatusInternalServerError, "internal error")
	default:
		answer(w, http.StatusOK, p)
	}
}

// dropSilently waits for SilenceFor, or until the client leaves, and drops the connection.
func (s *Server) dropSilently(r *http.Request, f Faults) {
	timer := time.NewTimer(f.SilenceFor)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
	case <-s.stopped:
	case <-timer.C:
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) lookup(w http.ResponseWriter, r *http.Request) {
	f := s.currentFaults()
	if f.Down {
		refuse(w, http.StatusServiceUnavailable, "down for maintenance")
		return
	}
	key := r.PathValue("key")
	p, ok := s.ledger.Lookup(key, retention(f.LookupRetention))
	if !ok {
		answer(w, http.StatusNotFound, map[string]string{"key": key, "error": "no payout of this key"})
		return
	}
	answer(w, http.StatusOK, p)
}

func (s *Server) void(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	f, lose := s.nextVoid(key)
	switch {
	case f.Down:
		refuse(w, http.StatusServiceUnavailable, "down for maintenance")
		return
	case !f.offersVoid(key):
		refuse(w, http.StatusNotImplemented, "no voids")
		return
	}
	paid, err := s.ledger.Void(key)
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	case lose:
		s.dropSilently(r, f)
	case paid != nil:
		answer(w, http.StatusConflict, paid)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) currentFaults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

const (
	listPage    = 1000        // payouts on a page; each page gets a new deadline
	listTimeout = time.Minute // the time limit for writing a page
)

// list sends the present ledger, one line per payout. A slow client gets a new deadline per page.
func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control, lines := http.NewResponseController(w), json.NewEncoder(w)
	for page := range slices.Chunk(s.ledger.snapshot(), listPage) {
		_ = control.SetWriteDeadline(time.Now().Add(listTimeout)) // not supported by test recorders
		for _, p := range page {
			if lines.Encode(p) != nil {
				panic(http.ErrAbortHandler) // the client must not take a part for the whole
			}
		}
	}
}

// sleep waits and reports whether the server still runs.
func (s *Server) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stopped:
		return false
	case <-timer.C:
		return true
	}
}

// retention returns how long a key is recognised if the setting is d; 0 means for ever.
func retention(d time.Duration) time.Duration {
	if d == 0 {
		return math.MaxInt64
	}
	return d
}

func decode(w http.ResponseWriter, r *http.Request, body any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(body); err != nil {
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
