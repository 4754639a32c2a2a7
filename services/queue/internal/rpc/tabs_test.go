package rpc_test

import (
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// somebody is a signed-in visitor with pages open in several tabs and on several devices. The
// pages behave as those in services/gateway/web: the line's page joins and polls; once it is the
// visitor's turn, it leads to the shop, which sends heartbeats.
type somebody struct {
	*fixture

	user  string
	tabs  []*tab
	slots []string // the visitor's slots so far, in order
}

// device is a browser: its tabs share the queue ticket and the cookie.
type device struct {
	ticket string
	cookie *queuev1.EntryClaims
}

// tab is a page in one tab. Only this tab has token.
type tab struct {
	device *device
	every  time.Duration // the time between its requests, which its browser may lengthen
	due    time.Time
	token  *queuev1.EntryClaims
	page   string // "line", "shop", or "over": the shop when the turn has ended
	join   bool   // the next poll joins
}

const (
	shown  = 5 * time.Second
	hidden = time.Minute // browsers let the timers of a hidden tab run once a minute
)

// open opens a tab with the line's page, on a new device if d is nil.
func (v *somebody) open(d *device, every time.Duration) *tab {
	if d == nil {
		d = &device{}
	}
	b := &tab{device: d, every: every, due: v.clock(), page: "line", join: true}
	v.tabs = append(v.tabs, b)
	return b
}

// request returns what the tab's browser sends. The gateway drops expired tokens.
func (v *somebody) request(b *tab) *queuev1.LineItem {
	it := v.item(v.user)
	it.Ticket = b.device.ticket
	for _, e := range []*queuev1.EntryClaims{b.token, b.device.cookie} {
		if it.GetEntry() == nil && e.GetExpiresAt() > v.clock().UnixMilli() {
			it.Entry = e
		}
	}
	return it
}

// keep stores the ticket and token of an answer in the browser, and records the visitor's slot.
func (v *somebody) keep(b *tab, p *queuev1.Place) {
	v.t.Helper()
	if p.GetTicket() != "" {
		b.device.ticket = p.GetTicket()
	}
	if p.GetEntryToken() == "" {
		return
	}
	c := v.claims(p.GetEntryToken())
	b.token, b.device.cookie = c, c
	if !slices.Contains(v.slots, c.GetSlotId()) {
		v.slots = append(v.slots, c.GetSlotId())
	}
	require.Equal(v.t, v.slots[len(v.slots)-1], c.GetSlotId(), "one slot, the same in every tab")
}

// poll is one request of the tab's page.
func (v *somebody) poll(b *tab) *queuev1.Place {
	v.t.Helper()
	call := v.status
	switch {
	case b.page == "line" && b.join:
		call = v.check
	case b.page == "shop":
		call = v.heartbeat
	}
	p := call(v.request(b)).GetPlace()
	require.NotNil(v.t, p)
	v.keep(b, p)
	switch {
	case p.GetStatus() == "active":
		b.page = "shop"
	case b.page == "shop":
		b.page = "over"
	case b.page == "line":
		b.join = p.GetStatus() == "none"
	}
	return p
}

// reload loads the tab's page again. After the end of the turn, the shop leads back to the line.
func (v *somebody) reload(b *tab) {
	v.t.Helper()
	if b.page == "line" {
		b.join = true
		return
	}
	b.page = "line"
	b.join = v.poll(b).GetStatus() == "none"
}

// act polls in every tab whose next request is due; if reloads is set, it reloads the page before.
func (v *somebody) act(reloads bool) {
	v.t.Helper()
	for _, b := range v.tabs {
		if b.due.After(v.clock()) {
			continue
		}
		b.due = v.clock().Add(b.every)
		if reloads {
			v.reload(b)
		}
		v.poll(b)
	}
}

// place returns the name of the set that has the visitor, and fails if two sets do.
func (v *somebody) place() (found string) {
	v.t.Helper()
	names := []string{"queue", "parked", "active", "old"}
	scores := make([]*goredis.FloatCmd, len(names))
	_, _ = v.client.Pipelined(v.ctx(), func(p goredis.Pipeliner) error {
		for i, name := range names {
			scores[i] = p.ZScore(v.ctx(), v.key(name), v.user)
		}
		return nil
	})
	for i, name := range names {
		if scores[i].Err() == nil {
			require.Empty(v.t, found, "one place: also in %s", name)
			found = name
		} else {
			require.ErrorIs(v.t, scores[i].Err(), goredis.Nil)
		}
	}
	return found
}

// others are visitors with one tab each who always want the only slot: each stays inside for some
// seconds and joins again.
type others struct {
	*fixture

	users   []string
	entries map[string]*queuev1.EntryClaims
	until   map[string]time.Time
}

func (o *others) act() {
	o.t.Helper()
	for _, u := range o.users {
		if end, in := o.until[u]; in && !end.After(o.clock()) {
			o.leave(u, o.entries[u])
			delete(o.until, u)
		}
	}
	req := &queuev1.LineRequest{}
	for _, u := range o.users {
		req.Items = append(req.Items, o.item(u))
	}
	res, err := o.visitors.Check(o.ctx(), req)
	require.NoError(o.t, err)
	for i, r := range res.GetResults() {
		u := o.users[i]
		if _, in := o.until[u]; !in && r.GetPlace().GetStatus() == "active" {
			o.entries[u], o.until[u] = o.claims(r.GetPlace().GetEntryToken()), o.clock().Add(20*time.Second)
		}
	}
}

// admitted lists who was admitted, in order.
func (f *fixture) admitted() (users []string) {
	f.t.Helper()
	for _, a := range admissiontest.Read(f.t, f.client, f.key("admitted")) {
		users = append(users, a.User)
	}
	return users
}

// A visitor with several tabs and devices, hidden or reloaded at each step, has one place and one
// slot, and gets in in the right order although others always want the slot. Leaving in one tab
// ends the slot in all tabs; the next turn is behind all who wait.
func TestTabsAndDevicesShareOnePlace(t *testing.T) {
	for name, c := range map[string]struct {
		tabs    []time.Duration // the first two are on one device
		reloads bool
	}{
		"two tabs":                          {tabs: []time.Duration{shown, shown}},
		"two tabs that are reloaded":        {tabs: []time.Duration{shown, shown}, reloads: true},
		"a hidden tab":                      {tabs: []time.Duration{hidden}},
		"two devices, one hidden":           {tabs: []time.Duration{shown, hidden, hidden}, reloads: true},
		"two devices with hidden tabs only": {tabs: []time.Duration{hidden, hidden, hidden}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			competitors := &others{fixture: f, users: []string{"in", "ahead"}, entries: map[string]*queuev1.EntryClaims{}, until: map[string]time.Time{}}
			competitors.act()
			f.advance(time.Millisecond)
			v := &somebody{fixture: f, user: "v"}
			first := v.open(nil, c.tabs[0])
			for i, every := range c.tabs[1:] {
				d := first.device
				if i > 0 {
					d = nil
				}
				f.advance(700 * time.Millisecond)
				v.open(d, every)
			}
			v.act(false)
			f.advance(time.Millisecond)
			competitors.users = append(competitors.users, "behind", "last")
			onTime := slices.Contains(c.tabs, shown)

			for turn := 1; turn <= 2; turn++ {
				v.untilInside(competitors, c.reloads, turn)
				if onTime {
					require.Equal(t, []string{"in", "ahead", "v"}, f.admitted()[:3], "in turn")
				}
				// Every tab follows into the shop.
				for range 2 * int(hidden/shown) {
					v.step(competitors, c.reloads)
					require.Equal(t, "active", v.place())
				}
				require.Len(t, v.slots, turn)
				for _, b := range v.tabs {
					require.Equal(t, "shop", b.page)
				}
				before := len(f.admitted())

				v.poll(v.tabs[0]) // so that the token has not expired
				f.leave(v.user, v.request(v.tabs[0]).GetEntry())
				require.Empty(t, v.place())
				for _, b := range v.tabs {
					require.Equal(t, "none", v.poll(b).GetStatus(), "the turn is over in every tab")
					require.Equal(t, "over", b.page)
				}
				require.Empty(t, v.place(), "no tab joins by itself")
				f.tick()
				competitors.act()
				f.advance(time.Millisecond)
				v.reload(v.tabs[len(v.tabs)-1])
				for _, b := range v.tabs {
					v.reload(b)
					p := v.poll(b)
					require.Equal(t, []any{"queued", int64(4)}, []any{p.GetStatus(), p.GetPosition()}, "behind who waits")
				}
				require.Equal(t, "queue", v.place())
				require.Equal(t, before, len(f.admitted())-1, "the slot went to the next")
			}
			require.Equal(t, 2, countOf(f.announced.users(), v.user), "announced once per slot")
		})
	}
}

// A waiting visitor leaves on one device. The line does not tell the other device why its place is
// gone. Its page joins again as after a loss, and gets a place at the end.
func TestLeavingOnOneDevice(t *testing.T) {
	f := setup(t)
	f.open(1)
	competitors := &others{fixture: f, users: []string{"in", "ahead"}, entries: map[string]*queuev1.EntryClaims{}, until: map[string]time.Time{}}
	competitors.act()
	f.advance(time.Millisecond)
	v := &somebody{fixture: f, user: "v"}
	phone, laptop := v.open(nil, shown), v.open(nil, shown)
	v.act(false)
	f.advance(time.Millisecond)
	competitors.users = append(competitors.users, "behind")
	competitors.act()
	for _, b := range v.tabs {
		p := v.poll(b)
		require.Equal(t, []any{"queued", int64(2)}, []any{p.GetStatus(), p.GetPosition()}, "one place")
	}

	f.leave(v.user, v.request(phone).GetEntry())
	require.Empty(t, v.place())
	f.advance(shown)
	require.Equal(t, "none", v.poll(laptop).GetStatus())
	require.Empty(t, v.place(), "to ask is not to join")
	p := v.poll(laptop)
	require.Equal(t, []any{"queued", int64(3)}, []any{p.GetStatus(), p.GetPosition()}, "at the end, in spite of its ticket")
	require.Equal(t, "queue", v.place())
}

// step lets five seconds pass, in which all visitors act.
func (v *somebody) step(competitors *others, reloads bool) {
	v.t.Helper()
	v.advance(shown)
	competitors.act()
	v.worker.Tick(v.ctx()) // so that no free slot is found by chance
	v.act(reloads)
}

// untilInside runs steps until the visitor has had this many turns.
func (v *somebody) untilInside(competitors *others, reloads bool, turn int) {
	v.t.Helper()
	const enough = 5 * time.Minute // the others' turns, and for hidden tabs the slot that is kept for them
	for range int(enough / shown) {
		v.step(competitors, reloads)
		v.place()
		if len(v.slots) == turn {
			return
		}
	}
	require.Fail(v.t, "the visitor never gets in", "admitted: %v", v.admitted())
}

func countOf(list []string, wanted string) (n int) {
	for _, s := range list {
		if s == wanted {
			n++
		}
	}
	return n
}
