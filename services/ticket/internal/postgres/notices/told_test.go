package notices_test

import (
	"cmp"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/transfer"
	"urr.guru/services/ticket/internal/void"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// audience is a sale of places at 100 and a fee of 10, with everybody who may be told of it. Each
// user has an e-mail address, and the language that is also the id of the event.
type audience struct {
	*post

	box      *mailbox
	language string
	// lastNotice and mails count what told has written before.
	lastNotice int64
	mails      int
	text       strings.Builder
	// buyer has the payment of a buyer who keeps two tickets, giver and seller those of buyers who have
	// given a ticket to "friend" and sold one for 80 to "taker".
	buyer, giver, seller, taker purchase.Payment
}

func (a *audience) contact(user string) purchase.Contact {
	return purchase.Contact{Email: user + "@example.com", Language: a.language}
}

func (a *audience) hold(user string, seats ...string) *reservation.Reservation {
	a.t.Helper()
	r, err := a.Holds.HoldSeats(a.t.Context(), reservation.SeatsRequest{
		EventID: a.language, UserID: user, SlotID: "s", Contact: a.contact(user), SeatIDs: seats,
	})
	require.NoError(a.t, err)
	return r
}

func (a *audience) buy(user string, seats ...string) purchase.Payment {
	a.t.Helper()
	r := a.hold(user, seats...)
	p := storetest.Payment(r)
	a.Confirm(a.t, r, p)
	return p
}

func (a *audience) offer(seller string, p purchase.Payment, price int64) (id uuid.UUID, claim string) {
	a.t.Helper()
	t, claim, err := a.Transfers.Offer(a.t.Context(), transfer.Request{TicketID: a.TicketIDs(a.t, p)[0], Seller: seller, Price: price}, nil)
	require.NoError(a.t, err)
	return t.ID, claim
}

func (a *audience) accept(user, claim string) {
	a.t.Helper()
	_, err := a.Transfers.Accept(a.t.Context(), user, a.contact(user), claim, uuid.Nil)
	require.NoError(a.t, err)
}

// pay applies the event that a payment of a transfer was confirmed.
func (a *audience) pay(user string, id uuid.UUID) purchase.Payment {
	a.t.Helper()
	p := purchase.Payment{ID: uuid.New(), UserID: user, EventID: a.language, Amount: 80, Currency: "KRW"}
	a.Settle(a.t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Transfer, ReferenceID: id, Payment: p})
	return p
}

// sell makes the tickets of everybody: of the buyer, of giver, friend, seller and taker, and of a
// guest, who has paid nothing.
func (a *audience) sell() {
	a.t.Helper()
	a.buyer, a.giver, a.seller = a.buy("buyer", "A-1-1", "A-1-2"), a.buy("giver", "A-2-1"), a.buy("seller", "A-3-1")
	_, claim := a.offer("giver", a.giver, 0)
	a.accept("friend", claim)
	id, claim := a.offer("seller", a.seller, 80)
	a.accept("taker", claim)
	a.taker = a.pay("taker", id)
	_, err := a.Events.PutHouse(a.t.Context(), a.language, event.HouseChange{Take: []string{"A-4-1"}})
	require.NoError(a.t, err)
	key, err := idempotency.Require("op", "CreateComp", uuid.NewString(), a.language)
	require.NoError(a.t, err)
	given, err := a.Comps.Make(a.t.Context(), comp.Request{EventID: a.language, Name: "Press", SeatIDs: []string{"A-4-1"}, Quantity: 1, IdempotencyKey: key})
	require.NoError(a.t, err)
	_, err = a.Comps.Claim(a.t.Context(), given.Claim, "guest", a.contact("guest"))
	require.NoError(a.t, err)
}

func (a *audience) postpone(p event.Postponement) {
	a.t.Helper()
	_, err := a.Events.Postpone(a.t.Context(), a.language, p)
	require.NoError(a.t, err)
}

// cancel ends the event, and applies the events that its refunds were made.
func (a *audience) cancel() {
	a.t.Helper()
	for _, act := range []event.Act{event.Cancel, event.Refund} {
		_, err := a.Events.Act(a.t.Context(), a.language, act, time.Minute)
		require.NoError(a.t, err)
	}
	a.deliver()
	require.NoError(a.t, a.Walker.Walk(a.t.Context()))
	for _, p := range []purchase.Payment{a.buyer, a.giver, a.seller, a.taker} {
		var id uuid.UUID
		require.NoError(a.t, a.Pool.QueryRow(a.t.Context(), `SELECT refund_id FROM refund_claims WHERE payment_id = $1`, p.ID).Scan(&id))
		a.Settle(a.t, storetest.MadeRefund(&refund.Claim{ID: id, Cause: refund.EventCancelled}, p))
	}
}

// told sends all mails, and writes the notices and mails that are new.
func (a *audience) told() {
	a.t.Helper()
	a.deliver()
	rows, err := a.Pool.Query(a.t.Context(), `SELECT n, type, data FROM notices WHERE n > $1 ORDER BY n`, a.lastNotice)
	require.NoError(a.t, err)
	for rows.Next() {
		var kind, data string
		require.NoError(a.t, rows.Scan(&a.lastNotice, &kind, &data))
		fmt.Fprintf(&a.text, "%s %s\n", kind, data)
	}
	require.NoError(a.t, rows.Err())
	a.box.mu.Lock()
	defer a.box.mu.Unlock()
	sent := slices.Clone(a.box.mails[a.mails:])
	a.mails = len(a.box.mails)
	slices.SortStableFunc(sent, func(x, y storedMail) int { return cmp.Compare(x.to, y.to) })
	for _, m := range sent {
		fmt.Fprintf(&a.text, "\nTo: %s\nSubject: %s\n\n%s\n", m.to, m.subject, plainText(a.t, m.raw))
	}
}

// forget sends all mails, and leaves out what users are told up to now.
func (a *audience) forget() {
	a.t.Helper()
	a.told()
	a.text.Reset()
}

// plainText returns the part of a mail that is plain text, indented.
func plainText(t *testing.T, raw string) string {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	require.NoError(t, err)
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
	require.NoError(t, err)
	var body io.Reader = part
	switch part.Header.Get("Content-Transfer-Encoding") {
	case "quoted-printable":
		body = quotedprintable.NewReader(part)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, part)
	}
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(string(text)), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix("    "+line, "    ")
	}
	return strings.Join(lines, "\n")
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// withoutIDs replaces each id by the number of its first appearance.
func withoutIDs(text string) string {
	numbers := make(map[string]int)
	return uuids.ReplaceAllStringFunc(text, func(id string) string {
		if numbers[id] == 0 {
			numbers[id] = len(numbers) + 1
		}
		return fmt.Sprintf("id-%d", numbers[id])
	})
}

// tellings has, by the name of a golden file, what happens to a sale.
var tellings = map[string]func(a *audience){ //nolint:gochecknoglobals // constant
	"cancel": func(a *audience) {
		a.sell()
		a.forget()
		a.cancel()
	},
	"postpone": func(a *audience) {
		a.sell()
		a.forget()
		a.postpone(event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour), RefundUntil: storetest.Start.Add(24 * time.Hour)})
	},
	"postpone-and-sell": func(a *audience) { // whoever buys before the mails leave is told the date, but no full refund
		a.postpone(event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour), RefundUntil: storetest.Start.Add(24 * time.Hour)})
		a.buy("later", "A-1-1")
	},
	"postpone-told-late": func(a *audience) { // the end of the full refund passes before the mails leave
		a.sell()
		a.forget()
		a.postpone(event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour), RefundUntil: storetest.Start.Add(24 * time.Hour)})
		a.Clock.Set(storetest.Start.Add(24 * time.Hour))
	},
	"delay": func(a *audience) { // the event has closed an hour before its start
		a.sell()
		a.forget()
		a.Clock.Set(storetest.Start.Add(47*time.Hour + 30*time.Minute))
		a.postpone(event.Postponement{StartsAt: storetest.Start.Add(50 * time.Hour)})
	},
	"refund": func(a *audience) { // by the buyer, who keeps one ticket, and by an operator
		a.sell()
		a.forget()
		req := a.RefundRequest(a.buyer, refund.User)
		req.TicketIDs = a.TicketIDs(a.t, a.buyer)[:1]
		a.Settle(a.t, storetest.MadeRefund(a.BeginRefund(a.t, req), a.buyer))
		a.Refund(a.t, a.taker, refund.Operator)
	},
	"void": func(a *audience) { // one of the buyer's tickets, and the one that was given away; nobody is told why
		a.sell()
		a.forget()
		a.Void(a.t, void.Request{TicketID: a.TicketIDs(a.t, a.buyer)[0]})
		var order uuid.UUID
		require.NoError(a.t, a.Pool.QueryRow(a.t.Context(), `SELECT reservation_id FROM tickets WHERE user_id = 'friend'`).Scan(&order))
		a.Void(a.t, void.Request{ReservationID: order})
	},
	"transfer-free": func(a *audience) {
		p := a.buy("giver", "A-2-1")
		_, claim := a.offer("giver", p, 0)
		a.accept("friend", claim)
	},
	"transfer-priced": func(a *audience) {
		p := a.buy("seller", "A-3-1")
		id, claim := a.offer("seller", p, 80)
		a.accept("taker", claim)
		a.pay("taker", id)
	},
	"rejected-reservation": func(a *audience) { // once after the hold, once a second time
		r := a.hold("late", "A-1-1")
		a.Clock.Advance(time.Hour)
		p := storetest.Payment(r)
		a.Confirm(a.t, r, p)
		a.Confirm(a.t, r, p)
		r = a.hold("twice", "A-1-1")
		for range 2 {
			a.Confirm(a.t, r, storetest.Payment(r))
		}
	},
	"rejected-transfer": func(a *audience) { // of the first buyer, after a second one has accepted the offer
		p := a.buy("seller", "A-3-1")
		a.forget()
		id, claim := a.offer("seller", p, 80)
		a.accept("late", claim)
		a.Clock.Advance(transfer.PayWithin + time.Second)
		require.NoError(a.t, a.Transfers.ExpireDue(a.t.Context()))
		a.accept("taker", claim)
		a.pay("late", id)
	},
	"rejected-membership": func(a *audience) {
		plan, err := a.Memberships.Create(a.t.Context(), membership.Plan{Name: "Friends", Price: 300, Currency: "KRW", Months: 12}, nil)
		require.NoError(a.t, err)
		m, err := a.Memberships.Buy(a.t.Context(), "late", plan.ID, a.contact("late"))
		require.NoError(a.t, err)
		a.Clock.Advance(membership.PayWithin + time.Second)
		a.Settle(a.t, settlement.PaymentEvent{
			Key: uuid.NewString(), Type: purchase.Membership, ReferenceID: m.ID,
			Payment: purchase.Payment{ID: uuid.New(), UserID: "late", Amount: 300, Currency: "KRW"},
		})
	},
}

// Who gets which notice and which mail: whoever paid hears of the money, whoever has a ticket of the
// event. testdata has all of it, in both languages.
func TestWhoIsToldWhat(t *testing.T) {
	t.Parallel()
	for name, happens := range tellings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for _, language := range []string{"en", "ko"} {
				box := newMailbox(t, 0, func(int) error { return nil })
				a := &audience{post: newPost(t, box.addr), box: box, language: language}
				spec := storetest.Spec(language, event.Assigned, storetest.Rows("A", 100, 4, 10))
				spec.Transferable = new(event.TransferPriced)
				a.Put(t, spec)
				a.SetFees(t, 10)
				happens(a)
				a.told()
				fmt.Fprintf(&text, "== %s ==\n\n%s\n", language, withoutIDs(a.text.String()))
			}
			path := "testdata/" + name + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), text.String())
		})
	}
}
