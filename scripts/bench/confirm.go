package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/benchtest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// payers is the number of users who confirm at the same time.
	payers = 32
	// confirmed and confirmedBaseline are the payments confirmed in a round of about a second.
	confirmed, confirmedBaseline = 640, 384
	seatsOfRow                   = 100
)

// runConfirm measures confirmed payments (the row "confirm") by the payment and ticket services.
// The sandbox provider answers without delay.
func runConfirm(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	services := harness.Options{Production: true, Services: []string{platform.Ticket, platform.Payment, platform.Sandbox}}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		c, err := newConfirmRow(ctx, p)
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, addResult, benchRow{result: benchtest.Result{
			Name: "confirm", What: "confirm a payment until its seat is sold, 32 clients", Besides: "pgbench running the SQL of payment and of ticket, 32 clients",
			Unit: "µs per payment", Must: 0.5, Aim: 0.7,
		}, subject: c.measureConfirm, baseline: c.measureConfirmBaseline})
	})
}

// confirmRow measures the time until payments are confirmed and seats are sold.
type confirmRow struct {
	admin            ticketv1.EventAdminServiceClient
	payments         paymentv1.PaymentServiceClient
	payment, ticket  *pgxpool.Pool
	paymentURL       string
	ticketURL        string
	prepared, events int64 // numbers of holds and events so far, for unique names
}

func newConfirmRow(ctx context.Context, p *harness.Platform) (*confirmRow, error) {
	c := &confirmRow{
		admin:    ticketv1.NewEventAdminServiceClient(p.Dial(platform.Gateway, platform.Ticket, 0)),
		payments: paymentv1.NewPaymentServiceClient(p.Dial(platform.Gateway, platform.Payment, 0)),
		payment:  p.DB(platform.Payment), ticket: p.DB(platform.Ticket),
	}
	for name, url := range map[string]*string{platform.Payment: &c.paymentURL, platform.Ticket: &c.ticketURL} {
		service, err := platform.Lookup(name)
		if err != nil {
			return nil, err
		}
		*url = p.Wiring().DatabaseURL(service)
	}
	for _, db := range []*pgxpool.Pool{c.payment, c.ticket} {
		if _, err := db.Exec(ctx, `CREATE TABLE plain_outbox (LIKE outbox INCLUDING ALL)`); err != nil {
			return nil, fmt.Errorf("copy the outbox: %w", err)
		}
	}
	return c, nil
}

// prepare creates an event with n holds of one seat each, and prepares a payment for each hold. The
// holds have consecutive numbers, of which first is the lowest.
func (c *confirmRow) prepare(ctx context.Context, n int64) (event string, first int64, err error) {
	c.events++
	event = fmt.Sprintf("bench-confirm-%d", c.events)
	first = c.prepared
	c.prepared += n
	rows := int32(n/seatsOfRow + 1) //nolint:gosec // some rows
	_, err = c.admin.PutEvent(ctx, putEventRequest(event, 1, &ticketv1.SectionSpec{Section: "A", Rows: &rows, SeatsPerRow: new(int32(seatsOfRow))}))
	if err == nil {
		err = awaitPublished(ctx, c.payment, c.ticket)
	}
	if err != nil {
		return "", 0, err
	}
	_, err = c.ticket.Exec(ctx, `
		WITH held AS (
		    INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at, hold_ends_at)
		    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex($2::bigint + i), 12, '0'))::uuid, $1, 'bench-' || ($2 + i), 'slot', '', 1, 55000, 'KRW',
		           'HELD', now() + interval '10 min', now() + interval '10 min'
		    FROM generate_series(0, $3::bigint - 1) AS i
		), taken AS (
		    UPDATE seats SET status = 'HELD', reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex($2::bigint + idx), 12, '0'))::uuid,
		                     held_until = now() + interval '10 min'
		    WHERE event_id = $1 AND idx < $3 RETURNING event_id, reservation_id, seat_id
		)
		INSERT INTO places (reservation_id, n, event_id, section, seat_id, price) SELECT reservation_id, 1, event_id, 'A', seat_id, 55000 FROM taken`, event, first, n)
	if err != nil {
		return "", 0, fmt.Errorf("hold seats: %w", err)
	}
	_, err = c.payment.Exec(ctx, `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at)
		SELECT ('00000000-0000-7000-9000-' || lpad(to_hex($2::bigint + i), 12, '0'))::uuid, 'order-' || ($2 + i), 'reservation',
		       ('00000000-0000-7000-8000-' || lpad(to_hex($2::bigint + i), 12, '0'))::uuid, 'bench-' || ($2 + i), $1, 55000, 'KRW', 'sandbox',
		       'PREPARED', now() + interval '10 min', now() + interval '10 min'
		FROM generate_series(0, $3::bigint - 1) AS i`, event, first, n)
	if err != nil {
		return "", 0, fmt.Errorf("prepare payments: %w", err)
	}
	return event, first, nil
}

// measureConfirm has many users confirm payments at once, and waits until all seats are sold.
func (c *confirmRow) measureConfirm(ctx context.Context) (float64, map[string]float64, error) {
	event, first, err := c.prepare(ctx, confirmed)
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	err = runConcurrently(ctx, payers, confirmed, func(ctx context.Context, i int) error { return c.confirmPayment(ctx, first+int64(i)) })
	if err != nil {
		return 0, nil, err
	}
	answered := time.Since(began)
	if err := c.awaitSold(ctx, event, confirmed); err != nil {
		return 0, nil, err
	}
	return microsPerItem(time.Since(began), confirmed), map[string]float64{"answered": microsPerItem(answered, confirmed)}, nil
}

func (c *confirmRow) confirmPayment(ctx context.Context, number int64) error {
	amount := int64(55000)
	res, err := c.payments.Confirm(ctx, &paymentv1.ConfirmRequest{
		Caller:  &commonv1.Caller{UserId: fmt.Sprintf("bench-%d", number), IdempotencyKey: "bench-confirm"},
		OrderId: fmt.Sprintf("order-%d", number), PaymentKey: fmt.Sprintf("ok-%d", number), Amount: &amount,
	})
	if err == nil && res.GetStatus() != "CONFIRMED" {
		err = fmt.Errorf("payment %d is %s", number, res.GetStatus())
	}
	return err
}

// awaitSold waits until n seats of the event are sold.
func (c *confirmRow) awaitSold(ctx context.Context, event string, n int64) error {
	return awaitState(ctx, c.ticket, fmt.Sprintf("%d sold seats", n),
		`SELECT count(*) = $2 FROM seats WHERE event_id = $1 AND status = 'SOLD'`, event, n)
}

// measureConfirmBaseline measures the baseline: pgbench runs the SQL of both services.
func (c *confirmRow) measureConfirmBaseline(ctx context.Context) (float64, map[string]float64, error) {
	b := pgbench{clients: payers, each: confirmedBaseline / payers, warmUp: confirmedBaseline / payers / 4}
	event, first, err := c.prepare(ctx, int64(b.transactions()))
	if err != nil {
		return 0, nil, err
	}
	b.variables = map[string]any{"event": event, "first": first}
	var sum float64
	for script, url := range map[string]string{"confirm_payment.sql": c.paymentURL, "confirm_ticket.sql": c.ticketURL} {
		b.script, b.url = script, url
		µs, err := b.perTransaction(ctx)
		if err != nil {
			return 0, nil, err
		}
		sum += µs
	}
	return sum, nil, c.awaitSold(ctx, event, int64(b.transactions()))
}
