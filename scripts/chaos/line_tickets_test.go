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

// ticketCast are users who show old tickets after a loss of data.
type ticketCast struct {
	waiter *actor   // waits until the loss
	used   []*actor // had their turn: one left, and one bought
	buys   bool
	tried  bool // used tickets gain nothing after this loss
	issued time.Time
}

// actor is a user without a page.
type actor struct {
	user, ticket, entry string
	client              *harness.Client
}

// newTicketCast lets those who will have had their turn join first. A wipe forgets turns of the last
// minutes, so that their tickets must be older.
func (l *lineRun) newTicketCast(size lossSize, wiped bool) *ticketCast {
	l.t.Helper()
	t := &ticketCast{waiter: l.actor("waiter"), buys: size.buys, tried: !wiped || size.forgotten > 0}
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

// check asks for the place with a ticket. The ticket of the answer is kept.
func (a *actor) check(l *lineRun, ticket string) placeAnswer {
	l.t.Helper()
	return a.ask(l, http.MethodPost, "check", ticket)
}

// refresh gets the waiter a new ticket, as polls do.
func (a *actor) refresh(l *lineRun) {
	l.t.Helper()
	require.Equal(l.t, "queued", a.ask(l, http.MethodGet, "status", a.ticket).Status)
}

func (a *actor) ask(l *lineRun, method, what, ticket string) (p placeAnswer) {
	l.t.Helper()
	a.client.With("X-Queue-Ticket", ticket).Must(l.t.Context(), method, "/api/v1/queue/"+what+"/"+l.event, nil, &p)
	if p.Ticket != "" {
		a.ticket = p.Ticket
	}
	if p.EntryToken != "" {
		a.entry = p.EntryToken
	}
	return p
}

// leave ends the slot of the token, or the waiting place without one.
func (a *actor) leave(l *lineRun) {
	l.t.Helper()
	a.client.With("X-Queue-Entry-Token", a.entry).Must(l.t.Context(), http.MethodPost, "/api/v1/queue/leave/"+l.event, nil, nil)
}

// use lets those at the front have their turn; their tickets are from before it.
func (t *ticketCast) use(l *lineRun) {
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
	a.client.With("X-Queue-Entry-Token", a.entry).Must(ctx, http.MethodPost, "/api/v1/seats/reserve",
		map[string]any{"eventId": l.event, "seatIds": []string{"A-2-1"}}, &held)
	var prepared struct {
		OrderID string `json:"orderId"`
		Amount  int64  `json:"amount"`
	}
	a.client.With("Idempotency-Key", uuid.NewString()).Must(ctx, http.MethodPost, "/api/v1/payments/prepare",
		map[string]any{"paymentType": "reservation", "referenceId": held.ReservationID}, &prepared)
	a.client.With("Idempotency-Key", uuid.NewString()).Must(ctx, http.MethodPost, "/api/v1/payments/confirm",
		map[string]any{"orderId": prepared.OrderID, "paymentKey": "ok-" + uuid.NewString(), "amount": prepared.Amount}, nil)
	l.Eventually(func(ctx context.Context) error {
		has, err := l.store.HExists(ctx, l.key("slot"), a.user).Result()
		if err == nil && has {
			err = errors.New("the purchase has not ended the slot")
		}
		return err
	})
}

// tryAll shows tickets after the loss. Only the waiter's gives a place back, once.
func (t *ticketCast) tryAll(l *lineRun, before map[string]int64, lostAt time.Time) {
	l.t.Helper()
	ticket := t.waiter.ticket
	gainsNothing := func(how string, a *actor, ticket string) {
		l.t.Helper()
		require.Equal(l.t, "queued", a.check(l, ticket).Status, how)
		require.Greater(l.t, l.place(a.user), lostAt.UnixMicro(), "%s: %s has a place from before", how, a.user)
		a.leave(l) // nobody polls for them: they would keep slots idle
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
	if !t.tried {
		return
	}
	for _, a := range t.used {
		gainsNothing("the ticket of a turn that is over", a, a.ticket)
	}
}

// forgeries change one bit of each field of a ticket: services/queue/internal/seal has its layout.
func forgeries(l *lineRun, ticket string) map[string]string {
	l.t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	require.NoError(l.t, err)
	body := 2 + int(raw[1])
	out := map[string]string{}
	for field, at := range map[string]int{
		"version": 0, "key": 2, "user": body, "score": body + 16 + 5, "epoch": body + 24 + 5, "issued": body + 32 + 5, "mac": body + 40,
	} {
		bent := append([]byte(nil), raw...)
		bent[at] ^= 1
		out[field] = base64.RawURLEncoding.EncodeToString(bent)
	}
	return out
}
