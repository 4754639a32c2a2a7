package seats_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/seats"
	"urr.guru/services/gateway/internal/sse"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// hall is an event whose seats the tests change.
type hall struct {
	mu      sync.Mutex
	bitmap  []byte
	price   int64
	failure error
	reads   int
}

// jsonPadding makes the JSON of all seats longer than that of a few changes.
var jsonPadding = strings.Repeat("x", 500)

func (h *hall) read(_ context.Context, _ string, reader *commonv1.Caller) (seats.State, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	if h.failure != nil || reader.GetUserId() == "" {
		return seats.State{}, errors.Join(h.failure)
	}
	m := &ticketv1.Availability{
		Bitmap: append([]byte(nil), h.bitmap...), Seats: int64(8 * len(h.bitmap)), Sections: []*ticketv1.Section{{Section: "A", Price: h.price}},
	}
	for _, b := range h.bitmap {
		m.Sections[0].Free += int64(b & 1)
	}
	version := fmt.Sprintf("%x-%d", h.bitmap, h.price)
	return seats.State{Version: version, Seats: m, JSON: []byte(`{"all":"` + version + jsonPadding + `"}`)}, nil
}

func (h *hall) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *hall) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reads
}

// user returns a reader of event "e" whose entry token was checked before.
func user(name string) *commonv1.Caller { return &commonv1.Caller{UserId: name, EventId: "e"} }

func listen(t *testing.T, hub *seats.Hub, name, version string) *seats.Reader {
	t.Helper()
	r, err := hub.Listen("e", user(name), version)
	require.NoError(t, err)
	require.NoError(t, r.Wait(t.Context()))
	return r
}

// take returns the SSE event that a reader is sent now, "" for none.
func take(t *testing.T, r *seats.Reader) string {
	t.Helper()
	frame, changed, err := r.Take()
	require.NoError(t, err)
	require.NotNil(t, changed)
	if frame == nil {
		return ""
	}
	return frame.String()
}

func tick() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestReadersGetWhatTheyMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{0xff, 0xff}}
		hub := seats.NewHub(h.read)
		first, slow := listen(t, hub, "a", ""), listen(t, hub, "b", "unknown")
		require.Contains(t, take(t, first), "event: reset\nid: ffff-0\ndata: {\"all\"")
		require.Contains(t, take(t, slow), "event: reset\n", "of an unknown version")
		require.Empty(t, take(t, first))

		_, changed, err := first.Take()
		require.NoError(t, err)
		h.set(func() { h.bitmap = []byte{0x7f, 0xfe} })
		tick()
		<-changed
		require.Equal(t, "id: 7ffe-0\ndata: {\"seq\":2,\"taken\":[0,15],\"freed\":[],\"sections\":[{\"section\":\"A\",\"free\":1}]}\n\n", take(t, first))
		h.set(func() { h.bitmap = []byte{0xff, 0xfc} })
		tick()
		require.Contains(t, take(t, first), `"taken":[14],"freed":[0],"sections":[]`)
		require.Contains(t, take(t, slow), `"taken":[14,15],"freed":[],`, "what a slow reader has missed, in one")
		h.set(func() { h.bitmap = []byte{0xff, 0xff} })
		tick()
		require.Empty(t, take(t, listen(t, hub, "c", "ffff-0")), "the seats are as they were in that version")
		require.Contains(t, take(t, listen(t, hub, "d", "7ffe-0")), `"taken":[],"freed":[0,15]`)

		h.set(func() { h.price = 5 })
		tick()
		require.Contains(t, take(t, first), "event: reset\nid: ffff-5", "no change of seats says a price")
		h.set(func() { h.bitmap = []byte{0xff} })
		tick()
		require.Contains(t, take(t, first), "event: reset\nid: ff-5", "another map")
		require.NoError(t, hub.Close(t.Context()))
	})
}

// All seats are sent if that is shorter than the changes. So no frame is longer than all seats.
func TestManyChangesAreAllSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: make([]byte, 100)}
		hub := seats.NewHub(h.read)
		r := listen(t, hub, "a", "")
		take(t, r)
		h.set(func() {
			for i := range h.bitmap {
				h.bitmap[i] = 0xff
			}
		})
		tick()
		require.Contains(t, take(t, r), "event: reset\n")
		require.NoError(t, hub.Close(t.Context()))
	})
}

// The number of earlier states is limited. A reader with an even older version gets all seats.
func TestThePastIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: make([]byte, 1)}
		hub := seats.NewHub(h.read)
		r := listen(t, hub, "a", "")
		take(t, r)
		for i := range 241 {
			h.set(func() { h.bitmap[0], h.price = byte(i+1), 0 })
			tick()
			take(t, r)
		}
		require.Contains(t, take(t, listen(t, hub, "b", "01-0")), `"seq":242`)
		require.Contains(t, take(t, listen(t, hub, "c", "00-0")), "event: reset\n")
		require.NoError(t, hub.Close(t.Context()))
	})
}

// There is one read at a time for all readers of an event, and none without readers.
func TestOneReadForAllReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{1}}
		hub := seats.NewHub(h.read)
		var all []*seats.Reader
		for i := range 1000 {
			all = append(all, listen(t, hub, strconv.Itoa(i), ""))
		}
		time.Sleep(10*time.Second + 250*time.Millisecond)
		require.Equal(t, 21, h.count())
		for _, r := range all {
			r.Leave()
			r.Leave()
		}
		time.Sleep(time.Minute)
		require.Equal(t, 21, h.count())
		require.NoError(t, hub.Close(t.Context()))
	})
}

// A reader who connects again gets the changes since then, even if it was the only reader.
func TestTheOnlyReaderConnectsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{0xff}}
		hub := seats.NewHub(h.read)
		r := listen(t, hub, "a", "")
		take(t, r)
		for range 3 { // the times without readers are not added up
			r.Leave()
			time.Sleep(time.Minute)
			r = listen(t, hub, "a", "ff-0")
			require.Empty(t, take(t, r))
		}
		r.Leave()
		h.set(func() { h.bitmap = []byte{0x7f} })
		reads := h.count()
		time.Sleep(119 * time.Second)
		require.Equal(t, reads, h.count(), "nobody reads")
		r = listen(t, hub, "a", "ff-0")
		require.Contains(t, take(t, r), `"taken":[0],"freed":[]`)
		r.Leave()
		time.Sleep(2*time.Minute + time.Second)
		r = listen(t, hub, "a", "ff-0")
		require.Contains(t, take(t, r), "event: reset\n", "forgotten")
		require.NoError(t, hub.Close(t.Context()))
	})
}

func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{1}}
		hub := seats.NewHub(h.read)
		for range 4 {
			listen(t, hub, "a", "")
		}
		_, err := hub.Listen("e", user("a"), "")
		require.ErrorIs(t, err, errs.ErrRateLimited, "of one user")
		var last *seats.Reader
		for i := range 5000 - 4 {
			last = listen(t, hub, strconv.Itoa(i), "")
		}
		_, err = hub.Listen("e", user("b"), "")
		require.ErrorIs(t, err, errs.ErrOverloaded)
		last.Leave()
		listen(t, hub, "b", "")
		require.NoError(t, hub.Close(t.Context()))
	})
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{1}}
		hub := seats.NewHub(h.read)
		var first *seats.Reader
		for i := range 128 {
			r, err := hub.Listen(strconv.Itoa(i), user(strconv.Itoa(i)), "")
			require.NoError(t, err)
			if first == nil {
				first = r
			}
		}
		_, err := hub.Listen("one more", user("a"), "")
		require.ErrorIs(t, err, errs.ErrOverloaded)
		again, err := hub.Listen("0", user("a"), "")
		require.NoError(t, err)
		again.Leave()
		first.Leave()
		_, err = hub.Listen("one more", user("a"), "")
		require.NoError(t, err, "in place of an event without readers")
		require.NoError(t, hub.Close(t.Context()))
	})
}

// Streams last through a short outage. After a longer one they end, and new readers get the error.
func TestOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{1}}
		hub := seats.NewHub(h.read)
		r := listen(t, hub, "a", "")
		take(t, r)
		h.set(func() { h.failure = errs.ErrUnavailable })
		time.Sleep(9 * time.Second)
		require.Empty(t, take(t, r))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, _, err := r.Take()
		require.ErrorIs(t, err, errs.ErrUnavailable)

		next, err := hub.Listen("e", user("b"), "")
		require.NoError(t, err)
		require.ErrorIs(t, next.Wait(t.Context()), errs.ErrUnavailable)
		next.Leave()
		h.set(func() { h.failure = nil })
		require.Contains(t, take(t, listen(t, hub, "c", "")), "event: reset\n")
		r.Leave()

		h.set(func() { h.failure = errs.ErrEventNotFound })
		tick()
		_, err = hub.Listen("e", user("d"), "")
		require.NoError(t, err)
		require.NoError(t, hub.Close(t.Context()))
		_, err = hub.Listen("e", user("e"), "")
		require.ErrorIs(t, err, errs.ErrUnavailable)
		<-hub.Done()
	})
}

// The frame of a change is made once, for all readers with the version before.
func TestReadersShareFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{bitmap: []byte{1}}
		hub := seats.NewHub(h.read)
		one, two := listen(t, hub, "a", ""), listen(t, hub, "b", "")
		same := func() *sse.Frame {
			a, _, err := one.Take()
			require.NoError(t, err)
			b, _, err := two.Take()
			require.NoError(t, err)
			require.Same(t, a, b)
			return a
		}
		same()
		h.set(func() { h.bitmap = []byte{3} })
		tick()
		_, data, _ := strings.Cut(same().String(), "data: ")
		require.NoError(t, wire.Unmarshal([]byte(strings.TrimSpace(data)), &gatewayv1.SeatChanges{}), data)
		require.NoError(t, hub.Close(t.Context()))
	})
}
