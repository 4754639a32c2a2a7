package chaos_test

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/proto/events"
)

// moneyForger writes to the topics of a run what no service has decided: copies of records that were
// changed, which have no right signature, and lies, which have one, as of somebody with a service's
// key. The former are refused before a handler sees them. Handlers refuse the latter, or they change
// nothing: the checks of the books do not know of them.
type moneyForger struct {
	world  *money
	copies map[string]bool // by event id
	lies   map[string]bool
}

// changed returns a copy of a signed record: without the signature, under another id, or about
// something else. n selects which.
func (f *moneyForger) changed(r kafka.Record, n int) kafka.Record {
	r.Headers = maps.Clone(r.Headers)
	r.EventID = uuid.NewString()
	switch r.Headers[kafka.HeaderID] = r.EventID; n % 3 {
	case 0:
		delete(r.Headers, kafka.HeaderSignature)
	case 1: // consumers that did not check the signature would handle it twice
	default:
		r.Value = append([]byte(`{"amount":"1","price":"999999",`), r.Value[1:]...)
	}
	f.copies[r.EventID] = true
	return r
}

// admits reports whether a consumer hands the record to its handler.
func (f *moneyForger) admits(r kafka.Record) bool {
	refused := kafkatest.Signer().Verify(r)
	switch forged := f.copies[r.EventID]; {
	case forged && refused == nil:
		f.world.violate("%s %s is forged, and believed", r.Type, r.EventID)
	case !forged && refused != nil:
		f.world.violate("%s %s is genuine, and refused: %v", r.Type, r.EventID, refused)
	case forged:
		f.world.count("forged copy refused")
	}
	return refused == nil
}

// falsehood is what a lie can be about: a hold that is not paid, or a payment whose tickets are good.
type falsehood struct {
	EventID, UserID, ReferenceID, PaymentID, Currency string
	Amount                                            int64
}

// lie returns a signed record of something that has not happened; false without anything to lie about.
func (f *moneyForger) lie(n int) (kafka.Record, bool) {
	m := f.world
	sql, db := `SELECT p.event_id, p.user_id, p.reference_id::text, p.id::text, p.currency, p.captured
		FROM payments p WHERE p.status = 'CONFIRMED' AND p.payment_type = 'reservation' ORDER BY random() LIMIT 1`, m.payDB
	if n%3 == 0 {
		sql, db = `SELECT event_id, user_id, reservation_id::text, gen_random_uuid()::text, currency, amount
			FROM reservations WHERE status IN ('HELD', 'PAYING') ORDER BY random() LIMIT 1`, m.ticketDB
	}
	found := read[falsehood](m, db, sql)
	if len(found) == 0 {
		return kafka.Record{}, false
	}
	at := found[0]
	id := uuid.NewString()
	topic, kind, key, body := events.Payments, events.PaymentConfirmed, at.ReferenceID, map[string]any{
		"paymentId": at.PaymentID, "referenceId": at.ReferenceID, "orderId": at.ReferenceID, "amount": at.Amount, "userId": at.UserID,
	}
	switch n % 3 {
	case 1:
		topic, kind = events.Reservations, events.ReservationRejected
		body = map[string]any{"reservationId": at.ReferenceID, "paymentId": at.PaymentID, "userId": at.UserID, "reason": "HOLD_EXPIRED"}
	case 2: // more than the payment ever had
		topic, kind, key = events.Transfers, events.TransferCompleted, id
		body = map[string]any{
			"transferId": id, "ticketId": uuid.NewString(), "sellerPaymentId": at.PaymentID, "paymentId": at.PaymentID, "price": at.Amount + 1,
		}
	}
	body["type"], body["eventId"], body["currency"], body["version"] = kind, at.EventID, at.Currency, 9
	body["occurredAt"] = m.clock.Now().Format(time.RFC3339Nano)
	value, err := json.Marshal(body)
	if err != nil {
		m.violate("lie: %v", err)
	}
	headers := kafka.EventHeaders(uuid.MustParse(id), events.Writer(topic), kind, m.clock.Now())
	return kafkatest.Signer().Sign(kafka.Record{Topic: topic, Key: []byte(key), Value: value, Headers: headers, EventID: id, Type: kind}), true
}

// lie writes a lie to a topic.
func (k *moneyTopics) lie() {
	r, ok := k.forger.lie(k.world.provider.pick(3))
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forger.lies[r.EventID] = true
	k.append(r)
}
