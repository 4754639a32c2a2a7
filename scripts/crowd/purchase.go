package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// seatMap is the layout of a hall. A seat's index is its number when the seats are counted from 0
// in the order of this structure.
type seatMap struct {
	Sections []struct {
		Section string `json:"section"`
		Rows    []struct {
			Row   string `json:"row"`
			Seats int    `json:"seats"`
		} `json:"rows"`
	} `json:"sections"`
}

// ids returns the ids of all seats; the position in the list is the seat's index.
func (m seatMap) ids() []string {
	var out []string
	for _, s := range m.Sections {
		for _, r := range s.Rows {
			for n := 1; n <= r.Seats; n++ {
				out = append(out, fmt.Sprintf("%s-%s-%d", s.Section, r.Row, n))
			}
		}
	}
	return out
}

type reservation struct {
	ReservationID string `json:"reservationId"`
	Status        string `json:"status"`
	Amount        int64  `json:"amount"`
	Quantity      int    `json:"quantity"`
}

func (r reservation) payable() payable { return payable{kind: "reservation", id: r.ReservationID} }

// ticket is a ticket as its holder sees it.
type ticket struct {
	TicketID  string `json:"ticketId"`
	Code      string `json:"code"`
	EventID   string `json:"eventId"`
	PaymentID string `json:"paymentId"`
	Status    string `json:"status"`
	Seat      struct {
		SeatID string `json:"seatId"`
	} `json:"seat"`
}

// buyTicket is the visit after admission: the visitor chooses seats, holds them, pays, waits for
// the tickets, and uses them.
func (v *visitor) buyTicket(ctx context.Context) error {
	if v.behaviour == LeavesInside {
		return errLeft
	}
	held, err := v.holdFreeSeats(ctx)
	if err != nil {
		return err
	}
	if v.behaviour == DropsHold {
		return errLeft
	}
	if !loop.Sleep(ctx, jitter(v.rng, thinkPayment)) {
		return ctx.Err()
	}
	plan, end := v.crowd.after.planOrder(held.Quantity)
	defer end()
	if err := v.pay(ctx, held); err != nil {
		return err
	}
	return v.useTickets(ctx, plan)
}

// holdFreeSeats looks at the seat map, and then holds one or two seats.
func (v *visitor) holdFreeSeats(ctx context.Context) (reservation, error) {
	var hall seatMap
	if err := v.callProtected(ctx, StepSeatMap, http.MethodGet, "/api/v1/seats/"+v.crowd.sale.EventID, nil, nil, &hall); err != nil {
		return reservation{}, err
	}
	if !loop.Sleep(ctx, jitter(v.rng, thinkSeats)) {
		return reservation{}, ctx.Err()
	}
	return v.holdSeats(ctx, hall.ids())
}

// holdSeats holds one or two free seats. While other visitors hold all of them, it tries again.
func (v *visitor) holdSeats(ctx context.Context, ids []string) (reservation, error) {
	event := v.crowd.sale.EventID
	want := 1 + v.rng.IntN(2)
	for {
		free, err := v.freeSeats(ctx, ids)
		if err != nil {
			return reservation{}, err
		}
		if len(free) == 0 {
			if err := v.waitForFreeSeat(ctx); err != nil {
				return reservation{}, err
			}
			continue
		}
		seats := v.chooseSeats(free, want)
		var r reservation
		body := map[string]any{"eventId": event, "seatIds": seats}
		err = v.reserve(ctx, body, &r)
		var refused *refusalError
		switch {
		case err == nil:
			return r, nil
		case errors.As(err, &refused) && refused.code == "SEAT_TAKEN":
			if !loop.Sleep(ctx, jitter(v.rng, takenRetryDelay)) {
				return r, ctx.Err()
			}
		default:
			return r, err
		}
	}
}

// chooseSeats returns `want` consecutive entries of the list of free seats, from a random one on.
func (v *visitor) chooseSeats(free []string, want int) []string {
	want = min(want, len(free))
	start := v.rng.IntN(len(free) - want + 1)
	return free[start : start+want]
}

// waitForFreeSeat sends a heartbeat that keeps the slot, and pauses before the visitor looks for
// free seats again. If all seats are sold, the visitor leaves and the error is errSoldOut.
func (v *visitor) waitForFreeSeat(ctx context.Context) error {
	sold, err := v.allSold(ctx)
	if err != nil {
		return err
	}
	if sold {
		_, err := v.session.Call(ctx, StepLeave, http.MethodPost, "/api/v1/queue/leave/"+v.crowd.sale.EventID, map[string]any{}, nil)
		return errors.Join(errSoldOut, err)
	}
	if err := v.keepSlot(ctx); err != nil {
		return err
	}
	loop.Sleep(ctx, jitter(v.rng, mapRetryDelay))
	return ctx.Err()
}

// keepSlot sends a heartbeat if the last one was long ago, as the seat page does.
func (v *visitor) keepSlot(ctx context.Context) error {
	if time.Since(v.lastBeat) < heartbeat {
		return nil
	}
	v.lastBeat = time.Now()
	_, err := v.callWithRetries(ctx, StepHeartbeat, http.MethodPost, "/api/v1/queue/heartbeat/"+v.crowd.sale.EventID, map[string]any{}, nil)
	return err
}

// freeSeats returns the free seats. Bit i of the response, most significant first, is for seat i.
func (v *visitor) freeSeats(ctx context.Context, ids []string) ([]string, error) {
	header := map[string]string{"Accept": "application/octet-stream"}
	path := "/api/v1/seats/" + v.crowd.sale.EventID + "/availability"
	ans, err := v.callWithRetries(ctx, StepAvailability, http.MethodGet, path, nil, header)
	if err != nil {
		return nil, err
	}
	if !ans.OK() {
		return nil, v.refusalInShop(StepAvailability, ans)
	}
	var free []string
	for i, id := range ids {
		if i/8 < len(ans.Body) && ans.Body[i/8]&(0x80>>(i%8)) != 0 {
			free = append(free, id)
		}
	}
	return free, nil
}

// reserve asks for a hold of seats. A visitor who clicks twice sends the same request twice at the
// same time, and must get only one hold.
func (v *visitor) reserve(ctx context.Context, body any, out *reservation) error {
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	second := v.secondClick(ctx, StepReserve, "/api/v1/seats/reserve", body, header)
	defer second()
	return v.callProtected(ctx, StepReserve, http.MethodPost, "/api/v1/seats/reserve", body, header, out)
}

// secondClick sends a POST again, from a second tab and at the same time as the caller, if this
// visitor clicks twice. The returned function waits for the response.
func (v *visitor) secondClick(ctx context.Context, step Step, path string, body any, header map[string]string) (wait func()) {
	if v.behaviour != ClicksTwice {
		return func() {}
	}
	tab := v.session.Fork()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = tab.Call(ctx, step, http.MethodPost, path, body, header) // the audit of the stores finds double effects
	})
	return wg.Wait
}

// callProtected sends a request that needs the entry token. If the slot has ended, it returns
// errSlotEnded, after which the visitor joins the line again.
func (v *visitor) callProtected(ctx context.Context, step Step, method, path string, body any, header map[string]string, out any) error {
	ans, err := v.callWithRetries(ctx, step, method, path, body, header)
	if err != nil {
		return err
	}
	if !ans.OK() {
		return v.refusalInShop(step, ans)
	}
	return json.Unmarshal(ans.Body, out)
}

func (v *visitor) refusalInShop(step Step, ans *Answer) error {
	if ans.Status == http.StatusForbidden {
		return errSlotEnded
	}
	return newRefusalError(step, ans)
}

type preparedPayment struct {
	PaymentID string `json:"paymentId"`
	OrderID   string `json:"orderId"`
	Provider  string `json:"provider"`
	Amount    int64  `json:"amount"`
	Status    string `json:"status"`
	Page      *struct {
		URL string `json:"url"`
	} `json:"page"`
}

// pay pays for the reservation, with another card if one is declined, and waits for the tickets.
func (v *visitor) pay(ctx context.Context, held reservation) error {
	if v.behaviour == IsDeclined {
		status, err := v.charge(ctx, held.payable(), "decline-"+uuid.NewString())
		if err != nil {
			return err
		}
		if status != declined {
			return fmt.Errorf("a card to be declined was %s", status)
		}
	}
	for attempt := range v.crowd.cards {
		if attempt > 0 && !loop.Sleep(ctx, jitter(v.rng, thinkPayment)) {
			return ctx.Err()
		}
		status, err := v.charge(ctx, held.payable(), paymentKey(v.rng, uuid.NewString()))
		if err != nil {
			return err
		}
		if status == declined || status == expired {
			continue
		}
		if status == confirmed {
			v.countPaid()
		}
		if paid, err := v.awaitTicket(ctx, held); paid || err != nil {
			return err
		}
	}
	return errors.New("a good card was declined")
}

// charge prepares a payment, pays it on the provider's page or with a payment key, and returns the
// status of the payment.
func (v *visitor) charge(ctx context.Context, what payable, paymentKey string) (string, error) {
	p, err := v.prepare(ctx, what)
	if err != nil {
		return "", err
	}
	if p.Page != nil && p.Page.URL != "" && v.rng.IntN(100) < pagePercent {
		return v.payOnPage(ctx, what, p, paymentKey)
	}
	var c struct {
		Status string `json:"status"`
	}
	body := map[string]any{"orderId": p.OrderID, "paymentKey": paymentKey, "amount": p.Amount}
	err = v.post(ctx, StepConfirm, confirmPath, body, &c)
	return c.Status, err
}

// post sends a POST; all its attempts have the same Idempotency-Key.
func (v *visitor) post(ctx context.Context, step Step, path string, body, out any) error {
	header := map[string]string{"Idempotency-Key": uuid.NewString()}
	second := v.secondClick(ctx, step, path, body, header)
	defer second()
	return v.postOnce(ctx, step, path, body, header, out)
}

// postOnce sends a POST without a second click.
func (v *visitor) postOnce(ctx context.Context, step Step, path string, body any, header map[string]string, out any) error {
	ans, err := v.callWithRetries(ctx, step, http.MethodPost, path, body, header)
	if err != nil {
		return err
	}
	return decode(step, ans, out)
}

// awaitTicket polls the reservation until its payment has succeeded or failed, and then loads the
// tickets. If the reservation is HELD again, a pending charge has failed, and nothing was paid.
func (v *visitor) awaitTicket(ctx context.Context, held reservation) (paid bool, err error) {
	for {
		var r reservation
		if err := v.get(ctx, StepReservation, "/api/v1/my/reservations/"+held.ReservationID, &r); err != nil {
			return false, err
		}
		switch r.Status {
		case confirmed:
			v.countPaid()
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

// countPaid adds the visitor to the number of those who have paid, at its first call only.
func (v *visitor) countPaid() {
	if !v.paid {
		v.paid = true
		v.crowd.tally.Paid.Add(1)
	}
}

func (v *visitor) openTickets(ctx context.Context) error {
	var list struct {
		Items []ticket `json:"items"`
	}
	if err := v.get(ctx, StepTickets, "/api/v1/my/tickets", &list); err != nil {
		return err
	}
	if len(list.Items) == 0 || list.Items[0].Code == "" {
		return errors.New("confirmed, but no ticket in the own list")
	}
	for _, t := range list.Items {
		if t.EventID == v.crowd.sale.EventID {
			v.crowd.tally.addTicket(t.Seat.SeatID, v.userID)
			v.tickets = append(v.tickets, t)
		}
	}
	v.crowd.tally.Ticketed.Add(1)
	return nil
}
