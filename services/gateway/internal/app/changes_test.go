package app_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
)

// A reader whose connections are cut in the middle of SSE events, and sometimes go to another
// gateway, gets the same seat map as a fresh read. No change contradicts the reader's map.
func TestCutReadersEndWithTheMap(t *testing.T) {
	t.Parallel()
	const seeds = 20
	first := newFixture(t)
	h := newHalls(first)
	second := newFixture(t)
	second.ticket.seats = h.get
	var followed [seeds]seatMap
	var failures [seeds]error
	var resets, changes int
	var cuts atomic.Int64
	var running sync.WaitGroup
	addrs := [2]string{}
	for i, w := range []*fixture{first, second} {
		w.gateway.ReadSeatsEvery(100 * time.Millisecond)
		addrs[i], _ = liveServer(t, w)
	}
	for seed := range uint64(seeds) {
		event := fmt.Sprintf("hall-%d", seed)
		first.line(event, epoch, 0)
		second.line(event, epoch, 0)
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible
		proxies := [2]*cutter{}
		for i, addr := range addrs {
			proxies[i] = newCutter(t, addr, rand.New(rand.NewPCG(seed, uint64(i)+2))) //nolint:gosec // reproducible
		}
		who := first.session(event).with("X-Queue-Entry-Token", first.entryToken(event, event))
		running.Go(func() {
			failures[seed] = followed[seed].followThroughCuts(t, h, event, proxies, who, random)
			cuts.Add(proxies[0].cuts.Load() + proxies[1].cuts.Load())
		})
	}
	running.Wait()
	for seed := range uint64(seeds) {
		event, m := fmt.Sprintf("hall-%d", seed), &followed[seed]
		require.NoError(t, failures[seed], "seed %d", seed)
		fresh := &seatMap{}
		who := second.session(event).with("X-Queue-Entry-Token", second.entryToken(event, event))
		testkit.Until(t, func() bool { // a gateway reads each 100 ms
			rec := second.do(http.MethodGet, "/api/v1/seats/"+event+"/availability", "", who)
			require.NoError(t, fresh.apply("reset", strings.Trim(rec.Header().Get("ETag"), `"`), rec.Body.String()))
			now, _ := h.get(event)
			return string(fresh.bits) == string(now.GetBitmap())
		}, "the last change of %s", event)
		require.Equal(t, fresh.bits, m.bits, "seed %d", seed)
		require.Equal(t, fresh.Sections, m.Sections, "seed %d", seed)
		require.Equal(t, fresh.version, m.version, "seed %d", seed)
		resets, changes = resets+m.resets, changes+m.changes
	}
	t.Logf("%d seeds: %d cuts, %d events with all seats, %d with changes", seeds, cuts.Load(), resets, changes)
	require.Greater(t, cuts.Load(), int64(3*seeds))
	require.Greater(t, changes, 10*seeds)
}

// followThroughCuts follows an event's seats through the proxies of two gateways until it has the
// last of 60 changes. Seats change between its connections and at each SSE event.
func (m *seatMap) followThroughCuts(t *testing.T, h *halls, event string, proxies [2]*cutter, who credentials, random *rand.Rand) error {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	changesLeft := 60
	change := func() {
		if changesLeft == 0 {
			return
		}
		h.toggle(event, random.Perm(hallSeats)[:1+random.IntN(12)]...)
		if changesLeft--; changesLeft == 0 {
			proxies[0].calm.Store(true)
			proxies[1].calm.Store(true)
		}
	}
	upToDate := func() bool {
		now, _ := h.get(event)
		return changesLeft == 0 && string(now.GetBitmap()) == string(m.bits)
	}
	atEvent := func() bool {
		change()
		return upToDate()
	}
	for i := 0; !upToDate(); i++ {
		for range random.IntN(4) {
			change()
		}
		if err := m.connect(ctx, proxies[i/3%2].addr+"/api/v1/seats/"+event+"/changes", who, i%2 == 0, atEvent); err != nil {
			return err
		}
	}
	return nil
}

// stream opens a stream of the seat changes of an event.
func (w *fixture) stream(addr, event string, c credentials) *http.Response {
	w.t.Helper()
	ctx, cancel := testkit.Context(w.t)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/api/v1/seats/"+event+"/changes", http.NoBody)
	require.NoError(w.t, err)
	for name, value := range c {
		req.Header.Set(name, value)
	}
	answer, err := openStream(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func neverStop() bool { return false }

// A stream requires an entry token, and ends when the token expires, even if the slot lasts longer.
func TestChangesEndWithTheEntryToken(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	newHalls(w)
	w.gateway.ReadSeatsEvery(20 * time.Millisecond)
	addr, _ := liveServer(t, w)
	require.Equal(t, http.StatusForbidden, w.stream(addr, calm, w.session(alice)).StatusCode)
	buyer := w.buyer(calm)
	w.clock.Advance(59 * time.Second)
	answer := w.stream(addr, calm, buyer)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	m := &seatMap{}
	require.NoError(t, m.read(answer.Body, neverStop))
	require.LessOrEqual(t, m.resets, 1) // none if the seats were not read before the token expired
	require.Equal(t, calm, w.ticket.of("GetAvailability")[0].caller.GetEventId())
}

// A stream of seat changes ends when its session is revoked.
func TestChangesEndWithTheSession(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	h := newHalls(w)
	w.gateway.ReadSeatsEvery(20 * time.Millisecond)
	addr, _ := liveServer(t, w)
	answer := w.stream(addr, calm, w.buyer(calm))
	l := &eventReader{t: t, lines: bufio.NewScanner(answer.Body)}
	name, _, ok := l.event()
	require.True(t, ok)
	require.Equal(t, "reset", name)
	require.Equal(t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/admin/sessions/revoke", `{"userId":"`+alice+`"}`, w.session("op", "admin")).Code)
	h.toggle(calm, 1)
	name, data, ok := l.event()
	require.True(t, ok)
	require.Equal(t, "end", name)
	require.Equal(t, map[string]any{"code": "SESSION_INVALID"}, data)
	_, _, ok = l.event()
	require.False(t, ok)
}

// A shutdown ends the streams of seat changes, so a rolling update does not wait for their readers.
func TestChangesEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	newHalls(w)
	addr, srv := liveServer(t, w)
	answer := w.stream(addr, calm, w.buyer(calm))
	m := &seatMap{}
	require.NoError(t, m.read(answer.Body, func() bool { return m.resets > 0 }))
	ctx, cancel := testkit.Context(t)
	defer cancel()
	require.NoError(t, srv.Shutdown(ctx))
	require.NoError(t, m.read(answer.Body, neverStop))
}

// If an error occurs before a stream begins, the response is a problem document.
func TestChangesOfAnUnknownEvent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	newHalls(w).err = errs.ErrEventNotFound
	var code any
	testkit.Until(t, func() bool {
		code = problemOf(t, w.do(http.MethodGet, "/api/v1/seats/calm/changes", "", w.buyer(calm)))["code"]
		return code != "UNAVAILABLE" // a busy machine may not answer in time
	}, "an answer")
	require.Equal(t, "EVENT_NOT_FOUND", code)
}
