package payment

import "time"

// Observer receives measurements for operators. Functions that are nil are not called.
type Observer struct {
	// Settled receives the age of the oldest unsettled payment event, and whether confirmations are
	// refused because of it.
	Settled func(oldest time.Duration, refused bool)
	// WrongAmount is called for a charge of another amount than requested, which is refunded.
	WrongAmount func()
	// ManualRefund is called after a manual refund at the provider, of the whole charge or of a
	// part.
	ManualRefund func(whole bool)
	// UnknownOrder is called for a webhook about an order that is not stored here.
	UnknownOrder func()
}

func (o Observer) unknownOrder() {
	if o.UnknownOrder != nil {
		o.UnknownOrder()
	}
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
