package figures

import "urr.guru/proto/events"

// The figures that are money, by the cause of the payment or refund. Sum.Amount is the sum of the
// amounts, Sum.Times the number of payments or refunds.
const (
	// Sale and Membership are what buyers paid, SaleRefund and MembershipRefund what they got back.
	Sale             Figure = "sale"
	SaleRefund       Figure = "sale_refund"
	Membership       Figure = "membership"
	MembershipRefund Figure = "membership_refund"
	// Transfer is what buyers paid for tickets of other visitors. It goes to the sellers
	// (TransferPayout), or back to the buyer if the transfer is rejected (TransferReturn), so it is no
	// revenue.
	Transfer       Figure = "transfer"
	TransferPayout Figure = "transfer_payout"
	TransferReturn Figure = "transfer_return"
	// TransferRefund is what the buyer of a transferred ticket got back, as after a cancellation. It
	// reduces revenue. So much less of the seller's own payment can be refunded.
	TransferRefund Figure = "transfer_refund"
	// Fee is the part of Sale that is fees, FeeRefund the part of the refunds that is fees.
	Fee       Figure = "fee"
	FeeRefund Figure = "fee_refund"
)

// Revenue has the sums of an event's payments and refunds in one currency, in minor units, and how
// many there were. What the buyer of a transferred ticket pays the seller is not included.
type Revenue struct {
	Currency                               string
	Confirmed, Refunded, Payments, Refunds int64
}

// Net is the revenue after refunds, in minor units.
func (r Revenue) Net() int64 { return r.Confirmed - r.Refunded }

// add adds the payments or refunds of one cause.
func (r *Revenue) add(cause Figure, s Sum) {
	switch cause { //nolint:exhaustive // other figures are no revenue
	case Sale, Membership:
		r.Confirmed += s.Amount
		r.Payments += s.Times
	case SaleRefund, MembershipRefund, TransferRefund:
		r.Refunded += s.Amount
		r.Refunds += s.Times
	}
}

// TypeMembership is the type of the payments for memberships, which belong to no event.
const TypeMembership = "membership"

const (
	typeTransfer = "transfer"

	causeTransfer     = "TRANSFER"     // the seller of a ticket is paid by a refund of their own payment
	causeCompensation = "COMPENSATION" // a payment is given back for which the buyer got nothing
)

// Payment is one Kafka event about a payment: it was confirmed, declined or refunded. Amount is the
// amount of the payment or refund, in minor units.
type Payment struct {
	Event

	PaymentType, Currency string

	Cause  string // why a refund was made
	Amount int64
}

// AddPayment counts one Kafka event about a payment.
func (d *Delta) AddPayment(p Payment) {
	switch p.Type {
	case events.PaymentConfirmed:
		d.add(p.EventID, p.At, p.paid(), p.Currency, p.Amount)
	case events.PaymentRefunded:
		d.add(p.EventID, p.At, p.refunded(), p.Currency, p.Amount)
	default:
		d.Add(p.Event)
	}
}

func (p *Payment) paid() Figure {
	switch p.PaymentType {
	case typeTransfer:
		return Transfer
	case TypeMembership:
		return Membership
	default:
		return Sale
	}
}

func (p *Payment) refunded() Figure {
	switch {
	case p.Cause == causeTransfer:
		return TransferPayout
	case p.PaymentType == typeTransfer && p.Cause == causeCompensation:
		return TransferReturn
	case p.PaymentType == typeTransfer:
		return TransferRefund
	case p.PaymentType == TypeMembership:
		return MembershipRefund
	default:
		return SaleRefund
	}
}
