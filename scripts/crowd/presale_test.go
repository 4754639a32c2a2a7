package crowd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// presaleDesk answers like a gateway that sells memberships, and records operators' PUT requests.
type presaleDesk struct {
	mu       sync.Mutex
	declines bool
	bought   int
	put      map[string]string
}

func (d *presaleDesk) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body := ""
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	rec := httptest.NewRecorder()
	switch path := r.URL.Path; {
	case r.Method == http.MethodPut:
		d.put[path] = r.Header.Get("Content-Type") + " " + body
	case path == "/api/v1/payments/confirm" && d.declines:
		_, _ = rec.WriteString(`{"status":"DECLINED"}`)
		return rec.Result(), nil
	case path == "/api/v1/payments/confirm":
		d.bought++
	}
	_, _ = rec.WriteString(`{"token":"t","planId":"p","membershipId":"m","status":"ACTIVE","startsAt":"2026-03-07T10:00:00Z"}`)
	return rec.Result(), nil
}

// Two in a hundred visitors may buy in the presale, half by a membership and half by the list. They
// arrive in its first quarter, among others.
func TestPreparePresale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &presaleDesk{put: map[string]string{}}
		api := crowd.NewAPIOver(d, crowd.NewRecorder())
		c := crowd.New(crowd.Sale{EventID: "e"}, api, crowd.Options{Visitors: 400, Arrive: time.Minute, Seed: 7})
		p, err := c.PreparePresale(t.Context(), "operator", 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, 4, d.bought)
		require.Len(t, p.Listed, 4)
		require.Equal(t, map[string]string{"/api/v1/admin/memberships/plans/p": `application/json {"onSale":false}`}, d.put)
		entitled, others := c.ArrivalTimes()
		require.Len(t, entitled, 8)
		require.Len(t, others, 392)
		require.Less(t, slices.Max(entitled), 2500*time.Millisecond)
		require.Less(t, slices.Min(others), slices.Min(entitled))

		sale := crowd.Sale{EventID: "e", Presale: p}
		require.NoError(t, sale.Open(t.Context(), api, "operator"))
		require.Equal(t, "text/csv userId\n"+strings.Join(p.Listed, "\n")+"\n", d.put["/api/v1/admin/events/e/entitlements/crowd"])
		event := d.event(t)
		require.Equal(t, []map[string]string{{"planId": "p"}, {"list": "crowd"}, {"codeList": "crowd"}}, event.Presale.Any)
		require.Equal(t, 10*time.Second, event.SalesOpenAt.Sub(event.Presale.OpensAt))
		require.NoError(t, sale.Close(t.Context(), api, "operator"))
		require.Zero(t, d.event(t).Presale.OpensAt)
		require.NotNil(t, d.event(t).Presale, "a presale after the end of the sale would be refused")
	})
}

type putEvent struct {
	SalesOpenAt time.Time
	Presale     *struct {
		OpensAt time.Time
		Any     []map[string]string
	}
}

func (d *presaleDesk) event(t *testing.T) (e putEvent) {
	t.Helper()
	_, body, _ := strings.Cut(d.put["/api/v1/admin/events/e"], " ")
	require.NoError(t, json.Unmarshal([]byte(body), &e))
	return e
}

func TestPresaleWithoutMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &presaleDesk{put: map[string]string{}, declines: true}
		c := crowd.New(crowd.Sale{EventID: "e"}, crowd.NewAPIOver(d, crowd.NewRecorder()), crowd.Options{Visitors: 10})
		_, err := c.PreparePresale(t.Context(), "operator", time.Second)
		require.ErrorContains(t, err, "DECLINED")
		require.Equal(t, `application/json {"onSale":false}`, d.put["/api/v1/admin/memberships/plans/p"])
	})
}

// roomDesk answers like a gateway whose waiting room is active. The line requires a position, which is
// served when it is polled, of the first so many callers.
type roomDesk struct {
	mu       sync.Mutex
	status   string
	refusals int
	calls    []string
}

func (d *roomDesk) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1"), "/e")[0]
	d.calls = append(d.calls, call)
	rec := httptest.NewRecorder()
	switch {
	case call == "" || call == "/events":
		_, _ = rec.WriteString(`{"status":"` + d.status + `"}`)
	case call == "/queue/check" && d.refusals > 0:
		d.refusals--
		rec.WriteHeader(http.StatusForbidden)
		_, _ = rec.WriteString(`{"code":"VWR_TOKEN_REQUIRED"}`)
	default:
		_, _ = rec.WriteString(`{"requestId":"r","admitted":true,"status":"active","nextPoll":1}`)
	}
	return rec.Result(), nil
}

// Who may buy in the presale takes a position and does not wait for it. To be sent to the room is wrong
// while the presale goes on.
func TestEntitledDoNotWaitInTheRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status   string
		refusals int
		polled   bool
		wrong    int
	}{
		"presale":                 {"PRESALE", 0, false, 0},
		"sent back in a presale":  {"PRESALE", 1, true, 1},
		"sent back in a sale":     {"ON_SALE", 1, true, 0},
		"sale after a short wait": {"ON_SALE", 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &roomDesk{status: c.status, refusals: c.refusals}
				crowd := crowd.New(crowd.Sale{EventID: "e"}, crowd.NewAPIOver(d, crowd.NewRecorder()), crowd.Options{Visitors: 1})
				require.NoError(t, crowd.WaitAsEntitled(t.Context()))
				require.Equal(t, "/vwr-api/vwr/assign", d.calls[0])
				require.Equal(t, c.polled, slices.Contains(d.calls, "/vwr-api/vwr/check"), d.calls)
				require.Len(t, crowd.Tally().WrongAnswers(), c.wrong)
			})
		})
	}
}
