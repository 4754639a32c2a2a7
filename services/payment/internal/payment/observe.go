package payment

import "time"

// Observer receives measurements for operators. Functions that are nil are not called.
type Observer struct {
	// Settled receives the age of the oldest payment event that is not applied yet, and whether
	// confirmations are refused because of it.
	Settled func(oldest time.Duration, refused bool)
	// WrongAmount is called when another amount than requested was charged; it is refunded.
	WrongAmount func()
	// ManualRefund is called after a person refunded the whole charge, or a part, at the provider.
	ManualRefund func(whole bool)
	// UnknownOrder is called for a webhook about an order that is not stored here.
	UnknownOrder func()
	// Unanswered is called when a payment ends although its buyer may have paid on the page: its hold
	// could be kept no longer, and the provider has not answered.
	Unanswered func()
}

func (o Observer) unknownOrder() {
	if o.UnknownOrder != nil {
		o.UnknownOrder()
	}
}

func (o Observer) unanswered() {
	if o.Unanswered != nil {
		o.Unanswered()
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
