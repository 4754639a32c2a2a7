package sandbox

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// SetFaults replaces the faults of refunds.
func (s *Server) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *Server) currentFaults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	var f Faults
	if !decode(w, r, &f) {
		return
	}
	if err := f.validate(); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.SetFaults(f)
	w.WriteHeader(http.StatusNoContent)
}

// nextRefund counts a call with a refund's key. It returns the current faults, and what goes wrong
// with this call.
func (s *Server) nextRefund(key string) (Faults, fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key]++
	return s.faults, s.faults.pick(key, s.calls[key])
}

func (s *Server) refund(w http.ResponseWriter, r *http.Request) {
	var q RefundRequest
	if !decode(w, r, &q) {
		return
	}
	if q.IdempotencyKey == "" || q.Amount <= 0 {
		refuse(w, http.StatusBadRequest, "idempotencyKey and an amount above 0 are required")
		return
	}
	q.OrderID = r.PathValue("orderId")
	faults, fault := s.nextRefund(q.IdempotencyKey)
	switch fault {
	case silent:
		panic(http.ErrAbortHandler)
	case late:
		s.background(func(context.Context) {
			if s.sleep(time.Duration(faults.LateFor)) {
				_, _ = s.makeRefund(q, faults, none)
			}
		})
		panic(http.ErrAbortHandler)
	case none, refused, lost, pending: // handled in makeRefund, or after it
	}
	refund, err := s.makeRefund(q, faults, fault)
	switch {
	case err != nil:
		s.refuse(w, err)
	case fault == lost:
		panic(http.ErrAbortHandler)
	default:
		answer(w, http.StatusOK, refund)
	}
}

// makeRefund makes a refund, sends its webhook, and starts followUpRefund.
func (s *Server) makeRefund(q RefundRequest, faults Faults, fault fault) (Refund, error) {
	if faults.repeats(q.Reference) {
		return Refund{}, errNotNow
	}
	rules := RefundRules{Status: RefundDone, WholeOnly: faults.WholeOnly, KeyLife: faults.life()}
	switch fault {
	case refused:
		return Refund{}, ErrDisputed
	case pending:
		rules.Status = RefundPending
	case none, silent, lost, late:
	}
	refund, fresh, err := s.ledger.Refund(q, rules)
	if err == nil && fresh {
		s.report("charge.refunded", refund)
		s.followUpRefund(refund)
	}
	return refund, err
}

// followUpRefund makes a pending refund done after SettleFor, or a refund failed that will fail.
func (s *Server) followUpRefund(r Refund) {
	faults := s.currentFaults()
	status := RefundDone
	if faults.fails(r.RefundID) {
		status = RefundFailed
	}
	if r.Status == RefundFailed || r.Status == status {
		return
	}
	s.background(func(ctx context.Context) {
		if !s.sleep(time.Duration(faults.SettleFor)) {
			return // the next start of the server continues
		}
		if _, err := s.settle(r.RefundID, status); err != nil {
			s.log.ErrorContext(ctx, "settle refund", "refund_id", r.RefundID, "error", err)
		}
	})
}

// settle makes a refund done or failed and sends a webhook about it.
func (s *Server) settle(refundID string, status RefundStatus) (Refund, error) {
	r, err := s.ledger.SettleRefund(refundID, status)
	if err != nil {
		return r, err
	}
	kind := "refund.done"
	if r.Status == RefundFailed {
		kind = "refund.failed"
	}
	s.report(kind, r)
	return r, nil
}

// report sends a webhook about a refund.
func (s *Server) report(kind string, r Refund) {
	if c, ok := s.ledger.Get(r.OrderID); ok {
		s.background(func(ctx context.Context) { s.webhooks.deliver(ctx, kind, c) })
	}
}

// refundByHand refunds as a person does on a provider's dashboard: without a Reference. Only the
// webhook reports it to the shop.
func (s *Server) refundByHand(w http.ResponseWriter, r *http.Request) {
	var q RefundRequest
	if !decode(w, r, &q) {
		return
	}
	if q.Amount < 0 {
		refuse(w, http.StatusBadRequest, "the amount must be above 0, or absent for all that is left")
		return
	}
	q.OrderID, q.IdempotencyKey, q.Reference = r.PathValue("orderId"), uuid.NewString(), ""
	refund, _, err := s.ledger.Refund(q, RefundRules{Status: RefundDone})
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.report("charge.refunded", refund)
	answer(w, http.StatusOK, refund)
}

// settleRefund makes a refund done or failed on request.
func (s *Server) settleRefund(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Status RefundStatus `json:"status"`
	}
	if !decode(w, r, &body) {
		return
	}
	if body.Status != RefundDone && body.Status != RefundFailed {
		refuse(w, http.StatusBadRequest, "status must be DONE or FAILED")
		return
	}
	refund, err := s.settle(r.PathValue("refundId"), body.Status)
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusOK, refund)
}

// listRefunds answers with the captured amount of an order, and its refunds, oldest first.
func (s *Server) listRefunds(w http.ResponseWriter, r *http.Request) {
	c, refunds, ok := s.ledger.Refunds(r.PathValue("orderId"))
	if !ok {
		s.refuse(w, ErrNotFound)
		return
	}
	captured := int64(0)
	if c.Status == Captured {
		captured = c.Amount
	}
	answer(w, http.StatusOK, map[string]any{"captured": captured, "refunds": refunds})
}
