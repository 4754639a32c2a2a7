package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/sandbox"
)

// Charges returns the charges of all payment providers with their refunds, by order id: from the
// sandbox's ledger, and from the fakes of Stripe and Toss Payments.
func (s *Stores) Charges(ctx context.Context) (map[string]sandbox.Charge, error) {
	var ledger struct {
		Charges []sandbox.Charge `json:"charges"`
	}
	if err := s.readProvider(ctx, s.ledgerURL, &ledger); err != nil {
		return nil, err
	}
	for name, url := range s.providers {
		list, err := s.readFake(ctx, name, url+"/control/orders")
		if err != nil {
			return nil, err
		}
		ledger.Charges = append(ledger.Charges, list...)
	}
	out := make(map[string]sandbox.Charge, len(ledger.Charges))
	for _, c := range ledger.Charges {
		if earlier, ok := out[c.OrderID]; ok { // at Toss, the payment of an order can be captured twice
			c.Amount, c.RefundedAmount = c.Amount+earlier.Amount, c.RefundedAmount+earlier.RefundedAmount
		}
		out[c.OrderID] = c
	}
	return out, nil
}

// readFake reads the captured payments of a fake provider and converts them to sandbox charges.
func (s *Stores) readFake(ctx context.Context, name, url string) (list []sandbox.Charge, err error) {
	if name == platform.Stripe {
		var orders []stripe.Order
		err = s.readProvider(ctx, url, &orders)
		for _, o := range orders {
			if o.Received > 0 {
				list = append(list, sandbox.Charge{OrderID: o.Order, Status: sandbox.Captured, Amount: o.Received, RefundedAmount: o.Refunded})
			}
		}
		return list, err
	}
	var payments []toss.Payment
	err = s.readProvider(ctx, url, &payments)
	for _, p := range payments {
		if p.Captured() {
			list = append(list, sandbox.Charge{
				OrderID: p.OrderID, Status: sandbox.Captured, Amount: p.TotalAmount, RefundedAmount: p.TotalAmount - p.BalanceAmount,
			})
		}
	}
	return list, err
}

func (s *Stores) readProvider(ctx context.Context, url string, into any) error {
	raw, err := fetch.Get(ctx, url)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", unavailable(providerStore, err))
	}
	return nil
}
