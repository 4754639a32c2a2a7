package rpc

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// pending is the API's status of a payment whose outcome is not known yet.
const pending = "PENDING"

func status(s payment.Status) string {
	if s.Unsettled() {
		return pending
	}
	return string(s)
}

// shownStatus returns the status that the payer sees. An OPEN payment is about to be charged
// (PENDING) when its payer is back from the page or a webhook says that the page was paid.
func shownStatus(p payment.Payment) string {
	if p.Status == payment.Open && (p.PaymentKey != "" || p.Hinted) {
		return pending
	}
	return status(p.Status)
}

func toPrepared(p payment.Payment, page payment.Page) *paymentv1.PrepareResponse {
	shown := shownStatus(p)
	if shown == pending {
		page = payment.Page{}
	}
	return &paymentv1.PrepareResponse{
		PaymentId: p.ID.String(), OrderId: p.OrderID, Amount: p.Amount, Currency: p.Currency, Provider: p.Provider,
		ClientParams: page.Params, ExpiresAt: timestamppb.New(p.ExpiresAt), Status: shown, Page: toPage(page),
		DeclineCode: optional(p.DeclineCode),
	}
}

func toPage(page payment.Page) *paymentv1.Page {
	if page.URL == "" && page.Params == nil {
		return nil
	}
	p := &paymentv1.Page{Params: page.Params}
	if page.URL != "" {
		p.Url = &page.URL
	}
	return p
}

func toConfirmed(a payment.Answer) *paymentv1.ConfirmResponse {
	return &paymentv1.ConfirmResponse{
		Status: status(a.Status), DeclineCode: optional(a.DeclineCode), PaymentId: a.PaymentID.String(),
	}
}

func toPayment(shown payment.View) *paymentv1.Payment {
	p, timeline := shown.Payment, shown.Timeline
	out := &paymentv1.Payment{
		PaymentId: p.ID.String(), OrderId: p.OrderID, PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(),
		EventId: p.EventID, Amount: p.Amount, Currency: p.Currency, Provider: p.Provider, Status: shownStatus(p),
		DeclineCode: optional(p.DeclineCode), ReceiptUrl: optional(p.ReceiptURL), RefundedAmount: refundedAmount(p),
		CreatedAt: timestamppb.New(p.CreatedAt), ExpiresAt: timestamppb.New(p.ExpiresAt),
		Timeline: make([]*paymentv1.TimelineEntry, len(timeline)),
	}
	out.WaitSeconds = int64(shown.Wait / time.Second)
	if out.GetStatus() == string(payment.Open) {
		out.Page = toPage(payment.Page{URL: p.PageURL})
	}
	for i, e := range timeline {
		out.Timeline[i] = &paymentv1.TimelineEntry{At: timestamppb.New(e.At), Status: status(e.Status), Note: e.Note}
	}
	items := map[string]*paymentv1.RefundItem{} // by ticket id, with the ticket's total amount
	for _, r := range shown.Refunds {
		if r.ForOperators() {
			continue
		}
		out.Refunds = append(out.Refunds, toRefund(r))
		for _, item := range r.Items {
			id := item.TicketID.String()
			if !r.Holds() {
				continue
			}
			if items[id] == nil {
				items[id] = &paymentv1.RefundItem{TicketId: id}
				out.Items = append(out.Items, items[id])
			}
			items[id].Amount += item.Amount
		}
	}
	return out
}

// payersStatus maps the stored statuses of refunds that payers see under another name.
var payersStatus = map[payment.RefundStatus]payment.RefundStatus{
	payment.RefundAccepted: payment.RefundPending, payment.RefundResolved: payment.RefundDone, payment.RefundRejected: payment.RefundRefused,
}

func toRefund(r payment.Refund) *paymentv1.Refund {
	out := &paymentv1.Refund{
		RefundId: r.ID.String(), PaymentId: r.PaymentID.String(), Cause: string(r.Cause), Status: string(cmp.Or(payersStatus[r.Status], r.Status)),
		Amount: r.Amount + r.Scope.Goodwill, Items: toItems(r.Items), Left: toExcluded(r.Excluded), CreatedAt: timestamppb.New(r.CreatedAt),
	}
	sends := r.Status != payment.RefundRequested && r.Status != payment.RefundRejected && r.Status != payment.RefundRefused
	if sends && r.Cause != payment.ByHand {
		out.Amount = r.Send // what money by hand has covered is in the refund by hand
	}
	if r.Status == payment.RefundRejected && r.Reason == payment.ErrAmountChanged.Reason {
		out.Reason = &r.Reason
	}
	return out
}

func toDetail(d payment.DueRefund) *paymentv1.RefundDetail {
	r, p := d.Refund, d.Payment
	return &paymentv1.RefundDetail{
		RefundId: r.ID.String(), PaymentId: r.PaymentID.String(), OrderId: p.OrderID, ProviderRefundId: r.ProviderID, UserId: p.UserID,
		EventId: p.EventID, Cause: string(r.Cause), Status: string(r.Status), Reason: r.Reason, Amount: r.Amount + r.Scope.Goodwill, Send: r.Send,
		Currency: p.Currency, Items: toItems(r.Items), Left: toExcluded(r.Excluded), LastError: r.LastError, PendingReason: r.PendingReason,
		Attempts: int32(r.Attempts), CreatedAt: timestamppb.New(r.CreatedAt), //nolint:gosec // a small number
	}
}

func toItems(items []payment.RefundItem) []*paymentv1.RefundItem {
	out := make([]*paymentv1.RefundItem, len(items))
	for i, item := range items {
		out[i] = &paymentv1.RefundItem{TicketId: item.TicketID.String(), Amount: item.Amount}
	}
	return out
}

func toExcluded(tickets []payment.ExcludedTicket) []*paymentv1.ExcludedTicket {
	out := make([]*paymentv1.ExcludedTicket, len(tickets))
	for i, t := range tickets {
		out[i] = &paymentv1.ExcludedTicket{TicketId: t.TicketID.String(), Reason: t.Reason}
	}
	return out
}

// refundedAmount returns the refunded amount. It is 0 if the provider charged a wrong amount, since
// that charge does not count as a payment.
func refundedAmount(p payment.Payment) int64 {
	if p.Captured != p.Amount {
		return 0
	}
	return p.Refunded
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// toTime returns nil for the zero time.
func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
