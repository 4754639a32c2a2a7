package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/sandbox"
)

const (
	seatPrice = 1000
	retryWait = 50 * time.Millisecond
)

// victim is a buyer of two seats, in a separate sale, whose purchase a death interrupts.
type victim struct {
	*harness.Client

	run                               *deathRun
	event                             string
	ReservationID, PaymentID, OrderID string
	Page                              *struct{ URL string }
	provider                          string        // payment provider; empty: the default one
	orders                            []string      // order ids of all payments
	cancelled                         bool          // the sale was cancelled
	died                              chan struct{} // closed when the killed process has died
}

// outcome is what a buyer has in the end: valid tickets, tickets passed on to others, and the
// amounts in the provider's ledger.
type outcome struct {
	tickets, passedOn int
	paid, givenBack   int64
}

func (o outcome) String() string {
	return fmt.Sprintf("%d tickets, %d passed on, %d paid, %d given back", o.tickets, o.passedOn, o.paid, o.givenBack)
}

// step is a part of a buyer's journey; nil does nothing.
type step func(ctx context.Context, v *victim) error

func (s step) run(ctx context.Context, v *victim) error {
	if s == nil {
		return nil
	}
	return s(ctx, v)
}

// sequence returns a step that runs several steps one after the other.
func sequence(all ...step) step {
	return func(ctx context.Context, v *victim) error {
		for _, s := range all {
			if err := s(ctx, v); err != nil {
				return err
			}
		}
		return nil
	}
}

// retry repeats try until it returns no error, or ctx ends.
func retry(ctx context.Context, try func() error) error {
	for {
		if err := try(); err == nil || !loop.Sleep(ctx, retryWait) {
			return err
		}
	}
}

func (v *victim) putSale() {
	now := time.Now().UTC()
	v.run.Operator().MustCall(v.run.t.Context(), http.MethodPut, "/api/v1/admin/events/"+v.event, map[string]any{
		"title": "Death", "artist": "Nobody", "venue": "Hall", "seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 2, "returnWithin": 0, "transferable": "PRICED",
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 0, 20), "holdSeconds": 3600,
		"slotSeconds": 3600, "threshold": 10, "sections": []map[string]any{{"section": "A", "price": seatPrice, "rows": 1, "seatsPerRow": 10}},
	}, nil)
}

// post sends a request with one Idempotency-Key. It repeats the request while the platform is
// overloaded, or still works on the first one.
func (v *victim) post(ctx context.Context, c *harness.Client, path string, body, into any) error {
	c = c.With("Idempotency-Key", uuid.NewString())
	for {
		a, err := harness.RepeatWhileOverloaded(ctx, v.run.t, func() (*harness.Answer, error) { return c.Call(ctx, http.MethodPost, path, body) })
		if err != nil || a.Code() != errs.ErrIdempotencyInProgress.Reason || !loop.Sleep(ctx, 10*retryWait) {
			return decodeAnswer(a, err, path, into)
		}
	}
}

func (v *victim) get(ctx context.Context, c *harness.Client, path string, into any) error {
	a, err := harness.RepeatWhileOverloaded(ctx, v.run.t, func() (*harness.Answer, error) { return c.Call(ctx, http.MethodGet, path, nil) })
	return decodeAnswer(a, err, path, into)
}

func decodeAnswer(a *harness.Answer, err error, path string, into any) error {
	switch {
	case err != nil:
		return err
	case a.Status/100 != 2:
		return fmt.Errorf("%s: %d %s", path, a.Status, a.Body)
	case into == nil:
		return nil
	default:
		return a.Decode(into)
	}
}

// atSandbox calls the sandbox provider directly.
func (v *victim) atSandbox(ctx context.Context, method, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, v.run.Wiring().SandboxURL+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", path, res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// outcome reads the buyer's outcome.
func (v *victim) outcome(ctx context.Context) (o outcome, err error) {
	tickets, err := v.tickets(ctx)
	if err != nil {
		return o, err
	}
	passed, err := v.ticketsIn(ctx, "TRANSFERRED")
	if err != nil {
		return o, err
	}
	charges, err := v.run.stores.Charges(ctx)
	for _, order := range v.orders {
		if c := charges[order]; c.Status == sandbox.Captured {
			o.paid += c.Amount
			o.givenBack += c.RefundedAmount
		}
	}
	o.tickets, o.passedOn = len(tickets), len(passed)
	return o, err
}

// tickets returns the ids of the buyer's valid tickets.
func (v *victim) tickets(ctx context.Context) ([]string, error) { return v.ticketsIn(ctx, "VALID") }

// ticketsIn returns the ids of the buyer's tickets with a status.
func (v *victim) ticketsIn(ctx context.Context, status string) (ids []string, err error) {
	var list struct {
		Items []struct{ TicketID, Status string }
	}
	err = v.get(ctx, v.Client, "/api/v1/my/tickets", &list)
	for _, t := range list.Items {
		if t.Status == status {
			ids = append(ids, t.TicketID)
		}
	}
	return ids, err
}

// enter waits until the line admits the buyer.
func enter(ctx context.Context, v *victim) error {
	return retry(ctx, func() error {
		var place struct{ Status string }
		a, err := v.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+v.event, map[string]any{})
		if err = decodeAnswer(a, err, "check", &place); err == nil && place.Status != "active" {
			err = fmt.Errorf("not let in: %s", a.Body)
		}
		return err
	})
}

func hold(ctx context.Context, v *victim) error {
	return v.post(ctx, v.Client, "/api/v1/seats/reserve", map[string]any{"eventId": v.event, "seatIds": []string{"A-1-1", "A-1-2"}}, v)
}

func prepare(ctx context.Context, v *victim) error {
	v.Page = nil
	err := v.post(ctx, v.Client, "/api/v1/payments/prepare", map[string]any{
		"paymentType": "reservation", "referenceId": v.ReservationID, "provider": v.provider,
	}, v)
	if err == nil && !slices.Contains(v.orders, v.OrderID) {
		v.orders = append(v.orders, v.OrderID)
	}
	return err
}

// pay returns a step that pays by card. The prefix selects what the provider does.
func pay(prefix string) step {
	return func(ctx context.Context, v *victim) error {
		return v.post(ctx, v.Client, "/api/v1/payments/confirm",
			map[string]any{"orderId": v.OrderID, "paymentKey": prefix + uuid.NewString(), "amount": 2 * seatPrice}, nil)
	}
}

// payAgain pays for the same reservation by another payment, once the first one has ended.
func payAgain(ctx context.Context, v *victim) error {
	first := v.OrderID
	err := retry(ctx, func() error {
		err := prepare(ctx, v)
		if err == nil && v.OrderID == first {
			err = errors.New("the first payment has not ended")
		}
		return err
	})
	return errors.Join(err, pay("ok-")(ctx, v))
}

// awaitTickets waits for the tickets.
func awaitTickets(ctx context.Context, v *victim) error {
	return retry(ctx, func() error {
		ids, err := v.tickets(ctx)
		if err == nil && len(ids) < 2 {
			err = errors.New("no tickets yet")
		}
		return err
	})
}

// awaitSlotEnd waits until the purchase has ended the buyer's slot.
func awaitSlotEnd(ctx context.Context, v *victim) error {
	return retry(ctx, func() error {
		sample, err := v.run.stores.ReadNumbers(ctx, v.event)
		if err == nil && sample.Active > 0 {
			err = errors.New("the slot has not ended")
		}
		return err
	})
}

// refund returns a step that requests the refund of n tickets.
func refund(n int) step {
	return func(ctx context.Context, v *victim) error {
		ids, err := v.tickets(ctx)
		if err != nil || len(ids) < n {
			return fmt.Errorf("%d tickets: %w", len(ids), err)
		}
		return v.post(ctx, v.Client, "/api/v1/payments/"+v.PaymentID+"/refund", map[string]any{"ticketIds": ids[:n], "reason": "cannot come"}, nil)
	}
}

// refundByOperator refunds the whole payment as an operator.
func refundByOperator(ctx context.Context, v *victim) error {
	return v.post(ctx, v.run.Operator(), "/api/v1/admin/payments/"+v.PaymentID+"/refund", map[string]any{"reason": "asked by phone"}, nil)
}

// refundByHand refunds the charge at the provider, without the payment service's knowledge.
func refundByHand(ctx context.Context, v *victim) error {
	return v.atSandbox(ctx, http.MethodPost, "/v1/charges/"+v.OrderID+"/refunds/by-hand", map[string]any{})
}

// cancelSale cancels the sale without a period of grace.
func cancelSale(ctx context.Context, v *victim) error {
	v.cancelled = true
	return v.post(ctx, v.run.Operator(), "/api/v1/admin/events/"+v.event+"/cancel", map[string]any{"graceSeconds": 0}, nil)
}

// void voids a ticket, without giving its money back.
func void(ctx context.Context, v *victim) error {
	ids, err := v.tickets(ctx)
	if err != nil || len(ids) == 0 {
		return fmt.Errorf("%d tickets: %w", len(ids), err)
	}
	return v.post(ctx, v.run.Operator(), "/api/v1/admin/tickets/"+ids[0]+"/void", map[string]any{"reason": "stolen"}, nil)
}

// sell passes a ticket on to a friend, who pays its price.
func sell(ctx context.Context, v *victim) error {
	ids, err := v.tickets(ctx)
	if err != nil || len(ids) == 0 {
		return fmt.Errorf("%d tickets: %w", len(ids), err)
	}
	var offer struct{ TransferID, Claim string }
	if err := v.post(ctx, v.Client, "/api/v1/my/tickets/"+ids[0]+"/transfers", map[string]any{"price": seatPrice}, &offer); err != nil {
		return err
	}
	friend := v.run.Client("friend-" + uuid.NewString()[:8])
	if err := v.post(ctx, friend, "/api/v1/transfers/accept", map[string]any{"claim": offer.Claim}, nil); err != nil {
		return err
	}
	var payment struct{ OrderID string }
	if err := v.post(ctx, friend, "/api/v1/payments/prepare", map[string]any{"paymentType": "transfer", "referenceId": offer.TransferID}, &payment); err != nil {
		return err
	}
	return v.post(ctx, friend, "/api/v1/payments/confirm",
		map[string]any{"orderId": payment.OrderID, "paymentKey": "ok-" + uuid.NewString(), "amount": seatPrice}, nil)
}

// dispute makes the provider refuse all refunds, until settleDispute.
func dispute(ctx context.Context, v *victim) error {
	return v.atSandbox(ctx, http.MethodPut, "/v1/faults", sandbox.Faults{Refused: 1})
}

func settleDispute(ctx context.Context, v *victim) error {
	return v.atSandbox(ctx, http.MethodPut, "/v1/faults", sandbox.Faults{})
}

// payAndRefundByHand pays without getting the provider's answer, and refunds the charge at the
// provider before the payment service knows of it.
func payAndRefundByHand(ctx context.Context, v *victim) error {
	paid := make(chan error, 1)
	go func() { paid <- pay("timeout-")(ctx, v) }()
	err := retry(ctx, func() error { return refundByHand(ctx, v) })
	return errors.Join(err, <-paid)
}

// payWhileTicketHangs pays while the ticket service hangs, until the payment service has died.
func payWhileTicketHangs(ctx context.Context, v *victim) error {
	v.run.Service(platform.Ticket).Pause(0)
	paid := make(chan error, 1)
	go func() { paid <- pay("ok-")(ctx, v) }()
	select {
	case <-v.died:
	case <-ctx.Done():
	}
	v.run.Service(platform.Ticket).Resume(0)
	return <-paid
}

// payTooLate pays by a charge that succeeds after the hold's end. It suspends the provider, until
// resumeSandbox.
func payTooLate(ctx context.Context, v *victim) error {
	if err := pay("late-")(ctx, v); err != nil {
		return err
	}
	v.run.Service(platform.Sandbox).Pause(0)
	for _, sql := range []string{
		`UPDATE reservations SET expires_at = now() - interval '1 second' WHERE reservation_id = $1 AND status = 'PAYING'`,
		`UPDATE seats SET held_until = now() - interval '1 second' WHERE reservation_id = $1 AND status = 'HELD'`,
	} {
		if _, err := v.run.ticket.Exec(ctx, sql, v.ReservationID); err != nil {
			return err
		}
	}
	return retry(ctx, func() (err error) {
		var status string
		if err = v.run.ticket.QueryRow(ctx, `SELECT status FROM reservations WHERE reservation_id = $1`, v.ReservationID).Scan(&status); err == nil && status == "PAYING" {
			err = errors.New("the hold has not ended")
		}
		return err
	})
}

func resumeSandbox(_ context.Context, v *victim) error {
	v.run.Service(platform.Sandbox).Resume(0)
	return nil
}

// newThreshold is the threshold that an operator sets.
const newThreshold = 77

// setThreshold changes the line's threshold until the queue service has died, whatever it answers.
func setThreshold(ctx context.Context, v *victim) error {
	operator := v.run.Operator()
	for {
		_, _ = operator.Call(ctx, http.MethodPut, "/api/v1/queue/admin/threshold/"+v.event, map[string]any{"threshold": newThreshold})
		select {
		case <-v.died:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryWait):
		}
	}
}

// awaitThreshold waits until the line and the ticket database have the operator's threshold.
func awaitThreshold(ctx context.Context, v *victim) error {
	return retry(ctx, func() error {
		var line struct {
			Threshold int
			Durable   bool
		}
		if err := v.get(ctx, v.run.Operator(), "/api/v1/queue/admin/"+v.event, &line); err != nil {
			return err
		}
		var stored int
		err := v.run.ticket.QueryRow(ctx, `SELECT coalesce(threshold, 0) FROM line_settings WHERE event_id = $1`, v.event).Scan(&stored)
		if err == nil && (line.Threshold != newThreshold || !line.Durable || stored != newThreshold) {
			err = fmt.Errorf("the line has %+v, ticket %d", line, stored)
		}
		return err
	})
}
