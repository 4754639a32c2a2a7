package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/benchtest"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// overloadUsers is the number of users with slots. Fewer users would exceed the limit per user.
	overloadUsers = 400
	// bestConns is the number of connections at which the rate is best; more do not increase it.
	bestConns = 64
	// overloadConns is more than the requests in progress under overload: 1,800, if 6,000 per second
	// take up to 300 ms each. With fewer connections, not all requests could be sent.
	overloadConns = 3000
	// offeredTimes is the rate of requests under overload, divided by the best rate. It is well above
	// 2, so that it is at least 2 even if the best rate varies between rounds.
	offeredTimes = 2.3
	// warmUp begins each phase and is not measured. The others are the measured times of the phases.
	warmUp, bestFor, overloadFor = 500 * time.Millisecond, time.Second, 1700 * time.Millisecond
	overloadEvent                = "bench-overload"
	overloadSections             = 3
	overloadRows                 = 100
)

// runOverload measures holds that the ticket service grants under overload, through the gateway.
func runOverload(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	return harness.Run(ctx, saleServices, func(ctx context.Context, p *harness.Platform) error {
		o, err := newOverload(ctx, p)
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, addResult, benchRow{result: benchtest.Result{
			Name: "overload_goodput", What: "POST /api/v1/seats/reserve while more than twice the best rate is offered", Besides: "the best rate, 64 connections",
			Unit: "µs per hold", Must: 0.85, Aim: 0.95, Limits: map[string]float64{"best of offered": 0.5, "other responses": 0},
		}, subject: o.measureOverload, baseline: o.measureBest})
	})
}

// overloadRow measures holds under overload in one event. Each request is for another seat.
type overloadRow struct {
	platform  *harness.Platform
	ticket    *pgxpool.Pool
	generator generator
	buyers    []admittedUser
	heads     []string     // request headers of the buyers, with their current tokens
	seat      atomic.Int64 // the number of the next seat
	bestRate  float64      // holds per second; 0 before it was measured
}

func newOverload(ctx context.Context, p *harness.Platform) (*overloadRow, error) {
	sections := make([]map[string]any, overloadSections)
	for i := range sections {
		sections[i] = sectionBody(overloadSection(i), overloadRows, seatsOfRow)
	}
	putEvent(ctx, p, overloadEvent, 2*overloadUsers, map[string]any{"maxPerUser": 1000, "slotSeconds": 7200}, sections...)
	buyers, err := admitUsers(ctx, p, overloadEvent, overloadUsers)
	if err != nil {
		return nil, err
	}
	o := &overloadRow{platform: p, ticket: p.DB(platform.Ticket), buyers: buyers}
	o.generator = generator{addr: p.Service(platform.Gateway).Addr(0), next: o.nextRequest}
	return o, nil
}

func overloadSection(i int) string { return string(rune('A' + i)) }

// renewTokens gives every buyer a new entry token for the slot, valid for a minute, as the queue
// service does at each poll.
func (o *overloadRow) renewTokens() {
	o.heads = o.heads[:0]
	for _, b := range o.buyers {
		o.heads = append(o.heads, strings.Join([]string{
			"POST /api/v1/seats/reserve HTTP/1.1", "Host: localhost", "Connection: keep-alive",
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
			"Accept: application/json", "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8", "Content-Type: application/json",
			"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Origin: http://localhost",
			"X-Forwarded-For: " + b.address, "Cookie: " + b.cookies, "X-Queue-Entry-Token: " + b.newEntryToken(o.platform, overloadEvent), "Content-Length: ",
		}, "\r\n"))
	}
}

// nextRequest returns the request by which the next buyer holds the next seat.
func (o *overloadRow) nextRequest() []byte {
	n := int(o.seat.Add(1) - 1)
	row := n / seatsOfRow
	body := fmt.Sprintf(`{"eventId":%q,"seatIds":["%s-%d-%d"]}`, overloadEvent, overloadSection(row/overloadRows), row%overloadRows+1, n%seatsOfRow+1)
	return fmt.Appendf(nil, "%s%d\r\n\r\n%s", o.heads[n%len(o.heads)], len(body), body)
}

// releaseSeats ends all holds, so that all seats are free when a phase of the measurement begins.
func (o *overloadRow) releaseSeats(ctx context.Context) error {
	if err := awaitPublished(ctx, o.ticket); err != nil {
		return err
	}
	for _, sql := range []string{
		`TRUNCATE reservations CASCADE`,
		`UPDATE seats SET status = 'FREE', reservation_id = NULL, held_until = NULL WHERE status <> 'FREE'`,
		`VACUUM ANALYZE seats`,
	} {
		if _, err := o.ticket.Exec(ctx, sql); err != nil {
			return err
		}
	}
	o.seat.Store(0)
	o.renewTokens()
	return nil
}

// measureBest measures the best rate: each connection sends when its last request is answered.
func (o *overloadRow) measureBest(ctx context.Context) (float64, map[string]float64, error) {
	f, err := o.runPhase(ctx, bestConns, bestFor, func(until time.Time) ([]timedResponse, error) { return o.generator.saturate(ctx, until) })
	o.bestRate = f.granted
	return 1e6 / f.granted, nil, err
}

// measureOverload measures the rate of granted holds under overload, at offeredTimes the best rate.
func (o *overloadRow) measureOverload(ctx context.Context) (float64, map[string]float64, error) {
	if o.bestRate == 0 {
		if _, _, err := o.measureBest(ctx); err != nil {
			return 0, nil, err
		}
	}
	f, err := o.runPhase(ctx, overloadConns, overloadFor, func(until time.Time) ([]timedResponse, error) {
		return o.generator.sendAtRate(ctx, offeredTimes*o.bestRate, until)
	})
	return 1e6 / f.granted, map[string]float64{
		"best of offered": o.bestRate / f.offered, "other responses": float64(f.other), "p99 ms": float64(f.p99.Milliseconds()),
	}, err
}

// runPhase frees the seats, has load send requests for warmUp and then for the time length, and
// returns the figures of the latter time.
func (o *overloadRow) runPhase(ctx context.Context, connections int, length time.Duration, load func(until time.Time) ([]timedResponse, error)) (f loadFigures, err error) {
	if err := o.releaseSeats(ctx); err != nil {
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
	f = summarizeLoad(samples, from, until)
	if f.granted == 0 {
		err = fmt.Errorf("no request of %d was granted", len(samples))
	}
	return f, err
}
