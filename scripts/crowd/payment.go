package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

type preparedPayment struct {
	PaymentID string `json:"paymentId"`
	OrderID   string `json:"orderId"`
	Amount    int64  `json:"amount"`
}

// pay pays for the reservation until it is confirmed and has its ticket.
func (v *visitor) pay(ctx context.Context, held reservation) error {
	if v.behaviour == IsDeclined {
		status, err := v.charge(ctx, held, "decline-"+uuid.NewString())
		if err != nil {
			return err
		}
		if status != "DECLINED" {
			return fmt.Errorf("a card to be declined was %s", status)
		}
	}
	for attempt := range v.crowd.cards {
		if attempt > 0 {
			if !loop.Sleep(ctx, jitter(v.rng, thinkPayment)) {
				return ctx.Err()
			}
		}
		status, err := v.charge(ctx, held, paymentKey(v.rng, uuid.NewString()))
		if err != nil {
			return err
		}
		if status == "DECLINED" {
			continue
		}
		if status == "CONFIRMED" {
			v.hasPaid()
		}
		if paid, err := v.awaitTicket(ctx, held); paid || err != nil {
			return err
		}
	}
	return errors.New("a good card was declined")
}

// charge prepares and confirms one payment of the reservation and returns its status.
func (v *visitor) charge(ctx context.Context, held reservation, paymentKey string) (string, error) {
	var p preparedPayment
	body := map[string]any{"paymentType": "reservation", "referenceId": held.ReservationID}
	if err := v.post(ctx, StepPrepare, "/api/v1/payments/prepare", body, &p); err != nil {
		return "", err
	}
	var c struct {
		Status string `json:"status"`
	}
	body = map[string]any{"orderId": p.OrderID, "paymentKey": paymentKey, "amount": p.Amount}
	err := v.post(ctx, StepConfirm, "/api/v1/payments/confirm", body, &c)
	return c.Status, err
}

// post sends a POST with an Idempotency-Key that is the same in all retries.
func (v *visitor) post(ctx context.Context, step Step, path string, body, out any) error {
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	second := v.secondClick(ctx, step, path, body, header)
	defer second()
	ans, err := v.callWithRetries(ctx, step, http.MethodPost, path, body, header)
	if err != nil {
		return err
	}
	if !ans.OK() {
		return refusal(step, ans)
	}
	return json.Unmarshal(ans.Body, out)
}

// awaitTicket polls the reservation until the saga has completed, then loads the list of tickets. A
// reservation that is back in the status HELD was not paid: its pending charge failed.
func (v *visitor) awaitTicket(ctx context.Context, held reservation) (paid bool, err error) {
	for {
		var r reservation
		if err := v.get(ctx, StepReservation, "/api/v1/my/reservations/"+held.ReservationID, &r); err != nil {
			return false, err
		}
		switch r.Status {
		case "CONFIRMED":
			v.hasPaid()
			return true, v.openTickets(ctx)
		case "HELD":
			return false, nil
		case "PAYING":
			if !loop.Sleep(ctx, paymentPoll) {
				return false, ctx.Err()
			}
		default:
			return false, fmt.Errorf("paid, but the reservation became %s", r.Status)
		}
	}
}

// hasPaid counts the visitor once.
func (v *visitor) hasPaid() {
	if !v.paid {
		v.paid = true
		v.crowd.tally.Paid.Add(1)
	}
}

func (v *visitor) openTickets(ctx context.Context) error {
	var list struct {
		Items []struct {
			Code    string `json:"code"`
			EventID string `json:"eventId"`
			Seat    struct {
				SeatID string `json:"seatId"`
			} `json:"seat"`
		} `json:"items"`
	}
	if err := v.get(ctx, StepTickets, "/api/v1/my/tickets", &list); err != nil {
		return err
	}
	if len(list.Items) == 0 || list.Items[0].Code == "" {
		return errors.New("confirmed, but no ticket in the own list")
	}
	for _, t := range list.Items {
		if t.EventID == v.crowd.sale.EventID {
			v.crowd.tally.ticket(t.Seat.SeatID, v.userID)
		}
	}
	v.crowd.tally.Ticketed.Add(1)
	return nil
}
