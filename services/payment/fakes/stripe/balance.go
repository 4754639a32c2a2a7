package stripe

import (
	"net/http"
	"slices"

	"urr.guru/services/payment/fakes"
)

// movement is a change of the account's balance, as docs.stripe.com/api/balance_transactions/object
// describes it.
type movement struct {
	id, kind string
	at       int64
	amount   int64
	source   func() map[string]any
}

// The account's currency is not that of the charges: amounts of movements are divided by rate.
const (
	accountCurrency = "usd"
	rate            = 1300
)

// recordMovement records a movement. After a charge it also records a fee, which has no order.
func (s *Server) recordMovement(kind string, amount int64, source func() map[string]any) {
	at := s.opts.Now().Unix()
	s.balance = append(s.balance, movement{newID("txn_"), kind, at, amount / rate, source})
	if kind == "charge" {
		s.balance = append(s.balance, movement{newID("txn_"), "stripe_fee", at, -1, nil})
	}
}

// listBalance is docs.stripe.com/api/balance_transactions/list.
func (s *Server) listBalance(c call) fakes.Reply {
	objects := make([]map[string]any, len(s.balance))
	for i, m := range s.balance {
		objects[i] = map[string]any{
			"id": m.id, "object": "balance_transaction", "type": m.kind, "created": m.at, "amount": m.amount, "currency": accountCurrency, "source": nil,
		}
		if m.source == nil {
			continue
		}
		source := m.source()
		objects[i]["source"] = source["id"]
		if c.expand == "data.source" {
			objects[i]["source"] = source
		}
	}
	return c.list("/v1/balance_transactions", objects)
}

// list returns a page of those objects that the call's period and cursor select. objects are oldest
// first, the page newest first (docs.stripe.com/api/pagination).
func (c call) list(url string, objects []map[string]any) fakes.Reply {
	limit, after, before := c.number("limit"), c.number("created[gte]"), c.number("created[lt]")
	if limit == 0 {
		limit = 10
	}
	slices.Reverse(objects)
	if from := c.form.Get("starting_after"); from != "" {
		i := slices.IndexFunc(objects, func(o map[string]any) bool { return o["id"] == from })
		if i < 0 {
			return missing(from)
		}
		objects = objects[i+1:]
	}
	objects = slices.DeleteFunc(objects, func(o map[string]any) bool {
		at, _ := o["created"].(int64)
		return at < after || before > 0 && at >= before
	})
	data := objects[:min(int(limit), len(objects))]
	return fakes.JSON(http.StatusOK, map[string]any{"object": "list", "url": url, "has_more": len(objects) > len(data), "data": data})
}

// Charge takes money for an order with an intent that is not from its page, as another program with
// the account's key could. It returns the intent's id.
func (s *Server) Charge(order, currency string, amount int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &session{amount: amount, currency: currency, intentMetadata: map[string]string{"urr_order": order}}
	s.addIntent(x)
	x.intent.authorizedAt = s.opts.Now()
	s.capture(x.intent, amount)
	return x.intent.id
}
