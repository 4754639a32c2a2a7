// Package budget keeps the calls to a provider below the limits of its account. All replicas share
// them: each takes a share of the next moments from the database, and what it does not use is lost.
// While more calls wait than the limits allow, the most urgent goes first.
package budget

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/payment/internal/payment"
)

const (
	// askAgain is the pause after the database did not answer, leastPause the shortest pause while no
	// call is free. The next share is asked for earlyBy before the last one ends.
	askAgain   = 100 * time.Millisecond
	leastPause = 5 * time.Millisecond
	earlyBy    = 50 * time.Millisecond
	// storeTime is the time limit of a statement.
	storeTime = 2 * time.Second
)

var ( //nolint:gochecknoglobals // metrics are registered once per process
	waits = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "urr_payment_provider_wait_seconds", Help: "Time that a call waited until the provider's limits allowed it, by urgency.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
	}, []string{"provider", "urgency"})
	skipped = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_payment_provider_no_turn_total", Help: "Calls that were not sent in time, since more urgent ones used up the provider's limits, by urgency.",
	}, []string{"provider", "urgency"})
	throttled = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_payment_provider_throttled_total", Help: "Calls that the provider refused with status 429, although they were within its limits.",
	}, []string{"provider"})
)

// Limits are the most calls per second: of the account in all, and of each endpoint. 0: no limit.
type Limits struct{ PerSecond, PerEndpoint float64 }

// Share is a number of calls that may be sent: the first after Wait, and each other one Gap after the
// one before. If it is empty, Wait is how long the next moments are taken by others.
type Share struct {
	Calls     int
	Wait, Gap time.Duration
}

// Store keeps what was taken of a provider's limits by all replicas.
type Store interface {
	// TakeShare takes up to n calls of an endpoint, all of them within the next moments.
	TakeShare(ctx context.Context, provider, endpoint string, limits Limits, n int) (Share, error)
	// Slow lowers, for a minute, what may be sent: to one endpoint, or with an empty one in all.
	Slow(ctx context.Context, provider, endpoint string) error
}

// Budget lets calls to one provider pass.
type Budget struct {
	provider string
	limits   Limits
	store    Store
	log      *slog.Logger

	mu     sync.Mutex
	lines  map[string]*line // by endpoint
	served bool             // a goroutine takes shares
	arrive chan struct{}    // wakes it
}

// New returns the budget of a provider.
func New(provider string, limits Limits, store Store, log *slog.Logger) *Budget {
	for u := payment.ForCharge; u <= payment.ForComparison; u++ { // start at 0, so that the first one is an increase
		skipped.WithLabelValues(provider, u.String())
	}
	throttled.WithLabelValues(provider)
	return &Budget{
		provider: provider, limits: limits, store: store, log: log, lines: map[string]*line{}, arrive: make(chan struct{}, 1),
	}
}

// PerEndpoint returns the most calls per second of each endpoint; 0: there is no limit.
func (b *Budget) PerEndpoint() float64 {
	l := b.limits
	if l.PerSecond > 0 && (l.PerEndpoint == 0 || l.PerSecond < l.PerEndpoint) {
		return l.PerSecond
	}
	return l.PerEndpoint
}

// turnKey is the context key of a *turn.
type turnKey struct{}

// turn is a turn that was awaited before its call.
type turn struct {
	endpoint string
	once     sync.Once
}

// Ahead waits at most within for a turn before the call is prepared, and returns the context to send it
// with. Errors: as Await.
func (b *Budget) Ahead(ctx context.Context, endpoint string, within time.Duration) (context.Context, error) {
	waitCtx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := b.wait(waitCtx, endpoint); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, turnKey{}, &turn{endpoint: endpoint}), nil
}

// Await waits until a call to the endpoint may be sent. It waits for half of the time that the context
// leaves, so that the call has the other half. Errors: ErrNoTurn with ErrNotSent.
func (b *Budget) Await(ctx context.Context, endpoint string) error {
	if ahead, ok := ctx.Value(turnKey{}).(*turn); ok && ahead.endpoint == endpoint {
		first := false
		if ahead.once.Do(func() { first = true }); first {
			return nil
		}
	}
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return b.wait(ctx, endpoint)
}

func (b *Budget) wait(ctx context.Context, endpoint string) error {
	if b.PerEndpoint() == 0 {
		return nil
	}
	began, urgency := time.Now(), payment.UrgencyOf(ctx)
	w := b.join(endpoint, urgency) //nolint:contextcheck // what it starts serves all calls
	select {
	case <-w.turn:
	case <-ctx.Done():
		if b.leave(endpoint, w) {
			skipped.WithLabelValues(b.provider, urgency.String()).Inc()
			return errors.Join(payment.ErrNotSent, payment.ErrNoTurn)
		}
	}
	waits.WithLabelValues(b.provider, urgency.String()).Observe(time.Since(began).Seconds())
	return nil
}

// Throttled records that the provider has refused a call as one too many: of the endpoint, or in all.
func (b *Budget) Throttled(ctx context.Context, endpoint string, inAll bool) {
	throttled.WithLabelValues(b.provider).Inc()
	if inAll {
		endpoint = ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	b.log.WarnContext(ctx, "the provider refuses calls: too many", "provider", b.provider, "endpoint", endpoint)
	if err := b.store.Slow(ctx, b.provider, endpoint); err != nil {
		b.log.WarnContext(ctx, "limits not lowered", "provider", b.provider, "error", err)
	}
}

// join adds a waiting call.
func (b *Budget) join(endpoint string, u payment.Urgency) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lines[endpoint]
	if l == nil {
		l = &line{}
		b.lines[endpoint] = l
	}
	l.joined++
	w := &waiter{urgency: u, number: l.joined, turn: make(chan struct{})}
	heap.Push(&l.waiters, w)
	if b.served {
		select {
		case b.arrive <- struct{}{}:
		default:
		}
		return w
	}
	b.served = true
	go b.serve()
	return w
}

// leave removes a call that waits no longer; false: its turn has come.
func (b *Budget) leave(endpoint string, w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.at < 0 {
		return false
	}
	heap.Remove(&b.lines[endpoint].waiters, w.at)
	return true
}

// serve takes shares until no call waits without one.
func (b *Budget) serve() {
	for {
		endpoints := b.short()
		if endpoints == nil {
			return
		}
		pause := askAgain
		for _, endpoint := range endpoints {
			pause = min(pause, b.takeFor(endpoint))
		}
		if pause == 0 {
			continue
		}
		select {
		case <-b.arrive:
		case <-time.After(pause):
		}
	}
}

// short returns the endpoints with calls that wait without a share, the one with the most urgent call
// first. If there are none, the goroutine that serves ends.
func (b *Budget) short() (endpoints []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for endpoint, l := range b.lines {
		if l.missing() > 0 {
			endpoints = append(endpoints, endpoint)
		}
	}
	slices.SortFunc(endpoints, func(x, y string) int { return b.lines[x].waiters[0].compare(b.lines[y].waiters[0]) })
	b.served = len(endpoints) > 0
	return endpoints
}

// takeFor takes a share for the calls that wait for an endpoint, and returns how long to wait before
// the next one; 0: none is missing.
func (b *Budget) takeFor(endpoint string) time.Duration {
	b.mu.Lock()
	l := b.lines[endpoint]
	missing, rests := l.missing(), time.Until(l.restsUntil)
	b.mu.Unlock()
	if missing <= 0 {
		return 0
	}
	if rests > 0 {
		return rests
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	share, err := b.store.TakeShare(ctx, b.provider, endpoint, b.limits, min(missing, most(b.limits)))
	if err != nil {
		b.log.WarnContext(ctx, "no share of the provider's limits", "provider", b.provider, "error", err)
		share = Share{Wait: askAgain}
	}
	b.mu.Lock()
	l.slots += share.Calls
	pause := time.Duration(0)
	if share.Calls < missing {
		pause = max(leastPause, share.Wait+time.Duration(share.Calls)*share.Gap-earlyBy)
		l.restsUntil = time.Now().Add(pause)
	}
	b.mu.Unlock()
	for i := range share.Calls {
		time.AfterFunc(share.Wait+time.Duration(i)*share.Gap, func() { b.pass(l) })
	}
	return pause
}

// most returns the calls of a second, which are the most in a share.
func most(l Limits) int {
	least := math.MaxInt32
	for _, limit := range []float64{l.PerSecond, l.PerEndpoint} {
		if limit > 0 {
			least = min(least, max(1, int(limit)))
		}
	}
	return least
}

// pass gives a turn to the most urgent call that waits. If none waits any more, the turn is lost.
func (b *Budget) pass(l *line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.slots--
	if len(l.waiters) > 0 {
		w, _ := heap.Pop(&l.waiters).(*waiter)
		close(w.turn)
	}
}

// line has the calls that wait for one endpoint.
type line struct {
	waiters    waiters
	joined     int64
	slots      int // turns that are certain to come
	restsUntil time.Time
}

// missing returns how many calls wait without a share.
func (l *line) missing() int { return len(l.waiters) - l.slots }

// waiter is a call that waits. Its turn is closed when it comes; at is then -1.
type waiter struct {
	urgency payment.Urgency
	number  int64
	turn    chan struct{}
	at      int
}

func (w *waiter) compare(other *waiter) int {
	if w.urgency != other.urgency {
		return int(w.urgency - other.urgency)
	}
	return int(w.number - other.number)
}

// waiters is a heap, the most urgent call that has waited longest first.
type waiters []*waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].compare(w[j]) < 0 }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i]; w[i].at, w[j].at = i, j }

func (w *waiters) Push(x any) {
	added, ok := x.(*waiter)
	if !ok {
		panic(fmt.Sprintf("budget: %T is no waiter", x))
	}
	added.at = len(*w)
	*w = append(*w, added)
}

func (w *waiters) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	last.at = -1
	return last
}
