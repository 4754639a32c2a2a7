package notices_test

import (
	"context"
	"io"
	"mime"
	"net"
	netmail "net/mail"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/mail"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// mailbox is an SMTP server. behave answers a mail after it has been stored.
type mailbox struct {
	addr   string
	behave func(arrival int) error

	mu    sync.Mutex
	mails []storedMail
}

type storedMail struct{ to, id, subject, raw string }

// downAtFirst closes its first connections (refusals) at once, like a server that is down at first.
type downAtFirst struct {
	net.Listener

	refusals atomic.Int32
}

func (d *downAtFirst) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil || d.refusals.Add(-1) < 0 {
			return c, err
		}
		_ = c.Close()
	}
}

func newMailbox(t *testing.T, refusals int32, behave func(int) error) *mailbox {
	t.Helper()
	b := &mailbox{behave: behave}
	s := smtp.NewServer(b)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.addr = listener.Addr().String()
	var running sync.WaitGroup
	down := &downAtFirst{Listener: listener}
	down.refusals.Store(refusals)
	running.Go(func() { _ = s.Serve(down) })
	t.Cleanup(func() { require.Negative(t, down.refusals.Load(), "it was down, and came back") })
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		running.Wait()
	})
	return b
}

func (b *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{box: b}, nil }

type session struct {
	box *mailbox
	to  string
}

func (s *session) Reset()                               {}
func (s *session) Logout() error                        { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == "gone@example.com" {
		return &smtp.SMTPError{Code: 550, Message: "no such user"}
	}
	s.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := netmail.ReadMessage(strings.NewReader(string(raw)))
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return err
	}
	s.box.mu.Lock()
	s.box.mails = append(s.box.mails, storedMail{to: s.to, id: m.Header.Get("Message-ID"), subject: subject, raw: string(raw)})
	arrival := len(s.box.mails)
	s.box.mu.Unlock()
	return s.box.behave(arrival)
}

// subjectsTo returns the subjects of the mails to an address, leaving out repeated mails.
func (b *mailbox) subjectsTo(to string) (subjects []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := ""
	for _, m := range b.mails {
		if m.to == to && m.id != last {
			subjects, last = append(subjects, m.subject), m.id
		}
	}
	return subjects
}

// post is a ticket service that sends e-mails.
type post struct {
	*storetest.Service

	t     *testing.T
	store *notices.Store
	lanes []notice.Lane
	hold  func(user string, contact purchase.Contact, seats ...string) (*reservation.Reservation, purchase.Payment)
}

func newPost(t *testing.T, addr string) *post {
	t.Helper()
	s := storetest.New(t)
	p := &post{Service: s, t: t, store: notices.NewStore(s.Database, true)}
	keys, err := ticket.ParseKeys(config.Secret(tokentest.Seed('k')))
	require.NoError(t, err)
	sender, err := mail.NewSender(mail.Settings{Addr: addr, TLS: mail.None, From: "Tickets <tickets@urr.test>", PublicURL: "https://urr.test"},
		p.store, ticket.NewService(s.Tickets, keys))
	require.NoError(t, err)
	p.lanes = sender.Lanes()
	p.hold = func(user string, contact purchase.Contact, seats ...string) (*reservation.Reservation, purchase.Payment) {
		r, err := s.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "e", UserID: user, SlotID: "s", Contact: contact, SeatIDs: seats})
		require.NoError(t, err)
		paid := storetest.Payment(r)
		s.Confirm(t, r, paid)
		return r, paid
	}
	return p
}

// deliver sends all e-mails. It advances the test's clock past the times of retries.
func (p *post) deliver() {
	p.t.Helper()
	require.NoError(p.t, p.store.Walk(p.t.Context()))
	for _, lane := range p.lanes {
		p.drain(lane)
	}
}

// drain sends all e-mails of a lane.
func (p *post) drain(lane notice.Lane) {
	p.t.Helper()
	for range 200 {
		list, _, err := p.store.Claim(p.t.Context(), lane.ID, 10, time.Minute)
		require.NoError(p.t, err)
		for i := range list {
			ctx, cancel := context.WithTimeout(p.t.Context(), attemptTimeout)
			o := lane.Send(ctx, &list[i])
			cancel()
			switch {
			case o.Error == "":
				err = p.store.End(p.t.Context(), &list[i], notice.Delivered, o)
			case o.Final:
				err = p.store.End(p.t.Context(), &list[i], notice.Failed, o)
			default:
				err = p.store.Retry(p.t.Context(), &list[i], o, time.Second)
			}
			require.NoError(p.t, err)
		}
		c, err := p.store.Count(p.t.Context(), lane)
		require.NoError(p.t, err)
		if c.Pending == 0 {
			return
		}
		p.Clock.Advance(time.Minute)
	}
	require.FailNow(p.t, "mails are left")
}

// Users get e-mails in their language, although the mail server is down at first, slow, and
// sometimes fails, even after it has stored an e-mail.
func TestMailsArriveInOrder(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, 10, func(arrival int) error {
		switch arrival % 4 {
		case 0:
			return &smtp.SMTPError{Code: 451, Message: "try again"}
		case 2:
			time.Sleep(attemptTimeout + attemptTimeout/2) // longer than the sender waits
		}
		return nil
	})
	p := newPost(t, box.addr)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 55000, 4, 10))
	spec.Transferable = new(event.TransferPriced)
	p.Put(t, spec)
	alice, bob := purchase.Contact{Email: "alice@example.com", Language: "ko"}, purchase.Contact{Email: "bob@example.com", Language: "en"}
	order, paid := p.hold("alice", alice, "A-1-1", "A-1-2")
	p.hold("carol", purchase.Contact{}, "A-2-1")                         // no address
	p.hold("dave", purchase.Contact{Email: "gone@example.com"}, "A-2-2") // the mail server does not know the address any more
	p.hold("erin", purchase.Contact{Email: "not an address"}, "A-2-3")   // an invalid address
	ids := p.TicketIDs(t, paid)
	_, claim, err := p.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[0], Seller: "alice"}, nil)
	require.NoError(t, err)
	_, err = p.Transfers.Accept(t.Context(), "bob", bob, claim, uuid.Nil)
	require.NoError(t, err)
	p.deliver()
	_, err = p.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: spec.StartsAt.Add(24 * time.Hour)})
	require.NoError(t, err)
	p.deliver()
	require.Contains(t, box.mails[len(box.mails)-1].raw, "02:59 (KST)", "a minute before the doors get their lists")
	p.Refund(t, paid, refund.User)
	require.Equal(t, reservation.Confirmed, p.Find(t, order.ID).Status, "bob's place is not given back")
	for _, act := range []event.Act{event.Cancel, event.Refund} {
		_, err = p.Events.Act(t.Context(), "e", act, time.Minute)
		require.NoError(t, err)
	}
	p.deliver()
	require.Equal(t, []string{"예매 완료: Concert e", "티켓 양도 완료: Concert e", "공연 일정 변경: Concert e", "환불 안내: Concert e"}, box.subjectsTo(alice.Email))
	require.Equal(t, []string{"Your ticket: Concert e", "New date: Concert e", "Cancelled: Concert e"}, box.subjectsTo(bob.Email))
	require.Empty(t, box.subjectsTo("gone@example.com"))
	for i, failed := range []int64{2, 4} {
		c, err := p.store.Count(t.Context(), p.lanes[i])
		require.NoError(t, err)
		require.Equal(t, failed, c.Failed, "to each of two one about the order, two about the event")
	}
	require.EqualValues(t, 0, p.Count(t, "SELECT count(*) FROM deliveries WHERE email = '' OR last_error LIKE '%@%'"))
	for _, m := range box.mails {
		require.Regexp(t, `^<[0-9a-f-]{36}\.[0-9a-f]{16}@urr\.test>$`, m.id)
		require.NotContains(t, m.raw, "image/png")
		require.Contains(t, m.raw, "https://urr.test/my")
	}
}

// E-mails contain ticket codes only if tickets cannot be transferred and the time for codes has
// come. The codes of tickets that were issued before are sent at that time.
func TestMailsHaveCodesWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, 10, func(int) error { return nil })
	p := newPost(t, box.addr)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 55000, 4, 10))
	spec.CodesFrom, spec.DoorsAt, spec.SalesCloseAt = new(int32(2)), new(spec.StartsAt.Add(-time.Hour)), spec.StartsAt
	p.Put(t, spec)
	_, earlyPayment := p.hold("alice", purchase.Contact{Email: "alice@example.com"}, "A-1-1", "A-1-2")
	p.deliver()
	p.Clock.Set(spec.DoorsAt.Add(-2 * time.Hour).Add(-time.Minute))
	p.Refund(t, earlyPayment, refund.Operator)
	p.hold("alice", purchase.Contact{Email: "alice@example.com"}, "A-1-3")
	p.deliver()
	require.Equal(t, []string{"Your tickets: Concert e", "Refund: Concert e", "Your tickets: Concert e"}, box.subjectsTo("alice@example.com"))
	for _, m := range box.mails {
		require.NotContains(t, m.raw, "image/png")
	}
	p.Clock.Set(spec.DoorsAt.Add(-2 * time.Hour))
	p.hold("bob", purchase.Contact{Email: "bob@example.com"}, "A-2-1", "A-2-2")
	p.deliver()
	p.deliver()
	require.Equal(t, "For the entrance: Concert e", box.subjectsTo("alice@example.com")[3])
	images := regexp.MustCompile("image/png")
	for _, m := range box.mails[3:] {
		want := map[string]int{"alice@example.com": 1, "bob@example.com": 2}[m.to]
		require.Len(t, images.FindAllString(m.raw, -1), want, m.subject)
	}
	require.Len(t, box.subjectsTo("alice@example.com"), 4)
}

// After a postponement, e-mails have the codes also of tickets that were used on the first date.
func TestMailsHaveCodesOfTicketsUsedBefore(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, 0, func(int) error { return nil })
	p := newPost(t, box.addr)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 55000, 4, 10))
	spec.CodesFrom, spec.DoorsAt = new(int32(2)), new(spec.StartsAt.Add(-time.Hour))
	p.Put(t, spec)
	p.hold("alice", purchase.Contact{Email: "alice@example.com"}, "A-1-1")
	p.deliver()
	_, err := p.Pool.Exec(t.Context(), `UPDATE tickets SET status = 'USED'`)
	require.NoError(t, err)
	later := event.Postponement{StartsAt: spec.StartsAt.Add(48 * time.Hour), DoorsAt: spec.DoorsAt.Add(48 * time.Hour)}
	_, err = p.Events.Postpone(t.Context(), "e", later)
	require.NoError(t, err)
	p.Clock.Set(later.DoorsAt.Add(-time.Hour))
	p.deliver()
	last := box.mails[len(box.mails)-1]
	require.Equal(t, "For the entrance: Concert e", last.subject)
	require.Contains(t, last.raw, "image/png")
}

// What goes to everybody, also the refunds of a cancelled event, waits in a lane of its own: the
// e-mail about an order of another sale is the only one in the other lane.
func TestMailsToAllDelayNoOrder(t *testing.T) {
	t.Parallel()
	box := newMailbox(t, 0, func(int) error { return nil })
	p := newPost(t, box.addr)
	for _, id := range []string{"e", "f"} {
		p.Put(t, storetest.Spec(id, event.Assigned, storetest.Rows("A", 70, 4, 10)))
	}
	_, paid := p.hold("alice", purchase.Contact{Email: "alice@example.com"}, "A-1-1")
	p.deliver()
	_, err := p.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(100 * time.Hour)})
	require.NoError(t, err)
	for _, act := range []event.Act{event.Cancel, event.Refund} {
		_, err = p.Events.Act(t.Context(), "e", act, time.Minute)
		require.NoError(t, err)
	}
	require.NoError(t, p.Walker.Walk(t.Context()))
	var claim uuid.UUID
	require.NoError(t, p.Pool.QueryRow(t.Context(), `SELECT refund_id FROM refund_claims`).Scan(&claim))
	p.Settle(t, storetest.MadeRefund(&refund.Claim{ID: claim, Cause: refund.EventCancelled}, paid))
	r, err := p.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{
		EventID: "f", UserID: "bob", SlotID: "s", Contact: purchase.Contact{Email: "bob@example.com"}, SeatIDs: []string{"A-1-1"},
	})
	require.NoError(t, err)
	p.Confirm(t, r, storetest.Payment(r))
	require.NoError(t, p.store.Walk(t.Context()))
	for lane, want := range [][]notice.Type{{notice.TicketsIssued}, {notice.EventPostponed, notice.EventCancelled, notice.TicketsRefunded}} {
		rows, err := p.Pool.Query(t.Context(), `SELECT n.type FROM deliveries d JOIN notices n USING (notice_id)
			WHERE d.lane = $1 AND d.state = 'PENDING' ORDER BY d.seq`, p.lanes[lane].ID)
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[notice.Type])
		require.NoError(t, err)
		require.Equal(t, want, got, p.lanes[lane].Name)
	}
}

// The e-mails about an event are written in pages of orders. Each holder gets each e-mail once.
func TestEventsAreToldToAllOrders(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 10, 5000)))
	for i := range 7 {
		user := string(rune('a' + i%5))
		r, err := s.Reservations.HoldBest(t.Context(), reservation.BestRequest{
			EventID: "e", UserID: user, SlotID: "s", Section: "A", Quantity: 1, Contact: purchase.Contact{Email: user + "@example.com"},
		})
		require.NoError(t, err)
		s.Confirm(t, r, storetest.Payment(r))
	}
	store := notices.NewStore(s.Database, true).Page(2)
	require.NoError(t, store.Walk(t.Context()))
	require.EqualValues(t, 7, s.Count(t, "SELECT count(*) FROM deliveries"))
	for i := range 2 {
		_, err := s.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(time.Duration(100+i) * time.Hour)})
		require.NoError(t, err)
	}
	for _, err := range storetest.Concurrently(4, func(int) error { return store.Walk(t.Context()) }) {
		require.NoError(t, err)
	}
	require.NoError(t, store.Walk(t.Context()))
	require.EqualValues(t, 10, s.Count(t, "SELECT count(*) FROM deliveries WHERE entity LIKE 'e %'"))
	require.EqualValues(t, 2, s.Count(t, "SELECT count(*) FROM notices WHERE walked AND walked_to IS NOT NULL"), "in pages")
	require.Zero(t, s.Count(t, `SELECT count(*) FROM deliveries a JOIN deliveries b USING (entity)
		JOIN notices n ON n.notice_id = a.notice_id JOIN notices m ON m.notice_id = b.notice_id WHERE n.n < m.n AND a.seq > b.seq`), "in order")
}
