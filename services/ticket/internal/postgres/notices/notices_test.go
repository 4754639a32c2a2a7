package notices_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/transfer"
)

// noticesAbout returns the types of the notices about an entity, in order, and the last one's data.
func noticesAbout(t *testing.T, s *storetest.Service, entity string) (types []string, last string) {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), "SELECT type, data FROM notices WHERE entity = $1 ORDER BY n", entity)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		require.NoError(t, rows.Scan(&kind, &last))
		types = append(types, kind)
	}
	require.NoError(t, rows.Err())
	return types, last
}

// Each change of tickets or events stores one notice, in the same transaction.
func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 10))
	spec.Transferable = new(event.TransferPriced)
	s.Put(t, spec)
	s.SetFees(t, 5)
	r := s.MustHoldSeats(t, "alice", "A-1-1", "A-1-2")
	p := storetest.Payment(r)
	order := r.ID.String()
	types, _ := noticesAbout(t, s, order)
	require.Empty(t, types)
	s.Confirm(t, r, p)
	ids := s.TicketIDs(t, p)
	types, data := noticesAbout(t, s, order)
	require.Equal(t, []string{"TICKETS_ISSUED"}, types)
	require.JSONEq(t, `{"reservationId": "`+order+`", "eventId": "e", "userId": "alice", "amount": 150, "currency": "KRW", "tickets": [
		{"ticketId": "`+ids[0].String()+`", "section": "A", "seatId": "A-1-1", "amount": 75},
		{"ticketId": "`+ids[1].String()+`", "section": "A", "seatId": "A-1-2", "amount": 75}]}`, data)

	_, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[0], Seller: "alice"}, nil)
	require.NoError(t, err)
	passed, err := s.Transfers.Accept(t.Context(), "bob", purchase.Contact{}, claim, uuid.Nil)
	require.NoError(t, err)
	types, data = noticesAbout(t, s, order)
	require.Equal(t, []string{"TICKETS_ISSUED", "TICKET_TRANSFERRED"}, types)
	require.JSONEq(t, `{"reservationId": "`+order+`", "eventId": "e", "sellerId": "alice", "buyerId": "bob", "section": "A", "seatId": "A-1-1",
		"formerTicketId": "`+ids[0].String()+`", "ticketId": "`+passed.NewTicket.String()+`", "price": 0, "currency": "KRW"}`, data)

	s.Refund(t, p, refund.Operator)
	types, data = noticesAbout(t, s, order)
	require.Equal(t, []string{"TICKETS_ISSUED", "TICKET_TRANSFERRED", "TICKETS_REFUNDED"}, types)
	require.JSONEq(t, `{"reservationId": "`+order+`", "eventId": "e", "userId": "alice", "paymentId": "`+p.ID.String()+`", "cause": "OPERATOR",
		"amount": 75, "currency": "KRW", "tickets": [{"ticketId": "`+ids[1].String()+`", "section": "A", "seatId": "A-1-2", "amount": 75}]}`, data)

	later := event.Postponement{StartsAt: spec.StartsAt.Add(24 * time.Hour), RefundUntil: storetest.Start.Add(41 * time.Hour)}
	for range 2 { // a repeated call stores no notice
		_, err = s.Events.Postpone(t.Context(), "e", later)
		require.NoError(t, err)
	}
	types, data = noticesAbout(t, s, "e")
	require.Equal(t, []string{"EVENT_POSTPONED"}, types)
	require.JSONEq(t, `{"eventId": "e", "title": "Concert e", "startsAt": "2041-03-17T19:00:00Z", "formerStartsAt": "2041-03-16T19:00:00Z",
		"fullRefundUntil": "2041-03-16T12:00:00Z"}`, data)
	for _, act := range []event.Act{event.Cancel, event.Undo, event.Cancel} {
		_, err = s.Events.Act(t.Context(), "e", act, time.Minute)
		require.NoError(t, err)
	}
	types, _ = noticesAbout(t, s, "e")
	require.Equal(t, []string{"EVENT_POSTPONED"}, types, "it can be undone")
	s.Clock.Advance(2 * time.Minute)
	require.NoError(t, s.Walker.Walk(t.Context()))
	_, err = s.Events.Act(t.Context(), "e", event.Refund, 0)
	require.NoError(t, err)
	types, data = noticesAbout(t, s, "e")
	require.Equal(t, []string{"EVENT_POSTPONED", "EVENT_CANCELLED"}, types)
	require.JSONEq(t, `{"eventId": "e", "title": "Concert e", "startsAt": "2041-03-17T19:00:00Z"}`, data)
	types, _ = noticesAbout(t, s, order)
	require.Equal(t, []string{"TICKETS_ISSUED", "TICKET_TRANSFERRED", "TICKETS_REFUNDED"}, types, "nothing is given back for a free ticket")

	s.Put(t, storetest.Spec("f", event.General, storetest.Admissions("B", 10, 5)))
	for _, act := range []event.Act{event.Cancel, event.Refund, event.Refund} {
		_, err = s.Events.Act(t.Context(), "f", act, time.Minute)
		require.NoError(t, err)
	}
	types, _ = noticesAbout(t, s, "f")
	require.Equal(t, []string{"EVENT_CANCELLED"}, types)

	store := notices.NewStore(s.Database, false)
	s.Clock.Advance(29 * 24 * time.Hour)
	n, err := store.Prune(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	s.Clock.Advance(25 * time.Hour)
	_, err = store.Prune(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.Count(t, "SELECT count(*) FROM notices"))
}

// A replay does not queue notices that another transaction is deleting.
func TestReplayOfNoticesThatAreDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	store := notices.NewStore(s.Database, false)
	_, err := store.PutWebhook(t.Context(), notice.Webhook{Name: "hook", URL: "https://hook.test", Types: []string{"EVENT_POSTPONED"}, Secret: "s"}, nil)
	require.NoError(t, err)
	s.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 10, 5000)))
	_, err = s.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour)})
	require.NoError(t, err)
	require.NoError(t, store.Walk(t.Context()))
	require.EqualValues(t, 1, s.Count(t, "SELECT count(*) FROM deliveries"))
	_, err = s.Pool.Exec(t.Context(), "DELETE FROM deliveries")
	require.NoError(t, err)

	tx, err := s.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "DELETE FROM notices")
	require.NoError(t, err)
	queued, replayed := 0, make(chan error, 1)
	go func() {
		var err error
		queued, _, err = store.Replay(t.Context(), "hook", notice.Replay{Since: storetest.Start.AddDate(-50, 0, 0)}, 10)
		replayed <- err
	}()
	testkit.Until(t, func() bool { return s.WaitingForLocks(t) == 1 }, "the replay waits for the deleted notices")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-replayed)
	require.Zero(t, queued)
	require.Zero(t, s.Count(t, "SELECT count(*) FROM deliveries"))
}

// A replica that sends no e-mails does not end a notice for which another has begun to write them.
func TestWalkWithoutMailsLeavesThoseBegun(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 10, 5000)))
	_, err := s.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour)})
	require.NoError(t, err)
	_, err = s.Pool.Exec(t.Context(), "UPDATE notices SET walked_to = $1", uuid.Nil)
	require.NoError(t, err)
	s.Clock.Advance(time.Hour)
	for _, mails := range []bool{false, true} {
		store := notices.NewStore(s.Database, mails)
		require.NoError(t, store.Walk(t.Context()))
		oldest, err := store.OldestToWalk(t.Context())
		require.NoError(t, err)
		require.Equal(t, mails, oldest == 0, oldest)
		require.Equal(t, mails, oldest < time.Hour, oldest)
	}
}
