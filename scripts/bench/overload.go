package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/rounds"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// overloadUsers hold slots; with fewer, each would exceed the gateway's limit per user.
	overloadUsers = 400
	// bestConns are the connections at which the best rate is measured; more of them do not increase it.
	bestConns = 64
	// overloadConns are more than the requests in progress while the gateway refuses what is too much.
	overloadConns = 800
	// offeredTimes is the rate that is offered, in best rates. It is above 2, so that the rate stays
	// above twice that of the round's baseline.
	offeredTimes = 2.3
	// Each phase begins with a part that is not measured.
	warmUp, bestFor, overloadFor = 500 * time.Millisecond, time.Second, 1700 * time.Millisecond
	overloadEvent                = "bench-overload"
	overloadSections             = 3
	overloadRows                 = 100
)

// overloadGroup is the row of holds under overload, through the gateway.
func overloadGroup() group {
	return group{rows: []string{"overload_goodput"}, run: runOverload}
}

func runOverload(ctx context.Context, opts Options, _ []string, done func(rounds.Result)) error {
	services := harness.Options{Production: true, Services: []string{platform.Gateway, platform.VWR, platform.Queue, platform.Ticket}}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		o, err := newOverload(ctx, p)
		if err != nil {
			return err
		}
		r, err := compare(ctx, opts.Rounds, rounds.Result{
			Name: "overload_goodput", What: "POST /api/v1/seats/reserve while more than twice the best rate is offered", Besides: "the best rate, 64 connections",
			Unit: "µs per hold", Must: 0.85, Aim: 0.95, Limits: map[string]float64{"best of offered": 0.5, "other responses": 0},
		}, o.overloaded, o.best)
		if err != nil {
			return fmt.Errorf("overload_goodput: %w", err)
		}
		done(r)
		return nil
	})
}

// overload measures the row on one event. Each request is for a seat of its own.
type overload struct {
	platform  *harness.Platform
	ticket    *pgxpool.Pool
	generator generator
	buyers    []overloadBuyer
	heads     []string     // of the buyers' requests, with the present tokens
	seat      atomic.Int64 // the next one
	bestRate  float64      // holds per second; 0 before it was measured
}

// overloadBuyer is a user with a slot.
type overloadBuyer struct {
	address, cookies string
	entry            claims.Entry
}

func newOverload(ctx context.Context, p *harness.Platform) (*overload, error) {
	o := &overload{platform: p, ticket: p.DB(platform.Ticket), buyers: make([]overloadBuyer, overloadUsers)} //nolint:contextcheck // the pool lives as long as the platform
	now := time.Now().UTC().Truncate(time.Second)
	sections := make([]map[string]any, overloadSections)
	for i := range sections {
		sections[i] = map[string]any{"section": overloadSection(i), "price": 55000, "rows": overloadRows, "seatsPerRow": seatsOfRow}
	}
	p.Operator().Must(ctx, http.MethodPut, "/api/v1/admin/events/"+overloadEvent, map[string]any{
		"title": "Bench", "artist": "The Crowd", "venue": "Hall 1", "startsAt": now.Add(30 * 24 * time.Hour), "salesOpenAt": now.Add(-time.Minute),
		"salesCloseAt": now.Add(24 * time.Hour), "seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 1000, "slotSeconds": 7200,
		"threshold": 2 * overloadUsers, "sections": sections,
	}, nil)
	addr := p.Service(platform.Gateway).Addr(0)
	api := crowd.NewAPI("http://"+addr, crowd.NewRecorder())
	defer api.Close()
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range o.buyers {
		group.Go(func() (err error) {
			o.buyers[i], err = enterShop(inner, api, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	o.generator = generator{addr: addr, next: o.next}
	return o, nil
}

func overloadSection(i int) string { return string(rune('A' + i)) }

// enterShop signs a user in, and waits for a slot.
func enterShop(ctx context.Context, api *crowd.API, i int) (b overloadBuyer, err error) {
	browser := api.NewSession()
	if err := browser.DevLogin(ctx, fmt.Sprintf("overload-%04d", i)); err != nil {
		return b, err
	}
	var place struct{ Status, EntryToken string }
	for place.Status != "active" {
		if err := post(ctx, browser, crowd.StepQueueJoin, "/api/v1/queue/check/"+overloadEvent, &place); err != nil {
			return b, err
		}
		if place.Status != "active" && !loop.Sleep(ctx, time.Second) {
			return b, ctx.Err()
		}
	}
	b.address, b.cookies = browser.Address(), browser.Cookies()
	if _, _, err := jwt.NewParser().ParseUnverified(place.EntryToken, &b.entry); err != nil {
		return b, fmt.Errorf("read the entry token: %w", err)
	}
	return b, nil
}

// renew gives every buyer a new token for the slot, as queue does at each poll; tokens live a
// minute.
func (o *overload) renew() {
	o.heads = o.heads[:0]
	for _, b := range o.buyers {
		token := o.platform.EntryToken(overloadEvent, b.entry.UserID, b.entry.SlotID, b.entry.Epoch, time.UnixMilli(b.entry.End))
		o.heads = append(o.heads, strings.Join([]string{
			"POST /api/v1/seats/reserve HTTP/1.1", "Host: localhost", "Connection: keep-alive",
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
			"Accept: application/json", "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8", "Content-Type: application/json",
			"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Origin: http://localhost",
			"X-Forwarded-For: " + b.address, "Cookie: " + b.cookies, "X-Queue-Entry-Token: " + token, "Content-Length: ",
		}, "\r\n"))
	}
}

// next is a request for the next seat, by the next buyer.
func (o *overload) next() []byte {
	n := int(o.seat.Add(1) - 1)
	row := n / seatsOfRow
	body := fmt.Sprintf(`{"eventId":%q,"seatIds":["%s-%d-%d"]}`, overloadEvent, overloadSection(row/overloadRows), row%overloadRows+1, n%seatsOfRow+1)
	return fmt.Appendf(nil, "%s%d\r\n\r\n%s", o.heads[n%len(o.heads)], len(body), body)
}

// free ends all holds, so that each phase finds the same tables.
func (o *overload) free(ctx context.Context) error {
	if err := awaitState(ctx, o.ticket, "an empty outbox", `SELECT NOT EXISTS (SELECT 1 FROM outbox)`); err != nil {
		return err
	}
	for _, sql := range []string{
		`TRUNCATE reservation_seats, reservations, tickets`,
		`UPDATE seats SET status = 'FREE', reservation_id = NULL, held_until = NULL WHERE status <> 'FREE'`,
		`VACUUM ANALYZE seats`,
	} {
		if _, err := o.ticket.Exec(ctx, sql); err != nil {
			return err
		}
	}
	o.seat.Store(0)
	o.renew()
	return nil
}

// best measures the best rate: each connection sends its next request when the last is answered.
func (o *overload) best(ctx context.Context) (float64, map[string]float64, error) {
	f, err := o.phase(ctx, bestConns, bestFor, func(until time.Time) ([]sample, error) { return o.generator.saturate(ctx, until) })
	o.bestRate = f.granted
	return 1e6 / f.granted, nil, err
}

// overloaded measures what is granted of a rate that is offered whatever becomes of the requests.
func (o *overload) overloaded(ctx context.Context) (float64, map[string]float64, error) {
	if o.bestRate == 0 {
		if _, _, err := o.best(ctx); err != nil {
			return 0, nil, err
		}
	}
	f, err := o.phase(ctx, overloadConns, overloadFor, func(until time.Time) ([]sample, error) {
		return o.generator.offer(ctx, offeredTimes*o.bestRate, until)
	})
	return 1e6 / f.granted, map[string]float64{
		"best of offered": o.bestRate / f.offered, "other responses": float64(f.other), "p99 ms": float64(f.p99.Milliseconds()),
	}, err
}

// phase runs load until its end, and measures all but the beginning.
func (o *overload) phase(ctx context.Context, connections int, length time.Duration, load func(until time.Time) ([]sample, error)) (f figures, err error) {
	if err := o.free(ctx); err != nil {
		return f, fmt.Errorf("free the seats: %w", err)
	}
	if err := o.generator.open(ctx, connections); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, o.generator.close()) }()
	from := time.Now().Add(warmUp)
	until := from.Add(length)
	samples, err := load(until)
	if err == nil && o.seat.Load() > overloadSections*overloadRows*seatsOfRow {
		err = errors.New("the event has too few seats")
	}
	if err != nil {
		return f, err
	}
	f = figuresOf(samples, from, until)
	if f.granted == 0 {
		err = fmt.Errorf("no request of %d was granted", len(samples))
	}
	return f, err
}
