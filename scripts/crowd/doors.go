package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// doorCount is the number of doors, each with one member of staff.
const doorCount = 4

// employee is a member of staff, at a door, who does one thing at a time.
type employee struct {
	*visitor

	signedIn bool
}

// withEmployee waits until one of the employees is free, and calls do with that employee.
func (v *visitor) withEmployee(ctx context.Context, employees chan *employee, do func(*employee) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case e := <-employees:
		defer func() { employees <- e }()
		if !e.signedIn {
			if err := e.login(ctx); err != nil {
				return err
			}
			e.signedIn = true
		}
		return do(e)
	}
}

// doorAnswer is the gateway's answer to the scan of a ticket.
type doorAnswer struct {
	admitted bool
	code     string // why the ticket was refused
	why      string // more exactly, if the code is NOT_VALID
	// admittedBefore is true if this door has admitted the ticket in an earlier scan.
	admittedBefore bool
}

// scan waits for a free door, and has the door scan the code of a ticket.
func (v *visitor) scan(ctx context.Context, t ticket) (answer doorAnswer, err error) {
	err = v.withEmployee(ctx, v.crowd.after.doors, func(door *employee) error {
		body := map[string]any{"code": t.Code, "eventId": t.EventID, "deviceId": door.userID}
		scanned := time.Now()
		ans, err := door.callWithRetries(ctx, StepCheckIn, http.MethodPost, "/api/v1/check-in", body, nil)
		if err != nil {
			return err
		}
		if ans.OK() {
			v.crowd.tally.addAdmission(t.TicketID, scanned)
			answer.admitted = true
			return nil
		}
		var refusal struct{ Code, DeviceID, Why string }
		if err := json.Unmarshal(ans.Body, &refusal); err != nil {
			return fmt.Errorf("%s: %d: %w", StepCheckIn, ans.Status, err)
		}
		answer = doorAnswer{code: refusal.Code, why: refusal.Why, admittedBefore: refusal.Code == alreadyUsed && refusal.DeviceID == door.userID}
		return nil
	})
	return answer, err
}

// alreadyUsed is the code with which a second scan of a ticket is refused.
const alreadyUsed = "ALREADY_USED"

// checkIn scans a valid ticket at a door. Some buyers then lend the ticket to a friend, whom the
// door must refuse since the ticket was already used.
func (v *visitor) checkIn(ctx context.Context, t ticket) error {
	ans, err := v.callWithRetries(ctx, StepQR, http.MethodGet, "/api/v1/my/tickets/"+t.TicketID+"/qr.svg", nil, nil)
	if err == nil && !ans.OK() {
		err = newRefusalError(StepQR, ans)
	}
	if err != nil {
		return err
	}
	first, err := v.scan(ctx, t)
	if err != nil {
		return err
	}
	tally := &v.crowd.tally
	if !first.admitted && !first.admittedBefore { // admittedBefore: the scan was repeated after a lost answer
		tally.addWrongAnswer("a door refused the valid ticket %s: %s", t.TicketID, first.code)
		return errors.New("refused at the door: " + first.code)
	}
	tally.CheckedIn.Add(1)
	if v.crowd.after.checkIns.Add(1)%twiceEvery > 0 {
		return nil
	}
	second, err := v.scan(ctx, t)
	if err != nil {
		return err
	}
	tally.RefusedScans.Add(1)
	if second.code != alreadyUsed {
		tally.addWrongAnswer("a door scanned the used ticket %s, and answered %+v", t.TicketID, second)
	}
	return nil
}

// showRefunded tries to get in with a refunded ticket. The tally records it if the door admits it.
func (v *visitor) showRefunded(ctx context.Context, t ticket) error {
	answer, err := v.scan(ctx, t)
	if err == nil && !answer.admitted {
		v.crowd.tally.RefusedScans.Add(1)
	}
	return err
}

// doorTally counts what happens to tickets after they are sold, and records wrong answers.
type doorTally struct {
	// GivenBack counts tickets refunded on their buyers' request, ByHand those refunded at the
	// provider, CheckedIn those admitted, and RefusedScans the scans that were refused.
	GivenBack, ByHand, CheckedIn, RefusedScans atomic.Int64

	mu           sync.Mutex
	refunded     map[string]time.Time // by ticket: when the buyer learned that it was refunded
	admitted     map[string]time.Time // by ticket: when the latest scan that admitted it began
	wrongAnswers []string
}

// addRefund records that a ticket was refunded before the time at.
func (t *doorTally) addRefund(ticketID string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refunded == nil {
		t.refunded = map[string]time.Time{}
	}
	if _, known := t.refunded[ticketID]; !known {
		t.refunded[ticketID] = at
	}
}

// dropRefund removes the record of a refund that failed. It returns false if there is none.
func (t *doorTally) dropRefund(ticketID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, decided := t.refunded[ticketID]
	delete(t.refunded, ticketID)
	return decided
}

// addAdmission records that a door admitted a ticket in a scan that began at the time scanned.
func (t *doorTally) addAdmission(ticketID string, scanned time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted == nil {
		t.admitted = map[string]time.Time{}
	}
	t.admitted[ticketID] = scanned
}

// AdmittedAfterRefund returns the tickets that a door admitted after they were refunded.
func (t *doorTally) AdmittedAfterRefund() (tickets []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, scanned := range t.admitted {
		if decided, ok := t.refunded[id]; ok && !scanned.Before(decided) {
			tickets = append(tickets, id)
		}
	}
	slices.Sort(tickets)
	return tickets
}

func (t *doorTally) addWrongAnswer(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrongAnswers = append(t.wrongAnswers, fmt.Sprintf(format, args...))
}

// WrongAnswers describes, in a sentence each, the answers that no buyer or door should have got.
func (t *doorTally) WrongAnswers() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.wrongAnswers)
}
