package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
)

const (
	answeredByGateway = "the gateway answers by itself"
	noLobby           = "no event of the test has had a lobby"
	anyEvent          = "where nothing has happened all counts are 0"
	absentID          = "01990f5e-7b5a-7c3e-9d1a-ffffffffffff"
	// campaignBody creates a campaign in which each member may draw two prizes.
	campaignBody = `{"title":"T","kind":"RANDOM","opensAt":"2026-01-01T00:00:00Z","closesAt":"2126-01-01T00:00:00Z","drawsPerMember":2,
	"prizes":[{"name":"P","kind":"POINT","value":5,"weight":1,"stock":3}]}`
	saleBody = `{"title":"T","artist":"A","venue":"V","startsAt":"2030-01-01T10:00:00Z","salesOpenAt":"2029-01-01T10:00:00Z",
	"salesCloseAt":"2029-12-31T10:00:00Z","seating":"GENERAL","currency":"KRW","maxPerUser":4,"sections":[{"section":"A","price":1000,"capacity":10}]}`
)

// inputWorld is a platform with state that invalid requests could change: a sale with and one
// without a waiting room, a ticket, a campaign, and two admitted users. The first, the owner, holds
// seats, has prepared a payment, waits in the room and was rewarded.
type inputWorld struct {
	t         *testing.T
	p         *harness.Platform
	base      string
	http      *http.Client
	databases map[string]*pgxpool.Pool
	redis     *redis.Client

	earlierEvents          []string // events that exist already: their holds may still expire
	calm, busy, absent     string
	admitted               [2]*buyer // the owner and another user
	owner, other           person
	held                   reservation
	paying                 preparedPayment
	ticket                 string
	request                string    // the owner's position in the waiting room
	campaign, reward       string    // the reward is the owner's, and is paid
	promotion, application string    // the request is the owner's, and has won a place
	plan                   string    // a membership plan that is no longer on sale
	end                    time.Time // of the slot in a token, although no user has this slot
}

// person is a user's credentials, only as headers, so that a test can replace each of them.
type person struct {
	user                 string
	session, entry, anon string
}

func newInputWorld(t *testing.T) *inputWorld {
	t.Helper()
	p := harness.Start(t, harness.Options{})
	w := &inputWorld{
		t: t, p: p, base: "http://" + p.Service(platform.Gateway).Addr(0),
		http:      fetch.NewClient(nil, nil, 0),
		databases: map[string]*pgxpool.Pool{platform.Ticket: p.DB(platform.Ticket), platform.Payment: p.DB(platform.Payment), platform.Reward: p.DB(platform.Reward)},
		redis:     p.Redis(), end: time.Now().Add(time.Hour),
		calm: newSale(t, p), busy: newSale(t, p), absent: "absent-" + uuid.NewString()[:8],
	}
	t.Cleanup(w.http.CloseIdleConnections)
	require.NoError(t, w.databases[platform.Ticket].QueryRow(t.Context(),
		"SELECT coalesce(array_agg(event_id), '{}') FROM events WHERE event_id <> ALL ($1)", []string{w.calm, w.busy}).Scan(&w.earlierEvents))
	w.openRoom()
	w.buy(newBuyer(t, p, w.calm))
	w.admitted = [2]*buyer{newBuyer(t, p, w.calm), newBuyer(t, p, w.calm)}
	for _, b := range w.admitted {
		b.keepSlot()
	}
	w.held = w.admitted[0].hold("A-2-1", "A-2-2")
	w.paying = w.admitted[0].prepare(w.held)
	w.renew()
	w.enterRoom()
	w.drawPrize()
	w.apply()
	w.plan = createPlan(t, p, 9900)
	endSale(t, p, w.plan)
	return w
}

// apply opens a promotion, sends the owner's application, and waits until it has a place, so that
// no store changes by itself later.
func (w *inputWorld) apply() {
	w.t.Helper()
	var created struct{ EventID string }
	w.p.Operator().MustCall(w.t.Context(), http.MethodPost, "/api/v1/admin/promotions", promotionBody, &created)
	w.promotion = created.EventID
	a := w.send(http.MethodPost, "/api/v1/promotions/"+w.promotion+"/requests", "{}", w.owner, false)
	var request struct{ RequestID, UIResult string }
	require.NoError(w.t, a.Decode(&request))
	w.application = request.RequestID
	testkit.Until(w.t, func() bool {
		a := w.send(http.MethodGet, "/api/v1/requests/"+w.application, "", w.owner, false)
		return a.Decode(&request) == nil && request.UIResult == "SUCCESS"
	}, "the request has a place")
}

// drawPrize opens a campaign in which the owner draws a prize, and waits until it is paid, so that
// no store changes by itself later.
func (w *inputWorld) drawPrize() {
	w.t.Helper()
	var created struct{ EventID string }
	w.p.Operator().MustCall(w.t.Context(), http.MethodPost, "/api/v1/admin/rewards/events", campaignBody, &created)
	w.campaign = created.EventID
	a := w.send(http.MethodPost, "/api/v1/rewards/"+w.campaign+"/draw", "{}", w.owner, false)
	var drawn struct {
		Rewards []struct{ AllocationID string }
	}
	require.NoError(w.t, a.Decode(&drawn))
	require.Len(w.t, drawn.Rewards, 1, "%d %s", a.Status, a.Body)
	w.reward = drawn.Rewards[0].AllocationID
	awaitReward(w.p, w.reward, "SUCCESS")
}

// openRoom activates the waiting room of the busy sale, with an interval so long that it admits
// nobody during the test.
func (w *inputWorld) openRoom() {
	w.t.Helper()
	w.p.Operator().MustCall(w.t.Context(), http.MethodPost, "/api/v1/admin/vwr/activate/"+w.busy, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
}

// buy buys a ticket, and waits until the queue service has ended the buyer's slot because of the
// Kafka event, so that no store changes by itself later.
func (w *inputWorld) buy(b *buyer) {
	w.t.Helper()
	held := b.hold("A-1-1")
	b.confirm(b.prepare(held), "ok-"+uuid.NewString())
	b.awaitStatus(w.p, held, "CONFIRMED")
	b.awaitStatusAt(w.p, "/api/v1/queue/status/"+b.event, "none")
	var list struct{ Items []struct{ TicketID string } }
	b.MustCall(w.t.Context(), http.MethodGet, "/api/v1/my/tickets", nil, &list)
	require.Len(w.t, list.Items, 1)
	w.ticket = list.Items[0].TicketID
}

// keepSlot asks for the buyer's place until the test ends, as an open page does. Otherwise a busy
// machine may take longer for one step than the queue waits for a visitor.
func (b *buyer) keepSlot() {
	go func() {
		for loop.Sleep(b.t.Context(), 5*time.Second) {
			_, _ = b.Call(b.t.Context(), http.MethodGet, "/api/v1/queue/status/"+b.event, nil) // the test's own calls report errors
		}
	}()
}

// renew renews the entry tokens, which are valid for a minute, as the pages do.
func (w *inputWorld) renew() {
	w.t.Helper()
	for i, who := range []*person{&w.owner, &w.other} {
		b := w.admitted[i]
		who.user, who.session = b.user, w.p.SessionToken(b.user)
		var place struct{ EntryToken string }
		a := w.send(http.MethodGet, "/api/v1/queue/status/"+b.event, "", person{session: who.session}, false)
		require.NoError(w.t, a.Decode(&place))
		require.NotEmpty(w.t, place.EntryToken, "%d %s", a.Status, a.Body)
		who.entry = place.EntryToken
	}
}

// enterRoom gives the owner and the other user visitor ids, and the owner a position.
func (w *inputWorld) enterRoom() {
	w.t.Helper()
	keys := keySet(w.t, w.p.Wiring().Secrets.Visitor)
	w.owner.anon = claims.NewAnon(time.Now()).Seal(keys.Derive(claims.LabelAnon))
	w.other.anon = claims.NewAnon(time.Now()).Seal(keys.Derive(claims.LabelAnon))
	a := w.send(http.MethodPost, "/vwr-api/vwr/assign/"+w.busy, "", w.owner, false)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
	var assigned struct{ RequestID string }
	require.NoError(w.t, a.Decode(&assigned))
	w.request = assigned.RequestID
	testkit.UntilNoError(w.t, func() error { // the gateway receives the new position by a stream
		a := w.send(http.MethodGet, "/vwr-api/vwr/status/"+w.busy, "", person{}, false)
		var room struct{ TotalInQueue int }
		if err := a.Decode(&room); err != nil {
			return err
		}
		if room.TotalInQueue == 0 { // more than 1 if an answer was lost and the request repeated
			return errors.New("nobody in the room")
		}
		return nil
	})
}

// send sends a request with a person's credentials and, unless keyless, an Idempotency-Key. It
// repeats the request on overload or an exceeded rate limit. A body is JSON.
func (w *inputWorld) send(method, target, body string, who person, keyless bool) *harness.Answer {
	w.t.Helper()
	key := ""
	if !keyless {
		key = uuid.NewString()
	}
	run, cancel := testkit.Context(w.t)
	defer cancel()
	for {
		answer, err := harness.RepeatWhileOverloaded(w.t.Context(), w.t, func() (*harness.Answer, error) {
			return w.sendOnce(method, target, body, who, key), nil
		})
		require.NoError(w.t, err)
		if answer.Code() != "RATE_LIMITED" || !loop.Sleep(run, time.Second) {
			return answer
		}
	}
}

func (w *inputWorld) sendOnce(method, target, body string, who person, key string) *harness.Answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+target, strings.NewReader(body))
	require.NoError(w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if who.session != "" {
		req.Header.Set("Authorization", "Bearer "+who.session)
	}
	if who.entry != "" {
		req.Header.Set("X-Queue-Entry-Token", who.entry)
	}
	if who.anon != "" {
		req.AddCookie(&http.Cookie{Name: "urr-anon", Value: who.anon})
	}
	answer, err := fetch.Send(w.http, req)
	require.NoError(w.t, err, "%s %s", method, target)
	return answer
}

// rowsOf returns the count and a hash of a table's rows, except the rows of the events in $1. It
// leaves out the columns that the payment service changes when it checks a row again.
const rowsOf = `SELECT count(*) || ':' || coalesce(md5(string_agg(r, chr(10) ORDER BY r)), '') FROM (
	SELECT (to_jsonb(t) - '{extend_at,check_at,checks,looks,lease}'::text[])::text r FROM %s t WHERE event_id <> ALL ($1)) x`

// stores returns the state that no invalid request may change: all rows of users and operators, and
// the contents of lines, slots and positions.
func (w *inputWorld) stores() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for service, tables := range map[string][]string{
		platform.Ticket:  {"events", "sections", "seats", "reservations", "tickets", "line_settings"},
		platform.Reward:  {"campaigns", "prizes", "event_entry", "event_reward_allocation"},
		platform.Payment: {"payments", "(SELECT event_id, refunds.* FROM refunds JOIN payments ON payments.id = payment_id)"},
	} {
		for _, table := range tables {
			var rows string
			err := w.databases[service].QueryRow(w.t.Context(), fmt.Sprintf(rowsOf, table), w.earlierEvents).Scan(&rows)
			require.NoError(w.t, err, table)
			state[service+"."+table] = rows
		}
	}
	operator := person{session: w.p.SessionToken("operator", "admin")}
	for _, path := range []string{"/api/v1/promotions", "/api/v1/admin/promotions/" + w.promotion + "/requests"} {
		a := w.send(http.MethodGet, path, "", operator, false)
		require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
		state[path] = string(a.Body)
	}
	for _, event := range []string{w.calm, w.busy, w.absent} {
		for _, set := range []string{"queue", "active", "parked"} {
			members, err := w.redis.ZRange(w.t.Context(), "{"+event+"}:"+set, 0, -1).Result()
			require.NoError(w.t, err)
			slices.Sort(members)
			state[event+":"+set] = strings.Join(members, " ")
		}
		room := w.send(http.MethodGet, "/vwr-api/vwr/status/"+event, "", person{}, false)
		state[event+":room"] = string(room.Body)
	}
	return state
}

func keySet(t *testing.T, secret string) token.KeySet {
	t.Helper()
	keys, err := token.ParseKeySet(config.Secret(secret))
	require.NoError(t, err)
	return keys
}
