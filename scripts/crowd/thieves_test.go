package crowd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

const (
	robbedSeats = 40
	holdLasts   = 30 * time.Second
	pauseLasts  = 20 * time.Second
	answerTakes = 50 * time.Millisecond
	slotLasts   = 15 * time.Second // without a heartbeat
)

// robbedShop sells the seats of one row, at most two to a user. With rules it limits returns, unpaid
// holds and payment pages as the platform does.
type robbedShop struct {
	mu     sync.Mutex
	rules  bool
	sold   bool // all seats are sold to others
	ends   bool // every fifth attempt ends the slot
	tries  int
	holds  []*robbedHold
	pages  map[string]int // by user
	onBack func()         // called when places are given back

	lastHeld                   map[string][]string // by pair of holders: the seats of the last hold
	early, tooMany, paused     int
	beats                      map[string]time.Time // by user: the last contact with the line
	lost                       int                  // slots that ended
	pausedUntil                map[string]time.Time
	bought, unpaid, handedOver map[string]int // by user
}

type robbedHold struct {
	id, user, status string
	seats            []string
	ends             time.Time
}

func newRobbedShop(rules bool) *robbedShop {
	return &robbedShop{
		rules: rules, pages: map[string]int{}, pausedUntil: map[string]time.Time{}, bought: map[string]int{}, unpaid: map[string]int{},
		handedOver: map[string]int{}, lastHeld: map[string][]string{}, beats: map[string]time.Time{},
		onBack: func() {},
	}
}

func (s *robbedShop) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(answerTakes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holds {
		if h.status == "HELD" && time.Now().After(h.ends) {
			h.status = "EXPIRED"
		}
	}
	var body struct {
		UserID, ReferenceID, OrderID string
		SeatIDs                      []string
	}
	if r.Body != nil {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
	}
	rec := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "/availability") {
		_, _ = rec.Write(s.availability())
		return rec.Result(), nil
	}
	user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	status, answer := http.StatusOK, shopAnswer{}
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/dev-login"):
		answer["token"] = body.UserID
	case strings.HasPrefix(p, "/vwr-api/"):
		status = http.StatusNotFound
	case strings.HasPrefix(p, "/api/v1/queue/"):
		answer["status"], s.beats[user] = "active", time.Now()
	case p == "/api/v1/stats/events/e":
		answer["seatsSold"] = map[bool]int{true: robbedSeats}[s.sold]
	case p == "/api/v1/events/e":
		answer["status"] = map[bool]string{true: "SOLD_OUT", false: "ON_SALE"}[s.sold]
	case p == "/api/v1/seats/e":
		answer["sections"] = []any{shopAnswer{"section": "A", "rows": []any{shopAnswer{"row": "1", "seats": robbedSeats}}}}
	case p == "/api/v1/seats/reserve":
		status, answer = s.reserve(user, body.SeatIDs, rec.Header())
	case strings.HasPrefix(p, "/api/v1/my/reservations/"):
		h := s.find(path.Base(p))
		if r.Method == http.MethodDelete && h.status == "HELD" {
			h.status = "CANCELLED"
		}
		answer["status"] = h.status
	default:
		status, answer = s.pay(p, user, body.ReferenceID+body.OrderID)
	}
	rec.WriteHeader(status)
	err := json.NewEncoder(rec).Encode(answer)
	return rec.Result(), err
}

func (s *robbedShop) find(id string) *robbedHold {
	n, _ := strconv.Atoi(id)
	return s.holds[n]
}

// takenSeats are the seats that somebody has.
func (s *robbedShop) takenSeats() map[string]string {
	out := map[string]string{}
	for _, h := range s.holds {
		for _, seat := range h.seats {
			if h.status == "HELD" || h.status == "CONFIRMED" {
				out[seat] = h.user
			}
		}
	}
	return out
}

func (s *robbedShop) availability() []byte {
	out, taken := make([]byte, robbedSeats/8), s.takenSeats()
	for i := range robbedSeats {
		if taken[fmt.Sprint("A-1-", i+1)] == "" && !s.sold {
			out[i/8] |= 0x80 >> (i % 8)
		}
	}
	return out
}

func (s *robbedShop) reserve(user string, seats []string, header http.Header) (int, shopAnswer) {
	taken := s.takenSeats()
	s.tries++
	switch until := s.pausedUntil[user]; {
	case s.ends && s.tries%5 == 0:
		delete(s.beats, user)
		return http.StatusForbidden, shopAnswer{"code": "SLOT_ENDED"}
	case time.Since(s.beats[user]) > slotLasts:
		s.lost++
		return http.StatusForbidden, shopAnswer{"code": "SLOT_ENDED"}
	case slices.ContainsFunc(seats, func(seat string) bool { return taken[seat] != "" }):
		return http.StatusConflict, shopAnswer{"code": "SEAT_TAKEN"}
	case slices.Contains(slices.Collect(maps.Values(taken)), user):
		return http.StatusConflict, shopAnswer{"code": "LIMIT_EXCEEDED"}
	case s.rules && s.bought[user] >= 6:
		s.tooMany++
		return http.StatusConflict, shopAnswer{"code": "TOO_MANY_RETURNS"}
	case time.Now().Before(until):
		s.early++
		fallthrough
	case s.rules && s.unpaid[user] >= 3 && until.IsZero():
		s.paused++
		s.pausedUntil[user] = time.Now().Add(pauseLasts)
		header.Set("Retry-After", strconv.Itoa(int(pauseLasts.Seconds())))
		return http.StatusTooManyRequests, shopAnswer{"code": "HOLD_PAUSED"}
	}
	delete(s.pausedUntil, user)
	s.unpaid[user]++
	if pair := user[len(user)-2:]; !strings.HasPrefix(user, "e-returner") {
		if slices.Equal(s.lastHeld[pair], seats) {
			s.handedOver[user]++
		}
		s.lastHeld[pair] = seats
	}
	h := &robbedHold{id: strconv.Itoa(len(s.holds)), user: user, status: "HELD", seats: seats, ends: time.Now().Add(holdLasts)}
	s.holds = append(s.holds, h)
	return http.StatusCreated, shopAnswer{"reservationId": h.id, "status": h.status, "quantity": len(seats), "amount": 100}
}

func (s *robbedShop) pay(p, user, id string) (int, shopAnswer) {
	switch {
	case strings.HasSuffix(p, "/prepare"):
		s.pages[user]++
		if s.rules && s.pages[user] > 3 && s.bought[user] == 0 {
			return http.StatusConflict, shopAnswer{"code": "NOT_PAYABLE"}
		}
		return http.StatusCreated, shopAnswer{"paymentId": id, "orderId": id, "amount": 100, "status": "PREPARED", "page": shopAnswer{"url": "http://pay.test"}}
	case strings.HasSuffix(p, "/confirm"):
		h := s.find(id)
		h.status = "CONFIRMED"
		s.bought[user] += len(h.seats)
		s.unpaid[user] = 0
		return http.StatusOK, shopAnswer{"status": "CONFIRMED"}
	case strings.HasSuffix(p, "/refund"):
		s.onBack()
		s.find(strings.Split(p, "/")[4]).status = "REFUNDED"
		return http.StatusAccepted, shopAnswer{"status": "PENDING"}
	}
	return http.StatusOK, shopAnswer{"status": "EXPIRED"} // a page is closed
}

// rob lets two thieves of each kind act in a shop for a while.
func rob(t *testing.T, s *robbedShop, lasts time.Duration) *crowd.Thieves {
	t.Helper()
	api := crowd.NewAPIOver(s, crowd.NewRecorder())
	honest := crowd.New(crowd.Sale{EventID: "e", Seats: robbedSeats, Hold: 30}, api, crowd.Options{AfterSale: &crowd.AfterSale{}})
	s.onBack = func() {
		if honest.SoldForGood(time.Now().Add(time.Hour)) {
			t.Error("the crowd does not wait for the places of thieves")
		}
	}
	thieves := crowd.NewThieves(honest, 2)
	over := make(chan struct{})
	time.AfterFunc(lasts, func() { close(over) })
	thieves.Run(t.Context(), over)
	require.Empty(t, s.takenSeats(), "thieves give up what they have")
	require.Empty(t, thieves.Tally().Violations())
	return thieves
}

// Without rules, thieves go on for ever, and hand places over.
func TestThievesTakeWhatTheyGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRobbedShop(false)
		thieves := rob(t, s, 5*time.Minute)
		require.Equal(t, thieves.Bought.Load(), thieves.GivenBack.Load())
		require.Zero(t, s.lost)
		for _, name := range []string{"e-returner-00", "e-returner-01"} {
			require.Greater(t, s.bought[name], 50)
		}
		for _, name := range []string{"e-holder-00", "e-accomplice-00", "e-holder-01", "e-accomplice-01"} {
			require.Positive(t, s.handedOver[name], name)
			require.Greater(t, s.pages[name], 10)
			require.Zero(t, s.bought[name])
		}
		expired := slices.ContainsFunc(s.holds, func(h *robbedHold) bool { return h.status == "EXPIRED" })
		require.True(t, expired)
	})
}

// Refusals stop thieves, who wait as long as these advise.
func TestThievesFollowRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRobbedShop(true)
		thieves := rob(t, s, 5*time.Minute)
		require.EqualValues(t, 12, thieves.GivenBack.Load(), "three times the limit for each")
		require.EqualValues(t, 12, thieves.Pages.Load(), "three for each holder")
		require.Zero(t, s.lost)
		require.Zero(t, s.early)
		require.NotZero(t, s.paused)
		require.LessOrEqual(t, s.paused, 4*int(5*time.Minute/pauseLasts), "one for each pause of each holder")
		require.NotZero(t, s.tooMany)
		require.Less(t, s.tooMany, 2*30, "each wait is longer")
	})
}

// A thief whose slot has ended joins the line again.
func TestThievesComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRobbedShop(false)
		s.ends = true
		thieves := rob(t, s, time.Minute)
		require.Greater(t, thieves.GivenBack.Load(), int64(50))
		require.Zero(t, s.lost)
	})
}

// Thieves stop in the midst of what they do when the crowd has gone.
func TestThievesStop(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second, 2 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			rob(t, newRobbedShop(false), after)
			require.Less(t, time.Since(start), after+5*time.Second)
		})
	}
}

func TestThievesLeaveASoldOutSale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRobbedShop(true)
		s.sold = true
		thieves := rob(t, s, time.Minute)
		require.Zero(t, thieves.Held.Load())
		require.Zero(t, thieves.Refused.Load())
	})
}
