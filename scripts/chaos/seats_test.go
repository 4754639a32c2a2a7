package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// fightSize is the size of a hall, of the crowd that fights for its seats, and of the later sale.
type fightSize struct {
	clients, rows, perRow int
	// fight is how long the clients fight. A replica is killed every killEvery. The short form kills
	// none, since the Kafka events of a killed consumer wait for the end of its session.
	fight, killEvery time.Duration
	// buyers is the most holds until every seat is sold. Every third hold is abandoned, up to the
	// abandon-th.
	buyers, abandon int64
}

var (
	longFight  = fightSize{clients: 64, rows: 20, perRow: 25, fight: 2 * time.Minute, killEvery: 10 * time.Second, buyers: 3000, abandon: 3000}
	shortFight = fightSize{clients: 8, rows: 2, perRow: 7, fight: 2500 * time.Millisecond, killEvery: time.Hour, buyers: 300, abandon: 3}
)

// visitPause is a client's pause between two visits, in which the machine can serve them.
const visitPause = 20 * time.Millisecond

// fight is a hall whose seats many clients hold, abandon, pay and return at the same time.
type fight struct {
	*run

	fightSize
	event    string
	ticket   *pgxpool.Pool
	operator *harness.Client
	users    []*harness.Client

	mu            sync.Mutex
	held          map[string][]string // the seats of each reservation that a client received
	paid          []string            // reservations whose payment a client saw confirmed
	refunds       []string            // payments whose refund a client saw accepted
	reservationOf map[string]string   // the reservation of each payment
	// answers counts the answers to the clients, by status and code.
	answers map[string]int
}

// TestFightForSeats lets clients hold, abandon, cancel, pay and return seats while an operator
// keeps and releases some, and ticket replicas are killed. At every sample each seat is sold, held,
// kept, returning or free. A trigger records the history of each seat under the lock of its row: it
// has only allowed changes, and agrees with the answers to the clients. In the end buyers, of whom
// every third abandons the seat, get all seats.
func TestFightForSeats(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size := shortFight
	if *full {
		size = longFight
	}
	f := &fight{
		fightSize: size, event: "fight-" + uuid.NewString()[:8], held: make(map[string][]string), reservationOf: make(map[string]string), answers: make(map[string]int),
		run: setup(t, shortSale, seed, func(o *harness.Options) {
			o.Env[platform.Gateway] = []string{
				"LIMIT_USER_RATE=0", "LIMIT_VISITOR_RATE=0", "LIMIT_POLL_USER_RATE=0", "LIMIT_POLL_VISITOR_RATE=0", "LIMIT_NETWORK_RATE=0",
			}
		}),
	}
	f.ticket, f.operator = f.DB(platform.Ticket), f.Operator()
	f.putEvent()
	f.record()
	f.enter()
	inside, leave := context.WithCancel(t.Context())
	var stays sync.WaitGroup
	stays.Go(func() { f.stayInside(inside) })
	defer stays.Wait()
	defer leave()
	f.fightOn(rng)
	f.t.Logf("%d holds, %d of them paid, %d refunds; %v", len(f.held), len(f.paid), len(f.refunds), f.answers)
	f.sellAll()
	f.requireHistory()
	f.requireAnswers()
}

// putEvent creates the event whose seats the clients compete for.
func (f *fight) putEvent() {
	now := time.Now().UTC()
	f.operator.MustCall(f.t.Context(), http.MethodPut, "/api/v1/admin/events/"+f.event, map[string]any{
		"title": "Fight", "artist": "Everybody", "venue": "Hall", "currency": "KRW", "maxPerUser": 1000, "returnWithin": 2,
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 0, 20), "holdSeconds": 5,
		"slotSeconds": 3600, "threshold": 1000,
		"sections": []map[string]any{{"section": "A", "price": 1000, "rows": f.rows, "seatsPerRow": f.perRow}},
	}, nil)
}

// record creates a trigger that records every change of every seat.
func (f *fight) record() {
	for _, sql := range []string{
		`CREATE TABLE seat_history (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, seat_id text NOT NULL, was text NOT NULL, was_by uuid,
			is_now text NOT NULL, by uuid)`,
		`CREATE FUNCTION record_seat() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO seat_history (seat_id, was, was_by, is_now, by) VALUES (NEW.seat_id, OLD.status, OLD.reservation_id, NEW.status, NEW.reservation_id);
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER record_seat AFTER UPDATE ON seats FOR EACH ROW
			WHEN (OLD.status <> NEW.status OR OLD.reservation_id IS DISTINCT FROM NEW.reservation_id) EXECUTE FUNCTION record_seat()`,
	} {
		_, err := f.ticket.Exec(f.t.Context(), sql)
		require.NoError(f.t, err)
	}
}

// fightOn runs the clients, the operator, the samples and the kills.
func (f *fight) fightOn(rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(f.t.Context(), f.fight)
	defer cancel()
	var all sync.WaitGroup
	for i, u := range f.users {
		r := rand.New(rand.NewPCG(f.seed, uint64(i)+1)) //nolint:gosec // repeatable
		all.Go(func() {
			for ctx.Err() == nil {
				f.visit(ctx, u, r)
				pause(ctx, visitPause)
			}
		})
	}
	keeper := rand.New(rand.NewPCG(f.seed, 0)) //nolint:gosec // repeatable
	all.Go(func() {
		for ctx.Err() == nil {
			f.keep(ctx, keeper)
			pause(ctx, visitPause)
		}
	})
	var bad []string
	all.Go(func() {
		for ctx.Err() == nil {
			bad = append(bad, f.sample(ctx)...)
		}
	})
	for i := rng.IntN(2); ; i++ {
		select {
		case <-ctx.Done():
			all.Wait()
			require.Empty(f.t, bad)
			return
		case <-time.After(f.killEvery):
		}
		f.Service(platform.Ticket).Kill(i % 2)
		f.Service(platform.Ticket).Start(i % 2)
	}
}

// enter waits until the users are admitted. stayInside renews their tokens.
func (f *fight) enter() {
	for i := range f.clients {
		u := f.Client(fmt.Sprint("client-", i))
		f.Eventually(func(ctx context.Context) error {
			var place struct{ Status string }
			a, err := u.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+f.event, map[string]any{})
			if err == nil && (a.Decode(&place) != nil || place.Status != "active") {
				err = fmt.Errorf("not let in: %d %s", a.Status, a.Body)
			}
			return err
		})
		f.users = append(f.users, u)
	}
}

// stayInside renews the tokens of all users, which live for a minute.
func (f *fight) stayInside(ctx context.Context) {
	for ctx.Err() == nil {
		for _, u := range f.users {
			_, _ = u.Call(ctx, http.MethodPost, "/api/v1/queue/heartbeat/"+f.event, map[string]any{})
		}
		pause(ctx, 10*time.Second)
	}
}

// post sends one request and decodes an answer with this status. After any other it returns false.
func (f *fight) post(ctx context.Context, c *harness.Client, path string, body any, status int, into any) bool {
	a, err := c.With("Idempotency-Key", uuid.NewString()).Call(ctx, http.MethodPost, path, body)
	if err == nil {
		f.withLock(func() { f.answers[fmt.Sprint(a.Status, " ", a.Code())]++ })
		if a.Code() == "SLOT_ENDED" { // a purchase has ended the slot
			_, _ = c.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+f.event, map[string]any{})
		}
	}
	return err == nil && a.Status == status && a.Decode(into) == nil
}

// visit holds one or two seats, and then abandons, cancels or pays them, and may request a refund.
func (f *fight) visit(ctx context.Context, c *harness.Client, rng *rand.Rand) {
	row, seat := rng.IntN(f.rows)+1, rng.IntN(f.perRow-1)+1
	seats := []string{fmt.Sprintf("A-%d-%d", row, seat), fmt.Sprintf("A-%d-%d", row, seat+1)}[:1+rng.IntN(2)]
	var made struct{ ReservationID string }
	if !f.post(ctx, c, "/api/v1/seats/reserve", map[string]any{"eventId": f.event, "seatIds": seats}, http.StatusCreated, &made) {
		return
	}
	f.withLock(func() { f.held[made.ReservationID] = seats })
	switch rng.IntN(6) {
	case 0: // abandoned
	case 1:
		_, _ = c.Call(ctx, http.MethodDelete, "/api/v1/my/reservations/"+made.ReservationID, nil)
	default:
		if payment := f.pay(ctx, c, made.ReservationID); payment != "" && rng.IntN(3) > 0 {
			f.requestRefund(ctx, c, payment)
		}
	}
}

func (f *fight) withLock(write func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	write()
}

// pay pays a reservation. It returns the payment if it is confirmed, otherwise "".
func (f *fight) pay(ctx context.Context, c *harness.Client, reservation string) (payment string) {
	var open struct {
		PaymentID, OrderID string
		Amount             int64
	}
	body := map[string]any{"paymentType": "reservation", "referenceId": reservation}
	if !f.post(ctx, c, "/api/v1/payments/prepare", body, http.StatusCreated, &open) {
		return ""
	}
	var done struct{ Status string }
	body = map[string]any{"orderId": open.OrderID, "paymentKey": "ok-" + uuid.NewString(), "amount": open.Amount}
	if !f.post(ctx, c, "/api/v1/payments/confirm", body, http.StatusOK, &done) || done.Status != "CONFIRMED" {
		return ""
	}
	f.withLock(func() {
		f.paid = append(f.paid, reservation)
		f.reservationOf[open.PaymentID] = reservation
	})
	return open.PaymentID
}

// requestRefund requests a refund once the payment has tickets. A user has 20 requests per hour.
func (f *fight) requestRefund(ctx context.Context, c *harness.Client, payment string) {
	for range 50 {
		var refund struct{ Status string }
		if f.post(ctx, c, "/api/v1/payments/"+payment+"/refund", map[string]any{"reason": "a fight"}, http.StatusAccepted, &refund) {
			if refund.Status != "REQUESTED" { // ticket may still refuse a requested refund
				f.withLock(func() { f.refunds = append(f.refunds, payment) })
			}
			return
		}
		pause(ctx, visitPause)
	}
}

// keep puts two seats aside for the house, or releases all house seats.
func (f *fight) keep(ctx context.Context, rng *rand.Rand) {
	path, change := "/api/v1/admin/events/"+f.event+"/house", map[string]any{}
	var house struct{ SeatIDs []string }
	a, err := f.operator.Call(ctx, http.MethodGet, path, nil)
	if err != nil || a.Status != http.StatusOK || a.Decode(&house) != nil {
		return
	}
	if rng.IntN(3) == 0 {
		change["release"] = house.SeatIDs
	} else {
		row, seat := rng.IntN(f.rows)+1, rng.IntN(f.perRow-1)+1
		change["take"] = []string{fmt.Sprintf("A-%d-%d", row, seat), fmt.Sprintf("A-%d-%d", row, seat+1)}
	}
	_, _ = f.operator.Call(ctx, http.MethodPut, path, change)
}

// sample returns violations at one moment: sold + held + house + returning + free must be the
// capacity, by the seats and by the counters.
func (f *fight) sample(ctx context.Context) []string {
	sales, err := f.stores.Sales(ctx, f.event)
	if err != nil || sales.Unbalanced == 0 && sales.Oversold == 0 && sales.Capacity == f.rows*f.perRow {
		return nil
	}
	return []string{fmt.Sprintf("%+v", sales)}
}

// sellAll lets buyers come until every seat is sold, and releases all house seats repeatedly. Every
// third buyer who gets a seat abandons it.
func (f *fight) sellAll() {
	seats := f.rows * f.perRow
	var holds atomic.Int64
	f.Eventually(func(ctx context.Context) error {
		f.releaseHouse(ctx)
		var all sync.WaitGroup
		for _, u := range f.users {
			all.Go(func() { f.buyBest(ctx, u, &holds) })
		}
		all.Wait()
		var sold, open int
		err := f.ticket.QueryRow(ctx, `SELECT count(*), (SELECT count(*) FROM reservations WHERE status = 'PAYING') FROM seats WHERE status = 'SOLD'`).
			Scan(&sold, &open)
		if err == nil && (sold < seats || open > 0) {
			err = fmt.Errorf("%d of %d seats are sold, %d reservations are being paid", sold, seats, open)
		}
		return err
	})
	require.LessOrEqual(f.t, holds.Load(), f.buyers, "buyers")
	require.Empty(f.t, f.sample(f.t.Context()))
}

// releaseHouse puts all house seats on sale.
func (f *fight) releaseHouse(ctx context.Context) {
	path := "/api/v1/admin/events/" + f.event + "/house"
	var house struct{ SeatIDs []string }
	f.operator.MustCall(ctx, http.MethodGet, path, nil, &house)
	f.operator.MustCall(ctx, http.MethodPut, path, map[string]any{"release": house.SeatIDs}, nil)
}

func (f *fight) buyBest(ctx context.Context, c *harness.Client, holds *atomic.Int64) {
	var made struct{ ReservationID string }
	body := map[string]any{"eventId": f.event, "section": "A", "quantity": 1}
	if !f.post(ctx, c, "/api/v1/reservations", body, http.StatusCreated, &made) {
		return
	}
	if n := holds.Add(1); n%3 != 0 || n > f.abandon {
		f.pay(ctx, c, made.ReservationID)
	}
}

// requireHistory requires that the changes of each seat form a chain, and that each is allowed.
func (f *fight) requireHistory() {
	rows, err := f.ticket.Query(f.t.Context(), `
		SELECT seat_id || ': ' || was || ' -> ' || is_now
		FROM (SELECT *, lag(is_now, 1, 'FREE') OVER w AS left_as, lag(by) OVER w AS left_to FROM seat_history WINDOW w AS (PARTITION BY seat_id ORDER BY n)) h
		WHERE was <> left_as OR was_by IS DISTINCT FROM left_to
		   OR NOT CASE was || ' ' || is_now
		          WHEN 'FREE HELD' THEN true        WHEN 'HELD FREE' THEN true
		          WHEN 'HELD DELAYED' THEN true     WHEN 'DELAYED FREE' THEN true -- few places are free
		          WHEN 'HELD HELD' THEN was_by <> by -- an expired hold is taken over
		          WHEN 'HELD SOLD' THEN was_by = by WHEN 'FREE HOUSE' THEN true
		          WHEN 'SOLD FREE' THEN true        WHEN 'SOLD HOUSE' THEN true WHEN 'SOLD RETURNED' THEN true
		          WHEN 'RETURNED FREE' THEN true    WHEN 'HOUSE FREE' THEN true ELSE false END`)
	require.NoError(f.t, err)
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	require.Empty(f.t, wrong)
}

// requireAnswers requires that the history contains what the answers to the clients say.
func (f *fight) requireAnswers() {
	ctx := f.t.Context()
	var reservations, seats []string
	for id, held := range f.held {
		for _, seat := range held {
			reservations, seats = append(reservations, id), append(seats, seat)
		}
	}
	count := func(sql string, args ...any) (n int) {
		require.NoError(f.t, f.ticket.QueryRow(ctx, sql, args...).Scan(&n))
		return n
	}
	require.Zero(f.t, count(`SELECT count(*) FROM unnest($1::uuid[], $2::text[]) AS a (by, seat_id)
		WHERE NOT EXISTS (SELECT 1 FROM seat_history h WHERE h.seat_id = a.seat_id AND h.by = a.by AND h.is_now = 'HELD')`, reservations, seats))
	require.Zero(f.t, count(`SELECT count(*) FROM unnest($1::uuid[]) AS a (by)
		WHERE NOT EXISTS (SELECT 1 FROM seat_history h WHERE h.by = a.by AND h.is_now = 'SOLD')
		  AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.reservation_id = a.by AND r.status = 'REJECTED')`, f.paid), "paid, or rejected and refunded")
	var back []string
	for _, payment := range f.refunds {
		back = append(back, f.reservationOf[payment])
	}
	f.Eventually(func(context.Context) error {
		n := count(`SELECT count(*) FROM unnest($1::uuid[]) AS a (by)
			WHERE NOT EXISTS (SELECT 1 FROM seat_history h WHERE h.was_by = a.by AND h.was = 'SOLD')`, back)
		if n > 0 {
			return errors.New("refunds are not made yet")
		}
		return nil
	})
}
