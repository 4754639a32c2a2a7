package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

type prepared struct {
	PaymentID string `json:"paymentId"`
	OrderID   string `json:"orderId"`
	Amount    int64  `json:"amount"`
}

// pay goes through the checkout until the reservation is confirmed and the ticket is there.
func (v *visitor) pay(ctx context.Context, held reservation) error {
	if v.habit == IsDeclined {
		status, err := v.charge(ctx, held, "decline-"+uuid.NewString())
		if err != nil {
			return err
		}
		if status != "DECLINED" {
			return fmt.Errorf("a card to be declined was %s", status)
		}
	}
	status, err := v.charge(ctx, held, paymentKey(v.rng, uuid.NewString()))
	if err != nil {
		return err
	}
	if status == "DECLINED" {
		return fmt.Errorf("a good card was declined")
	}
	return v.awaitTicket(ctx, held)
}

// charge prepares and confirms one payment of the reservation and gives its status.
func (v *visitor) charge(ctx context.Context, held reservation, paymentKey string) (string, error) {
	var p prepared
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

// post sends a POST with an Idempotency-Key that stays the same over repetitions.
func (v *visitor) post(ctx context.Context, step Step, path string, body, out any) error {
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	second := v.secondClick(ctx, step, path, body, header)
	defer second()
	ans, err := v.persist(ctx, step, http.MethodPost, path, body, header)
	if err != nil {
		return err
	}
	if !ans.OK() {
		return refusal(step, ans)
	}
	return json.Unmarshal(ans.Body, out)
}

// awaitTicket asks for the own reservation until the saga is through, then opens the list of tickets.
func (v *visitor) awaitTicket(ctx context.Context, held reservation) error {
	for {
		var r reservation
		if err := v.get(ctx, StepReservation, "/api/v1/my/reservations/"+held.ReservationID, &r); err != nil {
			return err
		}
		switch r.Status {
		case "CONFIRMED":
			return v.openTickets(ctx)
		case "HELD", "PAYING":
			if err := pause(ctx, paymentPoll); err != nil {
				return err
			}
		default:
			return fmt.Errorf("paid, but the reservation became %s", r.Status)
		}
	}
}

func (v *visitor) openTickets(ctx context.Context) error {
	var list struct {
		Items []struct {
			Code string `json:"code"`
		} `json:"items"`
	}
	if err := v.get(ctx, StepTickets, "/api/v1/my/tickets", &list); err != nil {
		return err
	}
	if len(list.Items) == 0 || list.Items[0].Code == "" {
		return fmt.Errorf("confirmed, but no ticket in the own list")
	}
	return nil
}
