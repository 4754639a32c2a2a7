package toss

import (
	"errors"

	"urr.guru/services/payment/fakes"
)

// Rules change what look-ups return and which cancellations are refused.
type Rules struct {
	// ShowsUnapproved lets look-ups find payments that are not confirmed. The reference mentions only
	// confirmed ones (/reference#orderid로-결제-조회), but real look-ups have returned others.
	ShowsUnapproved bool `json:"showsUnapproved"`
	// WholeOnly refuses partial cancellations: isPartialCancelable of /reference#payment-객체.
	WholeOnly bool `json:"wholeOnly"`
}

// control serves the addresses with which end-to-end tests control the fake.
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

// act is what a person does, in a request. Each address uses some of the fields.
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

// Payments returns all payments; the payments of one order are oldest first.
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

// Confirm confirms an authorised payment, as another program with the shop's key could. code is the
// error code of a refusal.
func (s *Server) Confirm(paymentKey string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(s.current(paymentKey))
}

// Charge takes money for an order with a payment that the shop did not open, as another program
// with its keys could. code is the error code of a refusal.
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
// dashboard, with a reason of that person's own. code is the error code of a refusal.
func (s *Server) GiveBack(paymentKey string, amount int64) (code string) {
	return s.GiveBackFor(paymentKey, amount, "고객 요청")
}

// GiveBackFor is GiveBack with a given reason.
func (s *Server) GiveBackFor(paymentKey string, amount int64, reason string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.payments[paymentKey]
	if p == nil {
		return "NOT_FOUND_PAYMENT"
	}
	return s.giveBack(p, amount, reason)
}
