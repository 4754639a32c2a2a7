package toss

import (
	"errors"

	"urr.guru/services/payment/fakes"
)

// Rules change what look-ups and cancellations do.
type Rules struct {
	// ShowsUnapproved lets look-ups find payments that are not confirmed. The reference speaks of
	// confirmed ones only (/reference#orderid로-결제-조회), but others have been seen.
	ShowsUnapproved bool `json:"showsUnapproved"`
	// WholeOnly refuses partial cancellations: isPartialCancelable of /reference#payment-객체.
	WholeOnly bool `json:"wholeOnly"`
}

// control serves the addresses for end-to-end tests.
func (s *Server) control() {
	fakes.Show(s.mux, "GET /control/orders", s.Payments)
	fakes.Accept(s.mux, "PUT /control/faults", s.SetFaults)
	fakes.Accept(s.mux, "PUT /control/rules", func(r Rules) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opts.Rules = r
		return nil
	})
	fakes.Accept(s.mux, "POST /control/refund-by-hand", func(a act) error { return refused(s.GiveBack(a.PaymentKey, a.Amount)) })
	fakes.Accept(s.mux, "POST /control/charge", func(a act) error { return refused(s.Charge(a.Order, a.Amount)) })
}

// act is an act of a person. Each kind of act uses some of the fields.
type act struct {
	Order      string `json:"order"`
	PaymentKey string `json:"paymentKey"`
	Amount     int64  `json:"amount"`
}

func refused(code string) error {
	if code != "" {
		return errors.New(code)
	}
	return nil
}

// Of returns the payments of an order, oldest first.
func (s *Server) Of(orderID string) []Payment {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Payment, len(s.orders[orderID]))
	for i, p := range s.orders[orderID] {
		list[i] = *s.current(p.PaymentKey)
	}
	return list
}

// Payments returns all payments, those of an order oldest first.
func (s *Server) Payments() (list []Payment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, payments := range s.orders {
		for _, p := range payments {
			list = append(list, *s.current(p.PaymentKey))
		}
	}
	return list
}

// Confirm takes an authorised payment, as another program with the shop's key could. code is the
// error code of a refusal.
func (s *Server) Confirm(paymentKey string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(s.current(paymentKey))
}

// Charge takes money for an order by a payment that is not the shop's, as another program with its
// keys could. code is the error code of a refusal.
func (s *Server) Charge(order string, amount int64) (code string) {
	q := Request{
		ClientKey: s.opts.ClientKey, Method: "CARD", OrderID: order, OrderName: order, SuccessURL: "https://other.test", FailURL: "https://other.test",
		WindowTarget: "self",
	}
	q.Amount.Currency, q.Amount.Value = "KRW", amount
	p, code := s.Open(q)
	if code != "" {
		return code
	}
	s.Choose(p.PaymentKey, "pay")
	return s.Confirm(p.PaymentKey)
}

// GiveBack cancels an amount of a payment (0: all that is left), as a person does in the vendor's
// dashboard, with a reason of their own. code is the error code of a refusal.
func (s *Server) GiveBack(paymentKey string, amount int64) (code string) {
	return s.GiveBackFor(paymentKey, amount, "고객 요청")
}

// GiveBackFor cancels an amount for a given reason.
func (s *Server) GiveBackFor(paymentKey string, amount int64, reason string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.payments[paymentKey]
	if p == nil {
		return "NOT_FOUND_PAYMENT"
	}
	return s.giveBack(p, amount, reason)
}
