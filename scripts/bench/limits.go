package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/token"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// limitGateways is the number of gateways, and limitConns the number of connections to each.
	limitGateways, limitConns = 3, 16
	// limitVisitors is the number of visitors in a round, each with its own address. Each sends
	// limitMutations requests, of which the first has no visitor id.
	limitVisitors, limitMutations = 2000, 6
	// flooders is the number of visitors who flood the gateways after their allowances are used up,
	// and floodRequests is the number of requests in the whole flood.
	flooders, floodRequests = 20, 6000
	// exhausting is the number of requests by which a flooder uses up the allowance before the flood.
	exhausting = 120
	// floodTries is the most attempts to send a flood of which every request is refused.
	floodTries = 5
)

// runLimits measures the row "limits": changing requests of many visitors at three gateways.
func runLimits(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	o := saleServices
	o.Replicas = map[string]int{platform.Gateway: limitGateways}
	// With this rate, no allowance grows during the flood.
	o.Env = map[string][]string{platform.Gateway: {"LIMIT_VISITOR_RATE=0.0001"}}
	return harness.Run(ctx, o, func(ctx context.Context, p *harness.Platform) error {
		keys, err := token.ParseKeySet(config.Secret(p.Secrets().Visitor))
		if err != nil {
			return err
		}
		putEvent(ctx, p, room, 0, nil, sectionBody("A", 25, 20))
		p.Operator().MustCall(ctx, http.MethodPost, "/api/v1/admin/vwr/activate/"+room, map[string]any{"batch": 1, "intervalSeconds": 3600}, nil)
		r := &limitRow{platform: p, ids: keys.Derive(claims.LabelAnon)}
		return measureRows(ctx, opts, wanted, addResult, benchRow{result: benchtest.Result{
			Name: "limits", What: "2,000 addresses, six mutations each, three gateways", Unit: "Redis commands per allowed mutation",
			Limits: map[string]float64{"per_allowed": 0.3, "per_refused": 0},
		}, subject: r.measure})
	})
}

// limitRow sends changing requests of visitors whom the gateways do not know.
type limitRow struct {
	platform *harness.Platform
	ids      token.MACSet
	visitors atomic.Int64 // number of visitors so far
}

// limitedVisitor has two requests from its own address. The first one, assign, has no visitor id.
type limitedVisitor struct{ assign, reserve []byte }

func (r *limitRow) newVisitor() limitedVisitor {
	n := r.visitors.Add(1)
	address := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
	post := func(path, cookie, body string) []byte {
		return []byte(strings.Join([]string{
			"POST " + path + " HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Accept: application/json",
			"X-Forwarded-For: " + address, "Cookie: " + cookie, "Content-Length: " + strconv.Itoa(len(body)),
		}, "\r\n") + "\r\n\r\n" + body)
	}
	id := claims.NewAnon(time.Now()).Seal(r.ids)
	return limitedVisitor{
		assign:  post("/vwr-api/vwr/assign/"+room, "", ""),
		reserve: post("/api/v1/seats/reserve", "urr-anon="+id, `{"eventId":"`+room+`","seatIds":["A-1-1"]}`),
	}
}

// measure returns the Redis commands per allowed request; the part per_refused is that per refused
// one. An allowed request may fail for another reason: here, the visitor still waits in the line.
func (r *limitRow) measure(ctx context.Context) (float64, map[string]float64, error) {
	var requests, exhaust, flood [][]byte
	visitors := make([]limitedVisitor, limitVisitors)
	for i := range visitors {
		visitors[i] = r.newVisitor()
		requests = append(requests, visitors[i].assign)
	}
	for range limitMutations - 1 {
		for _, v := range visitors {
			requests = append(requests, v.reserve)
		}
	}
	for range flooders {
		v := r.newVisitor()
		for range exhausting {
			exhaust = append(exhaust, v.reserve)
		}
		for range floodRequests / flooders {
			flood = append(flood, v.reserve)
		}
	}
	parts, err := r.assignAll(ctx)
	if err != nil {
		return 0, nil, err
	}
	switch refused, err := r.countPer(ctx, "allowed", requests, parts); {
	case err != nil:
		return 0, nil, err
	case refused > 0:
		return 0, nil, fmt.Errorf("%d of %d requests were refused", refused, len(requests))
	}
	// While the queue service is paused, its scripts are not counted. The flood does not reach it.
	queue := r.platform.Service(platform.Queue)
	queue.Pause(0)
	defer queue.Resume(0)
	for range floodTries {
		if refused, err := r.refuseAll(ctx, exhaust, flood, parts); err != nil || refused {
			return parts["per_allowed"], parts, err
		}
	}
	return 0, nil, errors.New("some requests of the floods were allowed")
}

// assignAll gives new visitors their positions. It returns the CPU time of the gateways per visitor.
func (r *limitRow) assignAll(ctx context.Context) (parts map[string]float64, err error) {
	assigns := make([][]byte, limitVisitors)
	for i := range assigns {
		assigns[i] = r.newVisitor().assign
	}
	meter := cpuMeter(processesOf(r.platform, platform.Gateway).cpuTimes)
	return meter.perRequest(ctx, len(assigns), func() error {
		refused, err := r.send(ctx, assigns)
		if refused > 0 {
			err = fmt.Errorf("%d of %d visitors got no position", refused, len(assigns))
		}
		return err
	})
}

// refuseAll uses up the allowances, then sends the flood. It reports whether the whole flood was
// refused: a gateway that cannot reach Redis in time uses its own allowances.
func (r *limitRow) refuseAll(ctx context.Context, exhaust, flood [][]byte, parts map[string]float64) (bool, error) {
	for refused := 0; refused < len(exhaust); {
		var err error
		if refused, err = r.send(ctx, exhaust); err != nil {
			return false, err
		}
	}
	refused, err := r.countPer(ctx, "refused", flood, parts)
	return refused == len(flood), err
}

// countPer sends requests and returns how many are refused. In parts it sets, for requests of this
// kind, the Redis scripts and the CPU time of Redis per request.
func (r *limitRow) countPer(ctx context.Context, kind string, requests [][]byte, parts map[string]float64) (refused int, err error) {
	before, err := r.redis(ctx)
	if err != nil {
		return 0, err
	}
	if refused, err = r.send(ctx, requests); err != nil {
		return 0, err
	}
	if !loop.Sleep(ctx, 300*time.Millisecond) { // the gateways count some requests late
		return 0, ctx.Err()
	}
	after, err := r.redis(ctx)
	parts["per_"+kind] = float64(after.scripts-before.scripts) / float64(len(requests))
	parts["redis_µs_per_"+kind] = float64((after.cpu - before.cpu).Microseconds()) / float64(len(requests))
	return refused, err
}

// redisUse is the number of scripts that Redis has run so far, and the CPU time that it has used.
type redisUse struct {
	scripts int
	cpu     time.Duration
}

func (r *limitRow) redis(ctx context.Context) (u redisUse, err error) {
	info, err := r.platform.Redis().Info(ctx, "commandstats").Result()
	if err != nil {
		return u, fmt.Errorf("read Redis's commands: %w", err)
	}
	for _, command := range []string{"evalsha", "eval"} {
		_, rest, found := strings.Cut(info, "cmdstat_"+command+":calls=")
		if !found {
			continue
		}
		text, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(text)
		if err != nil {
			return u, fmt.Errorf("read Redis's commands: %w", err)
		}
		u.scripts += n
	}
	u.cpu, err = redisCPU(ctx, r.platform.Redis())
	return u, err
}

// send sends requests in order, each to the next gateway, and returns how many were refused.
func (r *limitRow) send(ctx context.Context, requests [][]byte) (int, error) {
	var next, refused atomic.Int64
	err := runConcurrently(ctx, limitGateways*limitConns, limitGateways*limitConns, func(ctx context.Context, i int) (err error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.platform.Service(platform.Gateway).Addr(i%limitGateways))
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		c := &rawConn{Conn: nc, in: bufio.NewReaderSize(nc, 2048)}
		defer func() { err = errors.Join(err, c.Close()) }()
		for n := next.Add(1) - 1; n < int64(len(requests)); n = next.Add(1) - 1 {
			got, err := c.exchange(requests[n])
			switch {
			case err != nil:
				return err
			case got.status == http.StatusTooManyRequests:
				refused.Add(1)
			case got.status >= http.StatusInternalServerError:
				return fmt.Errorf("%.60q: status %d", requests[n], got.status)
			}
		}
		return ctx.Err()
	})
	return int(refused.Load()), err
}
