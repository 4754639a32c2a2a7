package payment

import "time"

// Observer receives measurements for operators. Functions that are nil are not called.
type Observer struct {
	// Settled: the age of the oldest unsettled payment event, and whether confirmations are refused
	// for it.
	Settled func(oldest time.Duration, refused bool)
	// WrongAmount: a charge of another amount than requested was refunded.
	WrongAmount func()
	// ManualRefund: a charge was refunded manually at the provider, completely or in part.
	ManualRefund func(whole bool)
}

func (o Observer) wrongAmount() {
	if o.WrongAmount != nil {
		o.WrongAmount()
	}
}

func (o Observer) manualRefund(whole bool) {
	if o.ManualRefund != nil {
		o.ManualRefund(whole)
	}
}

func (o Observer) settled(oldest time.Duration, refused bool) {
	if o.Settled != nil {
		o.Settled(oldest, refused)
	}
}
