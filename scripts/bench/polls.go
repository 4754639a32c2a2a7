package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/benchtest"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// users is the number of visitors who are signed in and wait in both tiers. Fewer users would have
	// to poll more often than the gateway's limits allow.
	users = 1500
	// requestsPerRound is the number of polls in a round, which then takes about a second.
	requestsPerRound = 4500

	room = "bench-room" // an event whose waiting room admits hardly anybody
	line = "bench-line" // an event without a waiting room, whose line admits nobody
)

// pollRow is a row of the report about a request that browsers repeat while a visitor waits.
type pollRow struct {
	name, what  string
	path        string
	connections int
	services    []string
	must, aim   float64
}

// visitor is a signed-in browser that waits, with its address, cookies and tickets of both tiers.
type visitor struct {
	address, cookies       string
	roomTicket, lineTicket string
}

// pollRows returns the rows of requests that waiting browsers repeat.
func pollRows() []pollRow {
	return []pollRow{
		{
			name: "serving", what: "GET /vwr-api/vwr/serving/{event}, the poll of tier 1", path: "/vwr-api/vwr/serving/" + room,
			connections: 32, services: []string{platform.Gateway}, must: 0.80, aim: 0.90,
		},
		{
			name: "queue_status_256", what: "GET /api/v1/queue/status/{event} of visitors who wait, 256 connections", path: "/api/v1/queue/status/" + line,
			connections: 256, services: []string{platform.Gateway, platform.Queue}, must: 0.40, aim: 0.50,
		},
		{
			name: "event", what: "GET /api/v1/events/{event}", path: "/api/v1/events/" + line,
			connections: 32, services: []string{platform.Gateway, platform.Ticket}, must: 0.60, aim: 0.80,
		},
	}
}

// saleServices are, for the harness, the services that visitors of a sale use before they pay.
var saleServices = harness.Options{Production: true, Services: []string{platform.Gateway, platform.VWR, platform.Queue, platform.Ticket}}

// runPolls measures the rows of polls, on a platform where visitors wait.
func runPolls(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	return harness.Run(ctx, saleServices, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d visitors sign in and wait", users)
		w, err := newPollPlatform(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range pollRows() {
			if !slices.Contains(wanted, row.name) {
				continue
			}
			r, err := row.measure(ctx, w, opts.Rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			addResult(r)
		}
		return nil
	})
}

// measure measures a row: polls of the gateway and, as the baseline, of a bare server.
func (p pollRow) measure(ctx context.Context, w *pollPlatform, n int) (r benchtest.Result, err error) {
	var requests [][]byte
	for _, v := range w.visitors {
		requests = append(requests, v.request(p.path))
	}
	answer, _, err := w.sendToGateway(ctx, requests[0])
	if err != nil {
		return r, err
	}
	if answer.Status != http.StatusOK {
		return r, fmt.Errorf("%s: %d: %s", p.path, answer.Status, answer.Body)
	}
	return w.measureBesideBare(ctx, n, benchtest.Result{Name: p.name, What: p.what, Must: p.must, Aim: p.aim}, answer, pollRound{
		connections: p.connections, services: p.services, requests: func() [][]byte { return requests },
	})
}

// sendToGateway sends one request. It returns the response and its size in bytes, with the headers.
func (w *pollPlatform) sendToGateway(ctx context.Context, request []byte) (answer recordedResponse, size int, err error) {
	return sendOnce(ctx, w.platform.Service(platform.Gateway).Addr(0), request)
}

// pollRound describes one round of polls.
type pollRound struct {
	connections int
	services    []string // the services whose CPU time is measured
	requests    func() [][]byte
	parts       map[string]float64 // further parts of the row, by name
}

// measureBesideBare measures polls of the gateway and, as the baseline, the same polls of a bare
// server that repeats the given answer.
func (w *pollPlatform) measureBesideBare(ctx context.Context, n int, row benchtest.Result, answer recordedResponse, round pollRound) (_ benchtest.Result, err error) {
	bare, err := startBare(ctx, answer)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	row.Besides, row.Unit = "a net/http handler that writes the same response", "CPU-µs per request"
	return compareSides(ctx, n, row, w.newSide(processesOf(w.platform, round.services...), w.platform.Service(platform.Gateway).Addr(0), answer.Status, round),
		w.newSide(processes{"baseline": {bare.pid}}, bare.addr, answer.Status, round))
}

// newSide returns the measurement of one side of a row. It polls the server at addr and measures
// the CPU time of the processes pids. Every response must have the given status. The CPU time of
// Redis is reported but not added, since the baseline has no store.
func (w *pollPlatform) newSide(pids processes, addr string, status int, round pollRound) benchtest.MeasureFunc {
	m := cpuMeter(func(ctx context.Context) (map[string]time.Duration, error) {
		times, err := pids.cpuTimes(ctx)
		if err != nil {
			return nil, err
		}
		times["redis"], err = redisCPU(ctx, w.platform.Redis())
		return times, err
	})
	return func(ctx context.Context) (sum float64, parts map[string]float64, err error) {
		g := generator{addr: addr, next: roundRobin(round.requests())}
		if err := g.open(ctx, round.connections); err != nil {
			return 0, nil, err
		}
		if err := g.send(ctx, round.connections, status); err != nil { // not measured: the server accepts the connections
			return 0, nil, errors.Join(err, g.close())
		}
		parts, err = m.perRequest(ctx, requestsPerRound, func() error { return g.send(ctx, requestsPerRound, status) })
		if err != nil {
			return 0, nil, errors.Join(err, g.close())
		}
		for name := range pids {
			sum += parts[name]
		}
		maps.Copy(parts, round.parts)
		return sum, parts, g.close()
	}
}

// request returns the bytes of a visitor's GET, with the headers that browsers and proxies send.
func (v visitor) request(path string) []byte {
	header := []string{
		"GET " + path + " HTTP/1.1", "Host: localhost", "Connection: keep-alive",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
		"Accept: application/json", "Accept-Encoding: gzip, deflate, br", "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8",
		"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Referer: http://localhost/queue/" + line,
		"X-Forwarded-For: " + v.address, "Cookie: " + v.cookies, "X-Vwr-Ticket: " + v.roomTicket, "X-Queue-Ticket: " + v.lineTicket,
	}
	return []byte(strings.Join(header, "\r\n") + "\r\n\r\n")
}

// pollPlatform is a running platform with signed-in visitors who wait.
type pollPlatform struct {
	platform *harness.Platform
	visitors []visitor
}

// newPollPlatform opens two events. It signs visitors in, who then wait in both tiers.
func newPollPlatform(ctx context.Context, p *harness.Platform) (*pollPlatform, error) {
	w := &pollPlatform{platform: p, visitors: make([]visitor, users)}
	for _, event := range []string{room, line} {
		putEvent(ctx, p, event, 0, nil, sectionBody("A", 25, 20))
	}
	p.Operator().MustCall(ctx, http.MethodPost, "/api/v1/admin/vwr/activate/"+room, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	defer api.Close()
	return w, runConcurrently(ctx, 16, users, func(ctx context.Context, i int) (err error) {
		w.visitors[i], err = w.signInAndWait(ctx, api, i)
		return err
	})
}

// signInAndWait signs the i-th visitor in, who then joins the waiting room and the line.
func (w *pollPlatform) signInAndWait(ctx context.Context, api *crowd.API, i int) (visitor, error) {
	browser := api.NewSession()
	if err := browser.DevLogin(ctx, fmt.Sprintf("bench-%04d", i)); err != nil {
		return visitor{}, err
	}
	var assigned struct{ Ticket string }
	var place struct{ Status, Ticket string }
	err := errors.Join(
		postJSON(ctx, browser, crowd.StepAssign, "/vwr-api/vwr/assign/"+room, &assigned),
		postJSON(ctx, browser, crowd.StepQueueJoin, "/api/v1/queue/check/"+line, &place),
	)
	if err == nil && place.Status != "queued" {
		err = fmt.Errorf("visitor %d does not wait in the line: %q", i, place.Status)
	}
	return visitor{
		address: browser.Address(), cookies: browser.Cookies(),
		roomTicket: assigned.Ticket, lineTicket: place.Ticket,
	}, err
}

func postJSON(ctx context.Context, browser *crowd.Session, step crowd.Step, path string, into any) error {
	answer, err := browser.Call(ctx, step, http.MethodPost, path, map[string]any{}, nil)
	if err != nil {
		return err
	}
	if !answer.OK() {
		return fmt.Errorf("%s: %d: %s", path, answer.Status, answer.Body)
	}
	return json.Unmarshal(answer.Body, into)
}

const (
	availabilityRow = "availability_50k"
	hall            = "bench-hall" // an event of 50,000 seats, whose line admits everybody
	// tokenUse is how long a visitor uses an entry token. A token is valid for a minute, and pages
	// renew it after half of that time.
	tokenUse = 30 * time.Second
	// maxMapBytes is the most bytes of the response with all free seats, including its headers.
	maxMapBytes = 7000
)

// runAvailability measures the row of admitted visitors who poll which seats are free.
func runAvailability(ctx context.Context, opts Options, _ []string, addResult func(benchtest.Result)) error {
	return harness.Run(ctx, saleServices, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d visitors sign in and are admitted", users)
		h := &hallVisitors{pollPlatform: &pollPlatform{platform: p}}
		if err := h.openAndAdmit(ctx); err != nil {
			return err
		}
		r, err := h.measure(ctx, opts.Rounds)
		if err == nil {
			addResult(r)
		}
		return err
	})
}

// hallVisitors are admitted visitors who poll which seats of the event bench-hall are free.
type hallVisitors struct {
	*pollPlatform

	inside []admittedUser
	tokens []string
	signed time.Time // when the tokens were signed
	etag   string
}

// openAndAdmit opens the hall, marks a random half of its seats as sold, and admits the visitors.
func (h *hallVisitors) openAndAdmit(ctx context.Context) error {
	putEvent(ctx, h.platform, hall, 2*users, nil, sectionBody("A", 250, 100), sectionBody("B", 250, 100))
	db := h.platform.DB(platform.Ticket)
	_, err := db.Exec(ctx, `
		UPDATE seats SET status = 'SOLD', reservation_id = gen_random_uuid() WHERE event_id = $1 AND random() < 0.5`, hall)
	if err != nil {
		return fmt.Errorf("sell seats: %w", err)
	}
	h.inside, err = admitUsers(ctx, h.platform, hall, users)
	return err
}

// requests returns one request per visitor. It first renews entry tokens older than tokenUse.
func (h *hallVisitors) requests() [][]byte {
	if time.Since(h.signed) > tokenUse {
		h.signed, h.tokens = time.Now(), make([]string, len(h.inside))
		for i := range h.inside {
			h.tokens[i] = h.inside[i].newEntryToken(h.platform, hall)
		}
	}
	requests := make([][]byte, len(h.inside))
	for i := range requests {
		requests[i] = h.request(i)
	}
	return requests
}

func (h *hallVisitors) request(i int) []byte {
	v := h.inside[i].visitor
	v.cookies += "; urr-entry-token=" + h.tokens[i]
	header := "X-Queue-Entry-Token: " + h.tokens[i] + "\r\n"
	if h.etag != "" {
		header += "If-None-Match: " + h.etag + "\r\n"
	}
	return []byte(strings.TrimSuffix(string(v.request("/api/v1/seats/"+hall+"/availability")), "\r\n") + header + "\r\n")
}

// measure measures polls of seats that do not change. The part map_bytes is the size of the first
// response, which has all seats.
func (h *hallVisitors) measure(ctx context.Context, n int) (r benchtest.Result, err error) {
	h.requests()
	full, size, err := h.sendToGateway(ctx, h.request(0))
	if err != nil {
		return r, err
	}
	h.etag = full.Header.Get("ETag")
	unchanged, _, err := h.sendToGateway(ctx, h.request(0))
	if err != nil {
		return r, err
	}
	if full.Status != http.StatusOK || h.etag == "" || unchanged.Status != http.StatusNotModified {
		return r, fmt.Errorf("the map: %d with ETag %q: %s; unchanged: %d", full.Status, h.etag, full.Body, unchanged.Status)
	}
	return h.measureBesideBare(ctx, n, benchtest.Result{
		Name: availabilityRow, What: "GET /api/v1/seats/{event}/availability of 50,000 seats, unchanged",
		Must: 0.7, Aim: 0.8, Limits: map[string]float64{"map_bytes": maxMapBytes},
	}, unchanged, pollRound{
		connections: 32, services: []string{platform.Gateway, platform.Ticket}, requests: h.requests,
		parts: map[string]float64{"map_bytes": float64(size)},
	})
}
