package stripe

import "urr.guru/services/payment/fakes"

// act is what a person or a bank does, in a request. Each address uses some of the fields.
type act struct {
	Order  string `json:"order"`
	Refund string `json:"refund"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
}

// control serves the addresses for end-to-end tests: the orders, the faults, and what a person does
// on Stripe's dashboard, or a bank.
func (s *Server) control() {
	fakes.Show(s.mux, "GET /control/orders", s.Orders)
	fakes.Accept(s.mux, "PUT /control/faults", s.Calls.SetFaults)
	fakes.Accept(s.mux, "PUT /control/rules", func(r Rules) error { s.SetRules(r); return nil })
	fakes.Accept(s.mux, "POST /control/charge", func(a act) error { s.Charge(a.Order, "krw", a.Amount); return nil })
	fakes.Accept(s.mux, "POST /control/refund-by-hand", func(a act) error { return s.RefundByHand(a.Order, a.Amount) })
	fakes.Accept(s.mux, "POST /control/settle-refund", func(a act) error { return s.SettleRefund(a.Refund, a.Status) })
	fakes.Accept(s.mux, "POST /control/dispute", func(a act) error { return s.Dispute(a.Order, a.Status) })
}
