package chaos_test

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

const (
	crowdWorkers = 48
	// pageHeartbeat is the interval at which the pages of admitted visitors send heartbeats.
	pageHeartbeat = 10 * time.Second
	// crowdStep is the resolution of the crowd's schedule.
	crowdStep = 2 * time.Millisecond
)

// lineCrowd polls for thousands of visitors over few connections. A few workers take the visitors
// who are due from one schedule. Each call goes to a random gateway.
type lineCrowd struct {
	l         *lineRun
	event     string
	http      *http.Client
	bases     []string // URLs of the gateways
	heartbeat time.Duration
	onPass    func(v *visitor) // called with the lock held for each new entry token

	mu       sync.Mutex
	stay     func() time.Duration // time inside
	schedule schedule
	all      []*visitor
	problems []string
	calls    int
	failed   int // calls that had to be repeated
}

// newCrowd runs a crowd until the test ends.
func (l *lineRun) newCrowd(stay func() time.Duration) *lineCrowd {
	l.t.Helper()
	c := &lineCrowd{l: l, event: l.event, heartbeat: pageHeartbeat, stay: stay, onPass: func(*visitor) {}, http: pollingClient(crowdWorkers)}
	for i := range lineGateways {
		c.bases = append(c.bases, "http://"+l.Service(platform.Gateway).Addr(i))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	var work sync.WaitGroup
	due := make(chan *visitor)
	work.Go(func() { c.dispatch(ctx, due) })
	for range crowdWorkers {
		work.Go(func() {
			for v := range due {
				c.step(ctx, v)
			}
		})
	}
	l.t.Cleanup(func() {
		cancel()
		work.Wait()
		c.http.CloseIdleConnections()
	})
	return c
}

func pollingClient(connections int) *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: connections},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// arrive adds n visitors, who join one after another, evenly within a duration.
func (c *lineCrowd) arrive(n int, within time.Duration) (arrived []*visitor) {
	c.l.t.Helper()
	now := time.Now()
	for i := range n {
		number := len(c.all) + 1
		user := fmt.Sprintf("visitor-%d", number)
		v := &visitor{user: user, bearer: c.l.SessionToken(user), address: platform.VisitorAddress(uint32(number))} //nolint:gosec // a small number
		arrived = append(arrived, v)
		c.mu.Lock()
		c.all = append(c.all, v)
		c.plan(v, now.Add(within*time.Duration(i)/time.Duration(n)))
		c.mu.Unlock()
	}
	return arrived
}

// leave lets visitors disappear without notice.
func (c *lineCrowd) leave(visitors []*visitor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range visitors {
		v.away = true
	}
}

// comeBack lets visitors poll again, beginning at random times within a duration.
func (c *lineCrowd) comeBack(visitors []*visitor, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, v := range visitors {
		v.away = false
		c.plan(v, now.Add(time.Duration(c.l.below(int(within)))))
	}
}

// dismiss lets up to n admitted visitors leave within a duration.
func (c *lineCrowd) dismiss(n int, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, v := range c.all {
		if v.phase == inside && n > 0 {
			n--
			v.leaveAt = now.Add(time.Duration(c.l.below(int(within))))
			c.plan(v, v.leaveAt)
		}
	}
}

// setStay changes how long visitors stay who are admitted from now on.
func (c *lineCrowd) setStay(stay func() time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stay = stay
}

// withIDs returns the visitors with these user ids.
func (c *lineCrowd) withIDs(users map[string]bool) (found []*visitor) {
	for _, v := range c.all {
		if users[v.user] {
			found = append(found, v)
		}
	}
	return found
}

// pick returns up to n visitors in a phase, at random.
func (c *lineCrowd) pick(p phase, n int) (picked []*visitor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.all {
		at := i + c.l.below(len(c.all)-i)
		c.all[i], c.all[at] = c.all[at], c.all[i]
		if c.all[i].phase == p && len(picked) < n {
			picked = append(picked, c.all[i])
		}
	}
	return picked
}

// count returns the number of visitors in a phase.
func (c *lineCrowd) count(p phase) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.all {
		if v.phase == p {
			n++
		}
	}
	return n
}

func (c *lineCrowd) phaseOf(v *visitor) phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.phase
}

// await waits until at least n visitors are in a phase.
func (c *lineCrowd) await(p phase, n int) {
	c.l.t.Helper()
	testkit.UntilNoError(c.l.t, func() error {
		if got := c.count(p); got < n {
			return fmt.Errorf("%d of %d visitors are in phase %d", got, n, p)
		}
		return nil
	})
}

// state describes the crowd.
func (c *lineCrowd) state() string {
	return fmt.Sprintf("%d wait, %d are inside, %d have left", c.count(joins)+c.count(waits), c.count(inside), c.count(gone))
}

// requireNoProblem fails the test if a visitor lost a slot, or was refused.
func (c *lineCrowd) requireNoProblem() {
	c.l.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l.t.Logf("%d calls of %d visitors, %d repeated", c.calls, len(c.all), c.failed)
	require.Empty(c.l.t, c.problems)
}

// dispatch hands visitors to the workers when they are due.
func (c *lineCrowd) dispatch(ctx context.Context, due chan<- *visitor) {
	defer close(due)
	for tick := time.NewTicker(crowdStep); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case now := <-tick.C:
			for _, v := range c.take(now) {
				due <- v
			}
		}
	}
}

func (c *lineCrowd) take(now time.Time) (due []*visitor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.schedule) > 0 && !c.schedule[0].at.After(now) {
		e, _ := heap.Pop(&c.schedule).(plannedCall)
		if e.v.scheduled && e.at.Equal(e.v.due) { // otherwise the call was rescheduled
			e.v.scheduled, e.v.busy = false, true
			due = append(due, e.v)
		}
	}
	return due
}

// plan schedules the next call of a visitor in place of any planned one. If a call is in flight,
// its end schedules the next one.
func (c *lineCrowd) plan(v *visitor, at time.Time) {
	if v.busy || v.away || v.phase == gone {
		return
	}
	v.due, v.scheduled = at, true
	heap.Push(&c.schedule, plannedCall{at, v})
}

// step makes the next call of a visitor.
func (c *lineCrowd) step(ctx context.Context, v *visitor) {
	c.mu.Lock()
	if v.away {
		v.busy = false
		c.mu.Unlock()
		return
	}
	ask := v.next(c.event, time.Now())
	c.mu.Unlock()
	got := c.send(ctx, ask)
	c.mu.Lock()
	defer c.mu.Unlock()
	v.busy = false
	if ctx.Err() != nil {
		return
	}
	c.calls++
	c.plan(v, time.Now().Add(c.receive(v, ask, got)))
}

func (c *lineCrowd) send(ctx context.Context, ask call) reply {
	req, err := http.NewRequestWithContext(ctx, ask.method, c.bases[c.l.below(len(c.bases))]+ask.path, http.NoBody)
	if err != nil {
		return reply{err: err}
	}
	req.Header = ask.header
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, retryAfter: seconds(resp.Header.Get("Retry-After")), body: text, err: err}
}

// receive handles an answer as a page does, and returns the pause until its next call.
func (c *lineCrowd) receive(v *visitor, ask call, got reply) time.Duration {
	if got.temporary() {
		c.failed++
		return c.spread(v.backoff(got.retryAfter))
	}
	v.failures, v.answered = 0, time.Now()
	if got.status == http.StatusNoContent { // the visitor has left
		v.phase, v.slot = gone, nil
		return 0
	}
	p, err := parsePlace(got.body)
	if got.status != http.StatusOK || err != nil {
		c.problem(fmt.Sprintf("%s %s of %s: %d %s", ask.method, ask.path, v.user, got.status, got.body))
		v.phase = gone
		return 0
	}
	if p.Ticket != "" {
		v.ticket = p.Ticket
	}
	if p.Status == "active" {
		return c.admit(v, p)
	}
	if v.phase == inside {
		c.problem(v.evict())
	}
	if p.Status == "none" {
		v.phase = joins
		return 0
	}
	v.phase = waits
	return c.spread(time.Duration(min(60, max(1, p.NextPoll)) * float64(time.Second)))
}

// admit handles the answer that a visitor has a slot.
func (c *lineCrowd) admit(v *visitor, p placeAnswer) time.Duration {
	if p.EntryToken != "" && p.EntryToken != v.entry {
		fresh, problem := v.enter(p.EntryToken)
		c.problem(problem)
		if fresh {
			v.leaveAt = time.Now().Add(c.stay())
		}
		c.onPass(v)
	}
	v.phase = inside
	return max(0, min(c.spread(c.heartbeat), time.Until(v.leaveAt)))
}

// spread varies a pause by 10 %, as pages do.
func (c *lineCrowd) spread(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(c.l.below(int(d/5)+1))
}

// maxProblems is how many problems are kept; the first ones tell the cause.
const maxProblems = 20

func (c *lineCrowd) problem(what string) {
	if what != "" && len(c.problems) < maxProblems {
		c.problems = append(c.problems, time.Now().Format("15:04:05.000 ")+what)
	}
}

// between returns a function that returns random durations within bounds.
func (l *lineRun) between(shortest, longest time.Duration) func() time.Duration {
	return func() time.Duration { return shortest + time.Duration(l.below(int(longest-shortest)+1)) }
}

// plannedCall is a visitor's next call.
type plannedCall struct {
	at time.Time
	v  *visitor
}

// schedule is a heap of planned calls, the next one first.
type schedule []plannedCall

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

func (s *schedule) Push(x any) {
	e, _ := x.(plannedCall)
	*s = append(*s, e)
}

func (s *schedule) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
