package payment

import "time"

// Observer is told what operators are to see. Functions that are nil are not called.
type Observer struct {
	// Settled: how long the oldest event of a payment waits to be settled, and whether
	// confirmations are refused for it.
	Settled func(oldest time.Duration, refused bool)
	// WrongAmount: a charge of another amount than was asked for has been given back.
	WrongAmount func()
	// ByHand: somebody gave back a charge at the provider, the whole of it or a part.
	ByHand func(whole bool)
}

func (o Observer) wrongAmount() {
	if o.WrongAmount != nil {
		o.WrongAmount()
	}
}

func (o Observer) byHand(whole bool) {
	if o.ByHand != nil {
		o.ByHand(whole)
	}
}

func (o Observer) settled(oldest time.Duration, refused bool) {
	if o.Settled != nil {
		o.Settled(oldest, refused)
	}
}
