package line_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

var full = flag.Bool("full", false, "the long form of the crowd: make chaos")

// The times of the simulated presale, in seconds.
const (
	joinUntil    = 8 // until then most visitors have joined
	presaleAt    = 20
	ticketAway   = 35 // the ticket service is away until ticketBack
	ticketBack   = 65
	redisLost    = 80
	secondJoins  = 120 // the last visitors join
	generalAt    = 160
	crowdEnds    = 400
	stayInside   = 3
	pollsPerCall = 250
)

// presaleVisitor is a simulated visitor, whose page polls at the advised interval.
type presaleVisitor struct {
	user           string
	entitled       bool
	joins, next    int // seconds
	joined, inside bool
	enteredAt      int
	done           bool
	ticket         string
}

// presaleCrowd is a simulated sale with a presale: its visitors, and three replicas.
type presaleCrowd struct {
	*testEnv

	ticket   *fakeTicket
	replicas []*replica
	visitors []*presaleVisitor
	byUser   map[string]*presaleVisitor
	rng      *rand.Rand
	second   int
	problems []string
}

// oldTicketReader reads sales like a replica of an older release, which does not know PRESALE.
type oldTicketReader struct{ *fakeTicket }

func (o oldTicketReader) Sales(ctx context.Context, ids []string) (map[string]line.SaleReport, time.Duration, error) {
	found, missing, err := o.fakeTicket.Sales(ctx, ids)
	for id, report := range found {
		if report.Status == line.Presale {
			report.Status = line.UnknownSale
			found[id] = report
		}
	}
	return found, missing, err
}

func newPresaleCrowd(t *testing.T, n int) *presaleCrowd {
	t.Helper()
	w := newTestEnv(t)
	c := &presaleCrowd{testEnv: w, ticket: &fakeTicket{}, byUser: map[string]*presaleVisitor{}, rng: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a simulation
	var entitled []string
	for i := range n {
		v := &presaleVisitor{user: fmt.Sprintf("v-%04d", i), entitled: i%10 == 0, joins: c.rng.IntN(joinUntil)}
		switch c.rng.IntN(10) {
		case 0:
			v.joins = ticketAway + c.rng.IntN(ticketBack-ticketAway)
		case 1:
			v.joins = secondJoins
		}
		if v.entitled {
			entitled = append(entitled, v.user)
		}
		v.next = v.joins
		c.visitors, c.byUser[v.user] = append(c.visitors, v), v
	}
	c.ticket.setEntitled(entitled...)
	c.ticket.threshold = int64(max(n/400, 2)) // too few for all of the entitled
	c.report(line.Scheduled)
	c.replicas = []*replica{c.opened(c.ticket), c.replicaAsking(c.ticket), c.replicaOf(w.store(), c.ticket, oldTicketReader{c.ticket})}
	return c
}

// report makes the sale have this status. It opens at presaleAt and generalAt.
func (c *presaleCrowd) report(status line.SaleStatus) {
	start := c.clock.Now().Add(-time.Duration(c.second) * time.Second).Truncate(time.Second)
	c.ticket.setPresale(c.event, status, start.Add(presaleAt*time.Second), start.Add(generalAt*time.Second))
}

func (c *presaleCrowd) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%d s: ", c.second)+fmt.Sprintf(format, args...))
}

// faults causes what happens in the current second, such as a fault.
func (c *presaleCrowd) faults() {
	switch c.second {
	case presaleAt:
		c.report(line.Presale)
	case ticketAway:
		c.ticket.setError(errs.ErrUnavailable)
	case ticketBack:
		c.ticket.setError(nil)
	case redisLost:
		require.NoError(c.t, c.client.Del(c.t.Context(), redistest.Keys(c.t, c.client, "{"+c.event+"}:*")...).Err())
	case redisLost + 5:
		c.replicas[0] = c.replicaAsking(c.ticket) // a replica that has just started knows nothing
	case generalAt:
		c.report(line.OnSale)
	case generalAt + 5:
		c.ticket.setThreshold(c.event, 1_000_000)
	}
}

// step simulates one second.
func (c *presaleCrowd) step() {
	c.t.Helper()
	c.faults()
	var due []*presaleVisitor
	for _, v := range c.visitors {
		if !v.done && v.next <= c.second {
			due = append(due, v)
		}
	}
	c.rng.Shuffle(len(due), func(i, k int) { due[i], due[k] = due[k], due[i] })
	for page := range slices.Chunk(due, pollsPerCall) {
		r := c.replicas[c.rng.IntN(len(c.replicas))]
		c.call(r.service.Check, page, false)
		c.call(r.service.Status, page, true)
	}
	c.clock.Advance(time.Second)
	for _, r := range c.replicas {
		r.service.RefreshSales(c.t.Context())
		r.worker.RefreshSettings(c.t.Context())
		r.worker.AskEntitlements(c.t.Context())
		r.worker.Tick(c.t.Context())
	}
	c.second++
	if c.second < generalAt {
		c.auditSlots()
	}
}

// call sends the requests of visitors in the page: of those who have joined, or of the others.
func (c *presaleCrowd) call(do func(context.Context, []line.PlaceRequest) []line.PlaceAnswer, page []*presaleVisitor, joined bool) {
	c.t.Helper()
	page = slices.DeleteFunc(slices.Clone(page), func(v *presaleVisitor) bool { return v.joined != joined || v.done || v.next > c.second })
	if len(page) == 0 {
		return
	}
	reqs := make([]line.PlaceRequest, len(page))
	for i, v := range page {
		reqs[i] = line.PlaceRequest{EventID: c.event, Visitor: line.Visitor{UserID: v.user}, Ticket: v.ticket}
	}
	for i, a := range do(c.t.Context(), reqs) {
		v := page[i]
		require.NoError(c.t, a.Err)
		v.next = c.second + int(a.Place.NextPoll)
		c.receive(v, a.Place)
	}
}

// receive does what a visitor's page does with an answer.
func (c *presaleCrowd) receive(v *presaleVisitor, p line.Place) {
	c.t.Helper()
	switch p.Status {
	case line.StatusActive:
		if !v.inside {
			v.inside, v.enteredAt, v.ticket = true, c.second, ""
		}
		v.next = c.second + 1
		if c.second >= v.enteredAt+stayInside {
			v.done = true
			require.NoError(c.t, c.replicas[1].service.Leave(c.t.Context(), c.event, v.user, &line.EntryClaims{SlotID: slotOf(c.t, c.testEnv, v.user)}))
		}
	case line.StatusQueued:
		v.joined, v.ticket = true, p.Ticket
		if p.Entitled && !v.entitled {
			c.problem("%s counts as entitled", v.user)
		}
	default:
		if v.joined && !v.inside {
			c.problem("%s has lost the place", v.user)
		}
		v.done = v.inside // Redis lost the slot after the visitor's turn
		v.joined = false
	}
}

// auditSlots checks that every slot holder is entitled, and that the ticket service has said so.
func (c *presaleCrowd) auditSlots() {
	c.t.Helper()
	inside, err := c.client.ZRange(c.t.Context(), "{"+c.event+"}:active", 0, -1).Result()
	require.NoError(c.t, err)
	for _, user := range inside {
		if !c.byUser[user].entitled {
			c.problem("%s has a slot in the presale", user)
		}
		if c.byUser[user].joins >= ticketAway && c.second < ticketBack {
			c.problem("%s has a slot, and ticket has not answered", user)
		}
	}
}

// admissions returns who was admitted. Its stream is kept when the line's data is lost.
func (c *presaleCrowd) admissions() []admissiontest.Admission {
	c.t.Helper()
	return admissiontest.Read(c.t, c.client, "{"+c.event+"}:admitted")
}

// requireOrder checks that the visitors who waited for the general sale were admitted in the order
// in which they had joined.
func (c *presaleCrowd) requireOrder(before map[string]int64, all []admissiontest.Admission) {
	c.t.Helper()
	for _, a := range all {
		if score, known := before[a.User]; known && a.Score != score {
			c.problem("%s had the place %d and entered with %d", a.User, score, a.Score)
		}
	}
	require.Empty(c.t, admissiontest.FindOvertaken(all))
}

// places returns the score of every visitor who waits or is parked.
func (c *presaleCrowd) places() map[string]int64 {
	c.t.Helper()
	all := map[string]int64{}
	for _, set := range []string{"queue", "entitled", "parked"} {
		members, err := c.client.ZRangeWithScores(c.t.Context(), "{"+c.event+"}:"+set, 0, -1).Result()
		require.NoError(c.t, err)
		for _, m := range members {
			all[memberOf(m)] = int64(m.Score)
		}
	}
	return all
}

// lastEntitled returns the entitled visitor who joined last.
func (c *presaleCrowd) lastEntitled() string {
	last := c.visitors[0]
	for _, v := range c.visitors {
		if v.entitled && v.joins > last.joins {
			last = v
		}
	}
	return last.user
}

func memberOf(m goredis.Z) string { return fmt.Sprint(m.Member) }

// A tenth of the visitors is entitled; only these get slots in the presale, even while the ticket
// service is away, Redis loses data, or a replica knows no presales. Then all enter in order.
func TestPresaleCrowd(t *testing.T) {
	testkit.SkipIfShort(t, "long tests with faults")
	size := 600
	if *full {
		size = 5000
	}
	c := newPresaleCrowd(t, size)
	var first, last map[string]int64
	var duringPresale []admissiontest.Admission
	for c.second < crowdEnds && slices.ContainsFunc(c.visitors, func(v *presaleVisitor) bool { return !v.done }) {
		c.step()
		switch c.second { // checks after the last tick before an event
		case presaleAt - 1:
			require.Empty(t, c.admissions())
			first = c.places()
		case redisLost:
			c.requireOrder(first, c.admissions())
		case generalAt - 1:
			duringPresale, last = c.admissions(), c.places()
		}
	}
	require.Empty(t, c.problems)
	require.Less(t, c.second, crowdEnds, "all have entered")
	require.NotEmpty(t, duringPresale)
	require.Contains(t, slices.Collect(maps.Keys(last)), c.lastEntitled(), "some of the entitled enter in the general sale")
	for user, score := range first {
		if now, waits := last[user]; waits && now != score {
			c.problem("%s had the place %d, and then %d", user, score, now)
		}
	}
	c.requireOrder(last, c.admissions())
	require.Empty(t, c.problems)
}
