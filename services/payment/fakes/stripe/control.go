package stripe

import (
	"encoding/json"
	"net/http"
)

// act is what a person or a bank does; each kind uses some of the members.
type act struct {
	Order  string `json:"order"`
	Refund string `json:"refund"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
}

// control serves what tests of whole platforms need: the orders, the faults, and what a person does on
// Stripe's dashboard or a bank decides later.
func (s *Server) control() {
	s.mux.HandleFunc("GET /control/orders", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Orders()) // an error means that the client has left
	})
	accept(s.mux, "PUT /control/faults", s.Calls.SetFaults)
	accept(s.mux, "PUT /control/rules", func(r Rules) error { s.SetRules(r); return nil })
	accept(s.mux, "POST /control/refund-by-hand", func(a act) error { return s.RefundByHand(a.Order, a.Amount) })
	accept(s.mux, "POST /control/settle-refund", func(a act) error { return s.SettleRefund(a.Refund, a.Status) })
	accept(s.mux, "POST /control/dispute", func(a act) error { return s.Dispute(a.Order, a.Status) })
}

// accept serves an address that takes JSON.
func accept[T any](mux *http.ServeMux, pattern string, take func(T) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var value T
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&value)
		if err == nil {
			err = take(value)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
