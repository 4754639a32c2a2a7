package kafka_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
	"urr.guru/services/payment/internal/kafka"
	"urr.guru/services/payment/internal/payment"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// compensator records the calls of the consumer. Its first calls fail with the errors in fails.
type compensator struct {
	mu       sync.Mutex
	fails    []error
	got      []payment.Rejection
	promised []payment.PromisedRefund
	ended    []uuid.UUID
	payouts  []payment.Payout
}

func (c *compensator) PayOut(_ context.Context, p payment.Payout) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payouts = append(c.payouts, p)
	return nil
}

func (c *compensator) EndGivenUp(_ context.Context, _ string, id uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, id)
	return nil
}

func (c *compensator) RefundPromised(_ context.Context, r payment.PromisedRefund) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised = append(c.promised, r)
	return nil
}

func (c *compensator) Compensate(_ context.Context, r payment.Rejection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fails) > 0 {
		err := c.fails[0]
		c.fails = c.fails[1:]
		return err
	}
	c.got = append(c.got, r)
	return nil
}

func (c *compensator) all() []payment.Rejection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]payment.Rejection(nil), c.got...)
}

func reservationRecord(t *testing.T, eventType string, fields map[string]any) pkgkafka.Record {
	t.Helper()
	fields["type"] = eventType
	value, err := json.Marshal(fields)
	require.NoError(t, err)
	return pkgkafka.Record{
		Topic: events.Reservations, Key: []byte("r"), Value: value,
		Headers: pkgkafka.EventHeaders(uuid.New(), "ticket", eventType, time.Now()),
	}
}

func TestRejectionsAreCompensated(t *testing.T) {
	t.Parallel()
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix = kafkatest.Name("p") + "."
	cfg.GroupPrefix = cfg.TopicPrefix
	require.NoError(t, pkgkafka.EnsureTopics(t.Context(), cfg, pkgkafka.Topic{Name: events.Reservations}))
	topic := cfg.TopicPrefix + events.Reservations
	t.Cleanup(func() { kafkatest.Delete(t, topic, topic+pkgkafka.DLQSuffix) })

	first, second := uuid.New(), uuid.New()
	claim, ticket := uuid.New(), uuid.New()
	items := []map[string]any{{"ticketId": ticket, "amount": 700}}
	due := reservationRecord(t, "TICKETS_REFUND_DUE", map[string]any{"paymentId": first, "claimId": claim, "cause": "EVENT_CANCELLED", "items": items})
	rejected := reservationRecord(t, "RESERVATION_REJECTED", map[string]any{"paymentId": first, "reason": "HOLD_EXPIRED", "newMember": 1})
	require.NoError(t, kafkatest.ProducerOf(t, cfg).Publish(t.Context(),
		reservationRecord(t, "RESERVATION_CONFIRMED", map[string]any{"paymentId": second}),                                                // ignored
		reservationRecord(t, "RESERVATION_REJECTED", map[string]any{"paymentId": "none"}),                                                 // cannot be read
		reservationRecord(t, "RESERVATION_REJECTED", map[string]any{"paymentId": second}),                                                 // not known here
		reservationRecord(t, "TICKETS_REFUND_DUE", map[string]any{"paymentId": first, "claimId": claim, "cause": "USER", "items": items}), // not a cause that the ticket service decides
		due, rejected))

	c := &compensator{fails: []error{payment.ErrNotFound, errs.ErrUnavailable}}
	consumer, err := kafka.NewConsumer(cfg, c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	testkit.Until(t, func() bool { return len(c.all()) == 1 }, "the compensation")
	require.Equal(t, payment.Rejection{EventKey: rejected.Headers[pkgkafka.HeaderID], PaymentID: first, Reason: "HOLD_EXPIRED"}, c.all()[0])
	require.Equal(t, []payment.PromisedRefund{{
		EventKey: due.Headers[pkgkafka.HeaderID], ClaimID: claim, PaymentID: first, Cause: payment.EventCancelled,
		Items: []payment.RefundItem{{TicketID: ticket, Amount: 700}},
	}}, c.promised)
	letters := kafkatest.Read(t, topic+pkgkafka.DLQSuffix, 3)
	require.Contains(t, letters[0].Headers[pkgkafka.HeaderError], "names no payment")
	require.Contains(t, letters[1].Headers[pkgkafka.HeaderError], "not known here")
	require.Contains(t, letters[2].Headers[pkgkafka.HeaderError], `cause "USER"`)
}

// A refund that ticket does not owe is a dead letter at once.
func TestRefundsThatAreNotOwed(t *testing.T) {
	t.Parallel()
	c := &compensator{fails: []error{payment.ErrNotOwed}}
	rec := reservationRecord(t, "RESERVATION_REJECTED", map[string]any{"paymentId": uuid.New()})
	rec.Type = "RESERVATION_REJECTED"
	err := kafka.Handle(c)(t.Context(), rec)
	require.True(t, pkgkafka.IsPoison(err))
	require.ErrorIs(t, err, payment.ErrNotOwed)
}

// If a reservation is cancelled, the payment that was open for it ends.
func TestGivenUpPlacesEndThePayment(t *testing.T) {
	t.Parallel()
	c, id := &compensator{}, uuid.New()
	for _, fields := range []map[string]any{{"reason": "USER"}, {"reason": "USER", "paymentId": id}} {
		rec := reservationRecord(t, "RESERVATION_CANCELLED", fields)
		rec.Type = "RESERVATION_CANCELLED"
		require.NoError(t, kafka.Handle(c)(t.Context(), rec))
	}
	require.Equal(t, []uuid.UUID{id}, c.ended)
}

// A completed transfer pays the seller, a rejected one refunds the buyer, and a cancelled one ends
// the open payment. A gift has no payment.
func TestTransfers(t *testing.T) {
	t.Parallel()
	c := &compensator{}
	transfer, seller, buyer, sold := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	handled := func(eventType string, fields map[string]any) error {
		fields["transferId"], fields["ticketId"], fields["price"] = transfer, sold, "700"
		rec := reservationRecord(t, eventType, fields)
		rec.Topic, rec.Type, rec.EventID = events.Transfers, eventType, "key"
		return kafka.Handle(c)(t.Context(), rec)
	}
	for _, typ := range []string{"TRANSFER_COMPLETED", "TRANSFER_CANCELLED"} {
		require.NoError(t, handled(typ, map[string]any{}))
	}
	require.NoError(t, handled("TRANSFER_COMPLETED", map[string]any{"paymentId": buyer, "sellerPaymentId": seller}))
	require.NoError(t, handled("TRANSFER_CANCELLED", map[string]any{"paymentId": buyer, "reason": "SELLER"}))
	require.NoError(t, handled("TRANSFER_REJECTED", map[string]any{"paymentId": buyer, "reason": "HOLD_EXPIRED"}))
	require.Equal(t, []payment.Payout{{
		EventKey: "key", TransferID: transfer, PaymentID: seller, BuyerPaymentID: buyer, Item: payment.RefundItem{TicketID: sold, Amount: 700},
	}}, c.payouts)
	require.Equal(t, []uuid.UUID{buyer}, c.ended)
	require.Equal(t, []payment.Rejection{{EventKey: "key", PaymentID: buyer, Reason: "HOLD_EXPIRED"}}, c.all())
	require.True(t, pkgkafka.IsPoison(handled("TRANSFER_COMPLETED", map[string]any{"paymentId": buyer})), "nobody to pay")
}

// The payment of a rejected membership is refunded. Other events of memberships are ignored.
func TestMemberships(t *testing.T) {
	t.Parallel()
	c, paid := &compensator{}, uuid.New()
	handled := func(eventType string, fields map[string]any) error {
		fields["membershipId"] = uuid.New()
		rec := reservationRecord(t, eventType, fields)
		rec.Topic, rec.Type, rec.EventID = events.Memberships, eventType, "key"
		return kafka.Handle(c)(t.Context(), rec)
	}
	for _, typ := range []string{"MEMBERSHIP_ACTIVATED", "MEMBERSHIP_ENDED"} {
		require.NoError(t, handled(typ, map[string]any{"paymentId": paid}))
	}
	require.Empty(t, c.all())
	require.NoError(t, handled("MEMBERSHIP_REJECTED", map[string]any{"paymentId": paid, "reason": "ALREADY_PAID"}))
	require.Equal(t, []payment.Rejection{{EventKey: "key", PaymentID: paid, Reason: "ALREADY_PAID"}}, c.all())
	require.True(t, pkgkafka.IsPoison(handled("MEMBERSHIP_REJECTED", map[string]any{})), "nothing to give back")
}
