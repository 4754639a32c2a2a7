package chaos_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// ticketUsers are users who show old queue tickets after a loss of data.
type ticketUsers struct {
	waiter  *actor   // waits until the loss
	used    []*actor // had slots: one left, and one bought
	buys    bool
	tryUsed bool // used tickets are tried after this loss
	issued  time.Time
}

// actor is a user whose calls the test makes one by one.
type actor struct {
	user, ticket, entry string
	client              *harness.Client
}

// newTicketUsers lets the users who will use slots join first. After a wipe, the queue service does
// not know slots of the last minutes, so that tried tickets must be older.
func (l *lineRun) newTicketUsers(size lossSize, wiped bool) *ticketUsers {
	l.t.Helper()
	t := &ticketUsers{waiter: l.actor("waiter"), buys: size.buys, tryUsed: !wiped || size.forgotten > 0}
	t.used = append(t.used, l.actor("leaver"))
	if t.buys {
		t.used = append(t.used, l.actor("buyer"))
	}
	for _, a := range t.used {
		require.Equal(l.t, "queued", a.check(l, "").Status)
	}
	t.issued = time.Now()
	return t
}

func (l *lineRun) actor(user string) *actor {
	l.t.Helper()
	return &actor{user: user, client: l.Client(user)}
}

// check joins the line with a ticket, or asks for the place. It keeps the ticket of the answer.
func (a *actor) check(l *lineRun, ticket string) placeAnswer {
	l.t.Helper()
	return a.ask(l, http.MethodPost, "check", ticket)
}

// refresh gets a waiting user a new ticket, as polls do.
func (a *actor) refresh(l *lineRun) {
	l.t.Helper()
	require.Equal(l.t, "queued", a.ask(l, http.MethodGet, "status", a.ticket).Status)
}

func (a *actor) ask(l *lineRun, method, action, ticket string) (p placeAnswer) {
	l.t.Helper()
	a.client.With("X-Queue-Ticket", ticket).MustCall(l.t.Context(), method, "/api/v1/queue/"+action+"/"+l.event, nil, &p)
	if p.Ticket != "" {
		a.ticket = p.Ticket
	}
	if p.EntryToken != "" {
		a.entry = p.EntryToken
	}
	return p
}

// leave ends the slot of the entry token or, without a token, the waiting place.
func (a *actor) leave(l *lineRun) {
	l.t.Helper()
	a.client.With("X-Queue-Entry-Token", a.entry).MustCall(l.t.Context(), http.MethodPost, "/api/v1/queue/leave/"+l.event, nil, nil)
}

// useSlots waits until the users at the front have slots, and ends these. Their tickets are older.
func (t *ticketUsers) useSlots(l *lineRun) {
	l.t.Helper()
	for _, a := range t.used {
		l.Eventually(func(context.Context) error {
			if p := a.ask(l, http.MethodGet, "status", a.ticket); p.Status != "active" {
				return errors.New(a.user + " is " + p.Status)
			}
			return nil
		})
	}
	t.used[0].leave(l)
	if t.buys {
		t.used[1].buy(l)
	}
}

// buy pays for a seat, which ends the slot.
func (a *actor) buy(l *lineRun) {
	l.t.Helper()
	ctx := l.t.Context()
	var held struct {
		ReservationID string `json:"reservationId"`
	}
	a.client.With("X-Queue-Entry-Token", a.entry).MustCall(ctx, http.MethodPost, "/api/v1/seats/reserve",
		map[string]any{"eventId": l.event, "seatIds": []string{"A-2-1"}}, &held)
	var prepared struct {
		OrderID string `json:"orderId"`
		Amount  int64  `json:"amount"`
	}
	a.client.With("Idempotency-Key", uuid.NewString()).MustCall(ctx, http.MethodPost, "/api/v1/payments/prepare",
		map[string]any{"paymentType": "reservation", "referenceId": held.ReservationID}, &prepared)
	a.client.With("Idempotency-Key", uuid.NewString()).MustCall(ctx, http.MethodPost, "/api/v1/payments/confirm",
		map[string]any{"orderId": prepared.OrderID, "paymentKey": "ok-" + uuid.NewString(), "amount": prepared.Amount}, nil)
	l.Eventually(func(ctx context.Context) error {
		has, err := l.store.HExists(ctx, l.key("slot"), a.user).Result()
		if err == nil && has {
			err = errors.New("the purchase has not ended the slot")
		}
		return err
	})
}

// tryAll tries tickets after the loss. Only the waiter's ticket restores a place, and only once.
func (t *ticketUsers) tryAll(l *lineRun, before map[string]int64, lostAt time.Time) {
	l.t.Helper()
	ticket := t.waiter.ticket
	gainsNothing := func(how string, a *actor, ticket string) {
		l.t.Helper()
		require.Equal(l.t, "queued", a.check(l, ticket).Status, how)
		require.Greater(l.t, l.place(a.user), lostAt.UnixMicro(), "%s: %s has a place from before", how, a.user)
		a.leave(l) // nobody polls for this user, whose slot would stay idle
	}
	gainsNothing("another user's ticket", l.actor("thief"), ticket)
	for how, forged := range forgeries(l, ticket) {
		gainsNothing(how, l.actor("forger-"+how), forged)
		gainsNothing("another user's ticket, "+how, l.actor("thief-"+how), forged)
	}
	t.waiter.check(l, ticket)
	require.Equal(l.t, before["waiter"], l.place("waiter"), "the ticket gives the place back")
	t.waiter.check(l, ticket)
	require.Equal(l.t, before["waiter"], l.place("waiter"), "a second tab has the same place")
	t.waiter.leave(l)
	require.Zero(l.t, l.place("waiter"))
	gainsNothing("a ticket shown twice", t.waiter, ticket)
	if !t.tryUsed {
		return
	}
	for _, a := range t.used {
		gainsNothing("the ticket of a turn that is over", a, a.ticket)
	}
}

// forgeries changes one bit in each field of a ticket. services/queue/internal/seal has the layout.
func forgeries(l *lineRun, ticket string) map[string]string {
	l.t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	require.NoError(l.t, err)
	body := 2 + int(raw[1])
	out := map[string]string{}
	for field, at := range map[string]int{
		"version": 0, "key": 2, "user": body, "score": body + 16 + 5, "epoch": body + 24 + 5, "issued": body + 32 + 5, "mac": body + 40,
	} {
		forged := append([]byte(nil), raw...)
		forged[at] ^= 1
		out[field] = base64.RawURLEncoding.EncodeToString(forged)
	}
	return out
}
