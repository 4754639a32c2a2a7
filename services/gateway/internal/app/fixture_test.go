package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/web"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// The events and users of the tests. Event busy has an active waiting room, event calm has none.
const (
	calm      = "calm"
	busy      = "busy"
	alice     = "alice"
	mallory   = "mallory"
	requestID = "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20"
	round     = int64(1_700_000_000_000_000)
	epoch     = int64(1_700_000_000_000_000)
	slot      = "slot-1"

	sessionSecret = "session-secret-of-at-least-32-bytes!"
	visitorSecret = "visitor-secret-of-at-least-32-bytes!"
	tier1Secret   = "tier-one-secret-of-at-least-32-bytes"
	ticketSecret  = "ticket-secret-of-at-least-32-bytes!!"
	entrySecret   = "entry-secret-of-at-least-thirty-two!"
	foreignSecret = "another-secret-of-at-least-32-bytes!"
)

// start is the time at which the clock of every test begins.
var start = time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC)

// fixture is a gateway that calls fakes of all services, through the same interceptors as in
// production.
type fixture struct {
	t testing.TB
	// measured is true in a benchmark. The gateway then uses the real time.
	measured     bool
	clock        *testkit.Clock
	gateway      *app.Gateway
	vwr          *fakeVWR
	queue        *fakeQueue
	ticket       *fakeTicket
	entitlements *fakeEntitlements
	payment      *fakePayment
	stats        *fakeStats
	reward       *fakeReward
	ingest       *fakeIngest
	worker       *fakeWorker
	letters      fakeLetters
	acts         *fakeActs

	sessions, visitors, tier1, tickets, entries token.KeySet

	cfg      *app.Config
	services app.Services
	logs     logs
}

type option func(*app.Config, *app.Services)

// withoutTier1 configures a platform without the vwr service: VWR_ADDR is empty.
func withoutTier1(c *app.Config, s *app.Services) { c.VWR.Addr, s.VWR = "", nil }

// withoutRewards configures a platform without the reward service: REWARD_ADDR is empty.
func withoutRewards(_ *app.Config, s *app.Services) { s.Reward = nil }

// withoutPromotions configures a platform without the ingest and the worker service.
func withoutPromotions(_ *app.Config, s *app.Services) { s.Ingest, s.Worker = nil, nil }

func newFixture(t testing.TB, opts ...option) *fixture {
	t.Helper()
	w := &fixture{
		t: t, clock: testkit.NewClock(start), stats: &fakeStats{}, payment: &fakePayment{}, reward: &fakeReward{},
		ingest: &fakeIngest{}, worker: &fakeWorker{}, letters: newLetters(), acts: &fakeActs{},
		vwr: newFakeVWR(
			&vwrv1.Counter{EventId: busy, Active: true, Round: round, Serving: 100, Issued: 5000, Rate: 50},
			&vwrv1.Counter{EventId: lobbied, Active: true, Round: round, OpenedAt: start.Add(time.Hour).UnixMilli(), Lobby: &vwrv1.Lobby{StartsAt: start.Add(time.Hour).UnixMilli()}},
		),
		queue:  &fakeQueue{lines: make(chan *queuev1.WatchLinesResponse), ended: map[string]bool{}},
		ticket: &fakeTicket{},

		entitlements: &fakeEntitlements{},
		sessions:     tokentest.KeySet(t, sessionSecret), visitors: tokentest.KeySet(t, visitorSecret),
		tier1: tokentest.KeySet(t, tier1Secret), tickets: tokentest.KeySet(t, ticketSecret), entries: tokentest.KeySet(t, entrySecret),
	}
	_, w.measured = t.(*testing.B)
	w.vwr.checkResult = func(i *vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: &vwrv1.Checked{Position: 7}}}
	}
	w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{Status: "queued", Queued: true, Position: 3}}}
	}
	w.ticket.hold = func(event string) *ticketv1.HoldResult {
		return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Reservation{Reservation: &ticketv1.Reservation{
			ReservationId: requestID, EventId: event, Status: "HELD",
		}}}
	}
	w.cfg = &app.Config{
		RoomConfig: app.RoomConfig{
			PollMaxWait: 100 * time.Millisecond, SessionLife: time.Hour, TokenCache: 1000, VisitorSecret: visitorSecret, VWRTicketSecret: ticketSecret,
			VWR: rpc.OptionalPeer{Addr: "fake"}, Limits: app.Limits{Keys: 1000},
		},
		DevLogin: true, VerifySlots: true, SessionSecret: sessionSecret, EntryTokenSecret: entrySecret, VWRTokenSecret: tier1Secret,
	}
	w.services = w.serve()
	for _, o := range opts {
		o(w.cfg, &w.services)
	}
	w.gateway = w.assemble(t)
	w.watch(w.services)
	return w
}

// logs collects the log of a gateway.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the log lines since the last call.
func (l *logs) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// now returns the time for the gateway and the tokens: that of the test's clock, or in benchmarks
// the real time, since reading it takes time too.
func (w *fixture) now() time.Time {
	if w.measured {
		return time.Now()
	}
	return w.clock.Now()
}

// callLogs returns the call logs of all fake services.
func (w *fixture) callLogs() []*callLog {
	return []*callLog{&w.vwr.callLog, &w.queue.callLog, &w.ticket.callLog, &w.entitlements.callLog, &w.payment.callLog, &w.stats.callLog, &w.reward.callLog, &w.ingest.callLog, &w.worker.callLog}
}

// serviceCalls returns the names of the calls to services, except the streams.
func (w *fixture) serviceCalls() []string {
	var all []string
	for _, r := range w.callLogs() {
		all = append(all, r.methods()...)
	}
	return all
}

// sharedPages caches the pages by their web.Config, since rendering and compressing them takes
// longer than most tests.
var sharedPages sync.Map

// assemble makes a gateway that does not follow the streams of rooms and lines yet.
func (w *fixture) assemble(t testing.TB) *app.Gateway {
	t.Helper()
	pagesConfig := w.cfg.Pages(w.services)
	render, _ := sharedPages.LoadOrStore(pagesConfig, sync.OnceValues(func() (*web.Pages, error) { return web.New(pagesConfig) }))
	pages, err := render.(func() (*web.Pages, error))() //nolint:forcetypeassert // the only type in the map
	require.NoError(t, err)
	g, err := app.Assemble(t.Context(), w.cfg, w.services, pages, app.Stores{Acts: w.acts}, slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})), w.now)
	require.NoError(t, err)
	for _, r := range g.Routes() { // a busy machine must not end requests of fakes
		r.Timeout = max(r.Timeout, time.Minute)
	}
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	return g
}

// watch runs the streams and the audit log, until the gateway has a state from both streams.
func (w *fixture) watch(s app.Services) {
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	done := make(chan error, 3)
	running := 2
	go func() { done <- w.gateway.Audit.Run(ctx) }()
	go func() { done <- w.gateway.Lines.Watch(ctx, queuev1.NewQueueServiceClient(s.Queue), log) }()
	if s.VWR != nil {
		running++
		go func() { done <- w.gateway.Rooms.Watch(ctx, vwrv1.NewVwrServiceClient(s.VWR), log) }()
	}
	w.t.Cleanup(func() {
		cancel()
		for range running {
			require.NoError(w.t, <-done)
		}
	})
	w.line(calm, epoch, 0)
	w.line(busy, epoch, 0)
	testkit.UntilNoError(w.t, func() error { return w.gateway.Ready(ctx) }, "the first snapshot of the waiting rooms")
}

// line sends the epoch of a line to the gateway, and waits until the gateway uses it.
func (w *fixture) line(event string, epoch, pauseUntil int64) {
	w.t.Helper()
	w.tell(
		w.lineReport(&queuev1.Line{EventId: event, Epoch: epoch, PauseUntil: pauseUntil}),
		func() bool { return w.gateway.Lines.Verdict(event, epoch) == edge.Honoured }, "the line of %s", event,
	)
}

// tell sends a report to the gateway, and waits until it has arrived. It sends the report again after
// a while: on a slow machine the stream of lines may break with a message that it has taken.
func (w *fixture) tell(send func(), arrived func() bool, message ...any) {
	w.t.Helper()
	var sent time.Time
	testkit.Until(w.t, func() bool {
		if time.Since(sent) > time.Second {
			send()
			sent = time.Now()
		}
		return arrived()
	}, message...)
}

// lineReport returns a function that sends a line to the gateway as the queue service does.
func (w *fixture) lineReport(line *queuev1.Line) (send func()) {
	return func() { w.sendLines(&queuev1.WatchLinesResponse{Lines: []*queuev1.Line{line}}) }
}

// sendLines sends a message of the queue service to the gateway; nil breaks the stream.
func (w *fixture) sendLines(msg *queuev1.WatchLinesResponse) {
	w.t.Helper()
	ctx, cancel := testkit.Context(w.t)
	defer cancel()
	select {
	case w.queue.lines <- msg:
	case <-ctx.Done():
		require.Fail(w.t, "the gateway does not watch the lines")
	}
}

// credentials are the request headers that contain credentials.
type credentials map[string]string

func (c credentials) with(name, value string) credentials {
	out := credentials{}
	for k, v := range c {
		out[k] = v
	}
	if name == "Cookie" && out["Cookie"] != "" {
		value = out["Cookie"] + "; " + value
	}
	out[name] = value
	return out
}

func (w *fixture) session(user string, roles ...string) credentials {
	w.t.Helper()
	tok, err := w.sessions.Sign(claims.NewSession(user, roles, w.now(), w.now().Add(time.Hour)))
	require.NoError(w.t, err)
	return credentials{"Authorization": "Bearer " + tok}
}

// visitor returns a cookie urr-anon and the id in it.
func (w *fixture) visitor() (credentials, string) {
	a := claims.NewAnon(w.now())
	return credentials{"Cookie": "urr-anon=" + a.Seal(w.visitors.Derive(claims.LabelAnon))}, a.String()
}

func (w *fixture) entryToken(event, user string) string {
	return w.sign(w.entries, claims.NewEntry(event, user, slot, epoch, w.now().Add(10*time.Minute), w.now()))
}

func (w *fixture) tier1Token(event, visitor string) string {
	return w.sign(w.tier1, claims.NewTier1(event, visitor, requestID, round, 7, w.now()))
}

func (w *fixture) sign(k token.KeySet, c any) string {
	w.t.Helper()
	var (
		tok string
		err error
	)
	switch c := c.(type) {
	case *claims.Entry:
		tok, err = k.Sign(c)
	case *claims.Tier1:
		tok, err = k.Sign(c)
	case *claims.Session:
		tok, err = k.Sign(c)
	}
	require.NoError(w.t, err)
	require.NotEmpty(w.t, tok)
	return tok
}

// buyer returns a session with a valid entry token.
func (w *fixture) buyer(event string) credentials {
	return w.session(alice).with("X-Queue-Entry-Token", w.entryToken(event, alice))
}

// do sends a request; a body that is not empty is JSON unless the credentials say otherwise.
func (w *fixture) do(method, target, body string, c credentials) *httptest.ResponseRecorder {
	w.t.Helper()
	return respond(w.gateway, w.request(method, target, body, c))
}

// respond returns a gateway's response, or the beginning of a streamed response.
func respond(g *app.Gateway, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	g.Handler.ServeHTTP(&untilFirstEvent{rec, leave}, r.WithContext(ctx))
	return rec
}

// untilFirstEvent is a client that disconnects from a stream after the first event.
type untilFirstEvent struct {
	*httptest.ResponseRecorder

	leave context.CancelFunc
}

func (u *untilFirstEvent) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("data: ")) {
		u.leave()
	}
	return u.ResponseRecorder.Write(b)
}

func (w *fixture) request(method, target, body string, c credentials) *http.Request {
	w.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, rd)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c {
		r.Header.Set(k, v)
	}
	return r
}

func uuidOf(t testing.TB, s string) uuid.UUID {
	t.Helper()
	u, err := uuid.Parse(s)
	require.NoError(t, err)
	return u
}

func cookieOf(rec *httptest.ResponseRecorder, name string) *http.Cookie {
	for _, c := range rec.Result().Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func jsonOf(t testing.TB, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"), "%d %s", rec.Code, rec.Body)
	var m map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &m))
	return m
}
