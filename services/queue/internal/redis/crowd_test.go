package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

const (
	minSilentWaiters = 160
	threshold        = 12
	crowdTime        = 900 // the longest simulation, in seconds
)

// visitor is one visitor of the crowd. Times are steps.
type visitor struct {
	name             string
	arrives          int // step
	hideAt, hideFor  int // when and how long the page is suspended
	vanishAt         int // when the visitor leaves for good; 0 = never
	stay             int // how many steps the visitor stays inside
	position         int64
	next             int // step of the next poll
	inside, done     bool
	left             int // the step at which the visitor leaves the slot
	score            int64
	ticket           *line.Ticket
	tickets          []*line.Ticket // all tickets ever issued, since a page may keep them
	again            int            // how often a ticket gave another turn
	entry            *line.EntryClaims
	entitled         bool
	silent, lastSeen int // the longest silence so far, and the last contact; steps
}

func (v *visitor) away(step int, down bool) bool {
	return v.done || step < v.arrives || step < v.next || down ||
		v.vanishAt > 0 && step >= v.vanishAt || step >= v.hideAt && step < v.hideAt+v.hideFor
}

// crowd is a line with its visitors and its replicas, each with a cache of its own.
type crowd struct {
	*fixture

	rng      *rand.Rand
	stores   []*redis.Store // of each replica
	replicas []line.KnownState
	visitors []*visitor
	step     int
	down     bool
	limit    int64
	losses   int       // how often Redis has lost data
	opens    time.Time // when the sale and its presale open; zero for none
	presale  time.Time
	problems []string
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	t.Helper()
	c := &crowd{fixture: setup(t, threshold), rng: rand.New(rand.NewPCG(seed, 1)), limit: threshold} //nolint:gosec // a simulation
	c.replicas = []line.KnownState{c.known, c.known, {}}
	c.stores = []*redis.Store{c.store, c.store, c.store}
	for i := range minSilentWaiters {
		v := &visitor{name: fmt.Sprintf("v-%03d", i), arrives: c.rng.IntN(60), stay: 5 + c.rng.IntN(20), hideAt: crowdTime}
		switch c.rng.IntN(10) {
		case 0:
			v.hideAt, v.hideFor = v.arrives+c.rng.IntN(100), 30+c.rng.IntN(110)
		case 1:
			v.vanishAt = v.arrives + c.rng.IntN(120)
		}
		if i%3 == 0 {
			v.position = int64(i + 1)
		}
		v.entitled = i%4 == 0
		c.visitors = append(c.visitors, v)
	}
	return c
}

// call runs fn as a random replica, which then caches the returned state.
func (c *crowd) call(fn func(s *redis.Store, m line.KnownState) (line.LineState, error)) {
	c.t.Helper()
	i := c.rng.IntN(len(c.replicas))
	c.known = c.replicas[i]
	c.observe(fn(c.stores[i], c.known))
	c.replicas[i] = c.known
	c.advance(time.Duration(c.rng.IntN(3000)) * time.Microsecond)
}

// second simulates one second. Visitors poll every other second, and each replica ticks.
func (c *crowd) second() {
	c.t.Helper()
	var due []*visitor
	for _, v := range c.visitors {
		if !v.away(c.step, c.down) {
			due = append(due, v)
		}
	}
	c.rng.Shuffle(len(due), func(i, k int) { due[i], due[k] = due[k], due[i] })
	for page := range slices.Chunk(due, 40) {
		c.poll(page)
	}
	if !c.down && c.step%5 == 0 {
		c.presentOldTickets(anyTicket(c.rng))
	}
	for range c.replicas {
		c.call(func(store *redis.Store, m line.KnownState) (line.LineState, error) {
			s, _, err := store.Admit(c.ctx(), c.event, m)
			return s, err
		})
	}
	c.step++
	at := c.clock()
	c.advance(at.Truncate(time.Second).Add(time.Second).Sub(at))
	for i := range c.replicas {
		c.replicas[i].Sale = c.reported(c.replicas[i].Sale)
	}
}

func (c *crowd) poll(page []*visitor) {
	c.t.Helper()
	claims := make([]line.PlaceClaim, len(page))
	for i, v := range page {
		claims[i] = line.PlaceClaim{UserID: v.name, Join: v.score == 0 && !v.inside, Ticket: v.ticket, Entry: v.entry, Entitled: c.answerOn(v)}
		if claims[i].Join && v.position > 0 {
			claims[i].Tier1 = line.Tier1{Required: true, Round: c.round, Position: v.position}
		}
	}
	var state line.LineState
	var out []line.ClaimOutcome
	c.call(func(store *redis.Store, m line.KnownState) (line.LineState, error) {
		s, o, err := store.Check(c.ctx(), c.event, m, claims)
		state, out = s, o
		return s, err
	})
	for i, v := range page {
		c.receive(v, out[i], state)
	}
}

// answerOn returns a visitor's entitlement; at random it is unknown.
func (c *crowd) answerOn(v *visitor) line.Entitlement {
	switch {
	case c.presale.IsZero() || c.rng.IntN(5) == 0:
		return line.EntitlementUnknown
	case v.entitled:
		return line.Entitled
	default:
		return line.NotEntitled
	}
}

// receive does what a visitor's page does with an answer.
func (c *crowd) receive(v *visitor, o line.ClaimOutcome, s line.LineState) {
	if v.lastSeen > 0 {
		v.silent = max(v.silent, c.step-v.lastSeen)
	}
	v.lastSeen, v.next = c.step, c.step+1+c.rng.IntN(2)
	switch o.State {
	case line.Inside:
		if !v.inside {
			v.inside, v.left = true, c.step+v.stay
		}
		v.entry, v.ticket = &line.EntryClaims{SlotID: o.SlotID, Epoch: s.Epoch, End: o.End}, nil
		if c.step >= v.left {
			v.done = true
			c.call(func(store *redis.Store, m line.KnownState) (line.LineState, error) {
				s, _, err := store.Release(c.ctx(), c.event, m, v.name, o.SlotID)
				return s, err
			})
		}
	case line.Waiting:
		if v.score > 0 && o.Score > v.score && !v.inside {
			c.problem("%s lost the place, after a silence of %d s at most", v.name, v.silent)
		}
		v.inside, v.score, v.entry = false, o.Score, nil
		v.ticket = &line.Ticket{Score: o.Score, Epoch: s.Epoch, IssuedAt: s.Now}
		v.tickets = append(v.tickets, v.ticket)
	case line.NotInLine: // the page joins again
		if v.score > 0 && !v.inside && v.silent < 140 {
			c.problem("%s waited and is unknown", v.name)
		}
		v.inside, v.score, v.entry, v.ticket, v.next = false, 0, nil, nil, c.step+1
	default:
		c.problem("%s got %d", v.name, o.State)
	}
}

func (c *crowd) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%3d s: ", c.step)+fmt.Sprintf(format, args...))
}

// audit reads the line from Redis and checks what must be true at any time.
func (c *crowd) audit() {
	c.t.Helper()
	now := c.clock().UnixMilli()
	var live *goredis.IntCmd
	var slots *goredis.StringSliceCmd
	sets := map[string]*goredis.StringSliceCmd{}
	_, err := c.client.Pipelined(c.ctx(), func(p goredis.Pipeliner) error {
		live = p.ZCount(c.ctx(), c.key("active"), "("+itoa(now), "+inf")
		slots = p.HKeys(c.ctx(), c.key("slot"))
		for _, name := range []string{"queue", "entitled", "seen", "parked", "parked-seen", "active", "old", "unclaimed"} {
			sets[name] = p.ZRange(c.ctx(), c.key(name), 0, -1)
		}
		return nil
	})
	require.NoError(c.t, err)
	if live.Val() > c.limit {
		c.problem("%d are inside, %d may be", live.Val(), c.limit)
	}
	seen := map[string]string{}
	for _, name := range []string{"queue", "entitled", "parked", "active", "old"} {
		for _, u := range sets[name].Val() {
			if other := seen[u]; other != "" {
				c.problem("%s is in %s and %s", u, other, name)
			}
			seen[u] = name
		}
	}
	requireSameUsers := func(a, b []string, what string) {
		a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
		if !slices.Equal(a, b) {
			c.problem("%s: %v and %v", what, a, b)
		}
	}
	requireSameUsers(slices.Concat(sets["queue"].Val(), sets["entitled"].Val()), sets["seen"].Val(), "waiters and seen")
	requireSameUsers(sets["parked"].Val(), sets["parked-seen"].Val(), "parked and parked-seen")
	requireSameUsers(slots.Val(), slices.Concat(sets["active"].Val(), sets["old"].Val()), "slots, and active and old")
	for _, u := range sets["unclaimed"].Val() {
		if seen[u] != "active" {
			c.problem("%s is unclaimed but not active", u)
		}
	}
}

// scenario is what happens to a crowd, by second.
type scenario struct {
	name string
	at   map[int]func(c *crowd)
}

func scenarios() []scenario {
	return []scenario{
		{"nothing happens", nil},
		{"wipe", map[int]func(*crowd){90: (*crowd).lose}},
		{"wipe that nobody remembers", map[int]func(*crowd){90: func(c *crowd) {
			c.lose()
			for i := range c.replicas {
				c.replicas[i] = line.KnownState{}
			}
		}, 95: func(c *crowd) { c.readSettings() }}},
		{"failover", map[int]func(*crowd){90: (*crowd).failover, 150: (*crowd).failover}},
		{"gateways down for 100 s", map[int]func(*crowd){80: func(c *crowd) { c.down = true }, 180: func(c *crowd) { c.down = false }}},
		{"threshold lowered", map[int]func(*crowd){70: func(c *crowd) {
			low := int64(threshold / 2)
			c.known = c.replicas[0]
			c.apply(line.Settings{Threshold: &low})
			c.replicas[0] = c.known
		}, 130: func(c *crowd) { c.limit = threshold / 2 }}},
		{"a sale opens, sells out and gets tickets back", map[int]func(*crowd){
			0:   func(c *crowd) { c.opens = c.clock().Add(80 * time.Second); c.setSale(line.Scheduled) },
			40:  (*crowd).lose,
			80:  (*crowd).requireNobodyWasIn,
			120: func(c *crowd) { c.setSale(line.SoldOut) },
			160: func(c *crowd) { c.setSale(line.OnSale) },
		}},
		{"a presale, with losses of data", map[int]func(*crowd){
			0: func(c *crowd) {
				c.presale, c.opens = c.clock().Add(50*time.Second), c.clock().Add(130*time.Second)
				c.setSale(line.Scheduled)
			},
			20: (*crowd).failover, 50: (*crowd).requireNobodyWasIn, 70: (*crowd).lose,
			130: (*crowd).requireOnlyEntitledWereIn, 170: (*crowd).failover,
		}},
		{"ticket is away for 60 s", map[int]func(*crowd){
			0:  func(c *crowd) { c.opens = c.clock(); c.setSale(line.OnSale) },
			40: func(c *crowd) { c.away = true }, 60: (*crowd).failover,
			100: func(c *crowd) { c.away = false },
		}},
		{"restart 4 s behind", rollback(4)},
		{"restart 40 s behind", rollback(40)},
	}
}

func TestSimulatedOutages(t *testing.T) {
	testkit.SkipIfShort(t, "long tests with faults")
	for i, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			redistest.SkipShare(t, i)
			c := newCrowd(t, uint64(i+1)) //nolint:gosec // a small number
			c.play(sc)
			c.presentAllTickets()
			require.Empty(t, c.problems)
		})
	}
}

// play runs the scenario until every visitor has had a turn.
func (c *crowd) play(sc scenario) {
	c.t.Helper()
	for c.step < crowdTime && slices.ContainsFunc(c.visitors, func(v *visitor) bool { return !v.done && v.vanishAt == 0 }) {
		if act := sc.at[c.step]; act != nil {
			act(c)
		}
		c.second()
		if c.step%3 == 0 {
			c.audit()
		}
	}
	require.Empty(c.t, admissiontest.FindOvertaken(c.admissions()))
	require.Less(c.t, c.step, crowdTime, "all visitors who stay are admitted")
}

// setSale sets the status of the sale at all replicas.
func (c *crowd) setSale(status line.SaleStatus) {
	for i := range c.replicas {
		c.replicas[i].Sale = line.Sale{Status: status, OpensAt: c.opens.UnixMilli(), At: c.clock().UnixMilli()}
		if !c.presale.IsZero() {
			c.replicas[i].Sale.PresaleOpensAt = c.presale.UnixMilli()
		}
	}
}

// requireOnlyEntitledWereIn checks that somebody was admitted, and only entitled visitors.
func (c *crowd) requireOnlyEntitledWereIn() {
	c.t.Helper()
	entitled := map[string]bool{}
	for _, v := range c.visitors {
		entitled[v.name] = v.entitled
	}
	admitted := c.admitted()
	require.NotEmpty(c.t, admitted)
	for _, user := range admitted {
		require.True(c.t, entitled[user], user)
	}
}

// requireNobodyWasIn checks that nobody has been admitted.
func (c *crowd) requireNobodyWasIn() {
	c.t.Helper()
	require.Empty(c.t, c.admissions())
}

func (c *crowd) lose() {
	c.t.Helper()
	c.wipe()
	c.losses++
}

// rollback replaces the data in Redis by data that is some seconds older.
func rollback(seconds int) map[int]func(*crowd) {
	var restore func()
	return map[int]func(*crowd){90: func(c *crowd) { restore = c.snapshot() }, 90 + seconds: func(c *crowd) { restore(); c.losses++ }}
}

func (c *crowd) readSettings() {
	limit := int64(threshold)
	c.known = c.replicas[0]
	c.apply(line.Settings{Threshold: &limit})
	c.replicas[0] = c.known
}
