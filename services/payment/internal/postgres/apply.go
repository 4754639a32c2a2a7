package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

// source is the CloudEvents attribute source of the events that this service publishes.
const source = "payment"

// lockedPayment is a payment whose row is locked, with now, the time of the decision about it.
type lockedPayment struct {
	payment.Payment
	now     time.Time
	checkAt *time.Time
}

func (s *Store) lock(ctx context.Context, q *db.Queries, id uuid.UUID) (lockedPayment, error) {
	row, err := q.LockPayment(ctx, db.LockPaymentParams{ID: id, Now: s.now()})
	if err != nil {
		return lockedPayment{}, notFound(err)
	}
	return lockedPayment{Payment: toPayment(row.Payment), now: row.Now, checkAt: row.Payment.CheckAt}, nil
}

// apply calls decide with a locked payment and writes the change: the payment, its timeline,
// refund, Kafka event and answers. changed is false when decide returns no change, or when its new
// refund is stored already.
func (s *Store) apply(
	ctx context.Context, tx pgx.Tx, q *db.Queries, p lockedPayment, decide payment.Decide,
) (after payment.Payment, changed bool, err error) {
	c, err := decide(p.Payment, p.now)
	if err != nil || c == nil {
		return p.Payment, false, err
	}
	if c.NewRefund != nil {
		inserted, err := s.insertRefund(ctx, q, *c.NewRefund)
		if err != nil || !inserted {
			return p.Payment, false, err
		}
	}
	after, err = s.write(ctx, tx, q, p, c)
	return after, err == nil, err
}

// write writes the change of a locked payment, except for its new refund.
func (s *Store) write(ctx context.Context, tx pgx.Tx, q *db.Queries, p lockedPayment, c *payment.Change) (payment.Payment, error) {
	after := changedPayment(p, c)
	n, err := q.UpdatePayment(ctx, db.UpdatePaymentParams{
		ID: p.ID, SeenVersion: p.Version, SeenStatus: string(p.Status),
		Status: string(after.Status), PaymentKey: after.PaymentKey, ChargeID: after.ChargeID, ReceiptUrl: after.ReceiptURL, DeclineCode: after.DeclineCode,
		Captured: after.Captured, Refunded: after.Refunded, Hand: after.RefundedByHand, HandUsed: after.ByHandCounted, Goodwill: after.Goodwill, ConfirmingAt: optional(after.ConfirmingAt), AbortDue: after.AbortDue,
		CheckAt: checkAt(p, c), Checks: int32(after.Checks), Lease: after.Lease, //nolint:gosec // reset at every change
		ProviderRef: after.Ref, PageUrl: after.PageURL, PageToken: after.Token, ExpiresAt: after.ExpiresAt, ChargedAt: optional(after.ChargedAt),
		Attempt: int32(after.Attempt), NoCharge: after.NoCharge, KeptCode: after.KeptCode, ExtendAt: optional(after.ExtendAt), CancelDue: after.CancelDue, //nolint:gosec // a small number
		Hinted: after.Hinted, DisputedAt: optional(after.DisputedAt), EvidenceDueAt: optional(after.EvidenceDue), Now: s.now(),
	})
	if err != nil {
		return payment.Payment{}, fmt.Errorf("update payment %s: %w", p.ID, err)
	}
	if n != 1 {
		return payment.Payment{}, fmt.Errorf("payment %s changed under its own lock", p.ID)
	}
	return after, s.recordChange(ctx, tx, p, c, after)
}

// recordChange writes a change's timeline entry, Kafka event and answers in one round trip.
func (s *Store) recordChange(ctx context.Context, tx pgx.Tx, p lockedPayment, c *payment.Change, after payment.Payment) error {
	deferred := postgres.Defer(tx)
	var err error
	if c.Note != "" {
		err = db.New(deferred).AddTimelineEntry(ctx, db.AddTimelineEntryParams{PaymentID: p.ID, Status: string(after.Status), Note: c.Note, Now: s.now()})
	}
	if err == nil && c.Event != "" {
		err = outbox.Insert(ctx, deferred, source, event(after, c, p.now))
	}
	if err == nil && c.Check != payment.Keep {
		err = storeAnswer(ctx, deferred, after, c.Answer)
	}
	if err == nil {
		err = deferred.Send(ctx)
	}
	if err != nil {
		return fmt.Errorf("record the change of payment %s: %w", p.ID, err)
	}
	return nil
}

// changedPayment returns the payment after the change, as UpdatePayment writes it.
func changedPayment(p lockedPayment, c *payment.Change) payment.Payment {
	after := p.Payment
	after.Status, after.AbortDue, after.CancelDue = c.Status, c.AbortDue, c.CancelDue
	if c.Check != payment.Keep && !c.Begins && !c.Unsent {
		after.Checks = 0
	}
	after.Version++
	after.Captured = max(p.Captured, c.Captured)
	after.Refunded += c.AddRefunded
	after.RefundedByHand += c.AddRefundedByHand
	after.ByHandCounted += c.AddByHandCounted
	after.Goodwill = min(p.Goodwill+c.AddGoodwill, after.RefundedByHand-after.ByHandCounted)
	for _, set := range []struct{ to, value *string }{
		{&after.PaymentKey, &c.PaymentKey}, {&after.ChargeID, &c.ChargeID}, {&after.ReceiptURL, &c.ReceiptURL}, {&after.DeclineCode, &c.DeclineCode},
		{&after.KeptCode, &c.KeptCode}, {&after.Ref, &c.Page.Ref}, {&after.PageURL, &c.Page.URL},
	} {
		if *set.value != "" {
			*set.to = *set.value
		}
	}
	if !after.Status.Uncharged() && !after.Status.Unsettled() { // the page is opened no more
		after.Token = ""
		after.PageURL, _, _ = strings.Cut(after.PageURL, "#")
	}
	if c.Disputed != nil {
		after.EvidenceDue = c.EvidenceDue
		switch {
		case !*c.Disputed:
			after.DisputedAt = time.Time{}
		case p.DisputedAt.IsZero():
			after.DisputedAt = p.now
		}
	}
	if !c.ExpiresAt.IsZero() { // the new page returns a new key
		after.ExpiresAt, after.PaymentKey = c.ExpiresAt, ""
	}
	if c.Begins { // the charge asks the provider, so the hint is followed
		after.Hinted = false
		after.ChargedAt = p.now
		after.Lease++
		after.Attempt++
	}
	if c.Unsent {
		after.ChargedAt = c.ChargedAt
		after.Attempt--
		after.Hinted = p.Hinted || c.Hinted
	}
	if c.Begins && !p.Status.Unsettled() {
		after.ConfirmingAt, after.ExtendAt = p.now, p.now.Add(extendEvery)
	}
	after.NoCharge = p.NoCharge || c.NoCharge
	switch {
	case after.Awaited():
		if after.ExtendAt.IsZero() {
			after.ExtendAt = after.ExpiresAt.Add(-extendEvery)
		}
	case c.Lost || !after.Status.Unsettled() && after.Status != payment.Confirmed:
		after.ExtendAt = time.Time{}
	}
	return after
}

// extendEvery is the pause between two calls that prolong the claim of one payment at the ticket
// service.
const extendEvery = time.Minute

// storeAnswer stores the final answer under the Idempotency-Keys of the payment's confirmations.
// Without a final answer it releases the keys, unless the payment is being charged.
func storeAnswer(ctx context.Context, tx postgres.Execer, p payment.Payment, final *payment.Answer) error {
	if final == nil {
		if p.Status == payment.Confirming {
			return nil
		}
		return answers.Finish(ctx, tx, p.ID, "")
	}
	answer, err := json.Marshal(final)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return answers.Finish(ctx, tx, p.ID, string(answer))
}

func event(p payment.Payment, c *payment.Change, now time.Time) outbox.Event {
	e := &eventsv1.PaymentEvent{
		Type: string(c.Event), PaymentType: string(p.Reference.Type), PaymentId: p.ID.String(), OrderId: p.OrderID, SagaId: p.ID.String(),
		ReferenceId: p.Reference.ID.String(), UserId: p.UserID, EventId: p.EventID, Amount: p.Amount, Currency: p.Currency,
		Version: p.Version, OccurredAt: timestamppb.New(now),
	}
	if c.Event == payment.EventConfirmed {
		e.PartialRefunds = new(!c.WholeOnly)
	}
	if c.Event == payment.EventDeclined {
		e.DeclineCode = &p.DeclineCode
	}
	if r := c.Refund; r != nil {
		id, cause := r.ID.String(), string(r.Cause)
		e.Amount, e.RefundId, e.Cause = r.Send, &id, &cause
		for _, item := range r.Items {
			e.Items = append(e.Items, &eventsv1.RefundItem{TicketId: item.TicketID.String(), Amount: item.Amount})
		}
	}
	return outbox.Event{Topic: events.Payments, Key: p.OrderID, Type: string(c.Event), EntityVersion: p.Version, Payload: e}
}

// checkAt returns when the sweeper checks the payment after the change c. If a webhook has come
// (Hinted), that is at once, unless c begins a charge or says that it was not sent.
func checkAt(p lockedPayment, c *payment.Change) *time.Time {
	wait := c.Check
	if wait == payment.Keep {
		return p.checkAt
	}
	if p.Hinted && !c.Begins && !c.Unsent {
		wait = 0
	}
	if wait == payment.Never {
		return nil
	}
	at := p.now.Add(wait)
	return &at
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func toPayment(row db.Payment) payment.Payment {
	p := payment.Payment{
		ID: row.ID, OrderID: row.OrderID, Reference: payment.Reference{Type: payment.Type(row.PaymentType), ID: row.ReferenceID},
		UserID: row.UserID, EventID: row.EventID, Amount: row.Amount, Currency: row.Currency, Description: row.Description,
		StatementSuffix: row.StatementSuffix, Email: row.Email, Provider: row.Provider, Mode: payment.Mode(row.Mode),
		Status: payment.Status(row.Status), PaymentKey: row.PaymentKey, ChargeID: row.ChargeID, ReceiptURL: row.ReceiptUrl, DeclineCode: row.DeclineCode,
		Captured: row.Captured, Refunded: row.Refunded, RefundedByHand: row.Hand, ByHandCounted: row.HandUsed, Goodwill: row.Goodwill, Version: row.Version, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
		Ref: row.ProviderRef, PageURL: row.PageUrl, Token: row.PageToken, TokenSHA256: row.PageTokenSha256, ChargedAt: timeOf(row.ChargedAt), Attempt: int(row.Attempt),
		NoCharge: row.NoCharge, KeptCode: row.KeptCode, ExtendAt: timeOf(row.ExtendAt), CancelDue: row.CancelDue,
		AbortDue: row.AbortDue, Hinted: row.Hinted, Returned: row.Returned, Checks: int(row.Checks), Lease: row.Lease,
	}
	p.ConfirmingAt, p.DisputedAt = timeOf(row.ConfirmingAt), timeOf(row.DisputedAt)
	p.EvidenceDue, p.WarnedAt, p.FraudType = timeOf(row.EvidenceDueAt), timeOf(row.WarnedAt), row.FraudType
	return p
}
