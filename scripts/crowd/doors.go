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

// doorCount is the number of doors, each with a member of staff.
const doorCount = 4

// employee is a member of staff, who does one thing at a time.
type employee struct {
	*visitor

	signedIn bool
}

// with lets the next employee who is free do something.
func (v *visitor) with(ctx context.Context, employees chan *employee, do func(*employee) error) error {
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

// doorAnswer is the answer to a scan.
type doorAnswer struct {
	admitted bool
	code     string // of a refusal
	// before says that this door has admitted the ticket in an earlier scan.
	before bool
}

// scan shows the code of a ticket at the next free door.
func (v *visitor) scan(ctx context.Context, t ticket) (answer doorAnswer, err error) {
	err = v.with(ctx, v.crowd.after.doors, func(door *employee) error {
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
		var refusal struct{ Code, DeviceID string }
		if err := json.Unmarshal(ans.Body, &refusal); err != nil {
			return fmt.Errorf("%s: %d: %w", StepCheckIn, ans.Status, err)
		}
		answer = doorAnswer{code: refusal.Code, before: refusal.Code == alreadyUsed && refusal.DeviceID == door.userID}
		return nil
	})
	return answer, err
}

// alreadyUsed is the code of a second scan.
const alreadyUsed = "ALREADY_USED"

// checkIn goes in with a valid ticket. Some lend it to a friend, who must not get in.
func (v *visitor) checkIn(ctx context.Context, t ticket) error {
	ans, err := v.callWithRetries(ctx, StepQR, http.MethodGet, "/api/v1/my/tickets/"+t.TicketID+"/qr.svg", nil, nil)
	if err == nil && !ans.OK() {
		err = refusal(StepQR, ans)
	}
	if err != nil {
		return err
	}
	first, err := v.scan(ctx, t)
	if err != nil {
		return err
	}
	tally := &v.crowd.tally
	if !first.admitted && !first.before { // before: the answer to the scan was lost, and the door scanned again
		tally.addWrongAnswer("a door refused the valid ticket %s: %s", t.TicketID, first.code)
		return errors.New("refused at the door: " + first.code)
	}
	tally.CheckedIn.Add(1)
	if v.crowd.after.checked.Add(1)%twiceEvery > 0 {
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

// showRefunded tries to get in with a ticket that was refunded. Whoever gets in is in the tally.
func (v *visitor) showRefunded(ctx context.Context, t ticket) error {
	answer, err := v.scan(ctx, t)
	if err == nil && !answer.admitted {
		v.crowd.tally.RefusedScans.Add(1)
	}
	return err
}

// doorTally is what buyers and doors saw of tickets after their sale.
type doorTally struct {
	// GivenBack and ByHand count tickets that were refunded for their buyers, and by hand at the
	// provider; CheckedIn those that were let in, RefusedScans the scans that were not.
	GivenBack, ByHand, CheckedIn, RefusedScans atomic.Int64

	mu       sync.Mutex
	refunded map[string]time.Time // by ticket: when the refund was known to be decided
	admitted map[string]time.Time // by ticket: when the latest scan began that let it in
	wrong    []string
}

// addRefund records that the refund of a ticket is decided.
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

// dropRefund forgets a refund that was decided, since the ticket is valid again; false: none was.
func (t *doorTally) dropRefund(ticketID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, decided := t.refunded[ticketID]
	delete(t.refunded, ticketID)
	return decided
}

// addAdmission records a scan that let a ticket in.
func (t *doorTally) addAdmission(ticketID string, scanned time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted == nil {
		t.admitted = map[string]time.Time{}
	}
	t.admitted[ticketID] = scanned
}

// OpenedAfterRefund returns the tickets that were let in although their refund was decided before.
func (t *doorTally) OpenedAfterRefund() (tickets []string) {
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
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

// WrongAnswers lists answers that no buyer and no door should have got, a sentence each.
func (t *doorTally) WrongAnswers() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.wrong)
}
