package app_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only holds are refused if too many are in progress, and only polls of waiting visitors while the
// processors are overloaded. Other routes, such as payments, are never refused for overload.
func TestRefusingRoutes(t *testing.T) {
	t.Parallel()
	var refusing []string
	for _, r := range newFixture(t).gateway.Routes() {
		if r.Refusal == nil {
			continue
		}
		require.NoError(t, r.Refusal(), "without load")
		refusing = append(refusing, r.ID)
	}
	slices.Sort(refusing)
	require.Equal(t, []string{"queue.status", "reservations.best", "seats.reserve", "vwr.check", "vwr.serving", "vwr.status"}, refusing)
}

func TestPollsGoFirst(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	anon, _ := w.visitor()
	waiting := w.session(alice).with("Cookie", anon["Cookie"])
	polls := []string{
		"/vwr-api/vwr/check/busy/" + requestID, "/vwr-api/vwr/status/busy", "/vwr-api/vwr/serving/busy", "/api/v1/queue/status/calm",
	}
	refused := func() (n int) {
		for range 10 {
			for _, path := range polls {
				rec := w.do(http.MethodGet, path, "", waiting)
				if rec.Code == http.StatusOK {
					continue
				}
				n++
				require.Equal(t, http.StatusTooManyRequests, rec.Code, path)
				require.Equal(t, "OVERLOADED", problemOf(t, rec)["code"])
				require.Equal(t, "5", rec.Header().Get("Retry-After"))
			}
		}
		return n
	}
	require.Zero(t, refused(), "without load")

	for range 20 {
		w.gateway.Load.Observe(time.Second)
	}
	require.Equal(t, 36, refused(), "of 40; the others get through")
	buyer := w.buyer(calm)
	for range 20 {
		rec := w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, buyer)
		require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
		rec = w.do(http.MethodPost, "/api/v1/payments/confirm", `{"orderId":"o-1","paymentKey":"ok-1","amount":55000}`, buyer.with("Idempotency-Key", "k1"))
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		rec = w.do(http.MethodPost, "/api/v1/queue/heartbeat/calm", `{}`, buyer)
		require.NotEqual(t, http.StatusTooManyRequests, rec.Code, "a slot is kept")
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/health", "", nil).Code, "load balancers")
	}

	for range 100 {
		w.gateway.Load.Observe(0)
	}
	require.Zero(t, refused(), "after the overload")
}
