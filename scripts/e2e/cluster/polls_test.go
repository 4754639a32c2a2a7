package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/crowd"
)

const (
	pollers = 8
	// pollEvery is the interval of one poller: all together send 20 requests per second.
	pollEvery = 400 * time.Millisecond
	// pollLimit is the longest time that a poller waits for a response.
	pollLimit = 3 * time.Second
)

// polls are steady requests that the queue service answers from Redis. Signed-in users join the
// line and ask for their place, alternately.
type polls struct {
	event string

	mu       sync.Mutex
	sent     int
	failures []failure
}

// failure is a request without a successful response.
type failure struct {
	began time.Time
	text  string
}

// startPolls opens a sale without a waiting room, signs the users in, and polls until the test ends
// or until stop is called.
func (w *world) startPolls(t *testing.T, event string) (p *polls, stop func()) {
	t.Helper()
	api := crowd.NewAPI("http://"+w.gateway(t), crowd.NewRecorder())
	p = &polls{event: event}
	require.NoError(t, p.open(t.Context(), api))
	users := make([]*crowd.Session, pollers)
	for i := range users {
		users[i] = api.NewSession()
		require.NoError(t, users[i].DevLogin(t.Context(), fmt.Sprintf("%s-%d", event, i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, user := range users {
		running.Go(func() { p.run(ctx, user) })
	}
	stop = func() { cancel(); running.Wait(); api.Close() }
	t.Cleanup(stop)
	p.wait(t, 2*pollers)
	return p, stop
}

// open creates an event that is on sale.
func (p *polls) open(ctx context.Context, api *crowd.API) error {
	operator := api.NewSession()
	if err := operator.DevLogin(ctx, "cluster-operator", "admin"); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	sale := map[string]any{
		"title": p.event, "artist": "The Crowd", "venue": "Hall 1", "startsAt": now.AddDate(0, 1, 0),
		"salesOpenAt": now.Add(-time.Minute), "salesCloseAt": now.Add(24 * time.Hour), "seating": "ASSIGNED",
		"currency": "KRW", "maxPerUser": 2, "threshold": pollers / 2,
		"sections": []map[string]any{{"section": "A", "price": 55000, "rows": 1, "seatsPerRow": 10}},
	}
	return succeed(operator.Call(ctx, crowd.StepLogin, http.MethodPut, "/api/v1/admin/events/"+p.event, sale, nil))
}

func (p *polls) run(ctx context.Context, user *crowd.Session) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for joins := true; ; joins = !joins {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.ask(ctx, user, joins)
		}
	}
}

func (p *polls) ask(ctx context.Context, user *crowd.Session, joins bool) {
	limited, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	began := time.Now()
	var err error
	if joins {
		err = succeed(user.Call(limited, crowd.StepQueueJoin, http.MethodPost, "/api/v1/queue/check/"+p.event, map[string]any{}, nil))
	} else {
		err = succeed(user.Call(limited, crowd.StepQueuePoll, http.MethodGet, "/api/v1/queue/status/"+p.event, nil, nil))
	}
	if ctx.Err() != nil {
		return // stop interrupted the request
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if err != nil {
		p.failures = append(p.failures, failure{began, err.Error()})
	}
}

// wait waits for n more requests.
func (p *polls) wait(t *testing.T, n int) {
	t.Helper()
	before, _ := p.results()
	testkit.Until(t, func() bool { sent, _ := p.results(); return sent >= before+n }, "requests are answered")
}

// results returns the number of requests and the failed ones.
func (p *polls) results() (sent int, failures []failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, slices.Clone(p.failures)
}

// succeed turns a response other than 2xx into an error.
func succeed(answer *crowd.Answer, err error) error {
	if err == nil && !answer.OK() {
		return errors.New(http.StatusText(answer.Status) + ": " + answer.Problem().Code)
	}
	return err
}
